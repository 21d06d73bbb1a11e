"""The SQLite file: how it is opened, shared and found to be damaged, and the sessions and the log of UBI in it.

What an engine keeps there is in :mod:`resift.embedded.tables`.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from resift.contracts.session_store import PURGE_BATCH, SEARCH_TIMEOUT, SessionRecord, SessionStore
from resift.contracts.ubi import (
    END_OF_TIME,
    EVENTS,
    KINDS,
    MAX_CLIENT_EVENTS,
    UbiEvent,
    UbiLog,
    UbiQuery,
    seconds_of,
    text_of,
)
from resift.embedded.tables import FORMAT
from resift.errors import BadInput, EngineUnavailable, ResiftError, SessionsUnavailable

_TIMEOUT = 30.0  # seconds that a writer waits for others
# What SQLite says of a file that may be in order. Anything else that it says of our own statements is damage.
_PASSING = ("locked", "full", "disk I/O", "readonly", "out of memory", "interrupted")
_ROW = "CAST(body AS BLOB), expires, CAST(indices AS BLOB)"  # as bytes, for damaged ones need not be texts
# of a list that is damaged, one without names is looked through
_NAMES = "EXISTS (SELECT 1 FROM json_each(CASE WHEN json_valid(indices) THEN indices ELSE '[]' END) WHERE value = ?)"
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS session_log (id TEXT PRIMARY KEY, version INTEGER NOT NULL, expires REAL NOT NULL, "
    "indices TEXT NOT NULL, body TEXT NOT NULL) WITHOUT ROWID",
    "CREATE INDEX IF NOT EXISTS session_log_expires ON session_log (expires)",
)

MAX_ROWS = 100_000  # of a kind; the oldest go first
_LOG_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS ubi_events (number INTEGER PRIMARY KEY, client TEXT, session TEXT, at REAL NOT NULL, "
    "query TEXT, body TEXT NOT NULL)",
    "CREATE INDEX IF NOT EXISTS ubi_events_client ON ubi_events (client, at)",
    "CREATE INDEX IF NOT EXISTS ubi_events_session ON ubi_events (session, at)",
    "CREATE TABLE IF NOT EXISTS ubi_queries (number INTEGER PRIMARY KEY, query TEXT NOT NULL, body TEXT NOT NULL)",
    "CREATE INDEX IF NOT EXISTS ubi_queries_query ON ubi_queries (query)",
)
# of several rows of one query, as a second page makes one, the first
_QUERY = "SELECT query, body FROM ubi_queries WHERE query IN (SELECT value FROM json_each(?)) ORDER BY number DESC"
_IDS = ", ".join(f"json_extract(body, '$.{name}') || ''" for name in ("client_id", "session_id", "user_id"))
_PERSON = f"? IN ({_IDS})"


class Database:
    """The file at ``path``, which threads and processes may share; it is created if there is none.

    ``schema`` makes the table ``table``, and what else belongs to it, where it is missing. Raises ``unavailable`` if
    the file cannot be opened and written or has another format, and ``corrupt``, as every method does, if it is
    damaged. A commit is on the disk when it returns, or, if it is not ``durable``, survives a process that dies but not
    a power cut.
    """

    def __init__(
        self,
        path: str,
        table: str,
        schema: Sequence[str],
        unavailable: type[ResiftError],
        corrupt: type[ResiftError],
        durable: bool = True,
    ) -> None:
        self.path, self._durable = path, durable
        self._unavailable, self._corrupt = unavailable, corrupt
        self._idle: dict[int, list[sqlite3.Connection]] = {}
        # From Python 3.13 on a connection that nobody closed is a ResourceWarning, and not everybody who opens an
        # engine closes it.
        weakref.finalize(self, _close, self._idle)
        with self._translated(), self._connection() as db:
            self._prepare(db, table, schema)

    @contextmanager
    def transaction(self, write: bool = True, seconds: float | None = None) -> Iterator[sqlite3.Connection]:
        """A connection inside a transaction, which is committed at the end of the block, or undone by an exception.

        A reader sees the file all the while as it was at its first statement. ``seconds``: how long to wait for others,
        if not as long as usual.
        """
        with self._translated(), self._connection() as db:
            db.execute(f"PRAGMA busy_timeout = {round((seconds or _TIMEOUT) * 1000)}")
            if write:
                db.execute(f"PRAGMA synchronous = {'FULL' if self._durable else 'NORMAL'}")
            # IMMEDIATE waits for other writers here: a transaction that reads first and then writes would fail.
            db.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            yield db
            db.execute("COMMIT")

    def close(self) -> None:
        """Close this process's connections."""
        _close(self._idle)

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """A connection that no other thread is using."""
        # By process: a connection must not be carried across a fork, since both processes would write by the same
        # locks, and servers fork their workers after the file is open.
        idle = self._idle.setdefault(os.getpid(), [])
        try:
            db = idle.pop()  # not asked first whether there is one: another thread may take the last
        except IndexError:
            db = self._connect()
        try:
            yield db
        except BaseException:
            db.close()  # which undoes what was not committed, whatever state the error left the transaction in
            raise
        idle.append(db)
        if self._idle.get(os.getpid()) is not idle:  # all were closed while this one was in use
            _close_each(idle)

    def _connect(self) -> sqlite3.Connection:
        if self.path != ":memory:" and not os.path.exists(self.path):
            with suppress(OSError):  # SQLite says better what is wrong
                os.close(os.open(self.path, os.O_CREAT | os.O_WRONLY, 0o600))
        return sqlite3.connect(self.path, timeout=_TIMEOUT, isolation_level=None, check_same_thread=False)

    def _prepare(self, db: sqlite3.Connection, table: str, schema: Sequence[str]) -> None:
        """Make what is missing."""
        if not self._is_new(db) and _has_table(db, table):
            return  # nothing to write, so no waiting for those who write
        _use_write_ahead_log(db)
        db.execute("BEGIN IMMEDIATE")
        self._is_new(db)
        for statement in schema:
            db.execute(statement)
        db.execute(f"PRAGMA user_version = {FORMAT}")
        db.execute("COMMIT")

    def _is_new(self, db: sqlite3.Connection) -> bool:
        """Whether the file has no format yet. Raises ``unavailable`` for one that is not ours."""
        ((version,),) = db.execute("PRAGMA user_version")
        if version not in (0, FORMAT):
            message = f"{self.path} has format {version}, and this version of Resift reads {FORMAT}"
            raise self._unavailable(message, value=self.path, expected="a newer Resift, or another file")
        return not version

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Our errors in place of SQLite's."""
        try:
            yield
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # the latter where SQLite's message quotes damage
            if "unable to open" in str(error):
                expected = "a file in a folder that exists and can be written"
                raise self._unavailable(f"{self.path} cannot be opened", value=self.path, expected=expected) from error
            if any(phrase in str(error) for phrase in _PASSING):
                raise self._unavailable(f"{self.path}: {error}", value=self.path) from error
            expected = "a copy of the file, or the documents indexed again into a new one"
            raise self._corrupt(f"{self.path} is damaged: {error}", value=self.path, expected=expected) from error


