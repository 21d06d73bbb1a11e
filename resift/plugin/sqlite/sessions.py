"""Sessions in an SQLite file."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from resift.contracts.session_store import HURRIED_SECONDS, PURGED_AT_ONCE, SessionStore, StoredSession
from resift.errors import BadInput, SessionsUnavailable
from resift.plugin.sqlite.database import Database

_RESERVE = 2**20  # bytes
_ROW = "CAST(body AS BLOB), expires, CAST(indices AS BLOB)"  # as bytes, for damaged ones need not be texts
# of a list that is damaged, one without names is looked through
_NAMES = "EXISTS (SELECT 1 FROM json_each(CASE WHEN json_valid(indices) THEN indices ELSE '[]' END) WHERE value = ?1)"
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
        self.path, self._reserve = path, Path(f"{path}-reserve")
        # Not durable: a power cut may take the last marks, and for that no mark waits for the disk.
        kind = SessionsUnavailable
        try:
            self._database = Database(path, "session_log", _SCHEMA, kind, kind, durable=False)
        except SessionsUnavailable as error:
            expected = error.expected or "a file of sessions"
            raise BadInput(error.message, value=path, expected=expected) from error
        self._has_reserve = path == ":memory:"
        self.close()

    def read(self, id: str, wait: bool = True) -> StoredSession | None:
        with self._database.transaction(False, None if wait else HURRIED_SECONDS) as db:
            row = db.execute(f"SELECT {_ROW}, version FROM session_log WHERE id = ?", (id,)).fetchone()
        return None if row is None else _stored(*row)

    def write(self, id: str, session: StoredSession, wait: bool = True) -> bool:
        if not self._has_reserve:
            self._has_reserve = True
            self._fill_reserve()
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
        return self._delete("id = ?", id) == 1

    def scan(self, index: str | None = None) -> Iterator[tuple[str, StoredSession]]:
        with self._database.transaction(write=False) as db:
            sql = f"SELECT id, {_ROW} FROM session_log WHERE ?1 IS NULL OR {_NAMES} ORDER BY id"
            rows = db.execute(sql, (index,)).fetchall()
        return ((id, _stored(*row)) for id, *row in rows)

    def delete_index(self, index: str) -> int:
        return self._delete(_NAMES, index)

    def purge(self, before: float, wait: bool = True) -> int:
        # In portions: one statement over hundreds of thousands would keep every other writer out for as long.
        portion, purged = "id IN (SELECT id FROM session_log WHERE expires < ? LIMIT ?)", 0
        while True:
            deleted = self._delete(portion, before, PURGED_AT_ONCE)
            purged += deleted
            if not wait or deleted < PURGED_AT_ONCE:
                return purged

    def count(self) -> int:
        with self._database.transaction(write=False) as db:
            ((count,),) = db.execute("SELECT count(*) FROM session_log")
            return int(count)

    def close(self) -> None:
        self._database.close()

    def _delete(self, condition: str, *values: Any) -> int:
        """Delete the sessions that fit; return how many. On a full disk the reserve is given up for it: what is deleted
        takes space in SQLite's log at first."""
        try:
            return self._deleted(condition, *values)
        except SessionsUnavailable as error:
            if "disk is full" not in str(error.__cause__):
                raise
        with suppress(OSError):
            self._reserve.unlink()
        try:
            return self._deleted(condition, *values)
        finally:
            self._fill_reserve()

    def _deleted(self, condition: str, *values: Any) -> int:
        with self._database.transaction() as db:
            return db.execute(f"DELETE FROM session_log WHERE {condition}", values).rowcount

    def _fill_reserve(self) -> None:
        """Take as much of the disk as deletions may need, or what is left of it."""
        with suppress(OSError), open(self._reserve, "ab", buffering=0, opener=_private) as file:
            while file.tell() < _RESERVE:
                file.write(os.urandom(2**14))  # nothing that a file system could pack


def _stored(body: bytes, expires: Any, indices: bytes, version: Any = None) -> StoredSession:
    """A session of its row."""
    return StoredSession(_value(body), expires, _value(indices), version)


def _value(text: bytes) -> Any:
    """The value of JSON text; None of what is none."""
    try:
        return json.loads(text)
    except (RecursionError, ValueError):
        return None


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _private(path: str, flags: int) -> int:
    """Open a file that only its owner may read."""
    return os.open(path, flags, 0o600)
