"""The append-only log of a review: all events in order, with their author and time."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from resift.contracts.session_store import SessionRecord, SessionStore
from resift.errors import BadInput, NotFound, SessionsUnavailable

_ID = re.compile(r"[\w-]{1,64}", re.ASCII)
_ATTEMPTS = 200  # maximum number of attempts to write
_CHUNK = 250  # maximum number of events in a stored object
_NEVER = 4_102_444_800  # expiry time of reviews, which do not expire: the year 2100, in Unix seconds
Event = dict[str, Any]


def check_review_id(id: str) -> str:
    """Check that a review id consists of 1 to 64 letters, digits, underscores and hyphens, and return the id.

    Args:
        id: The id to check.

    Raises:
        BadInput: If the id is not valid.
    """
    if not _ID.fullmatch(id):
        raise BadInput(f"{id!r} is not a valid review id", value=id, expected="1 to 64 letters, digits, _ and -")
    return id


class ReviewLog:
    """The log of everything that happened in a review, in a store that several processes may share.

    Events are stored in chunks of up to 250. A process overwrites a chunk only if the chunk has not changed since the
    process read it. If two processes write at the same time, the second write fails. The second process then reads the
    new events and computes its own events again.

    Args:
        store: The store, which may also contain other reviews.
        id: The id of the review.

    Attributes:
        id: The id of the review.
        events: All events that this object has read so far, in order.
    """

    def __init__(self, store: SessionStore, id: str) -> None:
        self.id = check_review_id(id)
        self.events: list[Event] = []
        self._store = store
        self._chunk = 0  # number of the last chunk
        self._version: Any = None  # the store's version of the last chunk
        self._index = ""  # name of the reviewed index

    def first_event(self) -> Event | None:
        """Read and return the event that started the review, or None if the review does not exist."""
        stored = self._store.read(self._key(0))
        return None if stored is None else stored.body["events"][0]

    def refresh(self) -> list[Event]:
        """Read the events that were added to the log since the last call, and return all events.

        Raises:
            NotFound: If the review has been deleted.
        """
        while True:
            stored = self._store.read(self._key(self._chunk))
            if stored is None:
                # The review was deleted if this process has read the chunk before, or if the first chunk is missing.
                if self._version is not None or (self._chunk and self._store.read(self._key(0)) is None):
                    raise _not_found(self.id)
                return self.events
            self._version, self._index = stored.version, stored.indices[0]
            if self._chunk and stored.body.get("began", self._start_time) != self._start_time:
                return self.events  # the chunk belongs to a deleted review with the same id, and will be overwritten
            self.events[self._chunk * _CHUNK :] = stored.body["events"]
            if len(stored.body["events"]) < _CHUNK:
                return self.events
            self._chunk, self._version = self._chunk + 1, None

    def append(self, decide: Callable[[], Sequence[Event]], index: str = "") -> list[Event]:
        """Append events to the log.

        The new events may depend on the existing events, so they are computed by a function. It is called after all
        existing events have been read.

        Args:
            decide: A function without arguments that returns the new events. It is called again if another process has
                stored events in the meantime.
            index: The name of the reviewed index. It is needed only for the first event of a review.

        Returns:
            The new events. They have been stored.

        Raises:
            SessionsUnavailable: If the store cannot be written, or too many processes write at the same time.
            NotFound: If the review was deleted in the meantime.
        """
        for _ in range(_ATTEMPTS):
            self.refresh()
            new = list(decide())
            if not new:
                return new
            chunk = self.events[self._chunk * _CHUNK :]
            fitting = new[: _CHUNK - len(chunk)]
            body = {"events": [*chunk, *fitting], "began": self._start_time or new[0].get("at")}
            record = SessionRecord(body, _NEVER, [self._index or index], self._version)
            if self._store.write(self._key(self._chunk), record):
                rest = new[len(fitting) :]
                if rest:  # after events that others may append in between
                    self.append(lambda rest=rest: rest, index)  # type: ignore[misc]
                self.refresh()
                return new
        message = f"too many processes write to review {self.id!r} at the same time"
        raise SessionsUnavailable(message, value=self.id, expected="another try later")

    def delete(self) -> None:
        """Delete the review with all its events from the store. Raise NotFound if the review does not exist."""
        if not self._store.delete(self._key(0)):
            raise _not_found(self.id)
        number = 1
        while self._store.delete(self._key(number)):
            number += 1

    @property
    def _start_time(self) -> Any:
        """The time of the first event, which distinguishes this review from a deleted review with the same id."""
        return self.events[0].get("at") if self.events else None

    def _key(self, chunk: int) -> str:
        return f"{self.id}.{chunk}"


def size_in_bytes(events: Sequence[Event]) -> int:
    """Return the approximate number of bytes that events of a review occupy in the store, which quotas limit."""
    return len(json.dumps(events))


def list_reviews(store: SessionStore) -> list[tuple[str, str]]:
    """Return the reviews in a store, as pairs of a review id and the name of its index, sorted by id."""
    first = ((id, indices) for id, indices in store.scan_indices() if id.endswith(".0"))
    return sorted((id.removesuffix(".0"), indices[0]) for id, indices in first)


def _not_found(id: str) -> NotFound:
    return NotFound(f"no review {id!r}", value=id, expected="an existing review")