def _close(idle: dict[int, list[sqlite3.Connection]]) -> None:
    """Close this process's connections."""
    _close_each(idle.pop(os.getpid(), []))


def _close_each(connections: list[sqlite3.Connection]) -> None:
    for db in connections:
        db.close()


def _has_table(db: sqlite3.Connection, name: str) -> bool:
    sql = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ?"
    return bool(db.execute(sql, (name,)).fetchone()[0])


def _use_write_ahead_log(db: sqlite3.Connection) -> None:
    """Let readers and a writer work at the same time."""
    # SQLite does not wait here as it does elsewhere: of two processes that open a new file one is told that it is
    # locked, at once.
    end = time.monotonic() + _TIMEOUT
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > end:
                raise
        time.sleep(0.01)


class SqliteSessionStore(SessionStore):
    """Sessions in the SQLite file at ``path``, which threads and processes of one machine may share.

    A power cut may take the last marks, unless they are ``durable``, and wait for the disk. Raises BadInput if the file
    cannot be opened, is a newer version's, or is damaged.
    """

    def __init__(self, path: str, durable: bool = False) -> None:
        self.path = path
        kind = SessionsUnavailable
        try:
            self._database = Database(path, "session_log", _SCHEMA, kind, kind, durable)
        except SessionsUnavailable as error:
            expected = error.expected or "a file of sessions"
            raise BadInput(error.message, value=path, expected=expected) from error
        self.close()

    def read(self, id: str, wait: bool = True) -> SessionRecord | None:
        with self._database.transaction(False, None if wait else SEARCH_TIMEOUT) as db:
            row = db.execute(f"SELECT {_ROW}, version FROM session_log WHERE id = ?", (id,)).fetchone()
        return None if row is None else _stored(*row)

    def write(self, id: str, session: SessionRecord, wait: bool = True) -> bool:
        values = (session.expires, _json(session.indices), _json(session.body))
        with self._database.transaction(True, None if wait else SEARCH_TIMEOUT) as db:
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

    def scan(self, index: str | None = None) -> Iterator[tuple[str, SessionRecord]]:
        with self._database.transaction(write=False) as db:
            sql = f"SELECT id, {_ROW} FROM session_log WHERE ? IS NULL OR {_NAMES} ORDER BY id"
            rows = db.execute(sql, (index, index)).fetchall()
        return ((id, _stored(*row)) for id, *row in rows)

    def delete_index(self, index: str) -> int:
        return self._delete(_NAMES, index)

    def purge(self, before: float, wait: bool = True) -> int:
        # In portions: one statement over hundreds of thousands would keep every other writer out for as long.
        portion, purged = "id IN (SELECT id FROM session_log WHERE expires < ? LIMIT ?)", 0
        while True:
            deleted = self._delete(portion, before, PURGE_BATCH)
            purged += deleted
            if not wait or deleted < PURGE_BATCH:
                return purged

    def close(self) -> None:
        self._database.close()

    def _delete(self, condition: str, *values: Any) -> int:
        """Delete the sessions that fit; return how many."""
        with self._database.transaction() as db:
            return db.execute(f"DELETE FROM session_log WHERE {condition}", values).rowcount


