"""Connections to an SQLite file, as the engine and the session store open them."""

from __future__ import annotations

import sqlite3
from contextlib import suppress


class Connection(sqlite3.Connection):
    """A connection that closes itself when nothing refers to it any more."""

    def __del__(self) -> None:
        # Nobody is left to close the connection of a thread that has ended, and from Python 3.13 on such a connection
        # is a ResourceWarning. One that could not be opened cannot be closed either.
        with suppress(sqlite3.ProgrammingError):
            self.close()


def connect(path: str) -> Connection:
    """A connection in autocommit mode, for one thread at a time, that waits up to 30 s for other writers.

    Raises sqlite3.Error if the file cannot be opened.
    """
    return sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False, factory=Connection)
