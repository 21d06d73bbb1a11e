"""Sessions: who judged what, step by step. What is learned from it is learned anew, so a step can be taken back.

A session is kept as one small JSON object, changed by reading it and writing over the version that was read; where
another writer was faster it is read again. So no replica of the reranker loses what another noted.
"""

from __future__ import annotations

import logging
import random
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from resift.errors import BadInput, SessionBusy, SessionNotFound, SessionsUnavailable
from resift.plugin.session_store import SessionStore, StoredSession
from resift.ranking.judgements import Judgement, effective_judgements

log = logging.getLogger(__name__)
MAX_JUDGEMENTS = 100
MAX_QUERY = 200
_ATTEMPTS = 40
_WAIT, _LONGEST_WAIT = 0.004, 0.25
_PURGE_SECONDS = 60.0
_ID = re.compile(r"[A-Za-z0-9_.:-]{1,128}")


@dataclass(frozen=True)
class Session:
    """A session's judgements in order, and its times in Unix seconds."""

    id: str
    created: float
    expires: float
    judgements: tuple[Judgement, ...] = ()

    @property
    def steps(self) -> int:
        """How many steps can be taken back."""
        return len({judgement.step for judgement in self.judgements})

    @property
    def effective_judgements(self) -> list[Judgement]:
        """The judgements that count now."""
        return effective_judgements(self.judgements)

    def with_step(self, judgements: Sequence[Judgement]) -> Session:
        """With one more step; the oldest steps are forgotten where it would hold more than MAX_JUDGEMENTS."""
        number = self.judgements[-1].step + 1 if self.judgements else 1
        kept = [*self.judgements, *(replace(judgement, step=number) for judgement in judgements)]
        while len(kept) > MAX_JUDGEMENTS:
            oldest = kept[0].step
            kept = [judgement for judgement in kept if judgement.step != oldest]
        return replace(self, judgements=tuple(kept))

    def without_last_step(self) -> Session:
        """One step back. Raises BadInput where none is left."""
        if not self.judgements:
            raise BadInput(f"session {self.id!r} has no step to undo", value=self.id, expected="a session with marks")
        last = self.judgements[-1].step
        return replace(self, judgements=tuple(one for one in self.judgements if one.step != last))


