"""Vectors for words that were not trained.

A linear map, fitted on the trained words, maps the original vectors of all other words into the space of the trained
vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.vectors.similarity import unit_rows
from resift.vectors.table import WordVectors

# Weight of an untrained word, as a multiple of the 0.9 quantile of the trained words' weights.
_WEIGHT_OF_UNSEEN = 0.5
# Largest frequency that a word counts with in the regression.
_MAX_COUNT = 50
# Ridge penalty, as a share of the sum of the counts.
_RIDGE = 1e-3


class LinearMap:
    """A linear map that predicts trained vectors of words from their original vectors.

    The map is fitted to the trained words by ridge regression, and predicts vectors for words that were not trained.

    Args:
        vectors: The original word vectors. They are scaled to unit length before they are mapped.
        words: The V trained words.
        rows: The trained vectors, of K dimensions, shape (V, K).
        frequency: The frequency of each trained word, shape (V,). It is the weight of the word in the regression, at
            most 50.

    Attributes:
        is_known: Whether the original table contains any of the trained words. If not, the map is useless.
    """

    def __init__(
        self, vectors: WordVectors, words: Sequence[str], rows: Floats, frequency: NDArray[np.float64]
    ) -> None:
        table_rows = np.array([vectors.index[word] for word in words])
        known = table_rows >= 0
        self.vectors, self._units = vectors, unit_rows(vectors.rows())
        self.is_known = bool(known.any())
        counts = np.minimum(frequency[known], _MAX_COUNT)[:, None]
        source = self._units[table_rows[known]].astype(np.float64)
        square = (source * counts).T @ source + _RIDGE * max(counts.sum(), 1.0) * np.eye(vectors.dim)
        self._matrix = np.linalg.solve(square, (source * counts).T @ rows[known])

    def rows(self, ids: NDArray[np.int64]) -> Floats:
        """Predict the trained vectors of words from their original vectors.

        Use this method for words that did not occur in the training texts.

        Args:
            ids: The row numbers of n words in the table of original vectors, shape (n,).

        Returns:
            Vectors of shape (n, K) for K dimensions.
        """
        return (self._units[ids] @ self._matrix).astype(np.float32)

    def extended(self, words: Sequence[str], rows: Floats, weights: Floats, info: dict[str, Any]) -> WordVectors:
        """Create a table of the trained words, followed by all other words of the original table.

        The map predicts the vectors of the other words from their original vectors. Each of these words gets the same
        weight: half of the 0.9 quantile of the trained words' weights.

        Args:
            words: The V trained words.
            rows: The trained vectors of K dimensions, shape (V, K).
            weights: The trained weights, shape (V,).
            info: Information about the origin of the vectors, which is stored in the table.
        """
        trained = set(words)
        known = enumerate(self.vectors.words if self.is_known else ())
        unseen = np.array([row for row, word in known if word not in trained], np.int64)
        weight = _WEIGHT_OF_UNSEEN * np.quantile(weights, 0.9)
        return WordVectors(
            [*words, *(self.vectors.words[row] for row in unseen)],
            np.concatenate([rows, self.rows(unseen)]),
            np.concatenate([weights, np.full(len(unseen), weight, np.float32)]),
            info=info,
        )
