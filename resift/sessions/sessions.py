"""Sessions: the judgements of one search task, step by step.

Only judgements are kept. What follows from them is learned anew each time, so a step can be undone exactly.

A session is stored as one small JSON object. It is changed by writing over the version that was read; where another
writer was faster, that fails, and it is read and changed again (optimistic concurrency). So no replica of the reranker
loses what another one stored.
"""

from __future__ import annotations

import json
import logging
import random
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from resift.contracts.session_store import SessionRecord, SessionStore
from resift.errors import (
    BadInput,
    SessionBusy,
    SessionDamaged,
    SessionNotFound,
    SessionsUnavailable,
    TextTooLong,
    shorten,
)
from resift.feedback.judgements import SOURCES, Judgement, source_from_grade
from resift.sessions.quotas import Quotas

log = logging.getLogger(__name__)
MAX_JUDGEMENTS = 100
MAX_QUERY = 200
MAX_DOCUMENT_ID = 512  # bytes: OpenSearch's own limit
MAX_INDEX = 1024  # bytes: one name has at most 255, but a list may be named, and OpenSearch takes an address of 4096
MAX_TIME = 1e11  # Unix seconds, in the year 5138; after 9999 they are no date
_ATTEMPTS = 40
_WAIT, _MAX_WAIT = 0.004, 0.25  # seconds
_PURGE_SECONDS = 60.0
Time = Annotated[float, Meta(ge=0, le=MAX_TIME)]  # Unix seconds
_Whole = Annotated[int, Meta(ge=0, lt=2**53)]
_Grade = Annotated[float, Meta(ge=-1, le=1)]
_IndexName = Annotated[str, Meta(min_length=1, max_length=MAX_INDEX)]
# A weaker judgement does not replace a stronger one.
_STRENGTH = {"skip": 0, "click": 1, "mark": 2, "model": 2}
_ID = re.compile(r"[A-Za-z0-9_.:-]{1,128}")


class SessionCaller:
    """Who asks, where there are no keys; what knows keys derives from it. ``name``: that of their key."""

    name: str | None = None

    def may_use(self, owner: str | None) -> bool:
        """Whether a session that the key of this name began is theirs to use."""
        return True


@dataclass(frozen=True)
class StoredSession:
    """A session's judgements in order, and its times in Unix seconds.

    ``owner``: the name of the API key that began it, None if it began without one.
    """

    id: str
    created: float
    expires: float
    judgements: tuple[Judgement, ...] = ()
    owner: str | None = None

    @property
    def steps(self) -> int:
        """How many steps can be undone."""
        return len({judgement.step for judgement in self.judgements})

    @property
    def effective_judgements(self) -> list[Judgement]:
        """Of all judgements those that count now, at most one a document."""
        return effective_judgements(self.judgements)

    def with_step(self, judgements: Sequence[Judgement]) -> StoredSession:
        """The session with one more step. Beyond MAX_JUDGEMENTS its oldest steps are dropped."""
        number = self.judgements[-1].step + 1 if self.judgements else 1
        extended = [*self.judgements, *(replace(judgement, step=number) for judgement in judgements)]
        while len(extended) > MAX_JUDGEMENTS:
            # whole steps: half of one could not be undone
            oldest = extended[0].step
            extended = [judgement for judgement in extended if judgement.step != oldest]
        return replace(self, judgements=tuple(extended))

    def without_last_step(self) -> StoredSession:
        """The session one step back. Raises BadInput if it has no step."""
        if not self.judgements:
            raise BadInput(f"session {self.id!r} has no step to undo", value=self.id, expected="a session with marks")
        last = self.judgements[-1].step
        return replace(self, judgements=tuple(one for one in self.judgements if one.step != last))


def effective_judgements(judgements: Sequence[Judgement]) -> list[Judgement]:
    """Of all judgements of a session those that count, in the order in which their documents were first judged.

    Of each document the latest counts, except that a click or a skip does not replace a mark or a model's score, nor a
    skip a click: they say less.

    >>> marks = [Judgement("i", "a", 1), Judgement("i", "b", -0.25, source="skip")]
    >>> clicks = [Judgement("i", document, 0.5, source="click") for document in "ab"]
    >>> [(judgement.document, judgement.grade) for judgement in effective_judgements([*marks, *clicks])]
    [('a', 1), ('b', 0.5)]
    """
    latest: dict[tuple[str, str], Judgement] = {}
    for judgement in judgements:
        key = (judgement.index, judgement.document)
        earlier = latest.get(key)
        if earlier is None or not earlier.grade or _STRENGTH[judgement.source] >= _STRENGTH[earlier.source]:
            latest[key] = judgement
    return [judgement for judgement in latest.values() if judgement.grade]


