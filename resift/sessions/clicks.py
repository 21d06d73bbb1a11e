"""Derive judgements from the clicks and other events in the log of UBI (User Behavior Insights).

The log is read again for every search, so that all replicas of the service see the same judgements.

Users look at top-ranked hits more often, so a click on such a hit is weaker evidence (position bias). The probability
that a user looks at the hit at position p, counted from 0, is estimated as (p + 1) ** -POSITION_BIAS. A hit above a
click that was not clicked itself counts as skipped. The judgement of a skipped hit is weaker at lower positions, where
users look at hits less often.
"""

from __future__ import annotations

import logging
import math
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from resift.cache import TtlCache, get_or_fetch
from resift.contracts.engine import Engine, Headers
from resift.contracts.ubi import UbiEvent, UbiLog, UbiQuery
from resift.errors import BadInput, EngineError, ResiftError
from resift.feedback.judgements import GRADES, Judgement
from resift.query.dsl import values_of
from resift.sessions.sessions import MAX_JUDGEMENTS, MAX_QUERY

log = logging.getLogger(__name__)
IMPRESSION = "impression"
# The default grades of the actions in the log.
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
CLOCK_TOLERANCE = 300.0  # seconds by which a client's clock may be ahead
_CACHE_SECONDS = 300.0  # how long known queries and documents are cached
_UNKNOWN_QUERY_SECONDS = 0.5  # how long an unknown query is not looked up again
_UNKNOWN_OBJECT_SECONDS = 10.0  # how long an unknown object is not looked up again, and a refused log not read again
_CACHED_QUERIES = 20_000
_CACHED_OBJECTS = 50_000
_BATCH = 200  # number of objects that are looked up in a single request
Object = tuple[str, str]  # the id of an object, and the field that contains the id; together they identify a document


@dataclass(frozen=True)
class ClickGrade:
    """A relevance grade that was derived from a user's clicks and other actions on a hit.

    Attributes:
        grade: The grade from -1 (irrelevant) to 1 (relevant).
        at: The time of the action in Unix seconds.
        source: "click" if the user acted on the hit, or "skip" if the user ignored the hit and clicked a lower hit.
    """

    grade: float
    at: float
    source: str = "click"


