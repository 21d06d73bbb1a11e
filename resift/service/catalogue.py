"""List the served indices, and choose how the search page shows the documents of each index."""

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
from resift.feedback.explain import title_of
from resift.query.dsl import Body, values_of
from resift.query.questions import question_clause
from resift.service.bodies import with_filter
from resift.service.cards import ROLES, Bound, CardFields, choose_card_fields
from resift.service.served_indices import ServedIndices
from resift.sessions.documents import readable_text
from resift.text import ANALYZER_STOP_WORDS, FUNCTION_WORDS, plain_text

log = logging.getLogger(__name__)
MAX_INDICES = 200
"""Maximum number of indices that are listed."""
MAX_EXAMPLES = 3
"""Maximum number of example queries of an index."""
MAX_VALUES_OF_FACET = 8
_LIST_SECONDS = 10.0
_CACHE_SECONDS = 600.0
_CACHE_SIZE = 200
_SAMPLE_SIZE = 100
"""Number of documents of an index from which its fields and example queries are guessed."""

# Example queries.
_ENOUGH_HITS = 10
"""Example queries with at least this many hits rank equally: they have enough hits to try marks on."""
_MAX_CANDIDATES = 5
"""Maximum number of candidate queries from titles, and the same number from texts."""
_MAX_WORD_LENGTH = 20
_MAX_QUERY_LENGTH = 30
_WORD = regex.compile(r"[\p{L}\p{M}]+(?:[-'’][\p{L}\p{M}]+)*")