class Sessions:
    """The sessions in a store. ``hours``: how long an unused session lives. ``clock`` gives Unix seconds.

    ``caller`` gives who asks, at each call. A session that is not theirs is as good as none (SessionNotFound), and
    cannot be begun by them either. ``quotas`` bound what a caller's key stores.

    Every method raises SessionsUnavailable if the store does not answer, BadInput for a malformed id, SessionDamaged
    where what is stored under an id is no session; such a one can be deleted, and is left out among others.
    """

    def __init__(
        self,
        store: SessionStore,
        hours: float = 24.0,
        clock: Callable[[], float] = time.time,
        caller: Callable[[], SessionCaller] = SessionCaller,
        quotas: Quotas | None = None,
    ) -> None:
        self.store, self.seconds, self.clock, self.caller = store, hours * 3600, clock, caller
        self.quotas = quotas or Quotas()
        self._purged = -_PURGE_SECONDS

    def add(self, id: str, query: str, judgements: Sequence[Judgement]) -> StoredSession:
        """Add a step of judgements to a session, which begins with its first step, and return it.

        Their ``query`` (the first MAX_QUERY characters of it) and time are those of this call. Raises what
        :func:`check_judgements` raises, SessionNotFound if the id is another caller's, QuotaExceeded, SessionBusy if
        other writers were always faster.
        """
        check_judgements(judgements)
        query = query[:MAX_QUERY]

        def change(session: StoredSession) -> StoredSession:
            now = round(self.clock(), 3)
            return session.with_step([replace(one, query=query, at=now) for one in judgements])

        return self._change(id, change, len(judgements))

    def undo(self, id: str) -> StoredSession:
        """Undo the last step. Raises SessionNotFound, BadInput if there is no step, and SessionBusy."""
        return self._change(id, StoredSession.without_last_step)

    def find(self, id: str, any_owner: bool = False, wait: bool = False) -> StoredSession | None:
        """A session; None if it is new, has expired or is not the caller's. To find it postpones its expiry.

        ``any_owner``: whoever knows its id may have it. Through a search pipeline, it is the cluster that asks.
        ``wait``: as long as the store takes; a search is not kept waiting for its session, nor for others who write.
        """
        try:
            session, stored = self._read(id, any_owner, wait)
        except SessionNotFound:
            return None
        if session is None or stored is None:
            return None
        expires = self.clock() + self.seconds
        # not at every search, which would cost a write each time
        if expires - session.expires > self.seconds / 100:
            session = replace(session, expires=expires)
            with suppress(SessionsUnavailable):
                # a writer who was faster has postponed it as well
                self.store.write(id, replace(stored, expires=expires), wait=False)
        return session

    def peek(self, id: str) -> StoredSession | None:
        """A session of the caller's, whose expiry stays as it is; None if there is none, or it has expired."""
        return self._read(id)[0]

    def get(self, id: str) -> StoredSession:
        """A session. Raises SessionNotFound."""
        found = self.find(id, wait=True)
        if found is None:
            raise _not_found(id)
        return found

    def delete(self, id: str) -> None:
        """Delete a session. Raises SessionNotFound."""
        with suppress(SessionDamaged):
            self._read(id)
        if not self.store.delete(id):
            raise _not_found(id)

    def judgements(self, index: str) -> Iterator[tuple[str, Judgement]]:
        """The effective judgements of an index's documents in all sessions, each with its session's id."""
        for session in self._scanned(index):
            yield from ((session.id, one) for one in session.effective_judgements if one.index == index)

    def all(self) -> Iterator[StoredSession]:
        """The caller's sessions that have not expired, in no particular order."""
        caller = self.caller()
        return (session for session in self._scanned() if caller.may_use(session.owner))

    def _scanned(self, index: str | None = None) -> Iterator[StoredSession]:
        """All sessions, or those that name an index, which have not expired and are in order."""
        now = self.clock()
        for id, stored in self.store.scan(index):
            if not is_id(id):  # something else that is kept beside them, such as a trial
                continue
            try:
                session = _decoded(id, stored)
            except SessionDamaged as error:
                log.warning("left out: %s", error.message)
                continue
            if session.expires >= now:
                yield session

    def _read(
        self, id: str, any_owner: bool = False, wait: bool = True
    ) -> tuple[StoredSession | None, SessionRecord | None]:
        """The session, None if it is new or has expired, and what is stored under its id, None if nothing is.

        Raises SessionNotFound for a session that is not the caller's, whatever it holds.
        """
        stored = self.store.read(check_id(id), wait)
        if stored is None or (isinstance(stored.expires, (int, float)) and stored.expires < self.clock()):
            return None, stored
        if not any_owner and isinstance(stored.body, dict) and not self.caller().may_use(stored.body.get("o")):
            raise _not_found(id)
        return _decoded(id, stored), stored

    def _read_or_taken(self, id: str) -> tuple[StoredSession | None, SessionRecord | None]:
        """What :meth:`_read` gives, where a session may begin; SessionNotFound says that it cannot under this id."""
        try:
            return self._read(id)
        except SessionNotFound:
            raise SessionNotFound(f"no session {id!r} of yours", value=id, expected="another id") from None

    def _change(
        self, id: str, change: Callable[[StoredSession], StoredSession], marks: int | None = None
    ) -> StoredSession:
        """Change a session; one that begins with it, or gets more, gets so many ``marks``."""
        key = self.caller().name
        for attempt in range(_ATTEMPTS):
            session, stored = self._read(id) if marks is None else self._read_or_taken(id)
            if session is None and marks is None:
                raise _not_found(id)
            now, begun = self.clock(), session is None
            if marks is not None:
                self.quotas.check(key, "marks", "bytes", *(["sessions"] if begun else []))
            changed = replace(
                change(session or StoredSession(id, round(now, 3), now, owner=key)), expires=now + self.seconds
            )
            written = _encoded(changed, stored.version if stored else None)
            if self.store.write(id, written):
                self.quotas.count(key, marks=marks or 0, sessions=int(begun), bytes=len(json.dumps(written.body)))
                self._purge_now_and_then(now)
                return changed
            # a random share of a growing wait: writers who collided once would collide again
            time.sleep(random.uniform(0, min(_MAX_WAIT, _WAIT * 2**attempt)))
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
            except SessionsUnavailable as error:
                # the caller's own change is stored already, and a later one purges
                log.warning("expired sessions were not purged: %s", error.message)


