"""Similarity of one vector with many vectors.

All functions are defined for every input. A zero vector has similarity 0 with every vector.
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats

_MIN_LENGTH = 1e-15  # shorter vectors count as zero, because their squares lose digits in 32 bits


def unit_rows(matrix: NDArray[Any]) -> Floats:
    """Scale the rows of an array to unit length. Zero rows stay zero.

    Args:
        matrix: The vectors, of shape (..., n_dimensions).

    Returns:
        Float32 array of the same shape.
    """
    dense = np.asarray(matrix, np.float32)
    norms = np.sqrt(np.einsum("...i,...i->...", dense, dense))[..., None]
    units: Floats = np.divide(dense, norms, out=np.zeros_like(dense), where=norms > _MIN_LENGTH)
    return units


def cosine(query: NDArray[Any], documents: NDArray[Any]) -> Floats:
    """Return the cosine similarity between a query vector and each document vector.

    Args:
        query: The query vector, of shape (n_dimensions,).
        documents: The document vectors, of shape (n_documents, n_dimensions).

    Returns:
        Float32 array of shape (n_documents,), with values from -1 to 1.
    """
    dense, direction = np.asarray(documents, np.float32), np.asarray(query, np.float32)
    length = sqrt(direction.dot(direction))
    squares = np.matmul(dense[:, None], dense[:, :, None])[:, 0, 0]  # faster than einsum
    cosines: Floats = np.zeros_like(squares)
    if length > _MIN_LENGTH:
        lengths = np.sqrt(squares)
        np.divide(dense @ (direction * (1 / length)), lengths, out=cosines, where=lengths > _MIN_LENGTH)
    return cosines


def fuzzy_jaccard(query: NDArray[Any], documents: NDArray[Any]) -> Floats:
    """Return the fuzzy Jaccard similarity between a query vector and each document vector.

    The similarity is the sum of the minima divided by the sum of the maxima over all dimensions. Negative values count
    as 0.

    Args:
        query: The query vector, of shape (n_dimensions,).
        documents: The document vectors, of shape (n_documents, n_dimensions).

    Returns:
        Float32 array of shape (n_documents,), with values from 0 to 1.

    Source:
        Muffo et al. 2021, eq. 8.
    """
    a, b = np.maximum(query, 0), np.maximum(documents, 0)
    shared, total = np.minimum(a, b).sum(-1), np.maximum(a, b).sum(-1)
    return np.asarray(np.divide(shared, total, out=np.zeros_like(total), where=total > 0), np.float32)


SIMILARITIES: dict[str, Callable[[NDArray[Any], NDArray[Any]], Floats]] = {"cosine": cosine, "jaccard": fuzzy_jaccard}
"""The similarity functions by name."""
