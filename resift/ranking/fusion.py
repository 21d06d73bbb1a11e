"""Fusion: scores of two systems made comparable, and combined.

Normalisations take the scores (n,) of one search's candidates and return as many, float32. None of them divides by
zero: where scores are all equal, :func:`z_score` gives 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.vectors.similarity import beta_of


def min_max(scores: NDArray[Any]) -> Floats:
    """(s - min) / (max - min), from 0 to 1; of scores that are all equal 1 if they are above 0, else 0."""
    low, high = scores.min(), scores.max()
    # an only hit is the best one, and not one that has nothing of what was asked for
    return np.asarray((scores - low) / (high - low) if high > low else scores > 0, np.float32)


def z_score(scores: NDArray[Any]) -> Floats:
    """(s - mean) / standard deviation, of the population; nothing of nothing."""
    spread = scores.std() if len(scores) else 0
    return np.asarray((scores - scores.mean()) / spread if spread > 0 else np.zeros_like(scores), np.float32)


def similarity_factor(similarity: str, value: float, beta: float) -> float:
    """What an engine's score is multiplied with: exp(beta · value), or exp(beta · (1 + value)) for a cosine.

    It is 1 or more, so that no hit that is scored anew falls behind one that is not.
    """
    return math.exp(beta * (max(0.0, 1 + value) if similarity == "cosine" else value))


def factors_of(similarities: NDArray[Any], alpha: float) -> NDArray[np.float64]:
    """The same of n similarities that are 0 or more, for a weight ``alpha``: exp(beta · similarity), (n,)."""
    return np.asarray(np.exp(beta_of(alpha) * np.asarray(similarities, np.float64)))


def combine(
    engine: NDArray[Any], semantic: NDArray[Any], alpha: float, normalize: Callable[[NDArray[Any]], Floats] = min_max
) -> Floats:
    """(1 - alpha) · norm(engine) + alpha · norm(semantic), (n,), float32: the candidates' combined scores.

    ``engine`` (n,) are the engine's scores; ``semantic`` (n,) are the similarities or the reranker's scores.
    """
    if not len(engine):
        return np.zeros(0, np.float32)
    return (1 - alpha) * normalize(np.asarray(engine, np.float64)) + alpha * normalize(np.asarray(semantic))
