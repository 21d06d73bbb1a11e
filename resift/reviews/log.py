"""The log of a review: all that happened, in order, by whom and when. Nothing in it is ever changed."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from resift.contracts.session_store import SessionRecord, SessionStore
from resift.errors import BadInput, NotFound, SessionsUnavailable

_ID = re.compile(r"[\w-]{1,64}", re.ASCII)
_ATTEMPTS = 200
_CHUNK = 250  # events that are stored together
_NEVER = 4_102_444_800  # the year 2100: reviews do not expire
Event = dict[str, Any]


def check_review_id(id: str) -> str:
    """A review's id. Raises BadInput for one that is none."""
    if not _ID.fullmatch(id):
        raise BadInput(f"{id!r} cannot name a review", value=id, expected="1 to 64 letters, digits, _ and -")
    return id


class ReviewLog:
    """The events of the review ``id`` in a ``store`` that several processes may share.

    A chunk of events is one object of the store, which overwrites only the version that was read: of two writers one
    is refused, reads what the other wrote, and decides anew. What :meth:`append` returned survives the process.
    """

    def __init__(self, store: SessionStore, id: str) -> None:
        self.id, self._store = check_review_id(id), store
        self.events: list[Event] = []
        self._chunk, self._version, self._index = 0, None, ""

    def first_event(self) -> Event | None:
        """The event that began the review, read anew without the others; None if there is no such review."""
        stored = self._store.read(self._key(0))
        return None if stored is None else stored.body["events"][0]

    def refresh(self) -> list[Event]:
        """Read what was appended since, by anybody; all events. Raises NotFound if there is no such review any more."""
        while True:
            stored = self._store.read(self._key(self._chunk))
            if stored is None:
                # a chunk that was there is gone, or all before the one that would come next
                if self._version is not None or (self._chunk and self._store.read(self._key(0)) is None):
                    raise _none(self.id)
                return self.events
            self._version, self._index = stored.version, stored.indices[0]
            self.events[self._chunk * _CHUNK :] = stored.body["events"]
            if len(stored.body["events"]) < _CHUNK:
                return self.events
            self._chunk, self._version = self._chunk + 1, None

    def append(self, decide: Callable[[], Sequence[Event]], index: str = "") -> list[Event]:
        """Append the events that ``decide`` makes of all that are there by then; they are stored when this returns.

        ``index``: what is reviewed, of the first events. Raises SessionsUnavailable where the store cannot be written,
        or too many write at once.
        """
        for _ in range(_ATTEMPTS):
            self.refresh()
            made = list(decide())
            if not made:
                return made
            kept = self.events[self._chunk * _CHUNK :]
            fit = made[: _CHUNK - len(kept)]
            body = {"events": [*kept, *fit]}
            stored = SessionRecord(body, _NEVER, [self._index or index], self._version)
            if self._store.write(self._key(self._chunk), stored):
                rest = made[len(fit) :]
                if rest:  # behind whatever others append meanwhile
                    self.append(lambda rest=rest: rest, index)  # type: ignore[misc]
                self.refresh()
                return made
        raise SessionsUnavailable(f"review {self.id!r} is written by too many at once", value=self.id)

    def delete(self) -> None:
        """Delete the review. Raises NotFound if there is none."""
        if not self._store.delete(self._key(0)):
            raise _none(self.id)
        number = 1
        while self._store.delete(self._key(number)):
            number += 1

    def _key(self, chunk: int) -> str:
        return f"{self.id}.{chunk}"


def review_ids(store: SessionStore) -> list[tuple[str, str]]:
    """The id and the index of each review in a store, in the order of their ids."""
    first = ((id, stored) for id, stored in store.scan() if id.endswith(".0"))
    return sorted((id.removesuffix(".0"), stored.indices[0]) for id, stored in first)


def _none(id: str) -> NotFound:
    return NotFound(f"no review {id!r}", value=id, expected="one that was begun")