class Sessions:
    """The sessions of a store. ``hours``: how long an unused one lives. ``clock`` gives Unix seconds."""

    def __init__(self, store: SessionStore, hours: float = 24.0, clock: Callable[[], float] = time.time) -> None:
        self.store, self.seconds, self.clock = store, hours * 3600, clock
        self._purged = -_PURGE_SECONDS

    def add(self, id: str, query: str, judgements: Sequence[Judgement]) -> Session:
        """Note one step's judgements; the session begins with the first. SessionBusy if others always were faster.

        Their ``query`` (at most MAX_QUERY characters of it) and time are this call's. Raises BadInput where there are
        more than a session holds.
        """
        if len(judgements) > MAX_JUDGEMENTS:
            raise BadInput(
                f"{len(judgements)} documents are marked at once",
                value=len(judgements),
                expected=f"at most {MAX_JUDGEMENTS}, which is what a session holds",
            )
        query = query[:MAX_QUERY]

        def change(session: Session) -> Session:
            now = round(self.clock(), 3)
            return session.with_step([replace(one, query=query, at=now) for one in judgements])

        return self._change(id, change, create=True)

    def undo(self, id: str) -> Session:
        """Take the last step back. Raises SessionNotFound, BadInput where no step is left."""
        return self._change(id, Session.without_last_step)

    def put(self, id: str, judgements: Sequence[Judgement]) -> Session:
        """Replace what the session holds by these judgements, at most MAX_JUDGEMENTS, in the order of their steps."""
        if len(judgements) > MAX_JUDGEMENTS:
            raise BadInput(f"{len(judgements)} judgements", value=len(judgements), expected=f"at most {MAX_JUDGEMENTS}")
        ordered = sorted((replace(one, query=one.query[:MAX_QUERY]) for one in judgements), key=lambda one: one.step)
        return self._change(id, lambda session: replace(session, judgements=tuple(ordered)), create=True)

    def find(self, id: str) -> Session | None:
        """A session, or None: it is new or has expired. Finding it puts its end off."""
        session, kept = self._read(id)
        if session is None or kept is None:
            return None
        expires = self.clock() + self.seconds
        if expires - session.expires > self.seconds / 100:
            session = replace(session, expires=expires)
            with suppress(SessionsUnavailable):
                self.store.write(id, replace(kept, expires=expires))  # who was faster has put it off too
        return session

    def get(self, id: str) -> Session:
        """A session. Raises SessionNotFound."""
        found = self.find(id)
        if found is None:
            raise _not_found(id)
        return found

    def delete(self, id: str) -> None:
        """Forget a session. Raises SessionNotFound."""
        if not self.store.delete(check_id(id)):
            raise _not_found(id)

    def judgements(self, index: str) -> Iterator[Judgement]:
        """What counts now of every session's judgements of an index's documents, without telling whose they are."""
        now = self.clock()
        for kept in self.store.scan(index):
            if kept.expires >= now:
                yield from (one for one in _decoded("", kept).effective_judgements if one.index == index)

    def purge(self) -> int:
        """Delete all expired sessions; how many."""
        return self.store.purge(self.clock())

    def _read(self, id: str) -> tuple[Session | None, StoredSession | None]:
        """The session, None if it has expired, and what is kept of it, None if there is nothing."""
        kept = self.store.read(check_id(id))
        if kept is None or kept.expires < self.clock():
            return None, kept
        return _decoded(id, kept), kept

    def _change(self, id: str, change: Callable[[Session], Session], create: bool = False) -> Session:
        for attempt in range(_ATTEMPTS):
            session, kept = self._read(id)
            now = self.clock()
            if session is None:
                if not create:
                    raise _not_found(id)
                session = Session(id, round(now, 3), now)
            changed = replace(change(session), expires=now + self.seconds)
            if self.store.write(id, _encoded(changed, kept.version if kept else None)):
                self._purge_now_and_then(now)
                return changed
            time.sleep(random.uniform(0, min(_LONGEST_WAIT, _WAIT * 2**attempt)))
        raise SessionBusy(
            f"session {id!r} was changed by others {_ATTEMPTS} times in a row; nothing was noted",
            value=id,
            expected="try again",
        )

    def _purge_now_and_then(self, now: float) -> None:
        if now - self._purged > _PURGE_SECONDS:
            self._purged = now
            try:
                self.store.purge(now, wait=False)
            except SessionsUnavailable as error:  # what was asked for is done; the next ones purge
                log.warning("expired sessions were not purged: %s", error.message)


def check_id(session: str) -> str:
    """``session`` if it can name one, else BadInput."""
    if not isinstance(session, str) or not _ID.fullmatch(session):
        raise BadInput("malformed session id", value=session, expected="1 to 128 letters, digits and _ . : -")
    return session


def _not_found(id: str) -> SessionNotFound:
    return SessionNotFound(f"no session {id!r}", value=id, expected="a session with marks, not expired")


def _encoded(session: Session, version: Any) -> StoredSession:
    """Queries and indices are written once, times as milliseconds since the session began."""
    queries = list(dict.fromkeys(one.query for one in session.judgements))
    indices = list(dict.fromkeys(one.index for one in session.judgements))
    rows = [
        [
            one.step,
            round((one.at - session.created) * 1000),
            queries.index(one.query),
            indices.index(one.index),
            one.document,
            int(one.grade) if one.grade == int(one.grade) else one.grade,
        ]
        for one in session.judgements
    ]
    return StoredSession({"at": session.created, "q": queries, "j": rows}, session.expires, indices, version)


def _decoded(id: str, kept: StoredSession) -> Session:
    created, queries = kept.body["at"], kept.body["q"]
    judgements = [
        Judgement(kept.indices[index], document, float(grade), queries[query], round(created + at / 1000, 3), step)
        for step, at, query, index, document, grade in kept.body["j"]
    ]
    return Session(id, created, kept.expires, tuple(judgements))
