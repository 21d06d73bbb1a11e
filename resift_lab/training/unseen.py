"""Words that a corpus lacks and a table of general word vectors knows: they follow the trained ones by a linear map."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.vectors.similarity import unit_rows
from resift.vectors.table import WordVectors

_WEIGHT_OF_UNSEEN, _MAX_COUNT, _RIDGE = 0.5, 50, 1e-3


class LinearMap:
    """Ridge regression from a table's rows at length 1 to other ``rows`` (V, K) of the ``words`` that it knows.

    ``frequency`` (V,): a word counts as often as it occurs, up to 50 times. Of a table that knows none of them nothing
    is used.
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
        """What becomes of rows of the table, (n, K)."""
        return (self._units[ids] @ self._matrix).astype(np.float32)

    def extended(self, words: Sequence[str], rows: Floats, weights: Floats, info: dict[str, Any]) -> WordVectors:
        """A table of ``words`` with their ``rows`` (V, K) and ``weights`` (V,), and behind them all other words that
        the vectors know, which weigh half of what the rare ones of ``words`` do."""
        held = set(words)
        known = enumerate(self.vectors.words if self.is_known else ())
        unseen = np.array([row for row, word in known if word not in held], np.int64)
        weight = _WEIGHT_OF_UNSEEN * np.quantile(weights, 0.9)
        return WordVectors(
            [*words, *(self.vectors.words[row] for row in unseen)],
            np.concatenate([rows, self.rows(unseen)]),
            np.concatenate([weights, np.full(len(unseen), weight, np.float32)]),
            info=info,
        )
