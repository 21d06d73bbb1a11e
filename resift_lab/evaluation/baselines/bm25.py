"""BM25 as a product of sparse matrices: the lexical baseline, in Lucene's form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from resift_lab.corpus import document_frequency, lucene_idf
from resift_lab.evaluation.baselines.terms import Analyzer, Terms, english_terms

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


class BM25:
    """Scores by Robertson and Zaragoza (2009, eq. 3.15), with Lucene's idf = log(1 + (N - n + .5) / (n + .5)).

    A document's row holds idf · tf / (tf + k1 · (1 - b + b · length / mean length)) for each term, a query's how often
    it asks for the term; the score is their inner product, 0 without a common term. ``fit`` counts the documents.
    """

    similarity = "dot"

    def __init__(self, k1: float = 1.2, b: float = 0.75, analyze: Analyzer = english_terms) -> None:
        self.k1, self.b, self.analyze = k1, b, analyze

    def fit(self, documents: Sequence[str]) -> csr_matrix:
        """Learn terms, their idf and the mean length from the documents; their rows, (N, V) float32."""
        self.terms = Terms(documents, self.analyze)
        counts = self.terms.counts(documents)
        self.idf = lucene_idf(document_frequency(counts), len(documents)).astype(np.float32)
        self.mean_length = max(float(counts.sum()) / max(1, len(documents)), 1e-9)
        return self._weighted(counts)

    def documents(self, texts: Sequence[str]) -> csr_matrix:
        """Rows of other documents, (n, V) float32, by the idf and the mean length of those that were fitted."""
        return self._weighted(self.terms.counts(texts))

    def queries(self, texts: Sequence[str]) -> csr_matrix:
        """Rows of queries, (n, V) float32: how often each term occurs."""
        return self.terms.counts(texts)

    def _weighted(self, counts: csr_matrix) -> csr_matrix:
        lengths = np.asarray(counts.sum(axis=1)).ravel()
        norms = (self.k1 * (1 - self.b + self.b * lengths / self.mean_length)).astype(np.float32)
        rows = counts.copy()
        rows.data = self.idf[rows.indices] * rows.data / (rows.data + np.repeat(norms, np.diff(rows.indptr)))
        return rows
