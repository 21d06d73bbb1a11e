"""``rescore``: the first hits of a query get other scores, as OpenSearch's ``QueryRescorer`` computes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from resift.contracts.query_dsl import MAX_RESULTS
from resift.errors import BadInput
from resift.plugin.sqlite.bm25 import Scores
from resift.plugin.sqlite.clauses import Query
from resift.plugin.sqlite.matching import Matcher, Matches
from resift.plugin.sqlite.query import natural_number, parse_query
from resift.plugin.sqlite.tables import IndexTables

_MODES: dict[str, Callable[[Scores, Scores], Scores]] = {
    "total": np.add,
    "multiply": np.multiply,
    "avg": lambda first, second: (first + second) / np.float32(2),
    "max": np.maximum,
    "min": np.minimum,
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


def rescored(matcher: Matcher, ranking: Matches, rescores: Sequence[Rescore], wanted: int) -> Matches:
    """The first ``wanted`` hits of a ranking, or more, after one rescore after the other.

    Hits that are neither wanted nor in the largest window are left out, as on OpenSearch: it has not collected them.
    """
    kept = max(wanted, *(rescore.window for rescore in rescores))
    ranking = ranking[0][:kept], ranking[1][:kept]
    with np.errstate(over="ignore", invalid="ignore"):
        for rescore in rescores:
            ranking = rescore.of(matcher, ranking)
    return ranking


def parse_rescore(body: Mapping[str, Any], tables: IndexTables) -> list[Rescore]:
    """What a search body's ``rescore`` asks for. Raises BadInput if it is malformed."""
    if "rescore" not in body:
        return []
    asked = body["rescore"]
    return [_rescore(one, tables) for one in (asked if isinstance(asked, list) else [asked])]


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
        _weight(settings, "query_weight"),
        _weight(settings, "rescore_query_weight"),
        _MODES[str(mode).lower()],
    )


def _weight(settings: Mapping[str, Any], name: str) -> float:
    value = settings.get(name, 1.0)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= _LARGEST:
        raise BadInput(f"{name} is {str(value)[:200]}", value=value, expected="a number")
    return float(value)
