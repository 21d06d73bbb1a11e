"""Sessions: the judgements of a user's search task, step by step.

Only judgements are stored. Everything else is learned from them at each search, so undoing a step restores the exact
earlier state.

A session is stored as a small JSON object. A change is only written if the stored version is the version that was read.
Otherwise it is repeated with the new version (optimistic concurrency). So replicas of the service never lose each
other's changes.
"""

from __future__ import annotations

import json
import logging
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from resift.contracts.documents import MAX_ID_BYTES
from resift.contracts.search_options import is_session_id
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
from resift.feedback.judgements import SOURCES, Judgement
from resift.sessions.quotas import Quotas

log = logging.getLogger(__name__)
MAX_JUDGEMENTS = 100  # maximum number of judgements in a session
MAX_QUERY = 200  # number of characters of a query that are stored
# Bytes of an index name. A single name has at most 255, but a list of names is possible, and OpenSearch accepts URLs of
# 4096 bytes.
MAX_INDEX = 1024
MAX_TIME = 1e11  # Unix seconds, in the year 5138; dates after the year 9999 cannot be represented
_ATTEMPTS = 40  # maximum number of attempts to write a session
_WAIT, _MAX_WAIT = 0.004, 0.25  # seconds between attempts
_PURGE_SECONDS = 60.0  # interval of purging expired sessions
Time = Annotated[float, Meta(ge=0, le=MAX_TIME)]  # Unix seconds
_Whole = Annotated[int, Meta(ge=0, lt=2**53)]
_Grade = Annotated[float, Meta(ge=-1, le=1)]
_IndexName = Annotated[str, Meta(min_length=1, max_length=MAX_INDEX)]
# A weaker judgement does not replace a stronger one.
STRENGTH = {"skip": 0, "click": 1, "mark": 2, "model": 2}


class SessionCaller:
    """The caller of a request, who may be restricted to certain sessions.

    This class allows all sessions. The service uses a subclass that restricts callers with API keys to their own
    sessions.

    Attributes:
        name: The name of the caller's API key, or None if the service has no keys.
    """

    name: str | None = None

    def may_use(self, owner: str | None) -> bool:
        """Return whether the caller may use a session.

        This class allows every session. Subclasses can restrict callers to their own sessions.

        Args:
            owner: The name of the API key that created the session, or None if it was created without a key.
        """
        return True


@dataclass(frozen=True)
class StoredSession:
    """A search session, which contains a user's relevance judgements.

    Judgements that were added together form a step. The last step can be undone.

    Attributes:
        id: The id of the session.
        created: The time of creation in Unix seconds.
        expires: The expiry time in Unix seconds.
        judgements: All judgements, oldest first, including judgements that later judgements replace.
        owner: The name of the API key that created the session, or None if it was created without a key.
    """

    id: str
    created: float
    expires: float
    judgements: tuple[Judgement, ...] = ()
    owner: str | None = None

    @property
    def steps(self) -> int:
        """The number of steps that can be undone."""
        return len({judgement.step for judgement in self.judgements})

    @property
    def effective_judgements(self) -> list[Judgement]:
        """The judgements that count, at most one for each document.

        Judgements that were withdrawn, or that a later judgement of the same document replaced, are left out.
        """
        return effective_judgements(self.judgements)

    def with_step(self, judgements: Sequence[Judgement]) -> StoredSession:
        """Return a copy of the session with additional judgements, which form a new step.

        If there are then more than MAX_JUDGEMENTS judgements, the oldest steps are dropped.

        Args:
            judgements: The additional judgements. Their attribute ``step`` is ignored.
        """
        number = self.judgements[-1].step + 1 if self.judgements else 1
        extended = [*self.judgements, *(replace(judgement, step=number) for judgement in judgements)]
        while len(extended) > MAX_JUDGEMENTS:
            # Drop whole steps, because an incomplete step could not be undone.
            oldest = extended[0].step
            extended = [judgement for judgement in extended if judgement.step != oldest]
        return replace(self, judgements=tuple(extended))

    def without_last_step(self) -> StoredSession:
        """Return a copy of the session without its last step, the judgements that were added last.

        Raises:
            BadInput: If the session contains no judgements.
        """
        if not self.judgements:
            raise BadInput(f"session {self.id!r} has no step to undo", value=self.id, expected="a session with marks")
        last = self.judgements[-1].step
        return replace(self, judgements=tuple(judgement for judgement in self.judgements if judgement.step != last))


