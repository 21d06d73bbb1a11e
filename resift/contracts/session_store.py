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
    """A search session in the form in which a store contains it.

    A store does not check the values that it reads. The caller must validate them.

    Attributes:
        body: The content of the session, a JSON object. None if the stored JSON is invalid.
        expires: The expiry time in Unix seconds.
        indices: The names of the indices whose documents were judged in the session.
        version: The version that the store assigned when the session was written, or None for a session that is not
            stored yet.
    """

    body: Any
    expires: Any
    indices: Any
    version: Any = None


class SessionStore(ABC):
    """The interface of stores of search sessions.

    All methods raise SessionsUnavailable if the store does not answer or refuses the request. With ``wait=False``,
    requests time out after SEARCH_TIMEOUT seconds.
    """

    @abstractmethod
    def read(self, id: str, wait: bool = True) -> SessionRecord | None:
        """Return the latest version of a session, or None if it does not exist.

        Sessions that have expired but have not been deleted yet are returned, too.

        Args:
            id: The id of the session.
            wait: Whether to wait for a slow store. If False, SessionsUnavailable is raised after half a second.
        """

    @abstractmethod
    def write(self, id: str, session: SessionRecord, wait: bool = True) -> bool:
        """Write a session, unless another process has changed the stored session since it was read.

        Args:
            id: The id of the session.
            session: The session. Its attribute ``version`` is the version that was read, or None to create a new
                session.
            wait: Whether to wait for a slow store. If False, SessionsUnavailable is raised after half a second.

        Returns:
            True if the session was written durably. False if another process has changed the stored session. In this
            case, nothing is written.
        """

    @abstractmethod
    def delete(self, id: str) -> bool:
        """Delete a session, and return whether the session existed."""

    @abstractmethod
    def scan(self, index: str | None = None) -> Iterator[tuple[str, SessionRecord]]:
        """Yield the id and content of each stored session, in arbitrary order. The ``version`` of the sessions is None.

        Args:
            index: The name of an index. If given, only sessions with judgements in this index are yielded.
        """

    @abstractmethod
    def scan_indices(self) -> Iterator[tuple[str, Any]]:
        """Yield the id and the index names of each stored session, without reading its content."""

    @abstractmethod
    def delete_index(self, index: str) -> int:
        """Delete all sessions that contain judgements of documents in an index.

        Args:
            index: The name of the index.

        Returns:
            The number of deleted sessions.
        """

    @abstractmethod
    def purge(self, before: float, wait: bool = True) -> int:
        """Delete the sessions that expired before a given time.

        Args:
            before: The time in Unix seconds.
            wait: Whether to wait until all of these sessions are deleted. If False, at most PURGE_BATCH sessions are
                deleted, and SessionsUnavailable is raised after half a second.

        Returns:
            The number of deleted sessions.
        """

    def erase_deleted(self) -> bool:
        """Remove data of deleted sessions that is still in the files of the store. This can take long.

        A store that does not manage its files itself does nothing.

        Returns:
            False if data of deleted sessions can still be read in the files of the store.
        """
        return True

    @abstractmethod
    def close(self) -> None:
        """Close the connections."""