class Clicks:
    """Derives relevance judgements from the clicks in the log of user events (UBI, User Behavior Insights).

    Instances are thread-safe.

    Args:
        log: The UBI log, from which events and queries are read.
        engine: The search engine, which looks up the clicked documents.
        actions: The grade (-1 to 1) of each type of action, for example ``{"purchase": 1.0, "click": 0.5}``.
        seconds: The age in seconds after which events are ignored.
        count: A function that counts events for the metrics. For example, ``count("read_unknown_query", 3)`` means that
            three events belong to queries that are not in the log.
        clock: A function that returns the time in Unix seconds.
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
        self.log = log
        self.engine = engine
        self.actions = actions
        self.seconds = seconds
        self.count = count
        self.clock = clock
        self._queries: TtlCache[UbiQuery] = TtlCache(_CACHED_QUERIES, _CACHE_SECONDS)
        self._unknown_queries: TtlCache[bool] = TtlCache(_CACHED_QUERIES, _UNKNOWN_QUERY_SECONDS)
        self._documents: TtlCache[str] = TtlCache(_CACHED_OBJECTS, _CACHE_SECONDS)
        self._unknown_objects: TtlCache[bool] = TtlCache(_CACHED_OBJECTS, _UNKNOWN_OBJECT_SECONDS)
        self._refused: TtlCache[bool] = TtlCache(1, _UNKNOWN_OBJECT_SECONDS)

    def judgements(self, client: str, index: str, headers: Headers = None) -> list[Judgement]:
        """Return relevance judgements derived from the latest clicks of a user, oldest first.

        Args:
            client: The client id or session id of the user in the log.
            index: The name of the index. Clicks on documents of other indices are ignored.
            headers: The caller's HTTP headers, which are passed on to the engine.

        Returns:
            At most MAX_JUDGEMENTS judgements. Empty if the engine refuses access to the log (status 403).

        Raises:
            EngineUnavailable: If the log does not respond within half a second.
            EngineError: If the engine responds with another error.
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
        return self._derive_judgements(events, index, headers) if events else []

    def _derive_judgements(self, events: Sequence[UbiEvent], index: str, headers: Headers) -> list[Judgement]:
        """Derive relevance judgements of documents from a user's events.

        Events without a known query, and objects that are not documents of the index, are counted and left out.

        Args:
            events: The events of the user, for example clicks.
            index: The name of the searched index.
            headers: The caller's HTTP headers, which are passed on to the engine.

        Returns:
            The latest judgements, oldest first, at most MAX_JUDGEMENTS.
        """
        queries = self._look_up_queries(events)
        known = [event for event in events if event.query_id in queries or event.text]
        self.count("read_unknown_query", len(events) - len(known))
        graded = grade_clicked_objects(known, queries, self.actions)
        ids = self._look_up_ids({name for _, name, _ in graded}, index, headers)
        judged = judgements_from_grades(graded, ids, index)
        self.count("read_judged", len(judged))
        self.count("read_unknown_document", len(graded) - len(judged))
        return sorted(judged, key=lambda judgement: judgement.at)[-MAX_JUDGEMENTS:]

    def _look_up_queries(self, events: Iterable[UbiEvent]) -> dict[str, UbiQuery]:
        """Look up the logged queries to which some user events belong.

        Queries that are missing from the log are left out.

        Args:
            events: The events, for example clicks on hits.

        Returns:
            The queries, by query id.
        """
        ids = sorted({event.query_id for event in events if event.query_id})
        keys = {id: id for id in ids if not self._unknown_queries.get(id)}
        queries = get_or_fetch(self._queries, keys, self.log.queries)
        for id in keys.keys() - queries.keys():
            self._unknown_queries.put(id, True)
        return queries

    def _look_up_ids(self, objects: Iterable[Object], index: str, headers: Headers) -> dict[Object, str]:
        """Look up the document ids of clicked objects in an index. The results are cached.

        Args:
            objects: The objects in the UBI log, as pairs of a value and the name of the document field that contains
                it.
            index: The name of the index.
            headers: The caller's HTTP headers, which are passed on to the engine.

        Returns:
            The document id of each object. Objects that match no document or several documents are left out.
        """
        keys = {object: (index, str(headers), *object) for object in sorted(objects)}
        keys = {object: key for object, key in keys.items() if not self._unknown_objects.get(key)}
        ids = get_or_fetch(self._documents, keys, lambda new: look_up_document_ids(self.engine, index, new, headers))
        for object in keys.keys() - ids.keys():
            self._unknown_objects.put(keys[object], True)
        return ids


def grade_clicked_objects(
    events: Iterable[UbiEvent], queries: Mapping[str, UbiQuery], actions: Actions
) -> list[tuple[str, Object, ClickGrade]]:
    """Derive relevance grades of clicked and skipped hits from user events, which may belong to several queries.

    Args:
        events: The events from the UBI log.
        queries: The logged queries, by query id.
        actions: The grade (-1 to 1) of each type of action. Events with other actions are ignored.

    Returns:
        A tuple for each graded hit: the text of the query, the object that identifies the hit (a pair of an id and the
        name of the field that contains it), and the grade.
    """
    events_by_query: dict[tuple[str, str], list[UbiEvent]] = defaultdict(list)
    for event in events:
        if event.object and event.action in actions:
            query = queries.get(event.query_id)
            events_by_query[event.query_id, query.text if query else event.text].append(event)
    grades = []
    for (id, text), query_events in events_by_query.items():
        objects = {event.object: (event.object, event.object_field) for event in query_events}
        # If the events name no object field, the hits that the UBI plugin logged are not used. They may be Lucene's
        # internal document numbers.
        fields = {field for _, field in objects.values()}
        shown = queries[id].objects if id in queries and len(fields) == 1 and fields != {""} else ()
        for object, grade in click_grades(query_events, actions, shown).items():
            grades.append((text, objects.get(object, (object, next(iter(fields)))), grade))
    return grades


