"""Rocchio's formula for query vectors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats

ROCCHIO_WEIGHTS = (0.8, 0.2)
"""Weights of the mean of the relevant and of the irrelevant documents."""


def rocchio_shift(vectors: Floats, grades: NDArray[np.float64]) -> Floats:
    """Return the vector that Rocchio's formula adds to a query vector of unit length.

    The vector is 0.8 · mean(relevant) - 0.2 · mean(irrelevant). The means are weighted by the judgements. Passalis and
    Tefas 2018 set the second factor to 0.

    Args:
        vectors: The vectors of the judged documents, scaled to unit length, shape (n_documents, n_dimensions).
        grades: The sign (positive for relevant documents) and weight of each judgement, shape (n_documents,). No grade
            is 0.

    Returns:
        Float32 array of shape (n_dimensions,).

    Source:
        Rocchio 1971, "Relevance feedback in information retrieval".
    """
    shift = np.zeros(vectors.shape[1])
    for weight, sign in zip(ROCCHIO_WEIGHTS, (1, -1), strict=True):
        weights = np.abs(grades) * (grades * sign > 0)
        # The sum of the weights counts as at least 1, the weight of an explicit mark.
        shift += sign * weight * (weights @ vectors) / max(1.0, float(weights.sum()))
    return np.asarray(shift, np.float32)
