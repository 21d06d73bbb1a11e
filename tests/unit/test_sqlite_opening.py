"""Tests of opening SQLite files: synchronous settings, and waiting for writers."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from resift.embedded import database
from resift.embedded.database import Database, SqliteSessionStore
from resift.embedded.engine import SqliteEngine
from resift.errors import BadInput, EngineUnavailable, IndexNotFound


def test_documents_survive_a_power_cut_and_no_mark_waits_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes, transaction = [], Database.transaction

    def noted(self: Database, write: bool = True, seconds: float | None = None) -> object:
        with transaction(self, write, seconds) as db:
            modes.append(db.execute("PRAGMA synchronous").fetchone()[0])
        return transaction(self, write, seconds)

    monkeypatch.setattr(Database, "transaction", noted)
    with closing(SqliteEngine(str(tmp_path / "engine.db"))) as engine, pytest.raises(IndexNotFound):
        engine.delete("none", ["1"])
    with closing(SqliteSessionStore(str(tmp_path / "engine.db"))) as store:
        store.purge(0)
    # SQLite's FULL and NORMAL
    assert modes == [2, 1]


def test_opening_a_file_that_is_being_written_never_leaves_it_read_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "_TIMEOUT", 0.2)
    path = tmp_path / "engine.db"
    SqliteSessionStore(str(path)).close()
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        with pytest.raises(EngineUnavailable, match="locked"):
            SqliteEngine(str(path))
        SqliteSessionStore(str(path)).close()  # the table exists, so there is nothing to write
        writer.rollback()
    with closing(SqliteEngine(str(path))) as engine:
        assert engine.indices() == []


def test_a_folder_is_refused_as_a_file(tmp_path: Path) -> None:
    with pytest.raises(EngineUnavailable, match="cannot be opened") as caught:
        SqliteEngine(str(tmp_path))
    assert caught.value.value == str(tmp_path)
    with pytest.raises(BadInput, match="cannot be opened"):
        SqliteSessionStore(str(tmp_path / "none" / "sessions.db"))


def test_a_connection_in_use_is_closed_after_its_transaction(tmp_path: Path) -> None:
    """Another thread may still use a connection when all are closed.

    Since Python 3.13, a connection that is never closed causes a warning.
    """
    store = Database(str(tmp_path / "file.db"), "one", ["CREATE TABLE one (x)"], EngineUnavailable, EngineUnavailable)
    with store.transaction() as db:
        store.close()
        db.execute("INSERT INTO one VALUES (1)")
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        db.execute("SELECT 1")
    with store.transaction(write=False) as db:
        assert db.execute("SELECT x FROM one").fetchall() == [(1,)]
    store.close()
