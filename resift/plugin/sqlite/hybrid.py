"""``hybrid``: the scores of several queries made comparable and combined, as OpenSearch's neural-search plugin does.

All is in 32-bit floats, as there, so that documents which tie there tie here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from resift.errors import BadInput
from resift.plugin.sqlite.query import single, unsupported
from resift.plugin.sqlite.tables import Matches, Scores

_LEAST = np.float32(0.001)  # what a hit has that would have nothing: others were not found at all
_MAX_RANK_CONSTANT = 10_000


@dataclass(frozen=True)
class Combination:
    """How the scores of a hybrid query's hits are made of those of its sub-queries.

    ``normalize``: scores (n,) of one sub-query, best first → comparable ones. A document has the sum of these, or their
    ``mean``, by the ``weights`` of the sub-queries, alike without any; where one did not find it, 0.
    """

    normalize: Callable[[Scores], Scores]
    mean: bool
    weights: tuple[float, ...]

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
        weights = np.array(self.weights or [1] * len(rankings), np.float32)
        scores = np.add.reduce(table * weights[:, None], axis=0)
        scores = scores / np.add.reduce(weights) if self.mean else scores
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


_PROCESSORS = {  # and their parts
    "normalization-processor": ("normalization", "combination"),
    "score-ranker-processor": ("combination",),
}
_NORMALIZATIONS = {"min_max": _min_max, "l2": _l2, "z_score": _z_score}


def parse_pipeline(pipeline: Any) -> Combination:
    """How a body's ``search_pipeline`` combines the scores of a hybrid query; by min-max where it does not say.

    Raises UnsupportedQuery for what the embedded engine does not know, and BadInput for what no engine does.
    """
    if isinstance(pipeline, str) and pipeline != "_none":  # the engine has none that are stored
        unsupported(f"the search pipeline {pipeline!r}", "a search pipeline that stands in the body, or _none")
    asked = {} if pipeline in (None, "_none") else pipeline
    settings = _object(asked, "search_pipeline", "phase_results_processors", "version")
    processors = settings.get("phase_results_processors") or [{"normalization-processor": {}}]
    if not isinstance(processors, list) or len(processors) != 1:
        unsupported("several phase_results_processors", "one of them")
    kind, config = single(processors[0], "phase_results_processors")
    if kind not in _PROCESSORS:
        unsupported(f"the processor {kind!r}", " | ".join(_PROCESSORS))
    parts = _object(config, kind, *_PROCESSORS[kind], "tag", "ignore_failure")
    combination = _object(parts.get("combination", {}), "combination", "technique", "rank_constant", "parameters")
    if kind == "score-ranker-processor":
        constant = combination.get("rank_constant", 60)
        if isinstance(constant, bool) or not isinstance(constant, int) or not 1 <= constant <= _MAX_RANK_CONSTANT:
            expected = f"a whole number from 1 to {_MAX_RANK_CONSTANT}"
            raise BadInput(f"rank_constant is {constant!r}", value=constant, expected=expected)
        return Combination(partial(_reciprocal_rank, constant=constant), False, _weights(combination, "rrf"))
    normalization = _object(parts.get("normalization", {}), "normalization", "technique", "parameters")
    _object(normalization.get("parameters", {}), "parameters of normalization")
    name = str(normalization.get("technique", "min_max"))
    if name not in _NORMALIZATIONS:
        unsupported(f"the normalization technique {name!r}", " | ".join(_NORMALIZATIONS))
    return Combination(_NORMALIZATIONS[name], True, _weights(combination, "arithmetic_mean"))


def _weights(combination: Mapping[str, Any], technique: str) -> tuple[float, ...]:
    """The weights of a combination, whose technique can be this one alone."""
    if combination.get("technique", technique) != technique:
        unsupported(f"the combination technique {combination['technique']!r} here", technique)
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