def _stored(body: bytes, expires: Any, indices: bytes, version: Any = None) -> SessionRecord:
    """A session of its row."""
    return SessionRecord(_value(body), expires, _value(indices), version)


def _value(text: bytes) -> Any:
    """The value of JSON text; None of what is none."""
    try:
        return json.loads(text)
    except (RecursionError, ValueError):
        return None


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


class SqliteUbiLog(UbiLog):
    """The log in the SQLite file at ``path``, which threads and processes of one machine may share.

    Raises EngineUnavailable if the file cannot be opened, and as every method does, if it is damaged.
    """

    def __init__(self, path: str) -> None:
        kind = EngineUnavailable
        self._database = Database(path, "ubi_queries", _LOG_SCHEMA, kind, kind, durable=False)

    def add(self, kind: str, sources: Sequence[Mapping[str, Any]]) -> int:
        rows = [row for row in map(_event_row if kind == EVENTS else _query_row, sources) if row is not None]
        table, columns = ("ubi_events", 5) if kind == EVENTS else ("ubi_queries", 2)
        with self._database.transaction() as db:
            db.executemany(f"INSERT INTO {table} VALUES (NULL{', ?' * columns})", rows)
            db.execute(f"DELETE FROM {table} WHERE number <= (SELECT max(number) FROM {table}) - ?", (MAX_ROWS,))
        return len(sources) - len(rows)

    def events(self, client: str, since: float, until: float) -> list[UbiEvent]:
        part = "SELECT number, at, body FROM ubi_events WHERE {} = ? AND at BETWEEN ? AND ?"
        sql = f"{part.format('client')} UNION {part.format('session')} ORDER BY at DESC, number DESC LIMIT ?"
        with self._database.transaction(False, SEARCH_TIMEOUT) as db:
            rows = db.execute(sql, (client, since, until, client, since, until, MAX_CLIENT_EVENTS)).fetchall()
        read = (UbiEvent.read(json.loads(body)) for _, _, body in reversed(rows))
        return [event for event in read if event is not None]

    def queries(self, ids: Sequence[str]) -> dict[str, UbiQuery]:
        with self._database.transaction(False, SEARCH_TIMEOUT) as db:
            rows = db.execute(_QUERY, (json.dumps(list(ids)),)).fetchall()
        return {id: UbiQuery.read(json.loads(body)) for id, body in rows}

    def scan(self, since: float = 0.0, until: float = END_OF_TIME) -> Iterator[UbiEvent]:
        rows = self._rows("SELECT body FROM ubi_events WHERE at BETWEEN ? AND ?", since, until)
        return (event for event in map(UbiEvent.read, rows) if event is not None)

    def application_queries(self, application: str, since: float, until: float) -> list[dict[str, Any]]:
        rows = self._rows("SELECT body FROM ubi_queries WHERE json_extract(body, '$.application') = ?", application)
        return [row for row in rows if since <= (seconds_of(row.get("timestamp")) or 0.0) <= until]

    def client_documents(self, client: str) -> dict[str, list[dict[str, Any]]]:
        return {kind: self._rows(f"SELECT body FROM ubi_{kind} WHERE {_PERSON}", client) for kind in KINDS}

    def delete_client(self, client: str) -> int:
        with self._database.transaction() as db:
            return sum(db.execute(f"DELETE FROM ubi_{kind} WHERE {_PERSON}", (client,)).rowcount for kind in KINDS)

    def _rows(self, sql: str, *values: Any) -> list[dict[str, Any]]:
        with self._database.transaction(write=False) as db:
            return [json.loads(body) for (body,) in db.execute(sql, values).fetchall()]

    def close(self) -> None:
        self._database.close()


def _event_row(source: Mapping[str, Any]) -> tuple[Any, ...] | None:
    event = UbiEvent.read(source)
    if event is None:
        return None
    return event.client, event.session, event.at, event.query_id, _json(source)


def _query_row(source: Mapping[str, Any]) -> tuple[Any, ...] | None:
    id = text_of(source.get("query_id"))
    return (id, _json(source)) if id else None