def effective_judgements(judgements: Sequence[Judgement]) -> list[Judgement]:
    """Return the judgements that count: at most one for each document, in the order of first judgement.

    The latest judgement of a document usually counts. But clicks and skipped hits do not replace a mark or a model's
    score, and a skipped hit does not replace a click, because they are weaker evidence. Judgements with grade 0, which
    withdraw earlier judgements, are left out.

    >>> marks = [Judgement("i", "a", 1), Judgement("i", "b", -0.25, source="skip")]
    >>> clicks = [Judgement("i", document, 0.5, source="click") for document in "ab"]
    >>> [(judgement.document, judgement.grade) for judgement in effective_judgements([*marks, *clicks])]
    [('a', 1), ('b', 0.5)]
    """
    latest: dict[tuple[str, str], Judgement] = {}
    for judgement in judgements:
        key = judgement.key
        earlier = latest.get(key)
        if earlier is None or not earlier.grade or STRENGTH[judgement.source] >= STRENGTH[earlier.source]:
            latest[key] = judgement
    return [judgement for judgement in latest.values() if judgement.grade]


class Sessions:
    """Reads and changes the sessions in a session store.

    A caller can only use the sessions of its own API key. Sessions of other callers appear not to exist, and their ids
    cannot be used for new sessions.

    A damaged session can be deleted. Methods that return several sessions leave out damaged sessions.

    Args:
        store: The session store, which contains the sessions of all callers.
        hours: The number of hours after which an unused session expires.
        clock: A function that returns the time in Unix seconds.
        caller: A function that returns the caller of the current request.
        quotas: Daily limits on the storage of each API key. By default there are no limits.

    Raises:
        SessionsUnavailable: If the store does not respond. Every method can raise this error.
        BadInput: If a session id is malformed. Every method can raise this error.
        SessionDamaged: If the stored data is not a valid session. Every method can raise this error.
    """

    def __init__(
        self,
        store: SessionStore,
        hours: float = 24.0,
        clock: Callable[[], float] = time.time,
        caller: Callable[[], SessionCaller] = SessionCaller,
        quotas: Quotas | None = None,
    ) -> None:
        self.store = store
        self.seconds = hours * 3600
        self.clock = clock
        self.caller = caller
        self.quotas = quotas or Quotas()
        self._purged = -_PURGE_SECONDS

    def add(self, id: str, query: str, judgements: Sequence[Judgement]) -> StoredSession:
        """Add judgements to a session, and return the changed session. A missing session is created.

        The judgements form a step, which :meth:`undo` removes as a whole.

        Args:
            id: The id of the session.
            query: The query for which the documents were judged. The first MAX_QUERY characters are stored.
            judgements: The judgements. Their query is set to ``query``, and their time to the current time.

        Raises:
            SessionNotFound: If the id belongs to another caller's session.
            QuotaExceeded: If the caller's API key has reached a daily limit.
            SessionBusy: If other writers changed the session during every attempt.
            BadInput: If there are too many judgements, or an id or index name is not Unicode text.
            TextTooLong: If a document id or index name is too long.
        """
        check_judgements(judgements)
        query = query[:MAX_QUERY]

        def change(session: StoredSession) -> StoredSession:
            now = round(self.clock(), 3)
            return session.with_step([replace(judgement, query=query, at=now) for judgement in judgements])

        return self._change(id, change, len(judgements))

    def undo(self, id: str) -> StoredSession:
        """Remove the judgements that were added to a session last, and return the changed session.

        Args:
            id: The id of the session.

        Raises:
            SessionNotFound: If the session does not exist.
            BadInput: If the session has no judgements.
            SessionBusy: If concurrent writes changed the session during every attempt.
        """
        return self._change(id, StoredSession.without_last_step)

    def find(self, id: str, any_owner: bool = False, wait: bool = False) -> StoredSession | None:
        """Return a session and extend its lifetime.

        Args:
            id: The id of the session.
            any_owner: Whether to return sessions of other callers, too. This is needed for requests from a search
                pipeline of OpenSearch, where the caller is the cluster and not the user.
            wait: Whether to wait for a slow store. If False, SessionsUnavailable is raised if the store does not
                respond within half a second, so that searches are not delayed.

        Returns:
            The session, or None if it does not exist, has expired or belongs to another caller.
        """
        try:
            session, stored = self._read(id, any_owner, wait)
        except SessionNotFound:
            return None
        if session is None or stored is None:
            return None
        expires = self.clock() + self.seconds
        # Postpone in steps of 1 % of the lifetime, to avoid a write at every search.
        if expires - session.expires > self.seconds / 100:
            session = replace(session, expires=expires)
            with suppress(SessionsUnavailable):
                # This fails if another writer was faster, who has then postponed the expiry as well.
                self.store.write(id, replace(stored, expires=expires), wait=False)
        return session

    def peek(self, id: str) -> StoredSession | None:
        """Return a session without extending its lifetime, or None if it does not exist or has expired.

        Args:
            id: The id of the session.

        Raises:
            SessionNotFound: If the session belongs to another caller.
        """
        return self._read(id)[0]

    def get(self, id: str) -> StoredSession:
        """Return a session and extend its lifetime.

        Args:
            id: The id of the session.

        Raises:
            SessionNotFound: If the session does not exist.
        """
        session = self.find(id, wait=True)
        if session is None:
            raise _not_found(id)
        return session

    def delete(self, id: str) -> None:
        """Delete a session with all its judgements.

        Args:
            id: The id of the session.

        Raises:
            SessionNotFound: If the session does not exist.
        """
        with suppress(SessionDamaged):
            self._read(id)
        if not self.store.delete(id):
            raise _not_found(id)

    def judgements(self, index: str) -> Iterator[tuple[str, Judgement]]:
        """Yield the judgements of documents in an index, from the sessions of all callers.

        Judgements that were replaced or withdrawn are skipped (see :func:`effective_judgements`).

        Args:
            index: The name of the index.

        Yields:
            Pairs of a session id and a judgement.
        """
        for session in self._scan(index):
            judgements = session.effective_judgements
            yield from ((session.id, judgement) for judgement in judgements if judgement.index == index)

    def all_of_caller(self) -> Iterator[StoredSession]:
        """Return an iterator over all sessions that the current caller may use, in no particular order.

        Expired sessions are left out.
        """
        caller = self.caller()
        return (session for session in self._scan() if caller.may_use(session.owner))

    def _scan(self, index: str | None = None) -> Iterator[StoredSession]:
        """Yield the sessions of all callers in the store. Expired and damaged sessions are skipped.

        Args:
            index: The name of an index. If given, only sessions with judgements in this index are yielded.
        """
        now = self.clock()
        for id, stored in self.store.scan(index):
            if not is_session_id(id):  # other objects in the same store, such as a trial
                continue
            try:
                session = _from_record(id, stored)
            except SessionDamaged as error:
                log.warning("a damaged session is ignored: %s", error.message)
                continue
            if session.expires >= now:
                yield session

    def _read(
        self, id: str, any_owner: bool = False, wait: bool = True
    ) -> tuple[StoredSession | None, SessionRecord | None]:
        """Read a session from the store.

        Args:
            id: The id of the session.
            any_owner: Whether to return sessions of other callers, too.
            wait: Whether to wait for a slow store.

        Returns:
            A pair of the session and its stored record. The session is None if it does not exist or has expired. The
            record is None if the store has no record with this id.

        Raises:
            SessionNotFound: If the session belongs to another caller. This is checked before the rest of the stored
                data.
            SessionDamaged: If the stored data is not a valid session.
        """
        stored = self.store.read(check_session_id(id), wait)
        if stored is None or (isinstance(stored.expires, (int, float)) and stored.expires < self.clock()):
            return None, stored
        if not any_owner and isinstance(stored.body, dict) and not self.caller().may_use(stored.body.get("o")):
            raise _not_found(id)
        return _from_record(id, stored), stored

    def _read_for_writing(self, id: str) -> tuple[StoredSession | None, SessionRecord | None]:
        """Read a session that the caller wants to create, or to which the caller wants to add judgements.

        This method works like :meth:`_read`, with a different error message. If the session belongs to another caller,
        the message suggests another id.

        Args:
            id: The id of the session.

        Returns:
            A pair of the session and its stored record. The session is None if it does not exist or has expired. The
            record is None if the store has no record with this id.

        Raises:
            SessionNotFound: If a session of another caller has this id.
        """
        try:
            return self._read(id)
        except SessionNotFound:
            raise SessionNotFound(f"you have no session {id!r}", value=id, expected="another id") from None

    def _change(
        self, id: str, change: Callable[[StoredSession], StoredSession], marks: int | None = None
    ) -> StoredSession:
        """Read a session from the store, change it and write it back.

        If another process changes the session in the meantime, this is repeated with the new version, up to 40 times.

        Args:
            id: The id of the session.
            change: A function that takes the session and returns the changed session.
            marks: The number of judgements that ``change`` adds, or None if it adds no judgements. If a number is
                given, a missing session is created.

        Returns:
            The changed session.

        Raises:
            SessionNotFound: If the session does not exist and ``marks`` is None, or if it belongs to another caller.
            SessionBusy: If other processes changed the session during each of the 40 attempts.
            QuotaExceeded: If ``marks`` is a number, and the API key has used up its daily quota.
        """
        key = self.caller().name
        for attempt in range(_ATTEMPTS):
            session, stored = self._read(id) if marks is None else self._read_for_writing(id)
            if session is None and marks is None:
                raise _not_found(id)
            now, is_new = self.clock(), session is None
            if marks is not None:
                kinds = ["marks", "bytes", "sessions"] if is_new else ["marks", "bytes"]
                self.quotas.check(key, *kinds)
            # Stores may keep times in milliseconds, and every answer shows the same time.
            expires = round(now + self.seconds, 3)
            changed = replace(change(session or StoredSession(id, round(now, 3), now, owner=key)), expires=expires)
            written = _to_record(changed, stored.version if stored else None)
            if self.store.write(id, written):
                self.quotas.record_usage(
                    key, marks=marks or 0, sessions=int(is_new), bytes=len(json.dumps(written.body))
                )
                self._purge_if_due(now)
                return changed
            # Wait for a random share of a growing time. With equal waits, the same writers would collide again.
            time.sleep(random.uniform(0, min(_MAX_WAIT, _WAIT * 2**attempt)))
        raise SessionBusy(
            f"session {id!r} was changed by others {_ATTEMPTS} times in a row; nothing was stored",
            value=id,
            expected="try again",
        )

    def _purge_if_due(self, now: float) -> None:
        """Delete expired sessions from the store, unless this was done less than a minute ago.

        Args:
            now: The current time in Unix seconds.
        """
        if now - self._purged > _PURGE_SECONDS:
            self._purged = now
            try:
                self.store.purge(now, wait=False)
            except SessionsUnavailable as error:
                # The caller's change is already stored, and a later change will purge.
                log.warning("expired sessions were not purged: %s", error.message)


