"""The SQLite file that an engine or a session store works on: how it is opened, shared, and found to be damaged."""

from __future__ import annotations

import os
import sqlite3
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from resift.errors import ResiftError
from resift.plugin.sqlite.tables import FORMAT

_TIMEOUT = 30.0  # seconds that a writer waits for others
# What SQLite says of a file that may be in order. Anything else that it says of our own statements is damage.
_PASSING = ("locked", "full", "disk I/O", "readonly", "out of memory", "interrupted")


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
