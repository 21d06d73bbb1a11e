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
    """Latent semantic indexing of tf-idf vectors without stop words.

    Each tf-idf vector is scaled to unit length and projected onto the right singular vectors of the document matrix
    with the largest singular values.

    Args:
        size: Number of dimensions. A corpus of lower rank has as many dimensions as its rank.
        min_df: Minimum number of documents that contain a term. Terms in fewer documents are ignored.
        seed: Seed of the start vector of the singular value decomposition.

    Source:
        Deerwester et al. 1990.
    """

    similarity = "cosine"

    def __init__(self, size: int, min_df: int = 1, seed: int = 0) -> None:
        self.size, self.seed = size, seed
        self._tfidf = TfIdf(without_stop_words, min_df)

    def fit(self, documents: Sequence[str]) -> Floats:
        """Learn the singular vectors from the documents, and return the projections of the documents onto them.

        Args:
            documents: The texts of the N documents.

        Returns:
            The projections of the documents, shape (N, K) for K dimensions.
        """
        rows = unit_matrix(self._tfidf.fit(documents))
        self._axes = self._singular_vectors(rows)[: self.size].T.astype(np.float32)
        return np.asarray(rows @ self._axes)

    def encode_queries(self, texts: Sequence[str]) -> Floats:
        """Project other texts, such as queries, onto the singular vectors that :meth:`fit` has learned.

        Args:
            texts: The n texts.

        Returns:
            The projections, shape (n, K) for K dimensions.
        """
        return np.asarray(unit_matrix(self._tfidf.encode_queries(texts)) @ self._axes)

    def _singular_vectors(self, rows: Matrix) -> Matrix:
        """Return the right singular vectors of a matrix, in descending order of singular values.

        Args:
            rows: The tf-idf vectors of N documents with V terms, shape (N, V).

        Returns:
            The singular vectors as rows of length V. There are at least as many as the encoder has dimensions
            (``size``), unless the matrix has fewer rows or columns.
        """
        with needs_extra("lab", "Evaluation"):
            from scipy.sparse.linalg import svds
        # ARPACK can only compute fewer singular vectors than the smaller side of the matrix has
        if min(rows.shape) <= self.size + 1:
            return np.linalg.svd(rows.toarray(), full_matrices=False)[2]
        # a fixed start vector, because ARPACK's own start vector differs between calls
        start = np.random.default_rng(self.seed).normal(size=min(rows.shape))
        _, values, axes = svds(rows.astype(np.float64), k=self.size, v0=start)
        return axes[np.argsort(-values)]
