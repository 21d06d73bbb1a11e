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


class UnseenWordPredictor:
    """Predicts vectors for words that did not occur in a training, from their vectors before the training.

    The prediction is a linear map. It is fitted by ridge regression on the trained words, for which the vectors before
    and after the training are known.

    Args:
        vectors: The word vectors before the training. They are scaled to unit length before they are mapped.
        words: The V trained words.
        rows: The vectors of the trained words after the training, shape (V, K) for K dimensions.
        frequency: The frequency of each trained word, shape (V,). It is the weight of the word in the regression, at
            most 50.

    Attributes:
        has_known_words: Whether ``vectors`` contains any of the trained words. Otherwise nothing can be predicted.
    """

    def __init__(
        self, vectors: WordVectors, words: Sequence[str], rows: Floats, frequency: NDArray[np.float64]
    ) -> None:
        table_rows = np.array([vectors.index[word] for word in words])
        known = table_rows >= 0
        self.vectors, self._units = vectors, unit_rows(vectors.rows())
        self.has_known_words = bool(known.any())
        counts = np.minimum(frequency[known], _MAX_COUNT)[:, None]
        source = self._units[table_rows[known]].astype(np.float64)
        square = (source * counts).T @ source + _RIDGE * max(counts.sum(), 1.0) * np.eye(vectors.dim)
        self._matrix = np.linalg.solve(square, (source * counts).T @ rows[known])

    def predict(self, ids: NDArray[np.int64]) -> Floats:
        """Predict the vectors that words would have after the training.

        Args:
            ids: The row numbers of n words in the table of vectors before the training, shape (n,).

        Returns:
            Vectors of shape (n, K) for K dimensions.
        """
        return (self._units[ids] @ self._matrix).astype(np.float32)

    def completed_table(self, words: Sequence[str], rows: Floats, weights: Floats, info: dict[str, Any]) -> WordVectors:
        """Return a table of all words: the trained words with their trained vectors, and then the other words.

        The other words are those that only the table before the training contains. They have predicted vectors
        (:meth:`predict`), and all have the same weight: half of the 0.9 quantile of the trained words' weights.

        Args:
            words: The V trained words.
            rows: Their vectors after the training, shape (V, K) for K dimensions.
            weights: Their weights after the training, shape (V,).
            info: Information about the origin of the vectors, which is stored in the table.
        """
        trained = set(words)
        known = enumerate(self.vectors.words if self.has_known_words else ())
        unseen = np.array([row for row, word in known if word not in trained], np.int64)
        weight = _WEIGHT_OF_UNSEEN * np.quantile(weights, 0.9)
        return WordVectors(
            [*words, *(self.vectors.words[row] for row in unseen)],
            np.concatenate([rows, self.predict(unseen)]),
            np.concatenate([weights, np.full(len(unseen), weight, np.float32)]),
            info=info,
        )
