"""What a search body asks for beside its query: which of its hits, in which order, with which scores, and what is
shown of them.

``rescore``: the first hits get other scores, as OpenSearch's ``QueryRescorer`` computes them. ``collapse`` leaves all
hits out but the best of those with one value in a field. ``search_pipeline``: how the scores of a hybrid query's
sub-queries are made comparable and combined, as OpenSearch's neural-search plugin does. All is in 32-bit floats, as
there, so that documents which tie there tie here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

import msgspec
import numpy as np

from resift.arrays import Floats
from resift.embedded.clauses import Clause, Query, View
from resift.embedded.fields import only_value, value_text
from resift.embedded.highlights import Highlight, parse_highlight
from resift.embedded.query import Natural, Share, parse_query, settings_of, single, unsupported
from resift.embedded.tables import IndexTables, Matches, Rows, Scores, stored_object, stored_sources, stored_vector
from resift.errors import BadInput, CorruptEngine
from resift.query.dsl import MAX_RESULTS, VECTOR_FIELD, filter_source, is_ours, source_parts
from resift.schema import convert

_MODES: dict[str, Callable[[Scores, Scores], Scores]] = {"total": np.add, "multiply": np.multiply}
_BODY_KEYS = (
    *("query", "size", "from", "_source", "highlight", "track_total_hits"),
    *("rescore", "search_pipeline", "collapse"),
)
_Window = Annotated[int, msgspec.Meta(ge=0, le=MAX_RESULTS)]
_Constant = Annotated[int, msgspec.Meta(ge=1, le=10_000)]
_LARGEST = float(np.finfo(np.float32).max)
_LEAST = np.float32(0.001)  # what a hit has that would have nothing: others were not found at all


@dataclass(frozen=True)
class Rescore:
    """The scores of the first ``window`` hits and those of a query for them, made into one."""

    window: int
    query: Query
    combine: Callable[[Scores, Scores], Scores]

    def of(self, view: View, ranking: Matches) -> Matches:
        """A ranking after this: rows and scores, best first."""
        rows, scores = ranking[0], ranking[1].copy()
        first = rows[: self.window]
        matched, second = self.query.clause.matches(view, np.sort(first))
        # A hit that the query does not match keeps what it has.
        places = np.flatnonzero(np.isin(first, matched, assume_unique=True))
        scores[places] = self.combine(scores[places], second[np.searchsorted(matched, first[places])])
        scores = np.nan_to_num(scores, nan=0, posinf=_LARGEST, neginf=-_LARGEST)  # JSON knows no others
        # All hits, also those beyond the window, are ordered together.
        order = np.lexsort((rows, -scores))
        return rows[order], scores[order]


Normalize = Callable[[Scores], Scores]  # scores (n,) of one sub-query, best first → comparable ones


def _combined(
    rankings: Sequence[Matches], normalize: Normalize, weights: Sequence[float] = (), mean: bool = True
) -> Matches:
    """One ranking of those of a hybrid query's sub-queries, each best first.

    A document has the ``mean`` or the sum of its normalized scores, by the ``weights`` of sub-queries, alike without
    any; where one did not find it, 0. Raises BadInput if the weights are not as many as sub-queries.
    """
    if weights and len(weights) != len(rankings):
        expected = f"as many as sub-queries: {len(rankings)}"
        raise BadInput(f"there are {len(weights)} weights", value=list(weights), expected=expected)
    rows = np.unique(np.concatenate([found for found, _ in rankings]))
    table = np.zeros((len(rankings), len(rows)), np.float32)
    for line, (found, scores) in zip(table, rankings, strict=True):
        if len(found):
            line[np.searchsorted(rows, found)] = normalize(scores)
    shares = np.array(weights or [1] * len(rankings), np.float32)
    scores = np.add.reduce(table * shares[:, None], axis=0)
    return _best_first(rows, scores / np.add.reduce(shares) if mean else scores)


def _min_max(scores: Scores) -> Scores:
    low, high = scores.min(), scores.max()
    if low == high:
        return np.ones_like(scores)
    scaled = (scores - low) / (high - low)
    return np.asarray(np.where(scaled == 0, _LEAST, scaled))


def _reciprocal_rank(scores: Scores, constant: int) -> Scores:
    return (1 / (constant + 1 + np.arange(len(scores)))).astype(np.float32)


def _best_first(rows: Rows, scores: Scores) -> Matches:
    """Rows in ascending order and their scores, best first; of equal ones the first written first."""
    order = np.argsort(-scores, kind="stable")
    return rows[order], scores[order]


@dataclass(frozen=True)
class Search:
    """A search body: the page, what is ranked for it, the field that hits are grouped by, and what is shown of them."""

    query: Query
    start: int
    size: int
    rescores: list[Rescore]
    combine: Callable[[Sequence[Matches]], Matches]
    group: str | None
    source: Any
    highlight: Highlight | None

    def ranking(self, view: View) -> tuple[Matches, int]:
        """The rows and scores of the hits, best first, those of the page among them, and how many there are in all.

        Raises BadInput for a page of a hybrid query's hits that none of its sub-queries reaches.
        """
        if not self.query.queries:
            ranking = _best_first(*self.query.clause.matches(view))
            total = len(ranking[0])
            if self.rescores and self.size:
                window = max(self.start + self.size, *(rescore.window for rescore in self.rescores))
                ranking = self._rescored(view, ranking, window)
            return self._collapsed(view, ranking), total
        found = [_best_first(*clause.matches(view)) for clause in self.query.queries]
        found = [(rows[scores > 0], scores[scores > 0]) for rows, scores in found]
        total = len(np.unique(np.concatenate([rows for rows, _ in found])))
        depth = self.query.depth or self.size
        ranking = self.combine([self._rescored(view, one, depth) for one in found])
        ranking = self._collapsed(view, ranking)
        reached = len(ranking[0])
        if total and self.start > reached:
            raise BadInput(f"from is {self.start}", value=self.start, expected=f"at most {reached}, at this depth")
        return ranking, total

    def hits(
        self, view: View, rows: Rows, scores: Scores, vectors: bool
    ) -> tuple[list[dict[str, Any]], list[Floats | None]]:
        """The hits of a page, for its rows and their scores, and their vectors (K,) if these are wanted."""
        tables, names = view.tables, self._names(view, rows)
        # Ids alone are read alone: of a page of thousands the rest takes longer than the search.
        ids_alone = self.source is False and not (self.highlight or self.group or vectors)
        read = "'{}', NULL" if ids_alone else "source, vector"
        sql = f"SELECT row, id, {read} FROM {tables.documents} WHERE row IN ({', '.join(map(str, rows))})"
        stored = {row: rest for row, *rest in view.db.execute(sql)}
        hits, found_vectors = [], []
        for row, score in zip(rows.tolist(), scores.tolist(), strict=True):
            if row not in stored:
                raise CorruptEngine(f"{tables.name!r} is damaged: row {row} has no document", value=row)
            id, text, blob = stored[row]
            where = f"document {id!r}"
            fields, vector = stored_object(text, where), stored_vector(blob, tables.meta.dim, where)
            hit = {"_index": tables.name, "_id": id, "_score": score, **self._shown(view, fields, vector)}
            hits.append(hit | {"matched_queries": names[row]} if names[row] else hit)
            found_vectors.append(vector if vectors else None)
        return hits, found_vectors

    def _shown(self, view: View, fields: dict[str, Any], vector: Floats | None) -> dict[str, Any]:
        """The parts of a hit that are taken from its document."""
        shown: dict[str, Any] = {}
        named = vector is not None and VECTOR_FIELD in source_parts(self.source)[0]
        wanted = filter_source(fields | {VECTOR_FIELD: np.asarray(vector).tolist()} if named else fields, self.source)
        if wanted is not None:
            shown["_source"] = wanted
        if self.group and (value := only_value(fields, self.group)) is not None:
            shown["fields"] = {self.group: [value]}
        if self.highlight and (fragments := self.highlight.of(fields, view.tables.meta.analyzer)):
            shown["highlight"] = fragments
        return shown

    def _names(self, view: View, page: Rows) -> Mapping[int, list[str]]:
        """The names of clauses that each row of a page matches; of clauses with one name the last counts."""
        found: dict[int, list[str]] = {row: [] for row in page.tolist()}
        queries = [self.query, *(rescore.query for rescore in self.rescores)]
        clauses: dict[str, Clause] = {name: clause for query in queries for name, clause in query.names.items()}
        for name, clause in sorted(clauses.items()):
            # What the whole search asked for, all of its hits match.
            rows = page if clause is self.query.clause else clause.matches(view, np.sort(page))[0]
            for row in rows.tolist():
                found[row].append(name)
        return found

    def _rescored(self, view: View, ranking: Matches, window: int) -> Matches:
        """The first hits of a ranking after one rescore after the other; OpenSearch has not collected the others."""
        ranking = ranking[0][:window], ranking[1][:window]
        with np.errstate(over="ignore", invalid="ignore"):
            for rescore in self.rescores:
                ranking = rescore.of(view, ranking)
        return ranking

    def _collapsed(self, view: View, ranking: Matches) -> Matches:
        """The first hit with each value of the field that hits are grouped by, and the first that has none."""
        if self.group is None:
            return ranking
        sources = stored_sources(view.db, view.tables, ranking[0].tolist())
        first: dict[str | None, int] = {}
        for place, source in enumerate(sources):
            value = only_value(source, self.group)
            first.setdefault(None if value is None else value_text(value), place)
        places = np.array(list(first.values()), np.int64)
        return ranking[0][places], ranking[1][places]


def parse_search(body: Mapping[str, Any], tables: IndexTables) -> Search:
    """What a search body asks for.

    Raises UnsupportedQuery for what the embedded engine does not know, and BadInput for what it does not give.
    """
    settings_of(body, "a search body", *_BODY_KEYS)
    size, start = convert("size", body.get("size", 10), Natural), convert("from", body.get("from", 0), Natural)
    if size + start > MAX_RESULTS:
        raise BadInput(f"from + size is {size + start}", value=size + start, expected=f"at most {MAX_RESULTS}")
    query = parse_query(body.get("query", {"match_all": {}}), tables, whole=True)
    if start and query.queries and query.depth is None:
        raise BadInput(f"from is {start}", value=start, expected="0, or a pagination_depth in the hybrid query")
    rescore = body.get("rescore", [])
    rescores = [_rescore(part, tables) for part in (rescore if isinstance(rescore, list) else [rescore])]
    group = _group(body["collapse"], tables) if "collapse" in body else None
    if group and rescores:
        raise BadInput("hits that are rescored cannot be collapsed", value=group, expected="collapse or rescore")
    source_parts(source := body.get("_source"))  # raises BadInput for a malformed one
    highlight = parse_highlight(body.get("highlight"), query.clause, tables)
    combination = _combination(body.get("search_pipeline"))
    return Search(query, start, size, rescores, combination, group, source, highlight)


def _group(collapse: Any, tables: IndexTables) -> str:
    """The field that hits are grouped by."""
    name = settings_of(collapse, "collapse", "field").get("field")
    if not isinstance(name, str) or name in tables.meta.fields or is_ours(name):
        expected = "a field with one text or number that is compared as a whole"
        raise BadInput(f"hits cannot be collapsed by {name!r}", value=name, expected=expected)
    return name


def _rescore(body: Any, tables: IndexTables) -> Rescore:
    body = settings_of(body, "rescore", "query", "window_size")
    settings = settings_of(body.get("query"), "the query of rescore", "rescore_query", "score_mode")
    window = convert("window_size", body.get("window_size", 10), _Window)
    mode = convert("score_mode", settings.get("score_mode", "total"), Literal["total", "multiply"])
    return Rescore(window, parse_query(settings.get("rescore_query"), tables), _MODES[mode])


def _combination(pipeline: Any) -> Callable[[Sequence[Matches]], Matches]:
    """How a body's ``search_pipeline`` combines the scores of a hybrid query; by min-max where it does not say."""
    if isinstance(pipeline, str) and pipeline != "_none":  # the engine has none that are stored
        unsupported(f"the search pipeline {pipeline!r}", "a search pipeline that stands in the body, or _none")
    asked = {} if pipeline in (None, "_none") else pipeline
    settings = settings_of(asked, "search_pipeline", "phase_results_processors", "description", "version")
    processors = settings.get("phase_results_processors")
    if processors is None:
        return partial(_combined, normalize=_min_max)
    if not isinstance(processors, list) or len(processors) != 1:
        unsupported("several phase_results_processors", "one of them")
    kind, config = single(processors[0], "phase_results_processors")
    without_effect = ("tag", "description", "ignore_failure")
    if kind == "normalization-processor":
        parts = settings_of(config, kind, "normalization", "combination", *without_effect)
        _only(settings_of(parts.get("normalization", {}), "normalization", "technique"), "min_max")
        combination = settings_of(parts.get("combination", {}), "combination", "technique", "parameters")
        _only(combination, "arithmetic_mean")
        return partial(_combined, normalize=_min_max, weights=_weights(combination))
    if kind != "score-ranker-processor":
        unsupported(f"the processor {kind!r}", "normalization-processor | score-ranker-processor")
    ranked = settings_of(config, kind, "combination", *without_effect).get("combination", {})
    combination = settings_of(ranked, "combination", "technique", "rank_constant", "parameters")
    _only(combination, "rrf")
    constant = convert("rank_constant", combination.get("rank_constant", 60), _Constant)
    rank = partial(_reciprocal_rank, constant=constant)
    return partial(_combined, normalize=rank, weights=_weights(combination), mean=False)


def _only(settings: Mapping[str, Any], technique: str) -> None:
    """Raise UnsupportedQuery if a processor's part names another technique."""
    if settings.get("technique", technique) != technique:
        unsupported(f"the technique {settings['technique']!r} here", technique)


def _weights(combination: Mapping[str, Any]) -> tuple[float, ...]:
    weights = settings_of(combination.get("parameters", {}), "parameters of combination", "weights").get("weights", [])
    shares: tuple[float, ...] = convert("weights", weights, tuple[Share, ...])
    if shares and abs(sum(shares) - 1) > 0.01:
        raise BadInput(f"weights are {weights}", value=weights, expected="numbers whose sum is 1")
    return shares
