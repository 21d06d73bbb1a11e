"""Move query vectors by a ridge regression on judged documents.

The moved query w minimises

    Σ |grade| · (w·x - y)² + λ · ‖w - p·q‖²

over the judged documents x, where y is 1 for relevant and 0 for irrelevant documents, q is the query at unit length, p
is RIDGE_PRIOR and λ is RIDGE_PENALTY. A document that the query already scores correctly, or that repeats other judged
documents, thus changes little.

The background is a random sample of the index. Each background document x is added to the sum, with a third of the
weight of a mark. Its target is y = p·q·x, the score by the query alone, because nobody judged the document.

This is equivalent to a regression on the judged documents only, in which their vectors are multiplied by

    (I + β/λ · BᵀB)⁻¹

The rows of B are the background's vectors, and β is their weight. The multiplication shrinks directions that the
documents of the index have in common. The result is a linear discriminant with the covariance of the background.

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
    """The vectors of randomly chosen documents of an index.

    The regression uses them as a background: it learns how judged documents differ from typical documents of the index.

    Args:
        vectors: The document vectors, as an array of shape (n_documents, n_dimensions). The array is empty for an index
            without vectors.

    Attributes:
        vectors: The document vectors, scaled to unit length.
    """

    def __init__(self, vectors: NDArray[Any]) -> None:
        self.vectors = unit_rows(vectors)

    @cached_property
    def _factor(self) -> Floats:
        """A matrix F of shape (n_documents, n_dimensions), which makes :meth:`shrink_common_directions` fast.

        With F, that method computes x - Fᵀ · F · x for a vector x. By Woodbury's identity, the result is the same as a
        product with the inverse of a matrix of n_dimensions rows and columns, which would be slow to compute.
        """
        # The products of documents are used because there may be far more dimensions than documents.
        products = self.vectors.astype(np.float64) @ self.vectors.T
        weight = _BACKGROUND_WEIGHT * min(1.0, self.vectors.shape[1] / _FULL_WEIGHT_DIMENSIONS)
        products[np.diag_indices_from(products)] += RIDGE_PENALTY / weight
        return np.asarray(np.linalg.solve(np.linalg.cholesky(products), self.vectors), np.float32)

    def shrink_common_directions(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Reduce the components of vectors along the directions in which typical documents of the index vary.

        These directions say little about relevance. Other differences between the vectors then get more weight.

        Args:
            rows: The vectors, as an array of shape (n_vectors, n_dimensions).

        Returns:
            Array of the same shape. Let B be the matrix of the background vectors, β their weight in the ridge
            regression, and λ its penalty. The result is the rows times (I + β/λ · BᵀB)⁻¹. Without background documents,
            the rows are returned unchanged.
        """
        return np.asarray(rows - (rows @ self._factor.T) @ self._factor) if len(self.vectors) else rows


@dataclass(frozen=True)
class RidgeRegression:
    """A ridge regression that learns to separate relevant from irrelevant documents.

    Attributes:
        vectors: The vectors of the judged documents, scaled to unit length, shape (n_documents, n_dimensions).
        shrunk: The same vectors after :meth:`Background.shrink_common_directions`, which damps directions that are
            common in the index.
        grades: The sign (positive for relevant documents) and weight of each judgement, shape (n_documents,). No grade
            is 0.
    """

    vectors: Floats
    shrunk: NDArray[np.float64]
    grades: NDArray[np.float64]

    @cached_property
    def _solver(self) -> NDArray[np.float64]:
        """The inverse matrix that solves the ridge regression in its dual form, of shape (n, n) for n judged documents.

        Let the rows of X be the vectors of the judged documents, and the rows of S the same vectors after
        :meth:`Background.shrink_common_directions`. With the relevance grades g and the ridge penalty λ, the matrix is
        (X Sᵀ + λ · diag(1 / |g|))⁻¹. The dual form is used because there are far fewer judged documents than
        dimensions.
        """
        kernel = self.vectors @ self.shrunk.T
        return np.asarray(np.linalg.inv(kernel + np.diag(RIDGE_PENALTY / np.abs(self.grades))))

    def direction(self) -> Floats:
        """Return the direction that best separates relevant from irrelevant documents.

        The regression predicts 1 for relevant and -1 for irrelevant documents. The direction is the same for all
        queries. To move a query vector, use :meth:`move_query`.

        Returns:
            Float32 array of shape (n_dimensions,).
        """
        return np.asarray(self.shrunk.T @ (self._solver @ np.sign(self.grades)), np.float32)

    def move_query(self, query: NDArray[Any]) -> Floats:
        """Move a query vector towards relevant and away from irrelevant documents.

        Args:
            query: The query vector, of shape (n_dimensions,).

        Returns:
            Float32 array of shape (n_dimensions,), with the Euclidean length of the query, or with unit length if the
            query is zero.
        """
        length = float(np.linalg.norm(query)) or 1.0
        prior = RIDGE_PRIOR / length * np.asarray(query, np.float32)
        residuals: NDArray[np.float64] = (self.grades > 0) - self.vectors @ prior
        moved = prior + self.shrunk.T @ (self._solver @ residuals)
        return np.asarray(length / (float(np.linalg.norm(moved)) or 1.0) * moved, np.float32)
