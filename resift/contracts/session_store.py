"""The interface of session stores. An SQLite file and an OpenSearch index implement it.

A store does not interpret sessions. It keeps a JSON object under an id, and overwrites it only if the stored version is
the version that the writer has read (optimistic concurrency). So several processes can share a store without losing
each other's changes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

PURGE_BATCH = 2_000  # maximum number of sessions that a purge without waiting deletes
# Seconds that a search waits for its session before it continues without it. A whole search may take a second.
SEARCH_TIMEOUT = 0.5


@dataclass(frozen=True)
class SessionRecord:
    """A session in the form in which it is stored.

    A store returns the values that it contains without checking them, and None for invalid JSON. The reader must
    validate them.

    Attributes:
        body: The JSON object.
        expires: The expiry time in Unix seconds.
        indices: The names of the indices that the session refers to.
        version: The store's version of this write, or None for a session that is not stored yet.
    """

    body: Any
    expires: Any
    indices: Any
    version: Any = None


class SessionStore(ABC):
    """A store of sessions.

    Every method raises SessionsUnavailable if the store does not answer or refuses the request. With ``wait=False`` it
    gives up after SEARCH_TIMEOUT seconds.
    """

    @abstractmethod
    def read(self, id: str, wait: bool = True) -> SessionRecord | None:
        """Return the latest version of a session, expired or not, or None if it does not exist."""

    @abstractmethod
    def write(self, id: str, session: SessionRecord, wait: bool = True) -> bool:
        """Write a session if the stored version has not changed since it was read.

        Args:
            id: The id of the session.
            session: The session. Its version is the version that was read, or None if no session was stored under this
                id.
            wait: Whether to wait as long as necessary.

        Returns:
            True if the session was written; the write then survives a restart. False, without any change, if another
            writer was faster.
        """

    @abstractmethod
    def delete(self, id: str) -> bool:
        """Delete a session. Return whether it existed."""

    @abstractmethod
    def scan(self, index: str | None = None) -> Iterator[tuple[str, SessionRecord]]:
        """Return the id and content of all sessions, or of the sessions that refer to ``index``.

        The order is arbitrary and the versions are None.
        """

    @abstractmethod
    def delete_index(self, index: str) -> int:
        """Delete all sessions that refer to an index. Return their number."""

    @abstractmethod
    def purge(self, before: float, wait: bool = True) -> int:
        """Delete the sessions that expired before a time. Return their number.

        Args:
            before: The time in Unix seconds.
            wait: Whether to delete all of them. Otherwise at most PURGE_BATCH sessions are deleted, which is fast.
        """

    @abstractmethod
    def close(self) -> None:
        """Close the connections."""
