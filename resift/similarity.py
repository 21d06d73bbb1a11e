"""Similarity of one vector with many, and the scores' combination with BM25's.

All functions are defined for every input: a zero vector is similar to nothing (0), equal scores normalise to 0.
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.errors import BadInput
from resift.vectors import Floats


def unit_rows(matrix: NDArray[Any]) -> Floats:
    """Rows of length 1 (l2), shape kept, float32; a zero row stays zero."""
    dense = np.asarray(matrix, np.float32)
    norms = np.sqrt(np.einsum("...i,...i->...", dense, dense))[..., None]
    units: Floats = np.divide(dense, norms, out=np.zeros_like(dense), where=norms > 0)
    return units


def cosine(query: NDArray[Any], documents: NDArray[Any]) -> Floats:
    """Cosine of ``query`` (K,) with each row of ``documents`` (n, K); shape (n,), in [-1, 1]."""
    dense, direction = np.asarray(documents, np.float32), np.asarray(query, np.float32)
    length = sqrt(direction.dot(direction))
    squares = np.matmul(dense[:, None], dense[:, :, None])[:, 0, 0]  # sooner than einsum
    cosines: Floats = np.zeros_like(squares)
    if length > 0:
        lengths = np.sqrt(squares)
        np.divide(dense @ (direction * (1 / length)), lengths, out=cosines, where=lengths > 0)
    return cosines


def fuzzy_jaccard(query: NDArray[Any], documents: NDArray[Any]) -> Floats:
    """Sum of minima over sum of maxima, memberships clipped at 0 (Muffo et al. 2021, eq. 8); shape (n,), in [0, 1]."""
    a, b = np.maximum(query, 0), np.maximum(documents, 0)
    shared, total = np.minimum(a, b).sum(-1), np.maximum(a, b).sum(-1)
    return np.asarray(np.divide(shared, total, out=np.zeros_like(total), where=total > 0), np.float32)


def dynamax(first: NDArray[Any], second: NDArray[Any]) -> float:
    """Fuzzy Jaccard of two texts' words, ``first`` (m, D) and ``second`` (n, D), in [0, 1].

    The universe is the words of both; a text's membership in each is the largest product of its words with it, not
    below 0 (DynaMax, Zhelezniak et al. 2019; Muffo et al. 2021, eqs. 7 and 8). Without words on a side it is 0.
    """
    if not len(first) or not len(second):
        return 0.0
    universe = np.concatenate([first, second]).T
    return float(fuzzy_jaccard((first @ universe).max(axis=0), (second @ universe).max(axis=0)[None])[0])


SIMILARITIES: dict[str, Callable[[NDArray[Any], NDArray[Any]], Floats]] = {
    "cosine": cosine,
    "jaccard": fuzzy_jaccard,
}


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
