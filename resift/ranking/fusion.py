"""Fusion: scores of two systems made comparable, and combined.

Normalisations take the scores (n,) of one search's candidates and return as many, float32. None of them divides by
zero: where scores are all equal, :func:`z_score` gives 0, and where they are all 0, so do all but
:func:`reciprocal_rank`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.errors import BadInput
from resift.vectors.similarity import beta_of


def min_max(scores: NDArray[Any]) -> Floats:
    """(s - min) / (max - min), from 0 to 1; of scores that are all equal 1 if they are above 0, else 0."""
    low, high = scores.min(), scores.max()
    # an only hit is the best one, and not one that has nothing of what was asked for
    return np.asarray((scores - low) / (high - low) if high > low else scores > 0, np.float32)


def l2(scores: NDArray[Any]) -> Floats:
    """s / √Σs², at length 1."""
    norm = np.linalg.norm(scores)
    return np.asarray(scores / norm if norm > 0 else np.zeros_like(scores), np.float32)


def z_score(scores: NDArray[Any]) -> Floats:
    """(s - mean) / standard deviation, of the population; nothing of nothing."""
    spread = scores.std() if len(scores) else 0
    return np.asarray((scores - scores.mean()) / spread if spread > 0 else np.zeros_like(scores), np.float32)


def bounded(scores: NDArray[Any]) -> Floats:
    """s / max(1, max): at most 1, and 0 stays 0, so that scores that are all weak stay weak."""
    return np.asarray(scores / max(1.0, float(scores.max(initial=0))), np.float32)


def reciprocal_rank(scores: NDArray[Any]) -> Floats:
    """1 / (60 + rank), ranks from 1, equal scores ranked by their positions (Cormack et al. 2009)."""
    ranks = np.empty(len(scores))
    ranks[np.argsort(-scores, kind="stable")] = np.arange(1, len(scores) + 1)
    return np.asarray(1 / (60 + ranks), np.float32)


NORMALIZATIONS: dict[str, Callable[[NDArray[Any]], Floats]] = {
    "min_max": min_max,
    "l2": l2,
    "z_score": z_score,
    "bounded": bounded,
    "rrf": reciprocal_rank,
}


def similarity_factor(similarity: str, value: float, beta: float) -> float:
    """What an engine's score is multiplied with: exp(beta · value), or exp(beta · (1 + value)) for a cosine.

    It is 1 or more, so that no hit that is scored anew falls behind one that is not.
    """
    return math.exp(beta * (max(0.0, 1 + value) if similarity == "cosine" else value))


def factors_of(similarities: NDArray[Any], alpha: float) -> NDArray[np.float64]:
    """The same of n similarities that are 0 or more, for a weight ``alpha``: exp(beta · similarity), (n,)."""
    return np.asarray(np.exp(beta_of(alpha) * np.asarray(similarities, np.float64)))


def combine(engine: NDArray[Any], semantic: NDArray[Any], alpha: float, normalization: str = "min_max") -> Floats:
    """(1 - alpha) · norm(engine) + alpha · norm(semantic), (n,), float32: the candidates' combined scores.

    ``engine`` (n,) are the engine's scores, NaN for candidates that did not come from it, which get the lowest of the
    others; ``semantic`` (n,) are the similarities or the reranker's scores. ``normalization`` is one of NORMALIZATIONS.
    Raises BadInput if alpha is outside [0, 1] or the normalisation is unknown.
    """
    if not 0 <= alpha <= 1:
        raise BadInput(f"alpha is {alpha}", value=alpha, expected="a number from 0 (engine only) to 1 (vectors only)")
    if normalization not in NORMALIZATIONS:
        raise BadInput(
            f"unknown normalization {normalization!r}",
            value=normalization,
            expected=" | ".join(NORMALIZATIONS),
        )
    if not len(engine):
        return np.zeros(0, np.float32)
    scores = np.asarray(engine, np.float64)
    lowest = np.nanmin(scores) if not np.isnan(scores).all() else 0.0
    normalize = NORMALIZATIONS[normalization]
    return (1 - alpha) * normalize(np.where(np.isnan(scores), lowest, scores)) + alpha * normalize(np.asarray(semantic))
