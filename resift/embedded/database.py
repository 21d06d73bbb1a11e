"""Access to the SQLite file, and the session store and the UBI log that are stored in SQLite.

The module :mod:`resift.embedded.tables` defines the tables of the engine.
"""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
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
    id_as_text,
    unix_seconds,
)
from resift.embedded.tables import FORMAT
from resift.errors import BadInput, EngineUnavailable, ResiftError, SessionsUnavailable

log = logging.getLogger(__name__)

_TIMEOUT = 30.0  # seconds that a connection waits for other writers
# Parts of SQLite's error messages that do not indicate damage. Any other error in Resift's own statements does.
_TEMPORARY = ("locked", "full", "disk I/O", "readonly", "out of memory", "interrupted")
_ROW = "CAST(body AS BLOB), expires, CAST(indices AS BLOB)"  # as bytes, because damaged values may not be valid text
# Whether a session refers to an index. A damaged list counts as empty.
_HAS_INDEX = (
    "EXISTS (SELECT 1 FROM json_each(CASE WHEN json_valid(indices) THEN indices ELSE '[]' END) WHERE value = ?)"
)
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS session_log (id TEXT PRIMARY KEY, version INTEGER NOT NULL, expires REAL NOT NULL, "
    "indices TEXT NOT NULL, body TEXT NOT NULL) WITHOUT ROWID",
    "CREATE INDEX IF NOT EXISTS session_log_expires ON session_log (expires)",
)

MAX_ROWS = 100_000  # maximum number of rows in each UBI table; the oldest rows are deleted first
_LOG_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS ubi_events (number INTEGER PRIMARY KEY, client TEXT, session TEXT, at REAL NOT NULL, "
    "query TEXT, body TEXT NOT NULL)",
    "CREATE INDEX IF NOT EXISTS ubi_events_client ON ubi_events (client, at)",
    "CREATE INDEX IF NOT EXISTS ubi_events_session ON ubi_events (session, at)",
    "CREATE TABLE IF NOT EXISTS ubi_queries (number INTEGER PRIMARY KEY, query TEXT NOT NULL, body TEXT NOT NULL)",
    "CREATE INDEX IF NOT EXISTS ubi_queries_query ON ubi_queries (query)",
)
# In descending order, so that a dictionary of the rows keeps the first row of each query. A second page of hits adds
# another row with the same query id.
_QUERY = "SELECT query, body FROM ubi_queries WHERE query IN (SELECT value FROM json_each(?)) ORDER BY number DESC"
_IDS = ", ".join(f"json_extract(body, '$.{name}') || ''" for name in ("client_id", "session_id", "user_id"))
_IS_CLIENT = f"? IN ({_IDS})"


class _Connection(sqlite3.Connection):
    """A connection to an SQLite file with a time limit for waiting for other writers.

    The connection remembers the time limit, and sends it to SQLite only if it changes.
    """

    _seconds = _TIMEOUT

    def wait_at_most(self, seconds: float) -> None:
        """Limit the time that statements wait for other writers.

        Args:
            seconds: The maximum time in seconds.
        """
        if seconds != self._seconds:
            self.execute(f"PRAGMA busy_timeout = {round(seconds * 1000)}")
            self._seconds = seconds


