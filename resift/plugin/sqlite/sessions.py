"""Sessions in an SQLite file."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from resift.errors import BadInput, SessionsUnavailable
from resift.contracts.session_store import HURRIED_SECONDS, PURGED_AT_ONCE, SessionStore, StoredSession
from resift.plugin.sqlite.database import Database

_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS session_log (id TEXT PRIMARY KEY, version INTEGER NOT NULL, expires REAL NOT NULL, "
    "indices TEXT NOT NULL, body TEXT NOT NULL) WITHOUT ROWID",
    "CREATE INDEX IF NOT EXISTS session_log_expires ON session_log (expires)",
)


class SqliteSessionStore(SessionStore):
    """Sessions in the SQLite file at ``path``, which threads and processes of one machine may share.

    Raises BadInput if the file cannot be opened, is a newer version's, or is damaged.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        # Not durable: a power cut may take the last marks, and for that no mark waits for the disk.
        kind = SessionsUnavailable
        try:
            self._database = Database(path, "session_log", _SCHEMA, kind, kind, durable=False)
        except SessionsUnavailable as error:
            expected = error.expected or "a file of sessions"
            raise BadInput(error.message, value=path, expected=expected) from error
        self.close()

    def read(self, id: str, wait: bool = True) -> StoredSession | None:
        with self._database.transaction(False, None if wait else HURRIED_SECONDS) as db:
            sql = "SELECT body, expires, indices, version FROM session_log WHERE id = ?"
            row = db.execute(sql, (id,)).fetchone()
        return None if row is None else self._session(*row)

    def write(self, id: str, session: StoredSession, wait: bool = True) -> bool:
        values = (session.expires, _json(session.indices), _json(session.body))
        with self._database.transaction(True, None if wait else HURRIED_SECONDS) as db:
            if session.version is None:
                sql = "INSERT INTO session_log VALUES (?, 1, ?, ?, ?) ON CONFLICT (id) DO NOTHING"
                return db.execute(sql, (id, *values)).rowcount == 1
            sql = (
                "UPDATE session_log SET version = version + 1, expires = ?, indices = ?, body = ? "
                "WHERE id = ? AND version = ?"
            )
            return db.execute(sql, (*values, id, session.version)).rowcount == 1

    def delete(self, id: str) -> bool:
        with self._database.transaction() as db:
            return db.execute("DELETE FROM session_log WHERE id = ?", (id,)).rowcount == 1

    def scan(self, index: str | None = None) -> Iterator[tuple[str, StoredSession]]:
        with self._database.transaction(write=False) as db:
            sql = (
                "SELECT id, body, expires, indices FROM session_log "
                "WHERE ?1 IS NULL OR EXISTS (SELECT 1 FROM json_each(indices) WHERE value = ?1) ORDER BY id"
            )
            rows = db.execute(sql, (index,)).fetchall()
        return ((id, self._session(*row)) for id, *row in rows)

    def delete_index(self, index: str) -> int:
        with self._database.transaction() as db:
            sql = "DELETE FROM session_log WHERE EXISTS (SELECT 1 FROM json_each(indices) WHERE value = ?)"
            return db.execute(sql, (index,)).rowcount

    def purge(self, before: float, wait: bool = True) -> int:
        # In portions: one statement over hundreds of thousands would keep every other writer out for as long.
        sql = "DELETE FROM session_log WHERE id IN (SELECT id FROM session_log WHERE expires < ? LIMIT ?)"
        purged = 0
        while True:
            with self._database.transaction() as db:
                deleted = db.execute(sql, (before, PURGED_AT_ONCE)).rowcount
            purged += deleted
            if not wait or deleted < PURGED_AT_ONCE:
                return purged

    def count(self) -> int:
        with self._database.transaction(write=False) as db:
            ((count,),) = db.execute("SELECT count(*) FROM session_log")
            return int(count)

    def close(self) -> None:
        self._database.close()

    def _session(self, body: Any, expires: Any, indices: Any, version: Any = None) -> StoredSession:
        """A session of its row. Raises SessionsUnavailable if the row is damaged."""
        try:
            return StoredSession(json.loads(body), float(expires), list(json.loads(indices)), version)
        except (TypeError, ValueError) as error:
            raise self._database.damage(str(error)) from error


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def holds_sessions(path: str, now: float) -> bool:
    """Whether there is a file of sessions at ``path`` with one that has not expired; the file stays as it is."""
    uri = f"{Path(path).absolute().as_uri()}?mode=ro"
    try:
        with closing(sqlite3.connect(uri, uri=True)) as db:
            return bool(db.execute("SELECT 1 FROM session_log WHERE expires > ? LIMIT 1", (now,)).fetchone())
    except sqlite3.Error:  # no file, or one of something else
        return False
