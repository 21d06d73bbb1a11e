"""Lexical baselines: BM25, tf-idf, and latent semantic indexing of the latter."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.linalg import svds

from resift.arrays import Floats
from resift.evaluation.baselines.bm25 import BM25
from resift.evaluation.baselines.terms import Analyzer, Terms, document_frequency, without_stop_words
from resift.evaluation.pairwise import unit_matrix


class Lexical:
    """BM25 as a system."""

    similarity = "dot"

    def __init__(self) -> None:
        self._bm25 = BM25()

    def fit(self, documents: Sequence[str]) -> csr_matrix:
        """Count terms."""
        return self._bm25.fit(documents)

    def queries(self, texts: Sequence[str]) -> csr_matrix:
        """Term counts."""
        return self._bm25.queries(texts)


class TfIdf:
    """tf · idf with idf = log((1 + N) / (1 + df)) + 1 (scikit-learn's, which Passalis and Tefas 2018 used)."""

    similarity = "cosine"

    def __init__(self, analyze: Analyzer, least: int = 1) -> None:
        self.analyze, self.least = analyze, least

    def fit(self, documents: Sequence[str]) -> csr_matrix:
        """Learn terms and their idf."""
        self._terms = Terms(documents, self.analyze, self.least)
        counts = self._terms.counts(documents)
        idf = np.log((1 + len(documents)) / (1 + document_frequency(counts))) + 1
        self._idf = idf.astype(np.float32)
        return self._weigh(counts)

    def queries(self, texts: Sequence[str]) -> csr_matrix:
        """Rows by the learnt idf."""
        return self._weigh(self._terms.counts(texts))

    def _weigh(self, counts: csr_matrix) -> csr_matrix:
        counts.data *= self._idf[counts.indices]
        return counts


class Lsi:
    """Latent semantic indexing: rows of tf-idf (at length 1) on the ``size`` largest right singular vectors.

    A corpus of lower rank gives as many dimensions as it has.
    """

    similarity = "cosine"

    def __init__(self, size: int, least: int = 1, seed: int = 0) -> None:
        self.size, self.seed = size, seed
        self._base = TfIdf(without_stop_words, least)

    def fit(self, documents: Sequence[str]) -> Floats:
        """Learn the axes."""
        rows = unit_matrix(self._base.fit(documents))
        if min(rows.shape) > self.size + 1:
            start = np.random.default_rng(self.seed).normal(size=min(rows.shape))
            _, values, axes = svds(rows.astype(np.float64), k=self.size, v0=start)
            axes = axes[np.argsort(-values)]
        else:
            _, _, axes = np.linalg.svd(rows.toarray(), full_matrices=False)
        self._axes = axes[: self.size].T.astype(np.float32)
        return np.asarray(rows @ self._axes)

    def queries(self, texts: Sequence[str]) -> Floats:
        """Rows folded in."""
        return np.asarray(unit_matrix(self._base.queries(texts)) @ self._axes)
