"""Where sessions are kept: a small contract with two implementations, an SQLite file and an OpenSearch index.

A store knows nothing of what a session means. It keeps a JSON object under an id, and writes only over the version
that was read (optimistic concurrency), so that several processes may share it and none undoes another's change.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

PURGED_AT_ONCE = 2_000


@dataclass(frozen=True)
class StoredSession:
    """A session as it is kept: its JSON ``body``, when it ``expires`` (Unix seconds), and the ``indices`` it names.

    ``version`` is the store's own, None for one that is not kept yet.
    """

    body: dict[str, Any]
    expires: float
    indices: list[str]
    version: Any = None


class SessionStore(ABC):
    """A store of sessions. Whatever keeps it from answering is SessionsUnavailable."""

    @abstractmethod
    def read(self, id: str) -> StoredSession | None:
        """A session, expired or not, as it was last written by anybody; None if there is none."""

    @abstractmethod
    def write(self, id: str, kept: StoredSession) -> bool:
        """Write if the session still has ``kept.version`` (None: does not exist); else False, and nothing is written.

        Once it is True the write survives a restart.
        """

    @abstractmethod
    def delete(self, id: str) -> bool:
        """Delete a session; whether there was one."""

    @abstractmethod
    def scan(self, index: str) -> Iterator[StoredSession]:
        """All sessions that name an index, in no particular order, without their versions."""

    @abstractmethod
    def delete_index(self, index: str) -> int:
        """Delete all sessions that name ``index``; how many there were."""

    @abstractmethod
    def purge(self, before: float, wait: bool = True) -> int:
        """Delete sessions that expired before that time; how many.

        Without ``wait`` at most PURGED_AT_ONCE, which takes no more than a moment.
        """

    @abstractmethod
    def count(self) -> int:
        """How many sessions there are, expired ones included."""

    @abstractmethod
    def close(self) -> None:
        """Let go of connections."""
