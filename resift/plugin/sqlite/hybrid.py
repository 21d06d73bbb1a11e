"""``hybrid``: the scores of several queries made comparable and combined, as OpenSearch's neural-search plugin does.

All of it is in 32-bit floats, as there, so that documents which tie there tie here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.errors import BadInput
from resift.plugin.sqlite.query import unsupported
from resift.plugin.sqlite.tables import Matches, Scores

Table = NDArray[np.float32]
_LEAST = np.float32(0.001)  # what a hit has that would have nothing: others were not found at all
_MAX_RANK_CONSTANT = 10_000


@dataclass(frozen=True)
class Combination:
    """How the scores of a hybrid query's hits are made of those of its sub-queries.

    ``normalize``: scores (n,) of one sub-query, best first → comparable ones. ``combine``: a table (queries, n) of
    these, 0 where a document was not found, and weights (queries, 1) → scores (n,).
    """

    normalize: Callable[[Scores], Scores]
    combine: Callable[[Table, Table], Scores]
    weights: tuple[float, ...] = ()

    def of(self, rankings: Sequence[Matches]) -> Matches:
        """One ranking of those of all sub-queries, each best first. Raises BadInput if they are not as many as the
        weights."""
        if self.weights and len(self.weights) != len(rankings):
            expected = f"as many as sub-queries: {len(rankings)}"
            raise BadInput(f"there are {len(self.weights)} weights", value=list(self.weights), expected=expected)
        rows = np.unique(np.concatenate([found for found, _ in rankings]))
        table = np.zeros((len(rankings), len(rows)), np.float32)
        for line, (found, scores) in zip(table, rankings, strict=True):
            if len(found):
                line[np.searchsorted(rows, found)] = self.normalize(scores)
        weights = np.array(self.weights or [1] * len(rankings), np.float32)[:, None]
        scores = self.combine(table, weights)
        order = np.argsort(-scores, kind="stable")
        return rows[order], scores[order]


def _min_max(scores: Scores) -> Scores:
    low, high = scores.min(), scores.max()
    if low == high:
        return np.ones_like(scores)
    scaled = (scores - low) / (high - low)
    return np.asarray(np.where(scaled == 0, _LEAST, scaled))


def _l2(scores: Scores) -> Scores:
    return np.asarray(scores / np.float32(np.linalg.norm(scores)))


def _z_score(scores: Scores) -> Scores:
    mean = np.float32(scores.mean(dtype=np.float64))
    deviation = np.float32(scores.std(dtype=np.float64, ddof=1)) if len(scores) > 1 else np.float32(0)
    scaled = (scores - mean) / deviation if deviation else np.full_like(scores, scores.min())
    # OpenSearch gives a score that is the mean the largest, as if it were the only one.
    return np.where(scores == mean, scores.max(), np.where(scaled <= 0, _LEAST, scaled))


def _reciprocal_rank(scores: Scores, constant: int) -> Scores:
    return (1 / (constant + 1 + np.arange(len(scores)))).astype(np.float32)


def _sum(table: Table, weights: Table) -> Scores:
    return np.asarray(np.add.reduce(table * weights, axis=0))


def _arithmetic_mean(table: Table, weights: Table) -> Scores:
    return np.asarray(_sum(table, weights) / np.add.reduce(weights, axis=0))


def _mean_of_found(scale: np.ufunc, unscale: np.ufunc, table: Table, weights: Table) -> Scores:
    """The mean, on another scale, of the scores that a document was found with; 0 where these weigh nothing."""
    counted = weights * (table > 0)
    total = np.add.reduce(counted, axis=0)
    sums = np.add.reduce(counted * scale(np.where(table > 0, table, np.float32(1))), axis=0)
    return np.where(total > 0, unscale(np.divide(sums, total, out=np.ones_like(sums), where=total > 0)), 0)


_NORMALIZATIONS = {"min_max": _min_max, "l2": _l2, "z_score": _z_score}
_COMBINATIONS: dict[str, Callable[[Table, Table], Scores]] = {
    "arithmetic_mean": _arithmetic_mean,
    "geometric_mean": partial(_mean_of_found, np.log, np.exp),
    "harmonic_mean": partial(_mean_of_found, np.reciprocal, np.reciprocal),
}


def parse_pipeline(pipeline: Any) -> Combination:
    """How a body's ``search_pipeline`` combines the scores of a hybrid query; by min-max where it does not say.

    Raises UnsupportedQuery for what the embedded engine does not know, and BadInput for what no engine does.
    """
    if isinstance(pipeline, str) and pipeline != "_none":  # the engine has none that are stored
        unsupported(f"the search pipeline {pipeline!r}", "a search pipeline that stands in the body, or _none")
    settings = _object(
        {} if pipeline in (None, "_none") else pipeline, "search_pipeline", "phase_results_processors", "version"
    )
    processors = settings.get("phase_results_processors") or [{"normalization-processor": {}}]
    if not isinstance(processors, list) or len(processors) != 1:
        unsupported("several phase_results_processors", "one of them")
    ((kind, config),) = _object(processors[0], "phase_results_processors", *_PROCESSORS).items() or (("", {}),)
    if kind not in _PROCESSORS:
        unsupported(f"the processor {kind!r}", " | ".join(_PROCESSORS))
    return _PROCESSORS[kind](config)


def _normalization_processor(config: Any) -> Combination:
    parts = _object(config, "normalization-processor", "normalization", "combination", "tag", "ignore_failure")
    normalization = _object(parts.get("normalization", {}), "normalization", "technique", "parameters")
    _object(normalization.get("parameters", {}), "parameters of normalization")
    combination = _object(parts.get("combination", {}), "combination", "technique", "parameters")
    name = str(normalization.get("technique", "min_max"))
    technique = str(combination.get("technique", "arithmetic_mean"))
    if name not in _NORMALIZATIONS:
        unsupported(f"the normalization technique {name!r}", " | ".join(_NORMALIZATIONS))
    known = ["arithmetic_mean"] if name == "z_score" else list(_COMBINATIONS)
    if technique not in known:
        unsupported(f"the combination technique {technique!r} after {name}", " | ".join(known))
    return Combination(_NORMALIZATIONS[name], _COMBINATIONS[technique], _weights(combination))


def _score_ranker_processor(config: Any) -> Combination:
    parts = _object(config, "score-ranker-processor", "combination", "tag", "ignore_failure")
    combination = _object(parts.get("combination", {}), "combination", "technique", "rank_constant", "parameters")
    if combination.get("technique", "rrf") != "rrf":
        unsupported(f"the combination technique {combination['technique']!r} of ranks", "rrf")
    constant = combination.get("rank_constant", 60)
    if isinstance(constant, bool) or not isinstance(constant, int) or not 1 <= constant <= _MAX_RANK_CONSTANT:
        expected = f"a whole number from 1 to {_MAX_RANK_CONSTANT}"
        raise BadInput(f"rank_constant is {constant!r}", value=constant, expected=expected)
    return Combination(partial(_reciprocal_rank, constant=constant), _sum, _weights(combination))


_PROCESSORS = {
    "normalization-processor": _normalization_processor,
    "score-ranker-processor": _score_ranker_processor,
}


def _weights(combination: Mapping[str, Any]) -> tuple[float, ...]:
    weights = _object(combination.get("parameters", {}), "parameters of combination", "weights").get("weights", [])
    numbers = isinstance(weights, list) and all(isinstance(weight, (int, float)) for weight in weights)
    if not numbers or (weights and not (all(0 <= one <= 1 for one in weights) and abs(sum(weights) - 1) <= 0.01)):
        raise BadInput("malformed weights", value=weights, expected="numbers from 0 to 1 whose sum is 1")
    return tuple(weights)


def _object(value: Any, name: str, *known: str) -> Mapping[str, Any]:
    """A part of a pipeline that is an object, with no other keys than the ``known``, and ``description``."""
    if not isinstance(value, Mapping):
        raise BadInput(f"malformed {name}", value=value, expected="an object")
    settings = {str(key): inner for key, inner in value.items() if key != "description" and inner != []}
    unknown = sorted(set(settings) - set(known))
    if unknown:
        unsupported(f"{unknown[0]!r} in {name}", " | ".join(known) or "none")
    return settings
