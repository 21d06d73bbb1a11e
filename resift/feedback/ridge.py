"""Move query vectors by a ridge regression on judged documents.

The moved query w minimises

    Σ |grade| · (w·x - y)² + λ · ‖w - p·q‖²

over the judged documents x, where y is 1 for relevant and 0 for irrelevant documents, q is the query at length 1, p is
RIDGE_PRIOR and λ is RIDGE_PENALTY. A document that the query already scores correctly, or that repeats other judged
documents, thus changes little.

The background is a random sample of the index. Each background document x is added to the sum, with a third of the
weight of a mark and the target y = p·q·x, because only the query tells something about documents that nobody judged.
This is equivalent to a regression on the judged documents only, in which their vectors are multiplied by
(I + β/λ · BᵀB)⁻¹, where B are the background's vectors and β is their weight. Directions that the documents of the
index have in common are thus shrunk. The result is a linear discriminant with the covariance of the background.

Source: Hariharan, Malik and Ramanan 2012, "Discriminative decorrelation for clustering and classification". They treat
the background documents as irrelevant examples.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.vectors.similarity import unit_rows

RIDGE_PRIOR = 0.3
"""Factor p of the query in the prior of the regression."""

RIDGE_PENALTY = 2.0
"""Penalty λ of the regression."""

_BACKGROUND_WEIGHT = 1 / 3  # weight of a background document, where an explicit mark has the weight 1
_FULL_WEIGHT_DIMENSIONS = 256  # with fewer dimensions the weight is lower, as the background would cover all directions


class Background:
    """A random sample of an index's documents, with which judged documents are compared.

    Args:
        vectors: Vectors of the n documents with K dimensions, shape (n, K). They are scaled to length 1 (l2). For an
            index without vectors, n is 0.
    """

    def __init__(self, vectors: NDArray[Any]) -> None:
        self.vectors = unit_rows(vectors)

    @cached_property
    def _factor(self) -> Floats:
        """Matrix F of shape (n, K) such that x - Fᵀ · F · x is the shrunk vector of x, by Woodbury's identity."""
        # The products of documents are used because there may be far more dimensions than documents.
        products = self.vectors.astype(np.float64) @ self.vectors.T
        weight = _BACKGROUND_WEIGHT * min(1.0, self.vectors.shape[1] / _FULL_WEIGHT_DIMENSIONS)
        products[np.diag_indices_from(products)] += RIDGE_PENALTY / weight
        return np.asarray(np.linalg.solve(np.linalg.cholesky(products), self.vectors), np.float32)

    def shrink(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Shrink vectors along the directions that the background documents have in common.

        Differences between documents in other directions thus get more weight.

        Args:
            rows: The m vectors with K dimensions, shape (m, K).

        Returns:
            Array of shape (m, K): the rows times (I + β/λ · BᵀB)⁻¹, with the background vectors B, their weight β, and
            the penalty λ of the ridge regression. The rows are returned unchanged if there are no background documents.
        """
        return np.asarray(rows - (rows @ self._factor.T) @ self._factor) if len(self.vectors) else rows


@dataclass(frozen=True)
class RidgeRegression:
    """A ridge regression that learns to separate relevant from irrelevant documents.

    Attributes:
        vectors: Vectors of the m judged documents with K dimensions, scaled to length 1, shape (m, K).
        shrunk: The result of :meth:`Background.shrink` for these vectors, shape (m, K).
        grades: Sign (positive for relevant documents) and weight of each judgement, shape (m,), not 0.
    """

    vectors: Floats
    shrunk: NDArray[np.float64]
    grades: NDArray[np.float64]

    @cached_property
    def _solver(self) -> NDArray[np.float64]:
        """Matrix (X Sᵀ + λ · diag(1 / |grade|))⁻¹ of shape (m, m), for vectors X and shrunk vectors S.

        It converts the documents' target values to coefficients of their shrunk vectors. The dual form of the
        regression is used, because there are far fewer judged documents than dimensions.
        """
        kernel = self.vectors @ self.shrunk.T
        return np.asarray(np.linalg.inv(kernel + np.diag(RIDGE_PENALTY / np.abs(self.grades))))

    def direction(self) -> Floats:
        """Return the direction that separates relevant (target 1) from irrelevant documents (target -1).

        No query is involved. Use :meth:`move` to move a query.

        Returns:
            Array of shape (K,), float32.
        """
        return np.asarray(self.shrunk.T @ (self._solver @ np.sign(self.grades)), np.float32)

    def move(self, query: NDArray[Any]) -> Floats:
        """Return a query vector that is moved towards relevant and away from irrelevant documents.

        Args:
            query: Query vector of shape (K,).

        Returns:
            Array of shape (K,), float32, with the query's length (l2), or with length 1 if the query is zero.
        """
        length = float(np.linalg.norm(query)) or 1.0
        prior = RIDGE_PRIOR / length * np.asarray(query, np.float32)
        residuals: NDArray[np.float64] = (self.grades > 0) - self.vectors @ prior
        moved = prior + self.shrunk.T @ (self._solver @ residuals)
        return np.asarray(length / (float(np.linalg.norm(moved)) or 1.0) * moved, np.float32)
