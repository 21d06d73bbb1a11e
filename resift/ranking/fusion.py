"""Fusion: scores of two systems made comparable, and combined.

All functions are defined for every input: equal scores normalise to 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.errors import BadInput


def min_max(scores: NDArray[Any]) -> Floats:
    """(s - min) / (max - min)."""
    low, high = scores.min(), scores.max()
    return np.asarray((scores - low) / (high - low) if high > low else np.zeros_like(scores), np.float32)


def l2(scores: NDArray[Any]) -> Floats:
    """s / sqrt(sum of squares)."""
    norm = np.linalg.norm(scores)
    return np.asarray(scores / norm if norm > 0 else np.zeros_like(scores), np.float32)


def z_score(scores: NDArray[Any]) -> Floats:
    """(s - mean) / standard deviation."""
    spread = scores.std()
    return np.asarray((scores - scores.mean()) / spread if spread > 0 else np.zeros_like(scores), np.float32)


def bounded(scores: NDArray[Any]) -> Floats:
    """s / max(1, max): a fixed lower bound of 0, so that uniformly weak scores stay weak."""
    return np.asarray(scores / max(1.0, float(scores.max(initial=0))), np.float32)


def reciprocal_rank(scores: NDArray[Any]) -> Floats:
    """1 / (60 + rank), ranks from 1, ties by position (Cormack et al. 2009)."""
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


def combine(lexical: NDArray[Any], semantic: NDArray[Any], alpha: float, normalization: str = "min_max") -> Floats:
    """(1 - alpha) · norm(lexical) + alpha · norm(semantic), shape (n,).

    ``lexical`` (n,) holds the engine's scores, NaN where a candidate did not come from it (it gets the lowest).
    Raises BadInput for an alpha outside [0, 1] or an unknown normalisation.
    """
    if not 0 <= alpha <= 1:
        raise BadInput(f"alpha is {alpha}", value=alpha, expected="a number from 0 (engine only) to 1 (vectors only)")
    if normalization not in NORMALIZATIONS:
        raise BadInput(
            f"unknown normalization {normalization!r}",
            value=normalization,
            expected=" | ".join(NORMALIZATIONS),
        )
    if not len(lexical):
        return np.zeros(0, np.float32)
    known = np.asarray(lexical, np.float64)
    floor = np.nanmin(known) if not np.isnan(known).all() else 0.0
    norm = NORMALIZATIONS[normalization]
    return (1 - alpha) * norm(np.where(np.isnan(known), floor, known)) + alpha * norm(np.asarray(semantic))