def check_session_id(session: str) -> str:
    """Check that a session id is well-formed, and return it.

    Args:
        session: The session id to check.

    Raises:
        BadInput: If the id is malformed.
    """
    if not is_session_id(session):
        expected = "1 to 128 letters, digits and _ . : -"
        raise BadInput(f"malformed session id {shorten(session)!r}", value=session, expected=expected)
    return session


def check_judgements(judgements: Sequence[Judgement]) -> None:
    """Check judgements before they are stored: their number, and the lengths of their document ids and index names.

    Args:
        judgements: The judgements to check.

    Raises:
        BadInput: If there are more than MAX_JUDGEMENTS judgements, or an id or index name is not valid Unicode text.
        TextTooLong: If an id or index name is too long.
    """
    if len(judgements) > MAX_JUDGEMENTS:
        raise BadInput(
            f"{len(judgements)} documents are marked at once",
            value=len(judgements),
            expected=f"at most {MAX_JUDGEMENTS}, the maximum of a session",
        )
    for judgement in judgements:
        for what, value, limit in (
            ("document id", judgement.document, MAX_ID_BYTES),
            ("index name", judgement.index, MAX_INDEX),
        ):
            try:
                size = len(value.encode())
            except UnicodeEncodeError:
                raise BadInput(f"the {what} contains a lone surrogate", value=value, expected="Unicode text") from None
            if size > limit:
                raise TextTooLong(f"the {what} has {size} bytes", value=value, expected=f"at most {limit} bytes")


