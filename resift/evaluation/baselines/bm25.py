"""BM25 as a product of sparse matrices: the lexical baseline, in Lucene's form."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_matrix

from resift.evaluation.baselines.terms import Analyzer, Terms, document_frequency, english_terms


class BM25:
    """Scores by Robertson and Zaragoza (2009, eq. 3.15), with Lucene's idf = log(1 + (N - n + .5) / (n + .5)).

    A document's row holds idf · tf / (tf + k1 · (1 - b + b · length / mean length)) for each term, a query's how often
    it asks for the term; the score is their inner product, 0 without a common term. ``fit`` counts the documents.
    """

    def __init__(self, k1: float = 1.2, b: float = 0.75, analyze: Analyzer = english_terms) -> None:
        self.k1, self.b, self.analyze = k1, b, analyze

    def fit(self, texts: Sequence[str]) -> csr_matrix:
        """Learn terms, their idf and the mean length from the documents; their rows, (N, V) float32."""
        self.terms = Terms(texts, self.analyze)
        counts = self.terms.counts(texts)
        seen = document_frequency(counts)
        self.idf = np.log1p((len(texts) - seen + 0.5) / (seen + 0.5)).astype(np.float32)
        self.mean_length = max(float(counts.sum()) / max(1, len(texts)), 1e-9)
        return self._weigh(counts)

    def documents(self, texts: Sequence[str]) -> csr_matrix:
        """Rows of documents, (n, V) float32."""
        return self._weigh(self.terms.counts(texts))

    def queries(self, texts: Sequence[str]) -> csr_matrix:
        """Rows of queries, (n, V) float32."""
        return self.terms.counts(texts)

    def _weigh(self, counts: csr_matrix) -> csr_matrix:
        lengths = np.asarray(counts.sum(axis=1)).ravel()
        norms = (self.k1 * (1 - self.b + self.b * lengths / self.mean_length)).astype(np.float32)
        found = csr_matrix(counts, copy=True)
        found.data = self.idf[found.indices] * found.data / (found.data + np.repeat(norms, np.diff(found.indptr)))
        return found
