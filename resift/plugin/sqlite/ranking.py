"""What a search body asks for beside its query: which of its hits, in which order, with which scores.

``rescore``: the first hits get other scores, as OpenSearch's ``QueryRescorer`` computes them. ``search_pipeline``: how
those of a hybrid query are combined. ``post_filter`` and ``min_score`` leave hits out, and ``collapse`` all but the
best of those with one value in a field.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from resift.contracts.query_dsl import MAX_RESULTS, is_ours
from resift.errors import BadInput
from resift.plugin.sqlite.clauses import Clause, Query
from resift.plugin.sqlite.fields import only_value, value_text
from resift.plugin.sqlite.hybrid import Combination, parse_pipeline
from resift.plugin.sqlite.matching import Matcher
from resift.plugin.sqlite.query import natural_number, parse_query, unsupported
from resift.plugin.sqlite.tables import IndexTables, Matches, Scores, stored_sources

_MODES: dict[str, Callable[[Scores, Scores], Scores]] = {
    "total": np.add,
    "multiply": np.multiply,
    "avg": lambda first, second: (first + second) / np.float32(2),
    "max": np.maximum,
    "min": np.minimum,
}
_BODY_KEYS = {"query", "size", "from", "_source", "highlight", "track_total_hits", "rescore"} | {
    *("search_pipeline", "post_filter", "min_score", "collapse")
}
_KEYS = {"rescore_query", "query_weight", "rescore_query_weight", "score_mode"}
_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Rescore:
    """The scores of the first ``window`` hits and those of a query for them, each with its weight, made into one."""

    window: int
    query: Query
    weight: float
    query_weight: float
    combine: Callable[[Scores, Scores], Scores]

    def of(self, matcher: Matcher, ranking: Matches) -> Matches:
        """A ranking after this: rows and scores, best first."""
        rows, scores = ranking[0], ranking[1] * np.float32(self.weight)
        first = rows[: self.window]
        matched, second = matcher.matches(self.query.clause, np.sort(first))
        # A hit that the query does not match keeps what it has.
        places = np.flatnonzero(np.isin(first, matched, assume_unique=True))
        second = second[np.searchsorted(matched, first[places])] * np.float32(self.query_weight)
        scores[places] = self.combine(scores[places], second)
        scores = np.nan_to_num(scores, nan=0, posinf=_LARGEST, neginf=-_LARGEST)  # JSON knows no others
        # All hits, also those beyond the window, are ordered together.
        order = np.lexsort((rows, -scores))
        return rows[order], scores[order]


@dataclass(frozen=True)
class Search:
    """A search body: the page and what is ranked for it."""

    query: Query
    start: int
    size: int
    rescores: list[Rescore]
    combination: Combination
    condition: Query | None
    least: float | None
    group: str | None

    @property
    def queries(self) -> list[Query]:
        """All queries, that of the hits first."""
        condition = [] if self.condition is None else [self.condition]
        return [self.query, *condition, *(rescore.query for rescore in self.rescores)]

    def ranking(self, matcher: Matcher) -> tuple[Matches, int]:
        """The rows and scores of the hits, best first, those of the page among them, and how many there are in all.

        Raises BadInput for a page of a hybrid query's hits that none of its sub-queries reaches.
        """
        if not self.query.queries:
            ranking = _least(self._matching(matcher, self.query.clause), self.least)
            total = len(ranking[0])
            if self.rescores and self.size:
                window = max(self.start + self.size, *(rescore.window for rescore in self.rescores))
                ranking = self._rescored(matcher, ranking, window)
            return self._collapsed(matcher, ranking), total
        found = [self._matching(matcher, clause) for clause in self.query.queries]
        found = [(rows[scores > 0], scores[scores > 0]) for rows, scores in found]
        total = len(np.unique(np.concatenate([rows for rows, _ in found])))
        depth = self.query.depth or self.size
        ranking = self.combination.of([self._rescored(matcher, one, depth) for one in found])
        if self.least is not None:
            ranking = _least(ranking, self.least)
            total = len(ranking[0])
        ranking = self._collapsed(matcher, ranking)
        reached = len(ranking[0])
        if total and self.start > reached:
            raise BadInput(f"from is {self.start}", value=self.start, expected=f"at most {reached}, at this depth")
        return ranking, total

    def _matching(self, matcher: Matcher, clause: Clause) -> Matches:
        rows, scores = matcher.ranking(clause)
        if self.condition is None:
            return rows, scores
        passing = np.isin(rows, matcher.matches(self.condition.clause, np.sort(rows))[0], assume_unique=True)
        return rows[passing], scores[passing]

    def _rescored(self, matcher: Matcher, ranking: Matches, window: int) -> Matches:
        """The first hits of a ranking after one rescore after the other; OpenSearch has not collected the others."""
        ranking = ranking[0][:window], ranking[1][:window]
        with np.errstate(over="ignore", invalid="ignore"):
            for rescore in self.rescores:
                ranking = rescore.of(matcher, ranking)
        return ranking

    def _collapsed(self, matcher: Matcher, ranking: Matches) -> Matches:
        """The first hit with each value of the field that hits are grouped by, and the first that has none."""
        if self.group is None:
            return ranking
        sources = stored_sources(matcher.db, matcher.tables, ranking[0].tolist())
        first: dict[str | None, int] = {}
        for place, source in enumerate(sources):
            value = only_value(source, self.group)
            first.setdefault(None if value is None else value_text(value), place)
        places = np.array(list(first.values()), np.int64)
        return ranking[0][places], ranking[1][places]


def _least(ranking: Matches, least: float | None) -> Matches:
    if least is None:
        return ranking
    kept = ranking[1] >= np.float32(least)
    return ranking[0][kept], ranking[1][kept]


def parse_search(body: Mapping[str, Any], tables: IndexTables) -> Search:
    """What a search body asks for.

    Raises UnsupportedQuery for what the embedded engine does not know, and BadInput for what it does not give.
    """
    unknown = sorted(set(body) - _BODY_KEYS)
    if unknown:
        unsupported(str(unknown), " | ".join(sorted(_BODY_KEYS)))
    size, start = natural_number(body, "size", 10), natural_number(body, "from", 0)
    if size + start > MAX_RESULTS:
        raise BadInput(f"from + size is {size + start}", value=size + start, expected=f"at most {MAX_RESULTS}")
    query = parse_query(body.get("query", {"match_all": {}}), tables, whole=True)
    if start and query.queries and query.depth is None:
        raise BadInput(f"from is {start}", value=start, expected="0, or a pagination_depth in the hybrid query")
    rescore = body.get("rescore", [])
    rescores = [_rescore(part, tables) for part in (rescore if isinstance(rescore, list) else [rescore])]
    condition = parse_query(body["post_filter"], tables) if "post_filter" in body else None
    least = _number(body, "min_score") if "min_score" in body else None
    group = _group(body["collapse"], tables) if "collapse" in body else None
    if group and rescores:
        raise BadInput("hits that are rescored cannot be collapsed", value=group, expected="collapse or rescore")
    pipeline = parse_pipeline(body.get("search_pipeline"))
    return Search(query, start, size, rescores, pipeline, condition, least, group)


def _group(collapse: Any, tables: IndexTables) -> str:
    """The field that hits are grouped by."""
    name = collapse.get("field") if isinstance(collapse, Mapping) else None
    if not name or not isinstance(name, str):
        raise BadInput("malformed collapse", value=collapse, expected='{"field"}')
    if len(collapse) > 1:
        unsupported(f"{sorted(map(str, set(collapse) - {'field'}))[0]!r} in collapse", "field")
    if name in tables.fields or is_ours(name):
        expected = "a field with one text or number that is compared as a whole"
        raise BadInput(f"hits cannot be collapsed by {name!r}", value=name, expected=expected)
    return name


def _rescore(body: Any, tables: IndexTables) -> Rescore:
    settings = body.get("query") if isinstance(body, Mapping) and set(body) <= {"query", "window_size"} else None
    if not isinstance(settings, Mapping) or not {"rescore_query"} <= set(settings) <= _KEYS:
        expected = f'{{"window_size", "query": {{{", ".join(sorted(_KEYS))}}}}}'
        raise BadInput("malformed rescore", value=body, expected=expected)
    window = natural_number(body, "window_size", 10)
    if window > MAX_RESULTS:
        raise BadInput(f"window_size is {window}", value=window, expected=f"at most {MAX_RESULTS}")
    mode = settings.get("score_mode", "total")
    if str(mode).lower() not in _MODES:
        raise BadInput(f"unknown score_mode {mode!r}", value=mode, expected=" | ".join(_MODES))
    return Rescore(
        window,
        parse_query(settings["rescore_query"], tables),
        _number(settings, "query_weight", 1.0),
        _number(settings, "rescore_query_weight", 1.0),
        _MODES[str(mode).lower()],
    )


def _number(settings: Mapping[str, Any], name: str, default: float | None = None) -> float:
    value = settings.get(name, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= _LARGEST:
        raise BadInput(f"{name} is {str(value)[:200]}", value=value, expected="a number")
    return float(value)
