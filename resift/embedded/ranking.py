"""Ranking and presentation of hits according to a search body.

- ``rescore`` changes the scores of the first hits, like OpenSearch's ``QueryRescorer``.
- ``collapse`` keeps only the best hit for each value of a field.
- ``search_pipeline`` normalizes and combines the scores of a hybrid query's sub-queries, like OpenSearch's
  neural-search plugin.

Like OpenSearch, all computations use 32-bit floats, so that ties are the same as there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

import msgspec
import numpy as np

from resift.arrays import Floats
from resift.embedded.clauses import Clause, IndexView, Query
from resift.embedded.fields import only_value, value_text
from resift.embedded.highlights import Highlight, parse_highlight
from resift.embedded.query import Natural, Share, checked_settings, only_entry, parse_query, raise_unsupported
from resift.embedded.tables import IndexTables, Matches, Rows, Scores, decode_vector, parse_stored_object, read_sources
from resift.errors import BadInput, CorruptEngine
from resift.query.dsl import MAX_RESULTS, VECTOR_FIELD, filter_source, is_resift_field, split_source_option
from resift.schema import convert

_MODES: dict[str, Callable[[Scores, Scores], Scores]] = {"total": np.add, "multiply": np.multiply}
_BODY_KEYS = (
    *("query", "size", "from", "_source", "highlight", "track_total_hits"),
    *("rescore", "search_pipeline", "collapse"),
)
_WindowSize = Annotated[int, msgspec.Meta(ge=0, le=MAX_RESULTS)]
_RankConstant = Annotated[int, msgspec.Meta(ge=1, le=10_000)]
_MAX_SCORE = float(np.finfo(np.float32).max)
# The lowest normalised score of a hit. It is above 0, the score of a document that the sub-query does not match.
_MIN_NORMALIZED_SCORE = np.float32(0.001)


@dataclass(frozen=True)
class Rescore:
    """A rescore step of a search: a second query changes the scores of the first hits.

    Attributes:
        window: The number of top-ranked hits to rescore (``window_size`` in OpenSearch).
        query: The second query.
        combine: A function that combines the original scores of the hits with the scores of the second query.
    """

    window: int
    query: Query
    combine: Callable[[Scores, Scores], Scores]

    def apply(self, view: IndexView, ranking: Matches) -> Matches:
        """Rescore the first hits of a ranking, and return the new ranking.

        Args:
            view: The index to search.
            ranking: The row numbers and scores of the hits, best first.

        Returns:
            The row numbers and scores of all hits in their new order.
        """
        rows, scores = ranking[0], ranking[1].copy()
        first = rows[: self.window]
        matched, second = self.query.clause.matches(view, np.sort(first))
        # A hit that the query does not match keeps its score.
        places = np.flatnonzero(np.isin(first, matched, assume_unique=True))
        scores[places] = self.combine(scores[places], second[np.searchsorted(matched, first[places])])
        # JSON cannot represent NaN and infinity.
        scores = np.nan_to_num(scores, nan=0, posinf=_MAX_SCORE, neginf=-_MAX_SCORE)
        # Sort all hits together, including the hits beyond the window.
        order = np.lexsort((rows, -scores))
        return rows[order], scores[order]


# Maps the scores (n,) of a sub-query, best first, to scores that are comparable between sub-queries.
Normalize = Callable[[Scores], Scores]


def _combined(
    rankings: Sequence[Matches], normalize: Normalize, weights: Sequence[float] = (), mean: bool = True
) -> Matches:
    """Combine the rankings of the sub-queries of a hybrid query into a single ranking.

    The score of a document is the weighted mean, or sum, of its normalised scores in all sub-queries. If a document
    does not match a sub-query, its normalised score there is 0.

    Args:
        rankings: The row numbers and scores of the hits of each sub-query, best first.
        normalize: A function that normalizes the scores of one sub-query.
        weights: The weight of each sub-query. By default, all weights are equal.
        mean: Whether to compute the weighted mean instead of the weighted sum.

    Raises:
        BadInput: If the number of weights differs from the number of sub-queries.
    """
    if weights and len(weights) != len(rankings):
        expected = f"{len(rankings)} weights, one for each sub-query"
        raise BadInput(f"there are {len(weights)} weights", value=list(weights), expected=expected)
    rows = np.unique(np.concatenate([ranked for ranked, _ in rankings]))
    table = np.zeros((len(rankings), len(rows)), np.float32)
    for line, (ranked, scores) in zip(table, rankings, strict=True):
        if len(ranked):
            line[np.searchsorted(rows, ranked)] = normalize(scores)
    shares = np.array(weights or [1] * len(rankings), np.float32)
    scores = np.add.reduce(table * shares[:, None], axis=0)
    return _sorted_best_first(rows, scores / np.add.reduce(shares) if mean else scores)


def _min_max(scores: Scores) -> Scores:
    """Scale the scores of a sub-query to the range from 0.001 to 1, as OpenSearch does. Equal scores become 1."""
    low, high = scores.min(), scores.max()
    if low == high:
        return np.ones_like(scores)
    scaled = (scores - low) / (high - low)
    return np.asarray(np.where(scaled == 0, _MIN_NORMALIZED_SCORE, scaled))


def _reciprocal_rank(scores: Scores, constant: int) -> Scores:
    """Replace each score of a sub-query with 1 / (constant + rank), where the best hit has the rank 1.

    Args:
        scores: The scores, best first.
        constant: The rank constant of reciprocal rank fusion (RRF).
    """
    return (1 / (constant + 1 + np.arange(len(scores)))).astype(np.float32)


def _sorted_best_first(rows: Rows, scores: Scores) -> Matches:
    """Sort documents by descending score. Documents with equal scores are sorted by row number.

    Args:
        rows: The row numbers of the documents, in ascending order.
        scores: The score of each document.
    """
    order = np.argsort(-scores, kind="stable")
    return rows[order], scores[order]


@dataclass(frozen=True)
class ParsedSearch:
    """A search body after parsing. It can compute and format the hits of the search.

    Attributes:
        query: The parsed query.
        start: The number of hits to skip (``from`` in OpenSearch).
        size: The number of hits to return.
        rescores: The rescore steps, in order.
        combine: A function that combines the rankings of the sub-queries of a hybrid query.
        collapse_field: The name of the field by which hits are collapsed: only the best hit for each value of the field
            is returned. None to return all hits.
        source: The ``_source`` parameter, which selects the returned fields.
        highlight: The highlighting settings, or None for no highlighting.
    """

    query: Query
    start: int
    size: int
    rescores: list[Rescore]
    combine: Callable[[Sequence[Matches]], Matches]
    collapse_field: str | None
    source: Any
    highlight: Highlight | None

    def ranking(self, view: IndexView) -> tuple[Matches, int]:
        """Find and rank the documents that match the search.

        Args:
            view: The index to search, in its state at the beginning of a database transaction.

        Returns:
            The row numbers and scores of the hits, best first, and the total number of matching documents. For a search
            with rescore steps or a hybrid query, hits after the requested page may be missing.

        Raises:
            BadInput: If the page of a hybrid query starts after the last hit that the sub-queries retrieved.
        """
        if not self.query.queries:
            ranking = _sorted_best_first(*self.query.clause.matches(view))
            total = len(ranking[0])
            if self.rescores and self.size:
                window = max(self.start + self.size, *(rescore.window for rescore in self.rescores))
                ranking = self._rescored(view, ranking, window)
            return self._collapsed(view, ranking), total
        rankings = [_sorted_best_first(*clause.matches(view)) for clause in self.query.queries]
        rankings = [(rows[scores > 0], scores[scores > 0]) for rows, scores in rankings]
        total = len(np.unique(np.concatenate([rows for rows, _ in rankings])))
        depth = self.query.depth or self.size
        combined = self.combine([self._rescored(view, ranking, depth) for ranking in rankings])
        combined = self._collapsed(view, combined)
        available = len(combined[0])
        if total and self.start > available:
            expected = f"at most {available} with this pagination_depth"
            raise BadInput(f"from is {self.start}", value=self.start, expected=expected)
        return combined, total

    def hits(
        self, view: IndexView, rows: Rows, scores: Scores, vectors: bool
    ) -> tuple[list[dict[str, Any]], list[Floats | None]]:
        """Return a page of hits in the JSON format of OpenSearch, and the vectors of these hits.

        Args:
            view: The view of the index.
            rows: The row numbers of the hits on the page.
            scores: The scores of the hits.
            vectors: Whether to return the vectors. Otherwise, None is returned in the place of each vector.

        Raises:
            CorruptEngine: If a document is missing or damaged.
        """
        tables, names = view.tables, self._matched_clause_names(view, rows)
        # Read only the ids if nothing else is needed. Reading thousands of sources takes longer than the search.
        ids_only = self.source is False and not (self.highlight or self.collapse_field or vectors)
        columns = "'{}', NULL" if ids_only else "source, vector"
        sql = f"SELECT row, id, {columns} FROM {tables.documents} WHERE row IN ({', '.join(map(str, rows))})"
        stored = {row: rest for row, *rest in view.db.execute(sql)}
        hits, hit_vectors = [], []
        for row, score in zip(rows.tolist(), scores.tolist(), strict=True):
            if row not in stored:
                raise CorruptEngine(f"{tables.name!r} is damaged: row {row} has no document", value=row)
            id, text, blob = stored[row]
            where = f"document {id!r}"
            fields, vector = parse_stored_object(text, where), decode_vector(blob, tables.meta.dim, where)
            hit = {"_index": tables.name, "_id": id, "_score": score, **self._document_parts(view, fields, vector)}
            hits.append(hit | {"matched_queries": names[row]} if names[row] else hit)
            hit_vectors.append(vector if vectors else None)
        return hits, hit_vectors

    def _document_parts(self, view: IndexView, fields: dict[str, Any], vector: Floats | None) -> dict[str, Any]:
        """Return the parts of a hit that come from its document: the fields, the collapse value and the highlights.

        Args:
            view: The view of the index.
            fields: The fields of the document.
            vector: The vector of the document, of shape (n_dimensions,), or None.

        Returns:
            A dictionary with ``_source``, ``fields`` (the value by which the search collapses its hits) and
            ``highlight``. Keys that do not apply to the search or the document are missing.
        """
        shown: dict[str, Any] = {}
        if vector is not None and VECTOR_FIELD in split_source_option(self.source)[0]:
            source = filter_source(fields | {VECTOR_FIELD: np.asarray(vector).tolist()}, self.source)
        else:
            source = filter_source(fields, self.source)
        if source is not None:
            shown["_source"] = source
        if self.collapse_field and (value := only_value(fields, self.collapse_field)) is not None:
            shown["fields"] = {self.collapse_field: [value]}
        if self.highlight and (fragments := self.highlight.fragments_of(fields, view.tables.meta.analyzer)):
            shown["highlight"] = fragments
        return shown

    def _matched_clause_names(self, view: IndexView, page: Rows) -> Mapping[int, list[str]]:
        """Return the names of the named query clauses (``_name``) that each hit matches.

        If several clauses have the same name, only the last clause counts.

        Args:
            view: The view of the index.
            page: The row numbers of the hits on the page.

        Returns:
            The names of the matching clauses, by row number.
        """
        matched_names: dict[int, list[str]] = {row: [] for row in page.tolist()}
        queries = [self.query, *(rescore.query for rescore in self.rescores)]
        clauses: dict[str, Clause] = {name: clause for query in queries for name, clause in query.names.items()}
        for name, clause in sorted(clauses.items()):
            # All hits match the query of the whole search.
            rows = page if clause is self.query.clause else clause.matches(view, np.sort(page))[0]
            for row in rows.tolist():
                matched_names[row].append(name)
        return matched_names

    def _rescored(self, view: IndexView, ranking: Matches, window: int) -> Matches:
        """Apply all rescore steps to the first hits of a ranking. All other hits are dropped, as in OpenSearch.

        Args:
            view: The view of the index.
            ranking: The row numbers and scores of the hits, best first.
            window: The number of hits to rescore.
        """
        ranking = ranking[0][:window], ranking[1][:window]
        with np.errstate(over="ignore", invalid="ignore"):
            for rescore in self.rescores:
                ranking = rescore.apply(view, ranking)
        return ranking

    def _collapsed(self, view: IndexView, ranking: Matches) -> Matches:
        """Collapse the hits: return only the best hit for each value of the collapse field.

        All hits without a value in the field form a group of their own, of which the best hit is also returned.

        Args:
            view: The view of the index.
            ranking: The row numbers and scores of the hits, best first. If the search has no collapse field, the
                ranking is returned unchanged.
        """
        if self.collapse_field is None:
            return ranking
        sources = read_sources(view.db, view.tables, ranking[0].tolist())
        first: dict[str | None, int] = {}
        for place, source in enumerate(sources):
            value = only_value(source, self.collapse_field)
            first.setdefault(None if value is None else value_text(value), place)
        places = np.array(list(first.values()), np.int64)
        return ranking[0][places], ranking[1][places]


def parse_search(body: Mapping[str, Any], tables: IndexTables) -> ParsedSearch:
    """Parse an OpenSearch search body.

    Args:
        body: The search body as a JSON object.
        tables: The database tables of the index.

    Raises:
        UnsupportedQuery: If the embedded engine does not support a part of the body.
        BadInput: If the body is malformed.
    """
    checked_settings(body, "a search body", *_BODY_KEYS)
    size, start = convert("size", body.get("size", 10), Natural), convert("from", body.get("from", 0), Natural)
    if size + start > MAX_RESULTS:
        raise BadInput(f"from + size is {size + start}", value=size + start, expected=f"at most {MAX_RESULTS}")
    query = parse_query(body.get("query", {"match_all": {}}), tables, whole=True)
    if start and query.queries and query.depth is None:
        raise BadInput(f"from is {start}", value=start, expected="from 0, or a pagination_depth in the hybrid query")
    rescore = body.get("rescore", [])
    rescores = [_parse_rescore(part, tables) for part in (rescore if isinstance(rescore, list) else [rescore])]
    collapse_field = _collapse_field(body["collapse"], tables) if "collapse" in body else None
    if collapse_field and rescores:
        raise BadInput("rescored hits cannot be collapsed", value=collapse_field, expected="either collapse or rescore")
    source = body.get("_source")
    split_source_option(source)  # raises BadInput if it is malformed
    return ParsedSearch(
        query=query,
        start=start,
        size=size,
        rescores=rescores,
        combine=_parse_combination(body.get("search_pipeline")),
        collapse_field=collapse_field,
        source=source,
        highlight=parse_highlight(body.get("highlight"), query.clause, tables),
    )


def _collapse_field(collapse: Any, tables: IndexTables) -> str:
    """Return the name of the field by which hits are collapsed.

    Args:
        collapse: The value of ``collapse`` in the search body.
        tables: The database tables of the index.

    Raises:
        BadInput: If hits cannot be collapsed by the field, for example because it is a text field.
    """
    name = checked_settings(collapse, "collapse", "field").get("field")
    if not isinstance(name, str) or name in tables.meta.fields or is_resift_field(name):
        expected = "a keyword or number field with a single value"
        raise BadInput(f"hits cannot be collapsed by {name!r}", value=name, expected=expected)
    return name


def _parse_rescore(body: Any, tables: IndexTables) -> Rescore:
    """Parse a rescore step of a search body.

    Args:
        body: The step as JSON.
        tables: The database tables of the index.

    Raises:
        UnsupportedQuery: If the embedded engine does not support a part of the step.
        BadInput: If the step is malformed.
    """
    body = checked_settings(body, "rescore", "query", "window_size")
    settings = checked_settings(body.get("query"), "the query of rescore", "rescore_query", "score_mode")
    window = convert("window_size", body.get("window_size", 10), _WindowSize)
    mode = convert("score_mode", settings.get("score_mode", "total"), Literal["total", "multiply"])
    return Rescore(window, parse_query(settings.get("rescore_query"), tables), _MODES[mode])


def _parse_combination(pipeline: Any) -> Callable[[Sequence[Matches]], Matches]:
    """Return a function that combines the rankings of the sub-queries of a hybrid query.

    By default, the function scales the scores of each sub-query to the range 0 to 1 (min-max normalization), and
    computes their mean.

    Args:
        pipeline: The value of ``search_pipeline`` in the search body, or None.
    """
    if isinstance(pipeline, str) and pipeline != "_none":  # the embedded engine stores no pipelines
        raise_unsupported(
            f"the search pipeline {pipeline!r}", "a search pipeline that is defined in the body, or _none"
        )
    definition = {} if pipeline in (None, "_none") else pipeline
    settings = checked_settings(definition, "search_pipeline", "phase_results_processors", "description", "version")
    processors = settings.get("phase_results_processors")
    if processors is None:
        return partial(_combined, normalize=_min_max)
    if not isinstance(processors, list) or len(processors) != 1:
        raise_unsupported("several phase_results_processors", "a single processor")
    kind, config = only_entry(processors[0], "phase_results_processors")
    without_effect = ("tag", "description", "ignore_failure")
    if kind == "normalization-processor":
        parts = checked_settings(config, kind, "normalization", "combination", *without_effect)
        _require_technique(checked_settings(parts.get("normalization", {}), "normalization", "technique"), "min_max")
        combination = checked_settings(parts.get("combination", {}), "combination", "technique", "parameters")
        _require_technique(combination, "arithmetic_mean")
        return partial(_combined, normalize=_min_max, weights=_parse_weights(combination))
    if kind != "score-ranker-processor":
        raise_unsupported(f"the processor {kind!r}", "normalization-processor | score-ranker-processor")
    ranked = checked_settings(config, kind, "combination", *without_effect).get("combination", {})
    combination = checked_settings(ranked, "combination", "technique", "rank_constant", "parameters")
    _require_technique(combination, "rrf")
    constant = convert("rank_constant", combination.get("rank_constant", 60), _RankConstant)
    rank = partial(_reciprocal_rank, constant=constant)
    return partial(_combined, normalize=rank, weights=_parse_weights(combination), mean=False)


def _require_technique(settings: Mapping[str, Any], technique: str) -> None:
    """Check that the settings of a processor select a supported technique.

    Args:
        settings: The settings of the processor. If they contain no ``technique``, the default technique is supported.
        technique: The name of the supported technique.

    Raises:
        UnsupportedQuery: If the settings select another technique.
    """
    if settings.get("technique", technique) != technique:
        raise_unsupported(f"the technique {settings['technique']!r} here", technique)


def _parse_weights(combination: Mapping[str, Any]) -> tuple[float, ...]:
    """Return the weights of the sub-queries of a hybrid query. Empty if the settings contain no weights.

    Args:
        combination: The settings under ``combination`` of a search pipeline's processor.

    Raises:
        BadInput: If the sum of the weights is not 1, or a weight is invalid.
    """
    weights = checked_settings(combination.get("parameters", {}), "parameters of combination", "weights").get(
        "weights", []
    )
    shares: tuple[float, ...] = convert("weights", weights, tuple[Share, ...])
    if shares and abs(sum(shares) - 1) > 0.01:
        raise BadInput(f"the weights are {weights}", value=weights, expected="numbers whose sum is 1")
    return shares