def _not_found(id: str) -> SessionNotFound:
    return SessionNotFound(f"no session {id!r}", value=id, expected="a session with marks that has not expired")


def _to_record(session: StoredSession, version: Any) -> SessionRecord:
    """Convert a session to a record for the store.

    To save space, the record contains each query and each index name only once.

    Args:
        session: The session to store.
        version: The version of the stored record to overwrite, or None to create a new record. The store refuses to
            overwrite a record that has another version.
    """
    queries = list(dict.fromkeys(judgement.query for judgement in session.judgements))
    indices = list(dict.fromkeys(judgement.index for judgement in session.judgements))
    rows = [
        [
            judgement.step,
            round((judgement.at - session.created) * 1000),
            queries.index(judgement.query),
            indices.index(judgement.index),
            judgement.document,
            int(judgement.grade) if judgement.grade == int(judgement.grade) else judgement.grade,
            SOURCES.index(judgement.source),
        ]
        for judgement in session.judgements
    ]
    body = {"at": session.created, "q": queries, "j": rows}
    if session.owner is not None:
        body["o"] = session.owner
    return SessionRecord(body, session.expires, indices, version)


class _SessionBody(msgspec.Struct):
    """The JSON document in which a session is stored. Names are short to save space.

    Attributes:
        at: The time of creation in Unix seconds.
        q: The distinct queries of all judgements.
        j: The judgements. Each is a list of seven values: the number of the step, the time in milliseconds since
            creation, the position of the query in ``q``, the position of the index name in
            :attr:`SessionRecord.indices`, the document id, the grade, and the position of the source in SOURCES.
        o: The name of the API key that created the session, or None.
    """

    at: Time
    q: list[str]
    j: list[tuple[_Whole, float, _Whole, _Whole, Annotated[str, Meta(min_length=1)], _Grade, _Whole]]
    o: str | None = None


def _from_record(id: str, stored: SessionRecord) -> StoredSession:
    """Convert a record of the store to a session.

    Args:
        id: The id of the session.
        stored: The record, as the store returned it.

    Raises:
        SessionDamaged: If the record is invalid.
    """
    try:
        body, expires = msgspec.convert(stored.body, _SessionBody), msgspec.convert(stored.expires, Time)
        indices = msgspec.convert(stored.indices, list[_IndexName])
        judgements = [
            Judgement(
                indices[index], document, grade, body.q[query], round(body.at + at / 1000, 3), step, SOURCES[source]
            )
            for step, at, query, index, document, grade, source in body.j
        ]
        for judgement in judgements:
            msgspec.convert(judgement.at, Time)
            # encode() raises UnicodeEncodeError, a ValueError, for lone surrogates.
            f"{judgement.index}{judgement.document}{judgement.query}".encode()
        "".join([body.o or "", *body.q, *indices]).encode()
    except (LookupError, OverflowError, ValueError, msgspec.ValidationError):
        expected = "a session that Resift stored; delete it to start again"
        raise SessionDamaged(f"session {id!r} is damaged", value=id, expected=expected) from None
    return StoredSession(id, body.at, expires, tuple(judgements), body.o)
