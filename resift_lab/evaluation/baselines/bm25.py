"""BM25 in Lucene's form, computed as a product of sparse matrices. The lexical baseline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from resift_lab.corpus import document_frequency, lucene_idf
from resift_lab.evaluation.baselines.terms import Analyzer, TermCounter, english_terms

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
        """Learn the vocabulary and the term statistics of the documents, and return their BM25 weights.

        Args:
            documents: The texts of the N documents.

        Returns:
            The BM25 weight of each of the V terms in each document, a sparse matrix of shape (N, V), float32.
        """
        self.terms = TermCounter(documents, self.analyze)
        counts = self.terms.counts(documents)
        self.idf = lucene_idf(document_frequency(counts), len(documents)).astype(np.float32)
        self.mean_length = max(float(counts.sum()) / max(1, len(documents)), 1e-9)
        return self._weighted(counts)

    def document_weights(self, texts: Sequence[str]) -> csr_matrix:
        """Return the BM25 weights of documents that :meth:`fit` has not seen. The fitted statistics stay unchanged.

        Args:
            texts: The texts of n documents.

        Returns:
            The weight of each of the V fitted terms in each document, a sparse matrix of shape (n, V), float32.
        """
        return self._weighted(self.terms.counts(texts))

    def encode_queries(self, texts: Sequence[str]) -> csr_matrix:
        """Count how often each term of the vocabulary occurs in each query.

        The BM25 score of a document for a query is the inner product of two rows: the document's row that :meth:`fit`
        returns, and the query's row that this method returns.

        Args:
            texts: The texts of n queries.

        Returns:
            The count of each of the V terms in each query, a sparse matrix of shape (n, V), float32.
        """
        return self.terms.counts(texts)

    def _weighted(self, counts: csr_matrix) -> csr_matrix:
        """Convert term counts to BM25 weights.

        Args:
            counts: The counts of V terms in n documents, a sparse matrix of shape (n, V).

        Returns:
            The weights, a sparse matrix of the same shape.
        """
        lengths = np.asarray(counts.sum(axis=1)).ravel()
        norms = (self.k1 * (1 - self.b + self.b * lengths / self.mean_length)).astype(np.float32)
        rows = counts.copy()
        rows.data = self.idf[rows.indices] * rows.data / (rows.data + np.repeat(norms, np.diff(rows.indptr)))
        return rows
