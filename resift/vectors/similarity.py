"""Similarity of one vector with many vectors, and of two sets of word vectors.

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


def dynamax(first: NDArray[Any], second: NDArray[Any], extra_sums: tuple[float, float] = (0.0, 0.0)) -> float:
    """Return the DynaMax similarity of two texts, from the vectors of their words.

    Both texts are compared with each word of either text. The membership of a text in a word is the largest inner
    product of the text's words with this word, at least 0. The similarity is the sum of the smaller membership over all
    words, divided by the sum of the larger membership.

    Args:
        first: Vectors of the m words of the first text, shape (m, D) for D dimensions. A word that occurs twice in a
            text has two rows, and so counts twice in the sums.
        second: Vectors of the n words of the second text, shape (n, D).
        extra_sums: Two summands for words without a vector, which are similar only to themselves. The first is added
            to the sum of the smaller memberships, the second to the sum of the larger memberships.

    Returns:
        The similarity, in [0, 1]. It is 0 if neither text has any word.

    Source:
        Zhelezniak et al. 2019, Algorithm 1, which stacks the words of both texts; Muffo et al. 2021, eqs. 6 to 8,
        without the counts of eq. 6.
    """
    universe = np.concatenate([first, second])
    shared, total = extra_sums
    a, b = ((words @ universe.T).max(axis=0, initial=0) for words in (first, second))
    shared, total = shared + float(np.minimum(a, b).sum()), total + float(np.maximum(a, b).sum())
    return shared / total if total > 0 else 0.0


SIMILARITIES: dict[str, Callable[[NDArray[Any], NDArray[Any]], Floats]] = {"cosine": cosine, "jaccard": fuzzy_jaccard}
"""The similarity functions by name."""
