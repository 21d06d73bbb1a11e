"""Similarity of one vector with many.

All functions are defined for every input: a zero vector is similar to nothing (0).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats

MAX_BETA = 32.0  # exp(2 · 32) times any BM25 score is within the range of 32-bit floats


def unit_rows(matrix: NDArray[Any]) -> Floats:
    """Rows of length 1 (l2), shape kept, float32; a zero row stays zero."""
    dense = np.asarray(matrix, np.float32)
    norms = np.sqrt(np.einsum("...i,...i->...", dense, dense))[..., None]
    units: Floats = np.divide(dense, norms, out=np.zeros_like(dense), where=norms > 0)
    return units


def joined(parts: Sequence[NDArray[Any]], lengths: Sequence[float]) -> Floats:
    """Vectors side by side, (..., K₁ + K₂ + …), float32: n ``parts`` (..., Kᵢ), each at one of n ``lengths``, or zero.

    The squares of the lengths add up to 1, so the whole has length 1 (l2) if no part is zero, and the cosine of two
    joined vectors is the sum of their parts' cosines, each times the square of its length.
    """
    scaled: Floats = np.concatenate([unit_rows(part) * length for part, length in zip(parts, lengths, strict=True)], -1)
    return scaled


def beta_of(alpha: float) -> float:
    """What a similarity is multiplied with in score · exp(beta · similarity) for a weight ``alpha``, 0 to 1.

    It is alpha / (1 - alpha), since (1 - alpha) · log(score) + alpha · similarity gives the same order; at most
    MAX_BETA, at which the score only tells apart what is similar alike.

    >>> [beta_of(alpha) for alpha in (0, 0.5, 0.75, 1)]
    [0.0, 1.0, 3.0, 32.0]
    """
    return min(alpha / (1 - alpha), MAX_BETA) if alpha < 1 else MAX_BETA


def alpha_of(beta: float) -> float:
    """The weight ``alpha``, 0 to 1, that :func:`beta_of` makes ``beta`` of."""
    return beta / (1 + beta)


def known_alpha(alpha: float, known: float | None) -> float:
    """The weight of a similarity whose vector stands for the ``known`` part of a query's words, 0 to 1.

    It is ``alpha`` for 1, and for None, which is a weight that counts as it is; else its beta counts times known²: what
    the other words ask for, only the engine knows. So a model does little harm to texts in a language that it does not
    know. The square was chosen on pages in seven languages other than English.
    """
    return alpha if known in (None, 1) else alpha_of(beta_of(alpha) * known**2)


def lengths_of(alphas: Sequence[float]) -> tuple[float, ...]:
    """The lengths at which vectors are :func:`joined` whose cosines shall count as by weights ``alphas`` of their own.

    Their squares are in proportion to these weights' betas (:func:`beta_of`): score · exp(Σ βᵢ · cosineᵢ) is then
    score · exp(β · cosine) of the joined vectors, with the betas' sum. What a ridge regression learns from joined
    documents weighs their parts in the same way.

    >>> lengths_of((0.5, 0.75))
    (0.5, 0.8660254037844386)
    """
    betas = [beta_of(alpha) for alpha in alphas]
    return tuple(sqrt(beta / (sum(betas) or 1)) for beta in betas)


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


SIMILARITIES: dict[str, Callable[[NDArray[Any], NDArray[Any]], Floats]] = {"cosine": cosine, "jaccard": fuzzy_jaccard}