def judgements_from_grades(
    graded: Iterable[tuple[str, Object, ClickGrade]], ids: Mapping[Object, str], index: str
) -> list[Judgement]:
    """Convert grades of clicked objects to relevance judgements of documents.

    Args:
        graded: Query texts, objects and grades, as returned by :func:`grade_clicked_objects`.
        ids: The document id of each object. Objects without a document id are ignored.
        index: The name of the index that contains the documents.
    """
    return [
        Judgement(index, ids[object], grade.grade, text[:MAX_QUERY], grade.at, source=grade.source)
        for text, object, grade in graded
        if object in ids
    ]


def look_up_document_ids(
    engine: Engine, index: str, objects: Collection[Object], headers: Headers = None
) -> dict[Object, str]:
    """Look up the documents to which objects in the UBI log refer.

    Args:
        engine: The search engine.
        index: The name of the index.
        objects: Pairs of a value and the name of the document field that contains this value. If the name is "", the
            value is the document id itself.
        headers: The caller's HTTP headers, which are passed on to the engine.

    Returns:
        The document id of each object. Objects that match no document or several documents are left out.
    """
    ids: dict[Object, str] = {}
    for field in sorted({field for _, field in objects}):
        names = sorted({name for name, object_field in objects if object_field == field})
        for start in range(0, len(names), _BATCH):
            ids_by_name = _ids_by_field_value(engine, index, field, names[start : start + _BATCH], headers)
            ids |= {(name, field): id for name, id in ids_by_name.items()}
    return ids


def _ids_by_field_value(
    engine: Engine, index: str, field: str, names: Sequence[str], headers: Headers
) -> dict[str, str]:
    """Look up the documents that have certain values in a field. See :func:`look_up_document_ids`.

    Args:
        engine: The search engine.
        index: The name of the index.
        field: The name of the field, or "" if the values are document ids.
        names: The values.
        headers: The caller's HTTP headers, which are passed on to the engine.

    Returns:
        The document id for each value. Values that match no document or several documents are left out.
    """
    ids: dict[str, str] = {}
    for exact_field in (field, f"{field}.keyword") if field else ("",):
        unknown = [name for name in names if name not in ids]
        # One search for each name: with a single search for all names, the hits of some names could fill its result.
        queries = [{"term": {exact_field: name}} if field else {"ids": {"values": [name]}} for name in unknown]
        bodies = [{"query": query, "size": 2, "_source": [field] if field else False} for query in queries]
        try:
            results = engine.search_all(index, bodies, headers=headers) if bodies else []
        except ResiftError as error:
            if error.status != 400:  # 400: the field does not support a term query with one of the values
                raise
            continue
        for name, hits in zip(unknown, (result.hits for result in results), strict=True):
            if len(hits) == 1 and (not field or _has_value(hits[0], field, name)):
                ids[name] = hits[0]["_id"]
    return ids


def _has_value(hit: Mapping[str, Any], field: str, name: str) -> bool:
    """Return whether a field of a hit contains exactly a value. A text field is also hit by single words of its values.

    Args:
        hit: The hit.
        field: The name of the field.
        name: The value.
    """
    return name in map(str, values_of(hit.get("_source"), field))