class Catalogue:
    """Lists the searchable indices, and chooses how the search page shows the documents of each index.

    All requests to the engine use the caller's rights. The list of indices is cached for ten seconds, and the fields of
    an index for ten minutes. Callers with different HTTP headers do not share cached results.

    Args:
        engine: The search engine.
        served: The indices that the service may search.
        settings: The items of the setting ``RESIFT_PAGE_FIELDS`` (see :func:`resift.service.cards.parse_page_fields`).
    """

    def __init__(self, engine: Engine, served: ServedIndices, settings: Sequence[str]) -> None:
        self.engine, self.served, self.settings = engine, served, settings
        self._lists: TtlCache[list[dict[str, Any]]] = TtlCache(_CACHE_SIZE, _LIST_SECONDS)
        self._fields: TtlCache[CardFields] = TtlCache(_CACHE_SIZE, _CACHE_SECONDS)

    def indices(self, model: ModelDescription, headers: Headers = None) -> list[dict[str, Any]]:
        """List the indices that can be searched with an embedding model, up to ``MAX_INDICES``.

        Args:
            model: A description of the model that the service uses.
            headers: The caller's HTTP headers, which are passed on to the engine.

        Returns:
            A dictionary for each index, with its name (``index``) and the number of ``documents`` that the caller may
            read.
        """
        return self._lists.get_or_load((model.hash, str(headers)), lambda: self._list_indices(model, headers))

    def _list_indices(self, model: ModelDescription, headers: Headers) -> list[dict[str, Any]]:
        """List the indices like :meth:`indices`, without the cache. This takes a request for each index."""
        infos = self.engine.indices(self.served.patterns, headers)
        names = [self.served.name_to_match(info.name) for info in infos if _is_searchable(info, model)]
        # The engine lists no aliases. An alias is served if the setting names it without a wildcard.
        aliases = {name for name in self.served.patterns if "*" not in name} - {info.name for info in infos}
        listed: list[dict[str, Any]] = []
        for name in dict.fromkeys([*names, *sorted(aliases)]):
            if not self.served.has(name) or len(listed) >= MAX_INDICES:
                continue
            count = self._document_count_or_none(name, headers)
            if count is not None:
                listed.append({"index": name, "documents": count})
        return listed

    def describe(self, info: IndexInfo, headers: Headers = None) -> dict[str, Any]:
        """Describe an index for the search page, in the format of ``GET /v1/indices/{index}``.

        Args:
            info: The names, fields and settings of the index.
            headers: The caller's HTTP headers, which are passed on to the engine.

        Returns:
            A dictionary with the name of the index (``index``), the indices behind an alias (``indices``), the number
            of ``documents``, the text ``fields``, and whether the index has ``vectors``. Without vectors, searches use
            only BM25. The keys ``card``, ``facets``, ``ranges``, ``facts`` and ``examples`` name the fields that the
            search page shows (see :class:`CardFields`).
        """
        fields = self.card_fields(info, headers)
        return {
            "index": info.name,
            "indices": list(info.indices),
            "documents": self._document_count(info.name, headers),
            "fields": list(info.fields),
            "vectors": info.model is not None,
            "card": {part: getattr(fields, part) for part in ROLES[:4]},
            "facets": list(fields.facets),
            "ranges": fields.ranges,
            "facts": list(fields.facts),
            "examples": list(fields.examples),
        }

    def card_fields(self, info: IndexInfo, headers: Headers = None) -> CardFields:
        """Return the fields that the search page shows for an index, with some example queries.

        Args:
            info: The names, fields and settings of the index.
            headers: The caller's HTTP headers, which are passed on to the engine.
        """
        key = (info.name, str(headers))
        cached = self._fields.get(key)
        if cached is not None:
            return cached
        sources = [hit.get("_source", {}) for hit in self.engine.sample(info.name, _SAMPLE_SIZE, headers=headers).hits]
        exact = self.engine.exact_fields(info.name, headers)
        fields = choose_card_fields(sources, info.readable_fields, exact, self.settings)
        # Ranges fail on a field that the mapping does not index, although documents contain numbers in it.
        refused = {
            name for name, bounds in fields.ranges.items() if not self._any_range_matches(info, name, bounds, headers)
        }
        if refused:
            ranges = {name: bounds for name, bounds in fields.ranges.items() if name not in refused}
            facets = tuple(name for name in fields.facets if name not in refused)
            fields = replace(fields, facets=facets, ranges=ranges)
        if not fields.examples:
            fields = replace(fields, examples=self._example_queries(info, fields, sources, headers))
        # The fields of an empty index are unknown until it has documents, so they are not cached.
        return self._fields.put(key, fields) if sources else fields

    def _any_range_matches(self, info: IndexInfo, name: str, bounds: Sequence[Bound], headers: Headers) -> bool:
        """Return whether a document has a value in at least one of the ranges of a field.

        The result is False if the engine refuses to search the field.

        Args:
            info: The names, fields and settings of the index.
            name: The name of the field.
            bounds: The bounds between the ranges, in ascending order.
            headers: The caller's HTTP headers, which are passed on to the engine.

        Raises:
            EngineUnavailable: If the engine does not answer.
        """
        clauses = [clause for _, clause in range_clauses(name, bounds)]
        try:
            return any(self.engine.document_counts(info.name, clauses, headers))
        except (BadInput, EngineError, NotFound) as error:
            log.info("no ranges of field %r in index %r: %s", name, info.name, error.message)
            return False

    def _example_queries(
        self, info: IndexInfo, fields: CardFields, sources: Sequence[Mapping[str, Any]], headers: Headers
    ) -> tuple[str, ...]:
        """Choose example queries for the search page.

        The candidates are the first words of titles and texts in a sample of documents. The candidates with the most
        hits are returned.

        Args:
            info: The names, fields and settings of the index.
            fields: The fields that the search page shows.
            sources: The ``_source`` of the sampled documents.
            headers: The caller's HTTP headers, which are passed on to the engine.
        """
        texts = [readable_text(source, info) for source in sources]
        titles = [
            _document_title(source, fields) or title_of(text) for source, text in zip(sources, texts, strict=True)
        ]
        candidates = example_queries(titles, texts)
        clauses = [question_clause(query, info.query_fields(query)) for query in candidates]
        totals = self.engine.document_counts(info.name, clauses, headers)
        counted = [(min(total, _ENOUGH_HITS), query) for query, total in zip(candidates, totals, strict=True) if total]
        ranked = [query for _, query in sorted(counted, key=lambda pair: -pair[0])]
        # If a text begins with its title, only the shorter query is kept.
        distinct = (query for query in ranked if not any(map(query.startswith, {*ranked} - {query})))
        return tuple(distinct)[:MAX_EXAMPLES]

    def _document_count_or_none(self, index: str, headers: Headers) -> int | None:
        """Return the number of documents that the caller may read, or None if the index cannot be searched.

        For example, a closed index cannot be searched.

        Args:
            index: The name of the index.
            headers: The caller's HTTP headers, which are passed on to the engine.

        Raises:
            EngineUnavailable: If the engine does not answer.
        """
        try:
            return self._document_count(index, headers)
        except (BadInput, EngineError, NotFound) as error:
            log.info("index %r is not listed: %s", index, error.message)
            return None

    def _document_count(self, index: str, headers: Headers) -> int:
        """Return the number of documents in an index that the caller may read.

        Args:
            index: The name of the index.
            headers: The caller's HTTP headers, which are passed on to the engine.

        Raises:
            ResiftError: If the engine returns an error.
        """
        body = {"query": {"match_all": {}}, "size": 0, "track_total_hits": True}
        total: int = self.engine.search(index, body, headers=headers).response["hits"]["total"]["value"]
        return total


