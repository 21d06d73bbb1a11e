"""Where sessions are stored: a small contract with two implementations, an SQLite file and an OpenSearch index.

A store knows nothing of what a session means. It holds a JSON object under an id, and overwrites only the version
that was read (optimistic concurrency), so that several processes may share it and none undoes another's change.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

PURGE_BATCH = 2_000
SEARCH_TIMEOUT = 0.5  # that a search waits for its session: it goes on without, and all of it may take a second


@dataclass(frozen=True)
class SessionRecord:
    """A session as it is stored: its JSON ``body``, when it ``expires`` (Unix seconds), and the ``indices`` it names.

    ``version`` is the store's own mark of the write that it comes from, None for a session that is not stored yet.
    A store gives what it holds, and None for what is no JSON: whoever reads it has to check its form.
    """

    body: Any
    expires: Any
    indices: Any
    version: Any = None


class SessionStore(ABC):
    """A store of sessions. Every method raises SessionsUnavailable if the store does not answer, or refuses.

    Without ``wait`` it does so after SEARCH_TIMEOUT.
    """

    @abstractmethod
    def read(self, id: str, wait: bool = True) -> SessionRecord | None:
        """Return a session as anybody last wrote it, whether it has expired or not; None if there is none."""

    @abstractmethod
    def write(self, id: str, session: SessionRecord, wait: bool = True) -> bool:
        """Write a session if the stored one still has ``session.version``, or for None if there is none yet.

        Returns True if it was written, and then the write survives a restart. Returns False, and changes nothing, if
        somebody else wrote first.
        """

    @abstractmethod
    def delete(self, id: str) -> bool:
        """Delete a session; return whether there was one."""

    @abstractmethod
    def scan(self, index: str | None = None) -> Iterator[tuple[str, SessionRecord]]:
        """Return the id of each session, or of each that names an index, and what is stored of it.

        They come in no particular order and without their versions.
        """

    @abstractmethod
    def delete_index(self, index: str) -> int:
        """Delete all sessions that name an index; return how many there were."""

    @abstractmethod
    def purge(self, before: float, wait: bool = True) -> int:
        """Delete the sessions that expired before the time ``before`` (Unix seconds); return how many.

        Without ``wait`` at most PURGE_BATCH of them are deleted, which takes no more than a moment.
        """

    @abstractmethod
    def close(self) -> None:
        """Close the connections."""
