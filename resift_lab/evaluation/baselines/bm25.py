"""BM25 in Lucene's form, computed as a product of sparse matrices. The lexical baseline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from resift_lab.corpus import document_frequency, lucene_idf
from resift_lab.evaluation.baselines.terms import Analyzer, Terms, english_terms

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


class BM25:
    """BM25 with Lucene's idf = log(1 + (N - n + 0.5) / (n + 0.5)).

    The row of a document contains idf · tf / (tf + k1 · (1 - b + b · length / mean length)) for each term. The row of a
    query contains the number of occurrences of each term. The score is the inner product of both rows. It is 0 if the
    query and the document have no term in common.

    Args:
        k1: Saturation of the term frequency.
        b: Strength of the length normalisation, 0 to 1.
        analyze: Function that splits a text into terms.

    Attributes:
        terms: The vocabulary, after :meth:`fit`.
        idf: The idf of each of the V terms, shape (V,), float32, after :meth:`fit`.
        mean_length: Mean number of terms in a document, after :meth:`fit`.

    Source:
        Robertson and Zaragoza 2009 ("The Probabilistic Relevance Framework: BM25 and Beyond"), eq. 3.15.
    """

    similarity = "dot"

    def __init__(self, k1: float = 1.2, b: float = 0.75, analyze: Analyzer = english_terms) -> None:
        self.k1, self.b, self.analyze = k1, b, analyze

    def fit(self, documents: Sequence[str]) -> csr_matrix:
        """Learn the vocabulary, the idf and the mean length from the documents.

        Returns:
            The rows of the N documents, shape (N, V) for V terms, float32.
        """
        self.terms = Terms(documents, self.analyze)
        counts = self.terms.counts(documents)
        self.idf = lucene_idf(document_frequency(counts), len(documents)).astype(np.float32)
        self.mean_length = max(float(counts.sum()) / max(1, len(documents)), 1e-9)
        return self._weighted(counts)

    def documents(self, texts: Sequence[str]) -> csr_matrix:
        """Return the rows of n further documents, shape (n, V), float32.

        The V terms, their idf and the mean length, which :meth:`fit` learned, do not change.
        """
        return self._weighted(self.terms.counts(texts))

    def queries(self, texts: Sequence[str]) -> csr_matrix:
        """Return how often each of the V terms occurs in each of n queries, shape (n, V), float32."""
        return self.terms.counts(texts)

    def _weighted(self, counts: csr_matrix) -> csr_matrix:
        """Return the BM25 weights of the terms in n documents, from their counts, both of shape (n, V)."""
        lengths = np.asarray(counts.sum(axis=1)).ravel()
        norms = (self.k1 * (1 - self.b + self.b * lengths / self.mean_length)).astype(np.float32)
        rows = counts.copy()
        rows.data = self.idf[rows.indices] * rows.data / (rows.data + np.repeat(norms, np.diff(rows.indptr)))
        return rows
