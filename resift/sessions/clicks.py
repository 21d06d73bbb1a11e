"""What clients did, by UBI's log, as judgements: read anew at each search, so that every replica sees the same.

A click says less the higher the hit stood, since what stands first is clicked because it stands there (position bias).
A hit that was shown above a click, and was not clicked itself, was passed over; the lower it stood, the less likely it
was looked at. Both by one estimate of how likely a hit at a place is looked at, (place + 1) ** -POSITION_BIAS.
"""

from __future__ import annotations

import logging
import math
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from resift.cache import TtlCache, get_or_fetch
from resift.contracts.engine import Engine, Headers
from resift.contracts.ubi import UbiEvent, UbiLog, UbiQuery
from resift.errors import BadInput, EngineError, ResiftError
from resift.feedback.judgements import GRADES, Judgement
from resift.query.dsl import values_of
from resift.sessions.sessions import MAX_JUDGEMENTS, MAX_QUERY

log = logging.getLogger(__name__)
IMPRESSION = "impression"
ACTIONS = {
    "purchase": 1.0,
    "add_to_cart": 0.8,
    "watch": GRADES["clicked"],
    "click": GRADES["clicked"],
    "click_through": GRADES["clicked"],
    "view": 0.25,
    IMPRESSION: GRADES["skipped"],
}
POSITION_BIAS = 0.25
Actions = Mapping[str, float]
CLOCK_TOLERANCE = 300.0  # seconds that a client's clock may be ahead of ours
_SECONDS, _SOON, _REFUSED = 300.0, 0.5, 10.0  # that something is remembered, is missed, or is not asked for again
_QUERIES, _OBJECTS = 20_000, 50_000
_TOGETHER = 1000  # objects that the engine is asked for at once
Object = tuple[str, str]  # its name and the field of it, which together are one document's name


@dataclass(frozen=True)
class ClickGrade:
    """A document's grade, -1 to 1, the time in Unix seconds of what it follows from, and whether that was a ``click``
    or any other action, or a ``skip``: a hit that was passed over."""

    grade: float
    at: float
    source: str = "click"


