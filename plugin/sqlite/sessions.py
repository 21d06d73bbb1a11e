"""Sessions in an SQLite file."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from resift.errors import BadInput, SessionsUnavailable
from resift.plugin.session_store import PURGED_AT_ONCE, SessionStore, StoredSession
from resift.plugin.sqlite.connection import connect

_SCHEMA = """
CREATE TABLE IF NOT EXISTS session_log (
    id TEXT PRIMARY KEY, version INTEGER NOT NULL, expires REAL NOT NULL, indices TEXT NOT NULL, body TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS session_log_expires ON session_log (expires);
"""


class SqliteSessionStore(SessionStore):
    """Sessions in the SQLite file at ``path``, which threads and processes of one machine may share.

    Raises BadInput if the file cannot be opened.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._idle: dict[int, list[sqlite3.Connection]] = {}
        try:
            with self._open() as db:
                db.execute("PRAGMA journal_mode = WAL")
                db.executescript(_SCHEMA)
        except SessionsUnavailable as error:
            raise BadInput(f"{path} cannot be opened: {error}", value=path, expected="a file") from error
        self.close()

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """A connection that no other thread is using; one that raised an error is not used again."""
        # By process: a connection must not be carried across a fork, and servers fork their workers after this store
        # is open.
        idle = self._idle.setdefault(os.getpid(), [])
        try:
            try:
                db = idle.pop()  # not asked first whether there is one: another thread may take the last
            except IndexError:
                db = connect(self.path)
                # With a write-ahead log this loses nothing when a process dies, and writes need not wait for the disk.
                db.execute("PRAGMA synchronous = NORMAL")
            try:
                yield db
            except BaseException:
                db.close()
                raise
            idle.append(db)
        except sqlite3.Error as error:
            raise SessionsUnavailable(
                f"{self.path}: {error}", value=self.path, expected="a file of sessions"
            ) from error

    def read(self, id: str) -> StoredSession | None:
        with self._open() as db:
            sql = "SELECT body, expires, indices, version FROM session_log WHERE id = ?"
            row = db.execute(sql, (id,)).fetchone()
        return None if row is None else StoredSession(json.loads(row[0]), row[1], json.loads(row[2]), row[3])

    def write(self, id: str, session: StoredSession) -> bool:
        values = (session.expires, _json(session.indices), _json(session.body))
        with self._open() as db:
            if session.version is None:
                sql = "INSERT INTO session_log VALUES (?, 1, ?, ?, ?) ON CONFLICT (id) DO NOTHING"
                return db.execute(sql, (id, *values)).rowcount == 1
            sql = (
                "UPDATE session_log SET version = version + 1, expires = ?, indices = ?, body = ? "
                "WHERE id = ? AND version = ?"
            )
            return db.execute(sql, (*values, id, session.version)).rowcount == 1

    def delete(self, id: str) -> bool:
        with self._open() as db:
            return db.execute("DELETE FROM session_log WHERE id = ?", (id,)).rowcount == 1

    def scan(self, index: str) -> Iterator[StoredSession]:
        with self._open() as db:
            sql = (
                "SELECT body, expires, indices FROM session_log "
                "WHERE EXISTS (SELECT 1 FROM json_each(indices) WHERE value = ?) ORDER BY id"
            )
            rows = db.execute(sql, (index,)).fetchall()
        return (StoredSession(json.loads(body), expires, json.loads(indices)) for body, expires, indices in rows)

    def delete_index(self, index: str) -> int:
        with self._open() as db:
            sql = "DELETE FROM session_log WHERE EXISTS (SELECT 1 FROM json_each(indices) WHERE value = ?)"
            return db.execute(sql, (index,)).rowcount

    def purge(self, before: float, wait: bool = True) -> int:
        # In portions: one statement over hundreds of thousands would keep every other writer out for as long.
        sql = "DELETE FROM session_log WHERE id IN (SELECT id FROM session_log WHERE expires < ? LIMIT ?)"
        purged = 0
        with self._open() as db:
            while True:
                deleted = db.execute(sql, (before, PURGED_AT_ONCE)).rowcount
                purged += deleted
                if not wait or deleted < PURGED_AT_ONCE:
                    return purged

    def count(self) -> int:
        with self._open() as db:
            ((count,),) = db.execute("SELECT count(*) FROM session_log")
            return int(count)

    def close(self) -> None:
        idle = self._idle.pop(os.getpid(), [])
        while idle:
            idle.pop().close()


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