def _document_title(source: Mapping[str, Any], fields: CardFields) -> str:
    """Return the title of a document, or "" if it has none.

    Args:
        source: The ``_source`` of the document.
        fields: The fields that the search page shows, which include the field of the title.
    """
    values = values_of(source, fields.title) if fields.title else ()
    return next((value for value in values if isinstance(value, str)), "")


def _is_searchable(info: IndexInfo, model: ModelDescription) -> bool:
    """Return whether the service can search an index.

    It can if the index has vectors of the service's model, or no vectors at all.

    Args:
        info: The description of the index.
        model: The model of the service.
    """
    try:
        info.for_search(model)
    except ModelMismatch:
        return False
    return True


def example_queries(titles: Sequence[str], texts: Sequence[str]) -> list[str]:
    """Return candidates for example queries: the first content words of each title and text.

    Args:
        titles: The titles of some documents.
        texts: The texts of some documents.

    >>> example_queries(["  The <b>bush</b> fires of Sydney"], ["As seen"])
    ['bush fires Sydney', 'seen']
    """
    candidates: list[str] = []
    for strings in (titles, texts):
        candidates += list(filter(None, map(_first_words, strings)))[:_MAX_CANDIDATES]
    return list(dict.fromkeys(candidates))


def _first_words(text: str) -> str:
    """Return the beginning of a text as an example query: its first three content words, joined by spaces.

    If three words are too long for an example, two words or one word are returned. A single very long word is
    truncated, because in a script without spaces a whole sentence counts as a word.
    """
    visible = plain_text(text[:5000])[:200]  # 5,000 characters, since most of them may be HTML tags
    words = [word for word in _WORD.findall(visible) if word.lower() not in ANALYZER_STOP_WORDS | FUNCTION_WORDS]
    beginnings = [" ".join(word[:_MAX_WORD_LENGTH] for word in words[:count]) for count in (3, 2, 1)]
    return next((beginning for beginning in beginnings if len(beginning) <= _MAX_QUERY_LENGTH), beginnings[-1])


def range_clauses(name: str, bounds: Sequence[Bound]) -> list[tuple[dict[str, Bound | None], Body]]:
    """Divide the values of a field into ranges, and build a query clause for each range.

    Args:
        name: The name of the field.
        bounds: The bounds between the ranges, in ascending order. A range includes its lower and excludes its upper
            bound.

    Returns:
        For each range, a dictionary with the bounds ``from`` and ``to`` (None if unbounded), and a clause that matches
        the range.
    """
    ends: list[Bound | None] = [None, *bounds, None]
    clauses: list[tuple[dict[str, Bound | None], Body]] = []
    for start, end in pairwise(ends):
        limits = {key: limit for key, limit in (("gte", start), ("lt", end)) if limit is not None}
        clauses.append(({"from": start, "to": end}, {"range": {name: limits}}))
    return clauses


def count_facets(
    engine: Engine,
    index: str,
    query: Body,
    names: Sequence[str],
    ranges: Mapping[str, Sequence[Bound]],
    headers: Headers = None,
) -> dict[str, list[dict[str, Any]]]:
    """Count the values or value ranges of facet fields among all hits of a query.

    Args:
        engine: The search engine.
        index: The name of the searched index.
        query: The query clause whose hits are counted.
        names: The names of the facet fields.
        ranges: For fields that are divided into ranges, the bounds of the ranges. For all other fields, the
            ``MAX_VALUES_OF_FACET`` most frequent values are counted.
        headers: The caller's HTTP headers, which are passed on to the engine.

    Returns:
        For each field, a list of dictionaries with a ``value`` (or the bounds ``from`` and ``to`` of a range) and the
        number of matching documents, ``count``.
    """
    parts = [part for name in names if name in ranges for part in range_clauses(name, ranges[name])]
    counts = engine.document_counts(index, [with_filter(query, clause) for _, clause in parts], headers)
    counted_ranges = ({**ends, "count": count} for (ends, _), count in zip(parts, counts, strict=True))
    plain = [name for name in names if name not in ranges]
    values = engine.value_counts(index, query, plain, MAX_VALUES_OF_FACET, headers) if plain else {}
    facets: dict[str, list[dict[str, Any]]] = {}
    for name in names:
        if name in values:
            facets[name] = [{"value": value, "count": count} for value, count in values[name]]
        else:
            facets[name] = list(islice(counted_ranges, len(ranges[name]) + 1))
    return facets
