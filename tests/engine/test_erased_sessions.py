"""Tests that deleted sessions and log entries cannot be read in any file of the store."""

from __future__ import annotations

import random
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner
from ubi_events import event, query

from resift import Model
from resift.cli.main import main
from resift.contracts.session_store import SessionRecord
from resift.contracts.ubi import EVENTS, QUERIES
from resift.embedded import database
from resift.embedded.database import SqliteSessionStore, SqliteUbiLog
from resift.errors import SessionsUnavailable
from resift.feedback.judgements import Judgement
from resift.reranker import Config, create_app
from resift.sessions.sessions import Sessions

ID, QUERY = "anna-7f3a", "thermometer for babies"


class Service:
    """A session store and a click log that stay open, as in a service, with the data of two persons.

    Attributes:
        path: The path of the file.
        store: The open session store.
        log: The open click log.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.store, self.log = SqliteSessionStore(str(path)), SqliteUbiLog(str(path))
        for id, text in (("bob", "umbrella"), (ID, QUERY), (ID, QUERY)):
            Sessions(self.store).add(id, text, [Judgement("shop", "d1", 1)])
            self.log.add(QUERIES, [query(id=f"of-{id}", client_id=id, user_query=text)])
            self.log.add(EVENTS, [event("click", "A1", client_id=id, session_id="")])

    def contains(self, text: str) -> bool:
        """Return whether a file of the store contains a text."""
        return any(text.encode() in file.read_bytes() for file in self.path.parent.glob(f"{self.path.name}*"))

    def close(self) -> None:
        """Close the store and the log."""
        self.store.close()
        self.log.close()


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """Return a context manager that yields a connection with an open read transaction."""
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM session_log").fetchone()
        yield reader


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    """Return an open service."""
    with closing(Service(tmp_path / "sessions.db")) as opened:
        assert opened.contains(ID)
        assert opened.contains(QUERY)
        yield opened


def forget(service: Service, status: int = 0) -> str:
    """Run ``resift sessions forget``, check its exit status, and return its output."""
    where = ["--store", str(service.path), "--engine", str(service.path)]
    result = CliRunner().invoke(main, ["sessions", "forget", "--client", ID, "--yes", *where])
    assert result.exit_code == status, result.output
    return result.output


def test_a_forgotten_person_is_in_no_file_while_a_service_runs(service: Service) -> None:
    assert "1 sessions, 4 events and queries deleted" in forget(service)
    assert not service.contains(ID)
    assert not service.contains(QUERY)
    assert service.store.read("bob") is not None
    assert service.contains("umbrella")


def delete_over_http(service: Service, model: Model) -> None:
    """Delete the session over HTTP."""
    app = create_app(Config(engine=str(service.path.with_name("engine.db")), store=str(service.path)), model=model)
    assert app.test_client().delete(f"/v1/sessions/{ID}").status_code == 200


def delete_an_index(service: Service, model: Model) -> None:
    """Delete all sessions with marks in an index."""
    assert service.store.delete_index("shop") == 2


def expire(service: Service, model: Model) -> None:
    """Write a session after the other sessions have expired."""
    later = Sessions(service.store, clock=lambda: 1e11)
    later.add("carl", "boots", [Judgement("shop", "d1", 1)])


@pytest.mark.parametrize("delete", [delete_over_http, delete_an_index, expire])
def test_a_deleted_session_is_in_no_file_while_a_service_runs(
    service: Service, model: Model, delete: Callable[[Service, Model], None]
) -> None:
    service.log.delete_client(ID)
    delete(service, model)
    assert not service.contains(ID)
    assert not service.contains(QUERY)


def test_a_reader_delays_the_erasure_until_the_next_purge(
    service: Service, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(database, "_TIMEOUT", 0.1)
    with reading(service.path):
        output = forget(service, status=3)
        assert "1 sessions, 4 events and queries deleted" in output
        assert "can still be read" in output
        assert "resift sessions purge" in output
        assert service.store.read(ID) is None
        assert service.contains(QUERY)
    assert "may still be readable" in caplog.text
    Sessions(service.store).add("bob", "umbrella", [Judgement("shop", "d2", 1)])  # purges
    assert not service.contains(ID)
    assert not service.contains(QUERY)


def test_a_checkpoint_of_another_connection_only_delays_the_erasure(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        closing(sqlite3.connect(service.path, check_same_thread=False)) as other,
        ThreadPoolExecutor(1) as pool,
        reading(service.path) as reader,
    ):
        service.store.delete(ID)
        # The other checkpoint waits for the reader, and holds the lock for checkpoints meanwhile.
        checkpoint = pool.submit(lambda: other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone())
        wait = time.sleep
        with closing(sqlite3.connect(service.path)) as observer:
            while not observer.execute("PRAGMA wal_checkpoint").fetchone()[0]:
                wait(0.01)

        def end_checkpoint(seconds: float) -> None:
            if reader.in_transaction:
                reader.execute("COMMIT")
                checkpoint.result()
            wait(seconds)

        monkeypatch.setattr(time, "sleep", end_checkpoint)
        assert service.store._database.truncate_log()
        assert not reader.in_transaction
    assert service.log.delete_client(ID) == 4
    assert not service.contains(ID)


def test_an_occupied_log_is_a_warning_only_after_a_deletion(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    service.log.delete_client(ID)
    assert service.store.purge(0) == 0
    caplog.clear()
    with reading(service.path):
        Sessions(service.store).add("carl", "boots", [Judgement("shop", "d1", 1)])  # purges
        assert not service.store.delete("nobody")
        assert service.store.delete_index("none") == 0
        assert caplog.messages == []
        assert service.store.delete(ID)
        assert service.store.purge(0) == 0
        assert len(caplog.messages) == 2
        assert service.contains(QUERY)
    assert service.store.purge(0) == 0
    assert not service.contains(QUERY)


def test_only_purge_erases_if_nothing_was_deleted(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "_TIMEOUT", 0.1)
    where = ["--store", str(service.path)]
    service.store.delete(ID)
    with reading(service.path):
        Sessions(service.store).add("carl", "boots", [Judgement("shop", "d1", 1)])
        result = CliRunner().invoke(main, ["sessions", "delete", "--index", "none", *where])
        assert (result.exit_code, result.stderr) == (0, "")
        assert CliRunner().invoke(main, ["sessions", "purge", *where]).exit_code == 3


def test_threads_share_a_store_in_memory() -> None:
    barrier = threading.Barrier(4)

    def write(thread: int) -> None:
        barrier.wait()
        for number in range(50):
            assert store.write(f"{thread}-{number}", SessionRecord({}, 2e9, ["shop"]))

    with closing(SqliteSessionStore(":memory:")) as store:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(write, range(4)))
        with pytest.raises(SessionsUnavailable, match="no such column"):
            store._database.delete(("DELETE FROM session_log", ()), ("DELETE FROM session_log WHERE none", ()))
        assert len([*store.scan()]) == 200
    with pytest.raises(SessionsUnavailable, match="a database in memory exists only"):
        store.read("0-0")


def test_copies_of_moved_rows_are_erased(tmp_path: Path) -> None:
    # SQLite leaves copies in unused space when it moves rows between pages. secure_delete does not reach them.
    chance, path = random.Random(1), tmp_path / "sessions.db"
    ids = [f"client-{number:05x}-" for number in chance.sample(range(10**6), 1500)]
    with closing(SqliteSessionStore(str(path))) as store:
        for _ in range(6000):
            id = chance.choice(ids)
            stored = store.read(id)
            body = {"q": [f"query of {id}"] * chance.choice([1, 3, 10, 60])}
            record = SessionRecord(body, chance.random() * 1e9, ["shop"], stored.version if stored else None)
            assert store.write(id, record)
        deleted = ids[:700]
        for id in deleted:
            store.delete(id)
        assert store.erase_deleted()
        data = b"".join(file.read_bytes() for file in path.parent.glob("sessions.db*"))
    assert [id for id in deleted if id.encode() in data] == []
