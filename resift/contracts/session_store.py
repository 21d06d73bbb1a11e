"""The interface of session stores. An SQLite file and an OpenSearch index implement it.

A store does not interpret sessions. It stores a JSON object under an id, and overwrites the object only if its version
is still the version that the writer has read (optimistic concurrency). Several processes can therefore share a store
without losing each other's changes.
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

    A store does not validate the values that it reads, so the reader must validate them. ``body`` is None if the stored
    JSON is invalid.

    Attributes:
        body: The session's content, a JSON object.
        expires: The expiry time in Unix seconds.
        indices: The names of the indices that the session refers to.
        version: The version that the store assigned when the session was written, or None for a session that is not
            stored yet.
    """

    body: Any
    expires: Any
    indices: Any
    version: Any = None


class SessionStore(ABC):
    """The interface of stores of sessions.

    Every method raises SessionsUnavailable if the store does not answer or refuses the request. With ``wait=False``,
    requests time out after SEARCH_TIMEOUT seconds.
    """

    @abstractmethod
    def read(self, id: str, wait: bool = True) -> SessionRecord | None:
        """Return the latest version of a session, or None if it does not exist. Expired sessions are returned too."""

    @abstractmethod
    def write(self, id: str, session: SessionRecord, wait: bool = True) -> bool:
        """Write a session if the stored version has not changed since it was read.

        Args:
            id: The id of the session.
            session: The session. Its version is the version that was read, or None if no session was stored under this
                id.
            wait: Whether to wait as long as necessary.

        Returns:
            True if the session was written durably. False, without any change, if another writer changed the session
            after it was read.
        """

    @abstractmethod
    def delete(self, id: str) -> bool:
        """Delete a session, and return whether the session existed."""

    @abstractmethod
    def scan(self, index: str | None = None) -> Iterator[tuple[str, SessionRecord]]:
        """Yield the id and content of each session, in arbitrary order. The versions of the sessions are None.

        Args:
            index: The name of an index, to yield only the sessions that refer to it. None yields all sessions.
        """

    @abstractmethod
    def delete_index(self, index: str) -> int:
        """Delete all sessions that refer to an index, and return the number of deleted sessions."""

    @abstractmethod
    def purge(self, before: float, wait: bool = True) -> int:
        """Delete the sessions that expired before a time, and return the number of deleted sessions.

        Args:
            before: The time in Unix seconds.
            wait: Whether to delete all expired sessions. If false, at most PURGE_BATCH sessions are deleted, so that
                the call is fast.
        """

    @abstractmethod
    def close(self) -> None:
        """Close the connections."""
