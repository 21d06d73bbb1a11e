"""What there is to search: the indices that a caller may search, and how each is best shown."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice, pairwise
from typing import Any

import regex

from resift.cache import TtlCache
from resift.contracts.documents import IndexInfo, ModelDescription
from resift.contracts.engine import Engine, Headers
from resift.errors import BadInput, EngineError, ModelMismatch, NotFound
from resift.feedback.explain import title
from resift.query.dsl import Body, document_text, values_of
from resift.rewriting.clauses import question_clause
from resift.service.bodies import filtered
from resift.service.cards import ROLES, Bound, CardFields, card_fields
from resift.service.served_indices import ServedIndices
from resift.text import ANALYZER_STOP_WORDS, FUNCTION_WORDS, plain_text

log = logging.getLogger(__name__)
MAX_INDICES, MAX_EXAMPLES = 200, 3
_SECONDS, _INDICES = 600.0, 200
_SAMPLE = 100  # documents that are looked at
_MANY = 10  # hits of a query that leaves something to be marked and moved
_EACH = 5  # queries of titles and of texts that are tried
_LONGEST, _WIDEST = 20, 30  # characters of a word, or of what has no spaces, and of a query
_WORD = regex.compile(r"[\p{L}\p{M}]+(?:[-'’][\p{L}\p{M}]+)*")
MAX_VALUES_OF_FACET = 8


class Catalogue:
    """Lists indices and guesses how their documents are shown, all of it with the rights of the caller.

    What was found of an index is remembered for ten minutes, for callers with the same headers. ``settings`` are those
    of RESIFT_PAGE_FIELDS.
    """

    def __init__(self, engine: Engine, served: ServedIndices, settings: Sequence[str]) -> None:
        self.engine, self.served, self.settings = engine, served, settings
        self._fields: TtlCache[CardFields] = TtlCache(_INDICES, _SECONDS)

    def indices(self, model: ModelDescription, headers: Headers = None) -> list[dict[str, Any]]:
        """The first 200 indices that are served, and can be searched with ``model``.

        Each comes with the number of documents that the caller may read of it."""
        infos = self.engine.indices(self.served.patterns, headers)
        names = [self.served.own_name(info.name) for info in infos if _is_searchable(info, model)]
        # aliases are no index's own name; those that the list has word for word are served all the same
        aliases = {name for name in self.served.patterns if "*" not in name} - {info.name for info in infos}
        found: list[dict[str, Any]] = []
        for name in dict.fromkeys([*names, *sorted(aliases)]):
            count = self._count(name, headers) if self.served.has(name) and len(found) < MAX_INDICES else None
            found += [] if count is None else [{"index": name, "documents": count}]
        return found

    def describe(self, info: IndexInfo, headers: Headers = None) -> dict[str, Any]:
        """How an index is shown: its text fields, those of its cards, its facets, and queries that find something.

        ``indices`` are the own names of what it stands for, and without ``vectors`` words alone count in its searches.

        Raises what the engine raises.
        """
        fields = self.fields(info, headers)
        return {
            "index": info.name,
            "indices": list(info.indices),
            "documents": self._total(info.name, headers),
            "fields": list(info.fields),
            "vectors": info.model is not None,
            "card": {part: getattr(fields, part) for part in ROLES[:4]},
            "facets": list(fields.facets),
            "ranges": fields.ranges,
            "facts": list(fields.facts),
            "examples": list(fields.examples),
        }

    def fields(self, info: IndexInfo, headers: Headers = None) -> CardFields:
        """The fields that the cards of an index are made of."""
        key = (info.name, str(headers))
        known = self._fields.get(key)
        if known is not None:
            return known
        sources = [hit.get("_source", {}) for hit in self.engine.sample(info.name, _SAMPLE, headers=headers).hits]
        exact = self.engine.exact_fields(info.name, headers)
        found = card_fields(sources, info.fields, exact, self.settings)
        refused = {name for name, bounds in found.ranges.items() if not self._has_ranges(info, name, bounds, headers)}
        if refused:  # numbers in documents that the mapping says nothing of, for instance
            ranges = {name: bounds for name, bounds in found.ranges.items() if name not in refused}
            found = replace(found, facets=tuple(name for name in found.facets if name not in refused), ranges=ranges)
        if not found.examples:
            found = replace(found, examples=self._example_queries(info, found, sources, headers))
        # an index that is empty says nothing of what it is for
        return self._fields.put(key, found) if sources else found

    def _has_ranges(self, info: IndexInfo, name: str, bounds: Sequence[Bound], headers: Headers) -> bool:
        """Whether the engine finds documents by ranges of a field. Raises EngineUnavailable."""
        try:
            return any(self.engine.document_counts(info.name, [one for _, one in range_clauses(name, bounds)], headers))
        except (BadInput, EngineError, NotFound) as error:
            log.info("no ranges of %r in %r: %s", name, info.name, error.message)
            return False

    def _example_queries(
        self, info: IndexInfo, fields: CardFields, sources: Sequence[Mapping[str, Any]], headers: Headers
    ) -> tuple[str, ...]:
        """Queries that leave something to be marked and moved, of those that texts and titles begin with."""
        texts = [document_text(source, info.fields) for source in sources]
        titles = [_title(source, fields) or title(text) for source, text in zip(sources, texts, strict=True)]
        candidates = example_queries(titles, texts)
        totals = self.engine.document_counts(
            info.name, [question_clause(one, info.fields) for one in candidates], headers
        )
        counted = [(min(total, _MANY), one) for one, total in zip(candidates, totals, strict=True) if total]
        found = [one for _, one in sorted(counted, key=lambda pair: -pair[0])]
        # a text that begins with its title is asked for by that alone
        return tuple(one for one in found if not any(map(one.startswith, {*found} - {one})))[:MAX_EXAMPLES]

    def _count(self, index: str, headers: Headers) -> int | None:
        """How many documents an index has for the caller; None where it cannot be searched, being closed for instance.

        Raises EngineUnavailable.
        """
        try:
            return self._total(index, headers)
        except (BadInput, EngineError, NotFound) as error:
            log.info("not listed: %r: %s", index, error.message)
            return None

    def _total(self, index: str, headers: Headers) -> int:
        body = {"query": {"match_all": {}}, "size": 0, "track_total_hits": True}
        total: int = self.engine.search(index, body, headers=headers).response["hits"]["total"]["value"]
        return total


def _title(source: Mapping[str, Any], fields: CardFields) -> str:
    values = values_of(source, fields.title) if fields.title else ()
    return next((value for value in values if isinstance(value, str)), "")


def _is_searchable(info: IndexInfo, model: ModelDescription) -> bool:
    """Whether an index has the vectors that are searched by, or none at all."""
    try:
        info.for_search(model)
    except ModelMismatch:
        return False
    return True


def example_queries(titles: Sequence[str], texts: Sequence[str]) -> list[str]:
    """Queries that should find something: how some of these titles and texts begin, which any script has.

    >>> example_queries(["  The <b>bush</b> fires of Sydney"], ["As seen"])
    ['bush fires Sydney', 'seen']
    """
    begun = [list(filter(None, map(_beginning, some)))[:_EACH] for some in (titles, texts)]
    return list(dict.fromkeys([*begun[0], *begun[1]]))


def _beginning(text: str) -> str:
    """The first words of a text that say something, at most three, or the first letters where there are no spaces."""
    read = plain_text(text[:5000])[:200]  # before which much of a text may be tags
    words = [word for word in _WORD.findall(read) if word.lower() not in ANALYZER_STOP_WORDS | FUNCTION_WORDS]
    begun = [" ".join(word[:_LONGEST] for word in words[:count]) for count in (3, 2, 1)]
    return next((some for some in begun if len(some) <= _WIDEST), begun[-1])


def range_clauses(name: str, bounds: Sequence[Bound]) -> list[tuple[dict[str, Bound | None], Body]]:
    """Each range of a field, from one bound up to but not with the next, and the clause that finds what is in it."""
    edges: list[Bound | None] = [None, *bounds, None]
    found: list[tuple[dict[str, Bound | None], Body]] = []
    for start, end in pairwise(edges):
        limits = {key: limit for key, limit in (("gte", start), ("lt", end)) if limit is not None}
        found.append(({"from": start, "to": end}, {"range": {name: limits}}))
    return found


def count_facets(
    engine: Engine,
    index: str,
    query: Body,
    names: Sequence[str],
    ranges: Mapping[str, Sequence[Bound]],
    headers: Headers = None,
) -> dict[str, list[dict[str, Any]]]:
    """Of each field the most frequent values, or its ``ranges``, with how many documents of a ``query`` have
    them."""
    parts = [part for name in names if name in ranges for part in range_clauses(name, ranges[name])]
    counts = engine.document_counts(index, [filtered(query, clause) for _, clause in parts], headers)
    counted = ({**limits, "count": count} for (limits, _), count in zip(parts, counts, strict=True))
    plain = [name for name in names if name not in ranges]
    values = engine.value_counts(index, query, plain, MAX_VALUES_OF_FACET, headers) if plain else {}
    listed = {name: [{"value": value, "count": count} for value, count in found] for name, found in values.items()}
    return {name: listed[name] if name in listed else list(islice(counted, len(ranges[name]) + 1)) for name in names}
