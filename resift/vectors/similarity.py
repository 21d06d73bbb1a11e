"""Similarity of one vector with many.

All functions are defined for every input: a zero vector is similar to nothing (0).
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats

_SHORTEST = 1e-15  # the squares of what is shorter have too few digits in 32 bits: it counts as zero


def unit_rows(matrix: NDArray[Any]) -> Floats:
    """Rows of length 1 (l2), shape kept, float32; a zero row stays zero."""
    dense = np.asarray(matrix, np.float32)
    norms = np.sqrt(np.einsum("...i,...i->...", dense, dense))[..., None]
    units: Floats = np.divide(dense, norms, out=np.zeros_like(dense), where=norms > _SHORTEST)
    return units


def cosine(query: NDArray[Any], documents: NDArray[Any]) -> Floats:
    """Cosine of ``query`` (K,) with each row of ``documents`` (n, K); shape (n,), in [-1, 1]."""
    dense, direction = np.asarray(documents, np.float32), np.asarray(query, np.float32)
    length = sqrt(direction.dot(direction))
    squares = np.matmul(dense[:, None], dense[:, :, None])[:, 0, 0]  # sooner than einsum
    cosines: Floats = np.zeros_like(squares)
    if length > _SHORTEST:
        lengths = np.sqrt(squares)
        np.divide(dense @ (direction * (1 / length)), lengths, out=cosines, where=lengths > _SHORTEST)
    return cosines


def fuzzy_jaccard(query: NDArray[Any], documents: NDArray[Any]) -> Floats:
    """Sum of minima over sum of maxima, memberships clipped at 0 (Muffo et al. 2021, eq. 8); shape (n,), in [0, 1]."""
    a, b = np.maximum(query, 0), np.maximum(documents, 0)
    shared, total = np.minimum(a, b).sum(-1), np.maximum(a, b).sum(-1)
    return np.asarray(np.divide(shared, total, out=np.zeros_like(total), where=total > 0), np.float32)


SIMILARITIES: dict[str, Callable[[NDArray[Any], NDArray[Any]], Floats]] = {"cosine": cosine, "jaccard": fuzzy_jaccard}
