"""The background of an index: documents drawn by chance, from which feedback tells apart what a session is about."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.vectors.similarity import unit_rows

RIDGE_PENALTY = 2.0  # λ of the ridge regression that feedback moves queries by
_WEIGHT = 1 / 3  # of a drawn document in it, where an explicit mark weighs 1, if vectors have so many dimensions
_DIMENSIONS = 256  # in fewer of them as many documents would leave nothing to tell apart, and weigh less


class Background:
    """``vectors`` (n, K) of documents drawn from an index, at length 1; none of an index of which nothing is known.

    What a ridge regression learns from judged documents shall change little about all others. So each drawn document
    counts in it w marks, with the value that the query alone gives it; w is a third, and less where vectors have fewer
    than 256 dimensions. That is the regression without them in which the judged documents' vectors are multiplied by
    (I + w / λ · BᵀB)⁻¹: directions that documents of this index have in common are shrunk, for in these the marks say
    little. It is a linear discriminant with the background's covariance (Hariharan, Malik and Ramanan 2012,
    "Discriminative decorrelation for clustering and classification", who take it for all irrelevant examples). Of few
    documents it is close to I.
    """

    def __init__(self, vectors: NDArray[Any]) -> None:
        self.vectors = unit_rows(vectors)

    @cached_property
    def _factor(self) -> Floats:
        """F (n, K) such that the product above is x - Fᵀ · F · x, by Woodbury's identity."""
        # of the documents' products, since there may be far more dimensions than documents
        products = self.vectors.astype(np.float64) @ self.vectors.T
        weight = _WEIGHT * min(1.0, self.vectors.shape[1] / _DIMENSIONS)
        products[np.diag_indices_from(products)] += RIDGE_PENALTY / weight
        return np.asarray(np.linalg.solve(np.linalg.cholesky(products), self.vectors), np.float32)

    def shrink(self, rows: NDArray[Any]) -> NDArray[Any]:
        """``rows`` (m, K), each multiplied as above."""
        return np.asarray(rows - (rows @ self._factor.T) @ self._factor) if len(self.vectors) else rows
