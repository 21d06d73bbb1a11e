"""Tests of the session store contract, and of behaviour that both stores share beyond it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from resift.contracts.session_store import SessionStore
from resift.contracts.testing import STORED, SessionStoreContract
from resift.embedded import database as sqlite_module
from resift.embedded.database import SqliteSessionStore
from resift.errors import BadInput, SessionsUnavailable
from resift.plugin.opensearch import sessions as opensearch_module
from resift.plugin.opensearch.sessions import OpenSearchSessionStore
from resift.service.connect import open_session_store


@pytest.fixture
def store(open_stores: Callable[[], SessionStore]) -> SessionStore:
    """Return an empty store of either kind."""
    return open_stores()


class TestStore(SessionStoreContract):
    """Both stores fulfil the contract."""


def test_purging(store: SessionStore, monkeypatch: pytest.MonkeyPatch) -> None:
    assert store.purge(50) == 0
    for module in (sqlite_module, opensearch_module):
        monkeypatch.setattr(module, "PURGE_BATCH", 2)
    for i in range(10):
        assert store.write(f"s{i}", replace(STORED, expires=float(i)))
    assert len([*store.scan()]) == 10
    assert store.purge(3, wait=False) == 2
    assert len([*store.scan()]) == 8
    assert store.purge(8) == 6
    assert [store.read(f"s{i}") is not None for i in range(10)] == [False] * 8 + [True] * 2
    assert store.purge(0.0, wait=False) == 0
    assert len([*store.scan()]) == 2


@pytest.mark.parametrize("store_url", ["opensearch"], indirect=True)
def test_what_nobody_changes_meanwhile_is_deleted_by_one_request(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(store, OpenSearchSessionStore)
    assert store.write("a", STORED)
    requests, delete = [], store.client.delete_by_query
    monkeypatch.setattr(store.client, "delete_by_query", lambda **named: requests.append(1) or delete(**named))
    assert store.delete_index("docs") == 1
    assert len(requests) == 1


@pytest.mark.parametrize("store_url", ["opensearch"], indirect=True)
def test_a_purge_for_which_a_user_waits_has_a_time_limit(store: SessionStore, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(store, OpenSearchSessionStore)
    limits, delete = list[float | None](), store.client.delete_by_query

    def record(*, params: dict[str, float], **named: Any) -> Any:
        limits.append(params.get("request_timeout"))
        return delete(params=params, **named)

    assert store.write("a", STORED)
    monkeypatch.setattr(store.client, "delete_by_query", record)
    for wait in (True, False):
        store.purge(0, wait)
    assert limits == [None, opensearch_module.SEARCH_TIMEOUT]


@pytest.mark.parametrize("store_url", ["opensearch"], indirect=True)
def test_a_session_is_written_by_one_request_where_the_index_is_known(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(store, OpenSearchSessionStore)
    assert store.write("a", STORED)
    requests, perform = [], store.client.transport.perform_request
    monkeypatch.setattr(
        store.client.transport,
        "perform_request",
        lambda *given, **named: requests.append(given) or perform(*given, **named),
    )
    assert store.write("b", STORED)
    assert len(requests) == 1


@pytest.mark.parametrize("store_url", ["opensearch"], indirect=True)
def test_no_index_is_made_by_a_write_where_ours_cannot_be(
    store: SessionStore, session_index: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(store, OpenSearchSessionStore)
    monkeypatch.setitem(opensearch_module.SETTINGS, "number_of_shards", "many")
    for _ in range(2):
        with pytest.raises(SessionsUnavailable, match="number_of_shards"):
            store.write("a", STORED)
    assert not store.client.indices.exists(index=session_index)
    monkeypatch.undo()
    assert store.write("a", STORED)


def test_a_file_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be opened"):
        open_session_store(str(tmp_path / "missing" / "sessions.db"), "sessions")


def test_a_file_that_broke(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    store = SqliteSessionStore(str(path))
    store.write("a", STORED)
    store.close()
    for file in tmp_path.iterdir():
        file.write_bytes(b"not a database" * 1000)
    with pytest.raises(SessionsUnavailable):
        store.read("a")


def test_a_cluster_that_is_away(nowhere: str) -> None:
    store = open_session_store(nowhere, "sessions")
    calls: list[Callable[[], object]] = [
        lambda: store.read("a"),
        lambda: store.write("a", STORED),
        lambda: store.delete("a"),
        lambda: store.purge(1),
        store.scan,
    ]
    for call in calls:
        with pytest.raises(SessionsUnavailable):
            call()
    store.close()
    with pytest.raises(BadInput, match="is not a valid index name"):
        open_session_store(nowhere, "Sessions")


@pytest.mark.parametrize("store_url", ["opensearch"], indirect=True)
def test_a_blocked_index_is_not_taken_for_a_lack_of_rights(store: SessionStore) -> None:
    assert isinstance(store, OpenSearchSessionStore)
    assert store.write("a", STORED)
    settings = {"index.blocks.write": True}
    store.client.indices.put_settings(index=store.index, body=settings)
    with pytest.raises(SessionsUnavailable, match="blocked by") as refused:
        store.write("b", STORED)
    assert str(refused.value.expected).startswith("no block on this index")
    assert store.read("a") is not None
    store.client.indices.put_settings(index=store.index, body=dict.fromkeys(settings))


@pytest.mark.parametrize("store_url", ["opensearch"], indirect=True)
def test_the_index_is_ours_also_after_it_was_dropped(store: SessionStore, session_index: str) -> None:
    assert isinstance(store, OpenSearchSessionStore)
    for _ in range(2):
        assert store.write("a", STORED)
        (found,) = store.client.indices.get(index=session_index).values()
        assert found["mappings"]["dynamic"] == "strict"
        assert found["mappings"]["properties"]["session"] == {"type": "object", "enabled": False}
        store.client.indices.delete(index=session_index)
        assert store.read("a") is None


def test_a_purge_for_which_a_user_waits_gives_up_if_the_file_is_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_module, "SEARCH_TIMEOUT", 0.01)
    path = str(tmp_path / "sessions.db")
    with closing(open_session_store(path, "unused")) as store, closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(SessionsUnavailable, match="locked"):
            store.purge(50, wait=False)
