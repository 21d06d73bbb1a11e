"""Rocchio's formula for query vectors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats

ROCCHIO_WEIGHTS = (0.8, 0.2)
"""Weights of the mean of the relevant and of the irrelevant documents."""


def rocchio_shift(vectors: Floats, grades: NDArray[np.float64]) -> Floats:
    """Return the vector that Rocchio's formula adds to a query of length 1.

    The vector is 0.8 · mean(relevant) - 0.2 · mean(irrelevant), where the means are weighted by the judgements.
    Passalis and Tefas 2018 set the second weight to 0.

    Args:
        vectors: Vectors of the m judged documents with K dimensions, scaled to length 1, shape (m, K).
        grades: Sign (positive for relevant documents) and weight of each judgement, shape (m,), not 0.

    Returns:
        Array of shape (K,), float32.

    Source:
        Rocchio 1971, "Relevance feedback in information retrieval".
    """
    shift = np.zeros(vectors.shape[1])
    for weight, sign in zip(ROCCHIO_WEIGHTS, (1, -1), strict=True):
        weights = np.abs(grades) * (grades * sign > 0)
        # The sum of the weights counts as at least 1, the weight of an explicit mark.
        shift += sign * weight * (weights @ vectors) / max(1.0, float(weights.sum()))
    return np.asarray(shift, np.float32)