def is_id(session: object) -> bool:
    """Whether something is a well-formed session id."""
    return isinstance(session, str) and _ID.fullmatch(session) is not None


def check_id(session: str) -> str:
    """Return ``session`` if it is a well-formed session id; raise BadInput if it is not."""
    if not is_id(session):
        raise BadInput(
            f"malformed session id {shorten(session)!r}", value=session, expected="1 to 128 letters, digits and _ . : -"
        )
    return session


def check_judgements(judgements: Sequence[Judgement]) -> None:
    """Raise BadInput for more than MAX_JUDGEMENTS, and for ids and names of indices that are no Unicode text, and
    TextTooLong for those that are too long."""
    if len(judgements) > MAX_JUDGEMENTS:
        raise BadInput(
            f"{len(judgements)} documents are marked at once",
            value=len(judgements),
            expected=f"at most {MAX_JUDGEMENTS}, which is what a session holds",
        )
    for one in judgements:
        for what, value, most in (
            ("document's id", one.document, MAX_DOCUMENT_ID),
            ("index's name", one.index, MAX_INDEX),
        ):
            try:
                size = len(value.encode())
            except UnicodeEncodeError:
                raise BadInput(f"the {what} holds a lone surrogate", value=value, expected="Unicode text") from None
            if size > most:
                raise TextTooLong(f"the {what} has {size} bytes", value=value, expected=f"at most {most} bytes")


def _not_found(id: str) -> SessionNotFound:
    return SessionNotFound(f"no session {id!r}", value=id, expected="a session with marks, not expired")


def _encoded(session: StoredSession, version: Any) -> SessionRecord:
    """What is stored of a session: queries and indices once each, times as milliseconds since it was created."""
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
    # sources stand beside the rows, of which version 0.1 unpacks six values: replicas are restarted one by one
    sources = [SOURCES.index(one.source) for one in session.judgements]
    body = {"at": session.created, "q": queries, "j": rows, "s": sources}
    if session.owner is not None:
        body["o"] = session.owner
    return SessionRecord(body, session.expires, indices, version)


class _Body(msgspec.Struct):
    """What is stored of a session. Those of earlier versions have neither sources nor an owner."""

    at: Time
    q: list[str]
    j: list[tuple[_Whole, float, _Whole, _Whole, Annotated[str, Meta(min_length=1)], _Grade]]
    s: list[_Whole] | None = None
    o: str | None = None


def _decoded(id: str, stored: SessionRecord) -> StoredSession:
    """The session that is stored. Raises SessionDamaged where something else is."""
    try:
        body, expires = msgspec.convert(stored.body, _Body), msgspec.convert(stored.expires, Time)
        indices = msgspec.convert(stored.indices, list[_IndexName])
        sources = [source_from_grade(row[5]) for row in body.j] if body.s is None else [SOURCES[at] for at in body.s]
        judgements = [
            Judgement(indices[index], document, grade, body.q[query], round(body.at + at / 1000, 3), step, source)
            for (step, at, query, index, document, grade), source in zip(body.j, sources, strict=True)
        ]
        for one in judgements:
            msgspec.convert(one.at, Time)
            f"{one.index}{one.document}{one.query}".encode()  # lone surrogates are no text
        "".join([body.o or "", *body.q, *indices]).encode()
    except (LookupError, OverflowError, ValueError, msgspec.ValidationError):
        raise SessionDamaged(
            f"session {id!r} is damaged", value=id, expected="what Resift stored; deleted, it can begin anew"
        ) from None
    return StoredSession(id, body.at, expires, tuple(judgements), body.o)