class Clicks:
    """Judgements of clients by UBI's log. May be used from several threads.

    ``engine`` knows which documents the objects are. ``seconds``: how long an event counts. ``count``: is told how
    many events had what outcome. ``clock`` gives Unix seconds.
    """

    def __init__(
        self,
        log: UbiLog,
        engine: Engine,
        actions: Actions,
        seconds: float,
        count: Callable[[str, int], None] = lambda outcome, events: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.log, self.engine, self.actions, self.seconds = log, engine, actions, seconds
        self.count, self.clock = count, clock
        self._queries: TtlCache[UbiQuery] = TtlCache(_QUERIES, _SECONDS)
        self._unknown_queries: TtlCache[bool] = TtlCache(_QUERIES, _SOON)
        self._documents: TtlCache[str] = TtlCache(_OBJECTS, _SECONDS)
        self._unknown_objects: TtlCache[bool] = TtlCache(_OBJECTS, _REFUSED)
        self._refused: TtlCache[bool] = TtlCache(1, _REFUSED)

    def judgements(self, client: str, index: str, headers: Headers = None) -> list[Judgement]:
        """The judgements that follow from the latest events of a client or a session, of an index's documents.

        Without rights to the log there are none. Raises what the engine raises, and EngineUnavailable after half a
        second: a search goes on without.
        """
        if self._refused.get("log"):
            return []
        now = self.clock()
        try:
            events = self.log.events(client, now - self.seconds, now + CLOCK_TOLERANCE)
        except EngineError as error:
            if error.status != 403:
                raise
            log.warning("clicks are not read: %s", error.message)
            self._refused.put("log", True)
            return []
        return self._judged(events, index, headers) if events else []

    def _judged(self, events: Sequence[UbiEvent], index: str, headers: Headers) -> list[Judgement]:
        queries = self._queries_of(events)
        known = [event for event in events if event.query_id in queries or event.text]
        self.count("read_unknown_query", len(events) - len(known))
        graded = graded_objects(known, queries, self.actions)
        ids = self._ids({name for _, name, _ in graded}, index, headers)
        judged = judgements_from(graded, ids, index)
        self.count("read_judged", len(judged))
        self.count("read_unknown_document", len(graded) - len(judged))
        return sorted(judged, key=lambda judgement: judgement.at)[-MAX_JUDGEMENTS:]

    def _queries_of(self, events: Iterable[UbiEvent]) -> dict[str, UbiQuery]:
        """The queries of events, as far as they are known."""
        ids = sorted({event.query_id for event in events if event.query_id})
        asked = {id: id for id in ids if not self._unknown_queries.get(id)}
        found = get_or_fetch(self._queries, asked, self.log.queries)
        for id in asked.keys() - found.keys():
            self._unknown_queries.put(id, True)
        return found

    def _ids(self, objects: Iterable[Object], index: str, headers: Headers) -> dict[Object, str]:
        """The ids of the documents that objects are; those that are none of the index, or of several, are left out."""
        keys = {one: (index, str(headers), *one) for one in sorted(objects)}
        asked = {one: key for one, key in keys.items() if not self._unknown_objects.get(key)}
        found = get_or_fetch(self._documents, asked, lambda new: document_ids(self.engine, index, new, headers))
        for one in asked.keys() - found.keys():
            self._unknown_objects.put(keys[one], True)
        return found


def graded_objects(
    events: Iterable[UbiEvent], queries: Mapping[str, UbiQuery], actions: Actions
) -> list[tuple[str, Object, ClickGrade]]:
    """What events say of objects: the query's text, the object, and its :class:`ClickGrade`."""
    of_query: dict[tuple[str, str], list[UbiEvent]] = defaultdict(list)
    for event in events:
        if event.object and event.action in actions:
            query = queries.get(event.query_id)
            of_query[event.query_id, query.text if query else event.text].append(event)
    found = []
    for (id, text), made in of_query.items():
        names = {event.object: (event.object, event.object_field) for event in made}
        # Without a field of their own the objects that the UBI plugin kept may be Lucene's numbers of documents.
        fields = {field for _, field in names.values()}
        shown = queries[id].objects if id in queries and len(fields) == 1 and fields != {""} else ()
        for object, graded in click_grades(made, actions, shown).items():
            found.append((text, names.get(object, (object, next(iter(fields)))), graded))
    return found


def judgements_from(
    graded: Iterable[tuple[str, Object, ClickGrade]], ids: Mapping[Object, str], index: str
) -> list[Judgement]:
    """What :func:`graded_objects` gives, as judgements of the documents with these ``ids``; without other objects."""
    return [
        Judgement(index, ids[name], one.grade, text[:MAX_QUERY], one.at, source=one.source)
        for text, name, one in graded
        if name in ids
    ]


def document_ids(engine: Engine, index: str, objects: Collection[Object], headers: Headers = None) -> dict[Object, str]:
    """The ids of the documents of an index that objects are, by the field that each names, or by ``_id`` if that is "";
    those that are unknown, or several documents, are left out."""
    ids: dict[Object, str] = {}
    for field in sorted({field for _, field in objects}):
        names = sorted({name for name, of_field in objects if of_field == field})
        for start in range(0, len(names), _TOGETHER):
            found = _ids_by_field(engine, index, field, names[start : start + _TOGETHER], headers)
            ids |= {(name, field): id for name, id in found.items()}
    return ids


def _ids_by_field(engine: Engine, index: str, field: str, names: Sequence[str], headers: Headers) -> dict[str, str]:
    ids: dict[str, set[str]] = defaultdict(set)
    clauses = [{"terms": {exact: list(names)}} for exact in (field, f"{field}.keyword")]
    for clause in clauses if field else [{"ids": {"values": list(names)}}]:
        body = {"query": clause, "size": 2 * len(names), "_source": [field] if field else False}
        try:
            hits = engine.search(index, body, headers=headers).hits
        except ResiftError as error:
            if error.status != 400:  # of a field that cannot be asked for names
                raise
            continue
        for hit in hits:
            ids[str(next(values_of(hit["_source"], field), None)) if field else hit["_id"]].add(hit["_id"])
        if ids:
            break
    return {name: next(iter(ids[name])) for name in names if len(ids[name]) == 1}


def read_actions(parts: Iterable[str]) -> dict[str, float]:
    """What each action counts, of settings ``ACTION=GRADE``. Raises BadInput for another form, and beyond -1 to 1.

    >>> read_actions(["purchase=1", "impression=-0.1"])
    {'purchase': 1.0, 'impression': -0.1}
    """
    actions = {}
    for part in parts:
        name, _, text = part.rpartition("=")
        try:
            grade = float(text)
        except ValueError:
            grade = math.nan
        if not name.strip() or not -1 <= grade <= 1:  # which is also false for nan
            raise BadInput(f"an action is {part!r}", value=part, expected="ACTION=GRADE, a grade from -1 to 1")
        actions[name.strip()] = grade
    return actions


def click_grades(
    events: Sequence[UbiEvent], actions: Actions = ACTIONS, shown: Sequence[str] = ()
) -> dict[str, ClickGrade]:
    """Grades by object of what the ``events`` of one query did with its hits.

    An object counts by the action with the largest grade, the latest of several: grade ** p for a hit that is looked
    at with probability p, so an action of grade 1 counts the same everywhere. Hits that were passed over count the
    grade of SHOWN times p. ``shown``: the objects of the list in its order, if it is known; those with an event SHOWN
    were shown too. Objects of actions without a grade are left out.
    """
    ranks = _ranks(events, shown)
    graded: dict[str, ClickGrade] = {}
    strongest: dict[str, float] = {}
    for one in sorted(events, key=lambda one: one.at):
        grade = 0.0 if one.action == IMPRESSION else actions.get(one.action, 0.0)
        if grade and abs(grade) >= strongest.get(one.object, 0.0):
            strongest[one.object] = abs(grade)
            weighed = grade ** _looked_at(ranks.get(one.object, 0)) if grade > 0 else grade
            graded[one.object] = ClickGrade(weighed, one.at)
    clicks = {id: one for id, one in graded.items() if one.grade > 0 and id in ranks}
    passed_over = actions.get(IMPRESSION, 0.0)
    if not clicks or not passed_over:
        return graded
    lowest = max(clicks, key=lambda id: ranks[id])
    for document, rank in ranks.items():
        if rank < ranks[lowest] and document not in graded:
            graded[document] = ClickGrade(passed_over * _looked_at(rank), clicks[lowest].at, "skip")
    return graded


def _ranks(events: Sequence[UbiEvent], shown: Sequence[str]) -> dict[str, int]:
    """The place from 0 of each object for which it is known."""
    # The specification says "nth", and its own sample counts from 0.
    first = 0 if any(one.ordinal == 0 for one in events) else 1
    ranks: dict[str, int] = {}
    for one in events:
        if one.ordinal is not None and one.ordinal >= first:
            ranks[one.object] = min(one.ordinal - first, ranks.get(one.object, one.ordinal))
    # what a page says of itself is nearer to what was seen than the order of the answer
    return {**{document: rank for rank, document in reversed(list(enumerate(shown)))}, **ranks}


def _looked_at(rank: int) -> float:
    return float((rank + 1) ** -POSITION_BIAS)
