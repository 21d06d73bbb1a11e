"""Tests of the SQLite files: damaged, full, shared, newer, older, read-only, and after a killed process."""

from __future__ import annotations

import random
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest
from engine_documents import documents, ids, knn_body

from resift import Model, ResiftError
from resift.contracts.documents import Document
from resift.contracts.session_store import SessionRecord
from resift.embedded import database
from resift.embedded.database import SqliteSessionStore
from resift.embedded.engine import SqliteEngine
from resift.embedded.tables import FORMAT
from resift.errors import BadInput, CorruptEngine, EngineUnavailable, SessionDamaged
from resift.ingest.indexing import Indexer
from resift.ingest.tables import Refusals, records_of
from resift.query.dsl import VECTOR_FIELD
from resift.sessions.sessions import Sessions

ROOT = Path(__file__).parents[2]
SESSION = SessionRecord({"at": 1.5, "q": ["fire é"]}, 100.25, ["docs"])
FIRE = {"match": {"text": "fire"}}
HIGHLIGHT = {"fields": {"text": {}}}


@pytest.fixture
def path(tmp_path: Path, model: Model) -> Path:
    """Return the path of a file with an index of five documents and a session."""
    path = tmp_path / "engine.db"
    with closing(SqliteEngine(str(path))) as engine, closing(SqliteSessionStore(str(path))) as store:
        engine.create("docs", ["title", "text"], model)
        assert engine.bulk("docs", documents(model)) == []
        assert store.write("a", SESSION)
    return path


def set_format(path: Path, number: int) -> None:
    """Write the version of the file format."""
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA user_version = {number}")


def use_engine(path: Path, model: Model) -> None:
    """Read and write with all methods of the engine."""
    with closing(SqliteEngine(str(path))) as engine:
        engine.indices()
        engine.search("docs", {"query": FIRE, "highlight": HIGHLIGHT}, vectors=VECTOR_FIELD)
        engine.search("docs", {"query": {"range": {"year": {"gt": 2001}}}})
        engine.search("docs", knn_body(model.encode_one("fire"), 3))
        list(engine.scan("docs"))
        engine.get("docs", "1")
        engine.bulk("docs", documents(model)[:2])
        engine.delete("docs", ["3"])


def use_sessions(path: Path) -> None:
    """Read and write with all methods of the session store."""
    with closing(SqliteSessionStore(str(path))) as store:
        list(store.scan("docs"))
        found = store.read("a")
        store.write("a", found or SESSION)
        store.purge(50.0)


def test_a_damaged_file_is_a_clear_error_or_none_at_all(path: Path, tmp_path: Path, model: Model) -> None:
    rng, whole, codes = random.Random(7), path.read_bytes(), []
    for number in range(120):
        broken = bytearray(whole)
        for _ in range(rng.choice([1, 4, 40])):
            broken[rng.randrange(len(broken))] ^= 1 << rng.randrange(8)
        copy = tmp_path / f"broken{number}.db"
        copy.write_bytes(broken)
        for use in (lambda at=copy: use_engine(at, model), lambda at=copy: use_sessions(at)):
            try:
                use()
            except ResiftError as error:
                codes.append(error.code)
    assert codes.count("corrupt_engine") > 10
    # Errors after a flipped bit in an index name, a document id, the format version or the file's length.
    known = {
        "corrupt_engine",
        "engine_unavailable",
        "bad_input",
        "sessions_unavailable",
        "index_not_found",
        "not_found",
    }
    assert set(codes) <= known


@pytest.mark.parametrize("content", [b"not a database" * 1000, b"SQLite format 3\0" + b"\xff" * 5000])
def test_other_files_than_databases_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "engine.db"
    path.write_bytes(content)
    with pytest.raises(CorruptEngine, match="is damaged") as caught:
        SqliteEngine(str(path))
    assert caught.value.value == str(path)
    assert "backup" in str(caught.value.expected)
    with pytest.raises(BadInput, match="is damaged"):
        SqliteSessionStore(str(path))
    assert path.read_bytes() == content


REFUSE = "CREATE TRIGGER refuse BEFORE INSERT ON lengths_1 WHEN new.row > 6 BEGIN SELECT raise(FAIL, 'no'); END"


def test_damage_is_not_tried_again(path: Path, model: Model) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute(REFUSE)
    waits: list[float] = []
    given = [{"id": f"n{number}", "text": "fire"} for number in range(4)]
    with closing(SqliteEngine(str(path))) as engine:
        refusals = Refusals()
        with pytest.raises(CorruptEngine, match="lines"):
            Indexer(engine, model, "docs", refusals, sleep=waits.append).run(records_of(given), ["text"])
    assert (waits, len(refusals.refused)) == ([], 4)


