"""What clients did, by UBI's log, as judgements: read anew at each search, so that every replica sees the same."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from resift.cache import TtlCache, remembered
from resift.contracts.engine import Engine
from resift.contracts.ubi import UbiEvent, UbiLog, UbiQuery
from resift.errors import EngineError, ResiftError
from resift.ranking.clicks import Actions, Graded, Interaction, click_grades
from resift.ranking.judgements import Judgement
from resift.sessions.sessions import MAX_JUDGEMENTS, MAX_QUERY

log = logging.getLogger(__name__)
AHEAD = 300.0  # seconds that a client's clock may be ahead of ours
_SECONDS, _SOON, _REFUSED = 300.0, 0.5, 10.0  # that something is remembered, is missed, or is not asked for again
_QUERIES, _OBJECTS = 20_000, 50_000
_TOGETHER = 1000  # objects that the engine is asked for at once
Headers = Mapping[str, str] | None
# A client's events of one query, and that query; the object's name and its field are together one document's name.
Found = tuple[Sequence[UbiEvent], UbiQuery]
Object = tuple[str, str]


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
            events = self.log.events(client, now - self.seconds, now + AHEAD)
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
        judged = [
            Judgement(index, ids[name], one.grade, text[:MAX_QUERY], one.at, source=one.source)
            for text, name, one in graded
            if name in ids
        ]
        self.count("read_judged", len(judged))
        self.count("read_unknown_document", len(graded) - len(judged))
        return sorted(judged, key=lambda judgement: judgement.at)[-MAX_JUDGEMENTS:]

    def _queries_of(self, events: Iterable[UbiEvent]) -> dict[str, UbiQuery]:
        """The queries of events, as far as they are known."""
        ids = sorted({event.query_id for event in events if event.query_id})
        asked = {id: id for id in ids if not self._unknown_queries.get(id)}
        found = remembered(self._queries, asked, self.log.queries)
        for id in asked.keys() - found.keys():
            self._unknown_queries.put(id, True)
        return found

    def _ids(self, objects: Iterable[Object], index: str, headers: Headers) -> dict[Object, str]:
        """The ids of the documents that objects are; those that are none of the index, or of several, are left out."""
        keys = {one: (index, str(headers), *one) for one in sorted(objects)}
        asked = {one: key for one, key in keys.items() if not self._unknown_objects.get(key)}
        found = remembered(self._documents, asked, lambda new: documents_of(self.engine, index, new, headers))
        for one in asked.keys() - found.keys():
            self._unknown_objects.put(keys[one], True)
        return found


def graded_objects(
    events: Iterable[UbiEvent], queries: Mapping[str, UbiQuery], actions: Actions
) -> list[tuple[str, Object, Graded]]:
    """What events say of objects: the query's text, the object, and its :class:`resift.ranking.clicks.Graded`."""
    of_query: dict[tuple[str, str], list[UbiEvent]] = defaultdict(list)
    for event in events:
        if event.object and event.action in actions:
            query = queries.get(event.query_id)
            of_query[event.query_id, query.text if query else event.text].append(event)
    found = []
    for (id, text), made in of_query.items():
        names = {event.object: (event.object, event.object_field) for event in made}
        interactions = [Interaction(one.object, one.action, one.ordinal, one.at) for one in made]
        # Without a field of their own the objects that the UBI plugin kept may be Lucene's numbers of documents.
        fields = {field for _, field in names.values()}
        shown = queries[id].objects if id in queries and len(fields) == 1 and fields != {""} else ()
        for object, graded in click_grades(interactions, actions, shown).items():
            found.append((text, names.get(object, (object, next(iter(fields)))), graded))
    return found


def documents_of(engine: Engine, index: str, objects: Collection[Object], headers: Headers = None) -> dict[Object, str]:
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
            ids[str(_value(hit["_source"], field)) if field else hit["_id"]].add(hit["_id"])
        if ids:
            break
    return {name: next(iter(ids[name])) for name in names if len(ids[name]) == 1}


def _value(source: Any, field: str) -> Any:
    """The value of a field, whose name may be a path."""
    if isinstance(source, Mapping) and field in source:
        return source[field]
    head, _, rest = field.partition(".")
    return _value(source[head], rest) if rest and isinstance(source, Mapping) and head in source else None
