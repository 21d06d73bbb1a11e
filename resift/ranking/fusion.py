"""Fusion: scores of two systems made comparable, and combined."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.vectors.similarity import beta_of


def z_score(scores: NDArray[Any]) -> Floats:
    """(s - mean) / standard deviation of the population, of the scores (n,) of a search's candidates; float32.

    Where they are all equal it is 0.
    """
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