def test_a_damaged_document_is_named(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE documents_1 SET source = '{' WHERE id = '1'")
        db.execute("UPDATE documents_1 SET vector = x'00' WHERE id = '2'")
        db.execute("UPDATE session_log SET body = '{'")
        db.commit()
    engine, store = SqliteEngine(str(path)), SqliteSessionStore(str(path))
    for call in (lambda: engine.get("docs", "1"), lambda: list(engine.scan("docs"))):
        with pytest.raises(CorruptEngine, match="'1'"):
            call()
    with pytest.raises(CorruptEngine, match="'2'"):
        engine.search("docs", {"query": {"ids": {"values": ["2"]}}})
    with pytest.raises(CorruptEngine, match="row 2"):
        engine.search("docs", {"query": {"term": {"year": 2001}}})
    with pytest.raises(SessionDamaged, match="damaged"):
        Sessions(store, clock=lambda: 0.0).get("a")
    assert ids(engine, "docs", {"match": {"text": "rain"}}) == ["3"]
    engine.close()
    store.close()


@pytest.mark.parametrize("number", [FORMAT + 1, 1])
def test_another_format_is_refused(path: Path, number: int) -> None:
    set_format(path, number)
    with pytest.raises(EngineUnavailable, match=f"format {number}") as caught:
        SqliteEngine(str(path))
    assert caught.value.expected == "a newer version of Resift, or another file"
    with pytest.raises(BadInput, match=f"format {number}"):
        SqliteSessionStore(str(path))


@contextmanager
def full_disk(limit: int) -> Iterator[None]:
    """Limit the size of all files to ``limit`` bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_loses_nothing_and_blocks_nobody(path: Path, model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "_TIMEOUT", 0.5)  # an open transaction would block the others
    engine, other = SqliteEngine(str(path)), SqliteEngine(str(path))
    many = [Document(f"n{number}", {"text": f"fire {number} " + "word " * 300}) for number in range(200)]
    with full_disk(path.stat().st_size + 65536), pytest.raises(EngineUnavailable) as caught:
        engine.bulk("docs", many)
    assert caught.value.code == "engine_unavailable"
    assert other.bulk("docs", [Document("o", {"text": "fire after all"})]) == []
    assert set(ids(engine, "docs", FIRE)) == {"0", "1", "o"}
    assert engine.bulk("docs", many) == []
    assert len(ids(other, "docs", FIRE, size=300)) == 203
    engine.close()
    other.close()


def test_an_error_in_the_midst_of_a_write_undoes_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "_TIMEOUT", 0.5)
    with closing(sqlite3.connect(path)) as db:
        db.execute(REFUSE)
    engine, other = SqliteEngine(str(path)), SqliteEngine(str(path))
    with pytest.raises(CorruptEngine):
        engine.bulk("docs", [Document("n1", {"text": "fire"}), Document("n2", {"text": "fire"})])
    for one in (engine, other):
        assert set(ids(one, "docs", FIRE)) == {"0", "1"}
        assert one.delete("docs", ["none"]) == 0  # takes the write lock
        one.close()


WRITER = """
import sys
from resift import load_model
from resift.contracts.documents import Document
from resift.query.dsl import VECTOR_FIELD
from resift.embedded.engine import SqliteEngine
engine = SqliteEngine(sys.argv[1])
engine.create("docs", ["text"], load_model(sys.argv[2]))
for batch in range(int(sys.argv[4])):
    ids = [f"{sys.argv[3]}-{batch}-{i}" for i in range(20)]
    assert engine.bulk("docs", [Document(id, {"text": f"fire {id} " + "forest " * 50}) for id in ids]) == []
    print(batch, flush=True)
"""


def start_writer(path: Path, model: Path, name: str, batches: int) -> subprocess.Popen[str]:
    """Start a process that creates the index ``docs`` and writes batches of 20 documents.

    It prints a line for each written batch.
    """
    command = [sys.executable, "-c", WRITER, str(path), str(model), name, str(batches)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)


def test_writers_that_are_killed_lose_nothing(tmp_path: Path, model: Model) -> None:
    path, folder = tmp_path / "new.db", model.save(tmp_path / "model")
    written = {}
    for name in ("a", "b", "c"):
        with start_writer(path, folder, name, 100_000) as writer:
            assert writer.stdout is not None
            for line in writer.stdout:
                written[name] = int(line)
                if int(line) >= 5:
                    writer.send_signal(signal.SIGKILL)  # during the next batch
    with closing(SqliteEngine(str(path))) as engine:
        found = {one.id for one in engine.scan("docs")}
        hits = set(ids(engine, "docs", FIRE, size=10_000))
    assert found == hits  # both tables, or neither
    batches = {tuple(id.rsplit("-", 1)[0].split("-")) for id in found}
    assert len(found) == 20 * len(batches)  # whole batches
    for name, last in written.items():
        assert {(name, str(batch)) for batch in range(last + 1)} <= batches
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_several_first_writers_at_once(tmp_path: Path, model: Model) -> None:
    path, folder = tmp_path / "new.db", model.save(tmp_path / "model")
    writers = [start_writer(path, folder, str(number), 5) for number in range(3)]
    for writer in writers:
        writer.communicate()
    assert [writer.returncode for writer in writers] == [0, 0, 0]
    with closing(SqliteEngine(str(path))) as engine:
        assert len(ids(engine, "docs", FIRE, size=1000)) == 300


def test_opening_a_new_file_waits_for_who_opened_it_first(tmp_path: Path, model: Model) -> None:
    path = tmp_path / "new.db"
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as first:
        first.execute("CREATE TABLE other (x)")
        first.execute("BEGIN IMMEDIATE")  # the second process gets "locked" at once, regardless of its timeout
        timer = threading.Timer(0.2, first.execute, ["COMMIT"])
        timer.start()
        with closing(SqliteEngine(str(path))) as engine:
            engine.create("docs", ["text"], model)
        timer.join()


class Interrupted(list[Document]):
    """Documents of a bulk request during which another writer starts to write."""

    def __init__(self, given: list[Document], other: threading.Thread) -> None:
        super().__init__(given)
        self.other = other

    def __iter__(self) -> Iterator[Document]:
        self.other.start()
        self.other.join(0.3)
        return super().__iter__()


def test_a_writer_waits_for_another_that_has_only_read_yet(path: Path) -> None:
    engine, other = SqliteEngine(str(path)), SqliteEngine(str(path))
    second = threading.Thread(target=other.bulk, args=("docs", [Document("o", {"text": "fire"})]))
    assert engine.bulk("docs", Interrupted([Document("n", {"text": "fire"})], second)) == []
    second.join()
    assert set(ids(engine, "docs", FIRE)) == {"0", "1", "n", "o"}
    engine.close()
    other.close()


READER = """
import os, sys
if os.access(sys.argv[1], os.W_OK):
    sys.exit(print("writable"))
from resift.errors import EngineUnavailable, SessionsUnavailable
from resift.contracts.documents import Document
from resift.query.dsl import VECTOR_FIELD
from resift.contracts.session_store import SessionRecord
from resift.embedded.engine import SqliteEngine
from resift.embedded.database import SqliteSessionStore
engine, store = SqliteEngine(sys.argv[1]), SqliteSessionStore(sys.argv[1])
assert len(engine.search("docs", {"query": {"match": {"text": "fire"}}}).hits) == 2
assert store.read("a").body["q"] == ["fire é"]
for write, error in (
    (lambda: engine.bulk("docs", [Document("x", {"text": "fire"})]), EngineUnavailable),
    (lambda: store.write("b", SessionRecord({}, 1.0, [])), SessionsUnavailable),
):
    try:
        write()
    except error as raised:
        assert "readonly" in str(raised), raised
    else:
        raise AssertionError("written")
print("read")
"""


# Root may write to any file because of a capability (number 1), which is dropped here.
WITHOUT_ROOTS_RIGHT = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(24, 1)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


def test_a_file_that_can_only_be_read_is_searched(path: Path) -> None:
    path.chmod(0o444)
    command = [sys.executable, "-c", WITHOUT_ROOTS_RIGHT, "-c", READER, str(path)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if ran.stdout == "writable\n":
        pytest.skip("root cannot give its rights away here")
    assert ran.stdout == "read\n", ran.stderr


def test_connections_of_threads_that_ended_are_used_again(path: Path) -> None:
    engine = SqliteEngine(str(path))
    for _ in range(5):
        threads = [threading.Thread(target=ids, args=(engine, "docs", FIRE)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert 1 <= open_files().count(str(path)) <= 4
    engine.close()
    assert str(path) not in open_files()


def open_files() -> list[str]:
    """Return the files that this process has open."""
    files = []
    for link in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # another thread has closed the file
            files.append(str(link.readlink()))
    return files


def test_new_files_are_their_owners_alone(path: Path) -> None:
    assert path.stat().st_mode & 0o777 == 0o600