def parse_action_grades(parts: Iterable[str]) -> dict[str, float]:
    """Parse settings of the form ``ACTION=GRADE`` into a dictionary.

    Args:
        parts: The settings. A grade is a number from -1 (irrelevant) to 1 (relevant).

    Raises:
        BadInput: If a setting is malformed, or a grade is out of range.

    >>> parse_action_grades(["purchase=1", "impression=-0.1"])
    {'purchase': 1.0, 'impression': -0.1}
    """
    actions = {}
    for part in parts:
        name, _, text = part.rpartition("=")
        try:
            grade = float(text)
        except ValueError:
            grade = math.nan
        if not name.strip() or not -1 <= grade <= 1:  # the comparison is also false for nan
            expected = "ACTION=GRADE with a grade from -1 to 1"
            raise BadInput(f"{part!r} is not the grade of an action", value=part, expected=expected)
        actions[name.strip()] = grade
    return actions


def click_grades(
    events: Sequence[UbiEvent], actions: Actions = ACTIONS, shown: Sequence[str] = ()
) -> dict[str, ClickGrade]:
    """Derive the grades of hits from the events of a single query.

    If a user acted on a hit several times, the action with the largest absolute grade counts. A positive grade becomes
    grade ** p, where p is the estimated probability that a user looks at the position of the hit. Clicks on lower hits
    therefore get higher grades, and an action of grade 1 counts the same at all positions.

    A hit counts as skipped if the user did not act on it but clicked a lower hit. Its grade is p times the grade of
    IMPRESSION in ``actions``. All other hits are left out.

    Args:
        events: The events of the query.
        actions: The grade (-1 to 1) of each action.
        shown: The object ids of the displayed hits in order, if the log contains them. Hits with an event that contains
            their position are added.

    Returns:
        The grade of each hit, by object id.
    """
    ranks = _hit_positions(events, shown)
    graded: dict[str, ClickGrade] = {}
    strongest: dict[str, float] = {}
    for event in sorted(events, key=lambda event: event.at):
        grade = 0.0 if event.action == IMPRESSION else actions.get(event.action, 0.0)
        if grade and abs(grade) >= strongest.get(event.object, 0.0):
            strongest[event.object] = abs(grade)
            weighted = grade ** _examination_probability(ranks.get(event.object, 0)) if grade > 0 else grade
            graded[event.object] = ClickGrade(weighted, event.at)
    clicks = {object: grade for object, grade in graded.items() if grade.grade > 0 and object in ranks}
    skip_grade = actions.get(IMPRESSION, 0.0)
    if not clicks or not skip_grade:
        return graded
    lowest = max(clicks, key=lambda object: ranks[object])
    for object, rank in ranks.items():
        if rank < ranks[lowest] and object not in graded:
            graded[object] = ClickGrade(skip_grade * _examination_probability(rank), clicks[lowest].at, "skip")
    return graded


def _hit_positions(events: Sequence[UbiEvent], shown: Sequence[str]) -> dict[str, int]:
    """Return the positions of hits in the list of hits, counted from 0. Hits without a known position are left out.

    Args:
        events: The events of a query. They can contain the positions of clicked hits. These take precedence over the
            positions in ``shown``.
        shown: The ids of the displayed hits, in order.

    Returns:
        The positions, by the id of the hit.
    """
    # UBI's specification says "nth", but its example counts from 0. So a position of 0 shows that positions count from
    # 0.
    first = 0 if any(event.ordinal == 0 for event in events) else 1
    ranks: dict[str, int] = {}
    for event in events:
        if event.ordinal is not None and event.ordinal >= first:
            ranks[event.object] = min(event.ordinal - first, ranks.get(event.object, event.ordinal))
    # The positions in the events are closer to what the user saw than the order of the response.
    return {**{object: rank for rank, object in reversed(list(enumerate(shown)))}, **ranks}


def _examination_probability(rank: int) -> float:
    """Return the estimated probability that a user looks at the hit at a certain position.

    Users look at lower hits less often. The estimate is 1 / (rank + 1)^0.25.

    Args:
        rank: The position of the hit, counted from 0.
    """
    return float((rank + 1) ** -POSITION_BIAS)