class Database:
    """An SQLite file that several threads and processes can use at the same time. A missing file is created.

    Args:
        path: The path of the file, or ``:memory:`` for a database of this object. Its data is lost when it is closed.
        table: The name of a table from the schema. If the table does not exist, the schema is created.
        schema: The SQL statements that create the schema.
        unavailable: The exception class for a file that cannot be opened or written, or that has the format of another
            version of Resift.
        corrupt: The exception class for a damaged file. Every method can raise it.
        durable: Whether a commit waits until the data is on the disk, so that the data survives a power failure.
            Otherwise the data only survives a crash of the process.
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
        self.path = path
        self._durable = durable
        self._unavailable = unavailable
        self._corrupt = corrupt
        self._idle: dict[int, list[_Connection]] = {}
        # A database in memory has only one connection, because each connection would see a separate empty database.
        self._memory_lock = threading.RLock() if path == ":memory:" else None
        self._is_prepared = False
        # Since Python 3.13, a connection that is not closed causes a ResourceWarning. Some callers never close their
        # engine, so close the connections when this object is collected.
        weakref.finalize(self, _close_connections, self._idle)
        with self._translated_errors(), self._connection() as db:
            self._create_tables(db, table, schema)
        self._is_prepared = True

    @contextmanager
    def transaction(self, write: bool = True, seconds: float | None = None) -> Iterator[sqlite3.Connection]:
        """Return a context manager that yields a connection with an open transaction.

        The transaction is committed at the end of the ``with`` block, or rolled back if the block raises an exception.
        A read transaction sees the data as it was at the first statement of the transaction.

        Args:
            write: Whether the transaction may write.
            seconds: The maximum time to wait for other writers, in seconds. The default is 30.
        """
        with self._translated_errors(), self._connection() as db:
            db.wait_at_most(seconds or _TIMEOUT)
            if write:
                db.execute(f"PRAGMA synchronous = {'FULL' if self._durable else 'NORMAL'}")
            # IMMEDIATE waits here for other writers. A transaction that reads first and writes later would fail.
            db.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            yield db
            db.execute("COMMIT")

    def query(self, sql: str, values: Sequence[Any] = (), seconds: float | None = None) -> list[Any]:
        """Return the rows of a single SELECT statement.

        A single statement sees a consistent state of the data without a transaction, so it is faster.

        Args:
            sql: The statement, with a ``?`` for each value.
            values: The values of the statement.
            seconds: The maximum time to wait for writers, in seconds. The default is 30.
        """
        with self._translated_errors(), self._connection() as db:
            db.wait_at_most(seconds or _TIMEOUT)
            return db.execute(sql, values).fetchall()

    def close(self) -> None:
        """Close the connections of this process."""
        _close_connections(self._idle)

    @contextmanager
    def _connection(self) -> Iterator[_Connection]:
        """Return a context manager that yields a database connection for exclusive use by the calling thread."""
        with self._memory_lock or nullcontext(), self._idle_connection() as db:
            yield db

    @contextmanager
    def _idle_connection(self) -> Iterator[_Connection]:
        """Return a context manager that yields an unused connection, or a new connection if all are in use."""
        # Connections are kept by process. They must not be used across a fork, because both processes would share the
        # same locks, and servers fork their workers after the file was opened.
        idle = self._idle.setdefault(os.getpid(), [])
        try:
            db = idle.pop()  # without a check before, because another thread may take the last connection
        except IndexError:
            db = self._connect()
        try:
            yield db
        except BaseException:
            if self._memory_lock:  # closing the connection would delete all data
                db.rollback()
                self._release(db, idle)
            else:
                db.close()  # rolls back uncommitted changes, regardless of the state of the transaction
            raise
        self._release(db, idle)

    def _release(self, db: _Connection, idle: list[_Connection]) -> None:
        """Make a connection available again after its use. If :meth:`close` was called meanwhile, close it.

        Args:
            db: The connection.
            idle: The unused connections of this process.
        """
        idle.append(db)
        if self._idle.get(os.getpid()) is not idle:
            _close_each(idle)

    def _connect(self) -> _Connection:
        """Open a new connection. A missing file is created, and only its owner may read it."""
        if self._memory_lock:
            if self._is_prepared:
                message = "a database in memory exists only in the process that opened it, until it is closed"
                raise self._unavailable(message, value=self.path, expected="the path of a file")
        elif not os.path.exists(self.path):
            with suppress(OSError):  # let SQLite report the error
                os.close(os.open(self.path, os.O_CREAT | os.O_WRONLY, 0o600))
        return sqlite3.connect(
            self.path, timeout=_TIMEOUT, isolation_level=None, check_same_thread=False, factory=_Connection
        )

    def _create_tables(self, db: sqlite3.Connection, table: str, schema: Sequence[str]) -> None:
        """Create the tables in the file, unless the file already contains them.

        Args:
            db: The connection to the file.
            table: The name of a table that shows whether the schema exists.
            schema: The SQL statements that create the tables.
        """
        if not self._is_new(db) and _has_table(db, table):
            return  # without a write lock, so that opening the file does not wait for writers
        _use_write_ahead_log(db)
        db.execute("BEGIN IMMEDIATE")
        self._is_new(db)
        for statement in schema:
            db.execute(statement)
        db.execute(f"PRAGMA user_version = {FORMAT}")
        db.execute("COMMIT")

    def _is_new(self, db: sqlite3.Connection) -> bool:
        """Return whether the database file is new, so that it contains no format version yet.

        Args:
            db: The connection to the file.

        Raises:
            ResiftError: If the file has the format of another version of Resift. The constructor's argument
                ``unavailable`` determines the class of the exception.
        """
        ((version,),) = db.execute("PRAGMA user_version")
        if version not in (0, FORMAT):
            message = f"{self.path} has format {version}, but this version of Resift reads format {FORMAT}"
            raise self._unavailable(message, value=self.path, expected="a newer version of Resift, or another file")
        return not version

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        """Return a context manager that converts SQLite's exceptions into Resift's exceptions."""
        try:
            yield
        # SQLite's error message may quote damaged text, which raises UnicodeDecodeError.
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            if "unable to open" in str(error):
                expected = "a file in a folder that exists and can be written"
                raise self._unavailable(f"{self.path} cannot be opened", value=self.path, expected=expected) from error
            if any(phrase in str(error) for phrase in _TEMPORARY):
                raise self._unavailable(f"{self.path}: {error}", value=self.path) from error
            expected = "a backup of the file, or a new file into which the documents are indexed again"
            raise self._corrupt(f"{self.path} is damaged: {error}", value=self.path, expected=expected) from error


class ErasingDatabase(Database):
    """An SQLite file for personal data, in which deleted rows are overwritten with zeros.

    SQLite otherwise leaves deleted rows in the file until it reuses their space.
    """

    # Whether the write-ahead log contains rows that this object deleted, or that an earlier process may have deleted.
    _is_truncation_pending = True

    def delete(self, *statements: tuple[str, Sequence[Any]], seconds: float | None = None) -> int:
        """Run DELETE statements in one transaction, and return how many rows were deleted.

        Call :meth:`truncate_log` after the last deletion.

        Args:
            statements: Each statement with its values.
            seconds: The maximum time to wait for other writers, in seconds. The default is 30.
        """
        with self.transaction(True, seconds) as db:
            deleted = sum(db.execute(sql, values).rowcount for sql, values in statements)
        if deleted:
            self._is_truncation_pending = True
        return deleted

    def truncate_log(self, seconds: float = SEARCH_TIMEOUT) -> bool:
        """Empty SQLite's write-ahead log, which still contains deleted rows and earlier versions of rows.

        The changes in the log are first written to the database, so no data is lost. If this object has emptied the log
        before and has deleted no rows since, the method tries only once, without waiting. Otherwise, it logs a warning
        if other processes prevent it from emptying the log.

        Args:
            seconds: The maximum time to wait for transactions of other connections, in seconds.

        Returns:
            Whether the log is empty.
        """
        is_pending = self._is_truncation_pending
        # Set this before the truncation, so that a deletion by another thread during the truncation is not forgotten.
        self._is_truncation_pending = False
        # Try it in any case, because another process may have deleted rows without emptying the log.
        is_empty = self._erase("PRAGMA wal_checkpoint(TRUNCATE)", seconds if is_pending else 0.0, SEARCH_TIMEOUT)
        if is_pending and not is_empty:
            self._is_truncation_pending = True
        return is_empty

    def rewrite_file(self) -> bool:
        """Write the whole file anew without the space of deleted rows, and empty the write-ahead log.

        Other connections cannot write meanwhile. SQLite's setting ``secure_delete`` is not sufficient to erase a row:
        when SQLite distributes the rows of a full page to several pages, copies of rows can stay behind in the unused
        space of a page, and a later deletion does not find them.

        Returns:
            True if both succeeded. Otherwise, a warning is logged.
        """
        if not self._erase("VACUUM", _TIMEOUT, _TIMEOUT):
            return False
        self._is_truncation_pending = True
        return self.truncate_log(_TIMEOUT)

    def _erase(self, statement: str, seconds: float, attempt_seconds: float) -> bool:
        """Run a statement that removes deleted data from the files, and return whether it succeeded.

        Args:
            statement: The statement. Its first result, if any, is 1 if another connection prevented it. In this case,
                the statement is repeated.
            seconds: The maximum time to wait for other connections, in seconds. If it is 0, no warning is logged.
            attempt_seconds: The maximum time that each execution of the statement waits, in seconds. A truncation that
                waits for a reader blocks all writers, so it must not wait long.
        """
        end = time.monotonic() + seconds
        try:
            with self._translated_errors(), self._connection() as db:
                while True:
                    remaining = max(end - time.monotonic(), 0.0)
                    db.wait_at_most(min(remaining, attempt_seconds))
                    row = db.execute(statement).fetchone()
                    # SQLite's busy timeout does not apply if another connection is writing the log to the file.
                    if not row or not row[0] or not remaining:
                        break
                    # SQLite checks every 0.1 seconds whether a waiting writer can continue, so wait as long here.
                    time.sleep(min(remaining, 0.1))
            reason = "another process uses it" if row and row[0] else None
        except ResiftError as error:
            reason = error.message
        if reason and seconds:
            log.warning("deleted data may still be readable in %s or its write-ahead log: %s", self.path, reason)
        return reason is None

    def _connect(self) -> _Connection:
        db = super()._connect()
        db.execute("PRAGMA secure_delete = ON")  # a setting of the connection, not of the file
        return db


def _close_connections(idle: dict[int, list[_Connection]]) -> None:
    """Close the connections of this process."""
    _close_each(idle.pop(os.getpid(), []))


def _close_each(connections: list[_Connection]) -> None:
    for db in connections:
        db.close()


def _has_table(db: sqlite3.Connection, name: str) -> bool:
    """Return whether the file contains a table of this name."""
    sql = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ?"
    return bool(db.execute(sql, (name,)).fetchone()[0])


def _use_write_ahead_log(db: sqlite3.Connection) -> None:
    """Switch the database to write-ahead logging, so that readers do not have to wait for a writer."""
    # SQLite's busy timeout does not apply to this statement. If two processes open a new file at the same time, one of
    # them fails at once with "locked", so retry here.
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
    """A store for search sessions in an SQLite file, which all threads and processes of a machine can share.

    Deleted sessions are overwritten in the file, and removed from its write-ahead log. If other processes prevent the
    latter, the next :meth:`purge` repeats it. A service purges once a minute while sessions change.

    Args:
        path: The path of the file, or ``:memory:`` for an empty store that only this object can use.
        durable: Whether each write waits until the data is on the disk. Otherwise a power failure may lose the latest
            changes.

    Raises:
        BadInput: If the file cannot be opened, is damaged, or has the format of a newer version of Resift.
    """

    def __init__(self, path: str, durable: bool = False) -> None:
        self.path = path
        kind = SessionsUnavailable
        try:
            self._database = ErasingDatabase(path, "session_log", _SCHEMA, kind, kind, durable)
        except SessionsUnavailable as error:
            expected = error.expected or "a file of sessions"
            raise BadInput(error.message, value=path, expected=expected) from error
        if path != ":memory:":  # a store in memory is lost with its connection
            self.close()

    def read(self, id: str, wait: bool = True) -> SessionRecord | None:
        """Return the latest version of a session, or None if the session does not exist.

        Args:
            id: The id of the session.
            wait: Whether to wait up to 30 seconds for a lock on the database. If False, the maximum is
                ``SEARCH_TIMEOUT``, half a second, so that searches are not delayed.

        Raises:
            SessionsUnavailable: If the database is still locked at the end of the wait.
        """
        sql = f"SELECT {_ROW}, version FROM session_log WHERE id = ?"
        rows = self._database.query(sql, (id,), None if wait else SEARCH_TIMEOUT)
        return _session_record(*rows[0]) if rows else None

    def write(self, id: str, session: SessionRecord, wait: bool = True) -> bool:
        """Write a session, unless another caller has changed it since it was read.

        Args:
            id: The id of the session.
            session: The new contents, with the version that was read. A version of None stands for a new session.
            wait: Whether to wait up to 30 seconds for other writers. If False, the maximum is ``SEARCH_TIMEOUT``, half
                a second, so that searches are not delayed.

        Returns:
            Whether the session was written.
        """
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
        """Delete a session, and return whether it existed."""
        deleted = self._delete_where("id = ?", id) == 1
        self._database.truncate_log()
        return deleted

    def scan(self, index: str | None = None) -> Iterator[tuple[str, SessionRecord]]:
        """Return an iterator over the ids and contents of all sessions.

        Args:
            index: If not None, only sessions with judgements in this index are returned.
        """
        with self._database.transaction(write=False) as db:
            sql = f"SELECT id, {_ROW} FROM session_log WHERE ? IS NULL OR {_HAS_INDEX} ORDER BY id"
            rows = db.execute(sql, (index, index)).fetchall()
        return ((id, _session_record(*row)) for id, *row in rows)

    def scan_indices(self) -> Iterator[tuple[str, Any]]:
        """Yield the id of each stored session, and the names of the indices that contain its judged documents."""
        with self._database.transaction(write=False) as db:
            rows = db.execute("SELECT id, CAST(indices AS BLOB) FROM session_log ORDER BY id").fetchall()
        return ((id, _parse_json(indices)) for id, indices in rows)

    def delete_index(self, index: str) -> int:
        """Delete all sessions with judgements in an index, and return how many were deleted."""
        deleted = self._delete_where(_HAS_INDEX, index)
        self._database.truncate_log()
        return deleted

    def purge(self, before: float, wait: bool = True) -> int:
        """Delete expired sessions, and return how many were deleted.

        Args:
            before: A Unix time in seconds. Sessions that expired before this time are deleted.
            wait: Whether to wait until all of these sessions are deleted. If False, only a first batch is deleted, and
                the call waits for other writers for at most half a second.
        """
        # Delete in batches. A single statement for hundreds of thousands of sessions would block all writers.
        batch, purged = "id IN (SELECT id FROM session_log WHERE expires < ? LIMIT ?)", 0
        while True:
            deleted = self._delete_where(batch, before, PURGE_BATCH, seconds=None if wait else SEARCH_TIMEOUT)
            purged += deleted
            if not wait or deleted < PURGE_BATCH:
                break
        self._database.truncate_log()  # even if no session has expired, to repeat what failed after a deletion
        return purged

    def erase_deleted(self) -> bool:
        """Write the file anew, so that it contains no more data of deleted sessions.

        This takes time in proportion to the size of the file, which can also contain the indices of the embedded
        engine.

        Returns:
            True if no data of deleted sessions is left. False if another process prevented this, or the disk is full.
        """
        return self._database.rewrite_file()

    def close(self) -> None:
        """Close the connections."""
        self._database.close()

    def _delete_where(self, condition: str, *values: Any, seconds: float | None = None) -> int:
        """Delete all sessions that match an SQL condition, and return how many were deleted.

        Args:
            condition: The condition, with a ``?`` for each value.
            values: The values of the condition.
            seconds: The maximum time to wait for other writers, in seconds. The default is 30.
        """
        return self._database.delete((f"DELETE FROM session_log WHERE {condition}", values), seconds=seconds)


def _session_record(body: bytes, expires: Any, indices: bytes, version: Any = None) -> SessionRecord:
    """Create a session record from the columns of a database row.

    Args:
        body: The contents of the session as JSON.
        expires: The time at which the session expires, in Unix seconds.
        indices: The names of the indices with judgements in the session, as JSON.
        version: The version of the session, or None if it was not read.
    """
    return SessionRecord(_parse_json(body), expires, _parse_json(indices), version)


def _parse_json(text: bytes) -> Any:
    """Parse a JSON text. Return None if the text is not valid JSON."""
    try:
        return json.loads(text)
    except (RecursionError, ValueError):
        return None


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


class SqliteUbiLog(UbiLog):
    """A log of User Behavior Insights (UBI) in an SQLite file.

    The log stores the queries and the events, such as clicks, of users. All threads and processes of a machine can
    share the file.

    Args:
        path: The path of the file.

    Raises:
        EngineUnavailable: If the file is damaged or cannot be opened. The constructor and every method can raise it.
    """

    def __init__(self, path: str) -> None:
        kind = EngineUnavailable
        self._database = ErasingDatabase(path, "ubi_queries", _LOG_SCHEMA, kind, kind, durable=False)

    def add(self, kind: str, sources: Sequence[Mapping[str, Any]]) -> int:
        """Add queries or events to the log.

        Args:
            kind: The kind of all entries: queries or events.
            sources: The entries as JSON objects.

        Returns:
            The number of entries that were refused because a required field is missing.
        """
        rows = [row for row in map(_event_row if kind == EVENTS else _query_row, sources) if row is not None]
        table, columns = ("ubi_events", 5) if kind == EVENTS else ("ubi_queries", 2)
        with self._database.transaction() as db:
            db.executemany(f"INSERT INTO {table} VALUES (NULL{', ?' * columns})", rows)
            db.execute(f"DELETE FROM {table} WHERE number <= (SELECT max(number) FROM {table}) - ?", (MAX_ROWS,))
        return len(sources) - len(rows)

    def events(self, client: str, since: float, until: float) -> list[UbiEvent]:
        """Return the events of a client or session in a period, oldest first.

        If there are more than :data:`MAX_CLIENT_EVENTS` events, only the latest are returned.

        Args:
            client: The client id or session id.
            since: The beginning of the period, in Unix seconds.
            until: The end of the period, in Unix seconds.
        """
        select = "SELECT number, at, body FROM ubi_events WHERE {} = ? AND at BETWEEN ? AND ?"
        sql = f"{select.format('client')} UNION {select.format('session')} ORDER BY at DESC, number DESC LIMIT ?"
        values = (client, since, until, client, since, until, MAX_CLIENT_EVENTS)
        rows = self._database.query(sql, values, SEARCH_TIMEOUT)
        events = (UbiEvent.read(json.loads(body)) for _, _, body in reversed(rows))
        return [event for event in events if event is not None]

    def queries(self, ids: Sequence[str]) -> dict[str, UbiQuery]:
        """Look up logged queries by their query ids.

        Args:
            ids: The query ids.

        Returns:
            The queries, by query id. Unknown ids are left out.
        """
        rows = self._database.query(_QUERY, (json.dumps(list(ids)),), SEARCH_TIMEOUT)
        return {id: UbiQuery.read(json.loads(body)) for id, body in rows}

    def scan(self, since: float = 0.0, until: float = END_OF_TIME) -> Iterator[UbiEvent]:
        """Return an iterator over all events between two times.

        Args:
            since: The time of the earliest event, in Unix seconds.
            until: The time of the latest event, in Unix seconds.
        """
        rows = self._select_entries("SELECT body FROM ubi_events WHERE at BETWEEN ? AND ?", since, until)
        return (event for event in map(UbiEvent.read, rows) if event is not None)

    def application_queries(self, application: str, since: float, until: float) -> list[dict[str, Any]]:
        """Return the queries that an application logged between two times, as JSON objects.

        Args:
            application: The name of the application.
            since: The time of the earliest query, in Unix seconds.
            until: The time of the latest query, in Unix seconds.
        """
        rows = self._select_entries(
            "SELECT body FROM ubi_queries WHERE json_extract(body, '$.application') = ?", application
        )
        return [row for row in rows if since <= (unix_seconds(row.get("timestamp")) or 0.0) <= until]

    def client_documents(self, client: str) -> dict[str, list[dict[str, Any]]]:
        """Return all log entries about a client.

        Args:
            client: A client id, session id or user id.

        Returns:
            Lists of entries as JSON objects, by kind ("queries" and "events").
        """
        return {kind: self._select_entries(f"SELECT body FROM ubi_{kind} WHERE {_IS_CLIENT}", client) for kind in KINDS}

    def delete_client(self, client: str) -> int:
        """Delete all log entries about a client, and return how many were deleted.

        Args:
            client: A client id, session id or user id.
        """
        statements = ((f"DELETE FROM ubi_{kind} WHERE {_IS_CLIENT}", (client,)) for kind in KINDS)
        deleted = self._database.delete(*statements)
        self._database.truncate_log()
        return deleted

    def _select_entries(self, sql: str, *values: Any) -> list[dict[str, Any]]:
        """Run a SELECT statement that returns log entries, and return the entries as JSON objects.

        Args:
            sql: The statement, with a ``?`` for each value. It selects only the column ``body``.
            values: The values of the statement.
        """
        with self._database.transaction(write=False) as db:
            return [json.loads(body) for (body,) in db.execute(sql, values).fetchall()]

    def close(self) -> None:
        """Close the connections."""
        self._database.close()


def _event_row(source: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """Convert a logged event to a row of the table ``ubi_events``, or return None if a required field is missing."""
    event = UbiEvent.read(source)
    if event is None:
        return None
    return event.client, event.session, event.at, event.query_id, _json(source)


def _query_row(source: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """Convert a logged query to a row of the table ``ubi_queries``, or return None if it has no query id."""
    id = id_as_text(source.get("query_id"))
    return (id, _json(source)) if id else None
