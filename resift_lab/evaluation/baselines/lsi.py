"""Latent semantic indexing (Deerwester et al. 1990)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from resift.arrays import Floats
from resift.errors import needs_extra
from resift_lab.evaluation.baselines.terms import without_stop_words
from resift_lab.evaluation.baselines.tfidf import TfIdf
from resift_lab.evaluation.pairwise import Matrix, unit_matrix


class Lsi:
    """Rows of tf-idf without stop words (at length 1) on their ``size`` largest right singular vectors.

    A corpus of lower rank gives as many dimensions as it has. ``min_df``: see
    :class:`resift_lab.evaluation.baselines.tfidf.TfIdf`.
    """

    similarity = "cosine"

    def __init__(self, size: int, min_df: int = 1, seed: int = 0) -> None:
        self.size, self.seed = size, seed
        self._tfidf = TfIdf(without_stop_words, min_df)

    def fit(self, documents: Sequence[str]) -> Floats:
        """Learn the axes from the documents; their rows, (N, K)."""
        rows = unit_matrix(self._tfidf.fit(documents))
        self._axes = self._singular_vectors(rows)[: self.size].T.astype(np.float32)
        return np.asarray(rows @ self._axes)

    def queries(self, texts: Sequence[str]) -> Floats:
        """Rows of other texts folded in, (n, K)."""
        return np.asarray(unit_matrix(self._tfidf.queries(texts)) @ self._axes)

    def _singular_vectors(self, rows: Matrix) -> Matrix:
        """Right singular vectors of ``rows`` (N, V), the largest first, a row each."""
        with needs_extra("lab", "Evaluation"):
            from scipy.sparse.linalg import svds
        # ARPACK finds fewer vectors than the smaller side has; small matrices are done whole
        if min(rows.shape) <= self.size + 1:
            return np.linalg.svd(rows.toarray(), full_matrices=False)[2]
        # a start of our own, because ARPACK's differs from call to call
        start = np.random.default_rng(self.seed).normal(size=min(rows.shape))
        _, values, axes = svds(rows.astype(np.float64), k=self.size, v0=start)
        return axes[np.argsort(-values)]
