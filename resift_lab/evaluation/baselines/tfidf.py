"""The tf-idf baseline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from resift_lab.corpus import document_frequency, tfidf_idf
from resift_lab.evaluation.baselines.terms import Analyzer, TermCounter

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


class TfIdf:
    """Tf-idf vectors with scikit-learn's formula, idf = log((1 + N) / (1 + df)) + 1.

    N is the number of documents, and df the number of documents that contain the term. Passalis and Tefas (2018) used
    the same formula.

    Args:
        analyze: Function that splits a text into terms.
        min_df: Minimum number of documents that contain a term. Terms in fewer documents are ignored.
    """

    similarity = "cosine"

    def __init__(self, analyze: Analyzer, min_df: int = 1) -> None:
        self.analyze, self.min_df = analyze, min_df

    def fit(self, documents: Sequence[str]) -> csr_matrix:
        """Learn the vocabulary and the inverse document frequencies from the documents.

        Args:
            documents: The texts of the N documents.

        Returns:
            The tf-idf vectors of the documents with V terms, a sparse matrix of shape (N, V), float32.
        """
        self._terms = TermCounter(documents, self.analyze, self.min_df)
        counts = self._terms.counts(documents)
        self._idf = tfidf_idf(document_frequency(counts), len(documents)).astype(np.float32)
        return self._weighted(counts)

    def encode_queries(self, texts: Sequence[str]) -> csr_matrix:
        """Return the tf-idf vectors of other texts, such as queries, with the fitted inverse document frequencies.

        Args:
            texts: The n texts.

        Returns:
            A sparse matrix of shape (n, V) for V terms, float32.
        """
        return self._weighted(self._terms.counts(texts))

    def _weighted(self, counts: csr_matrix) -> csr_matrix:
        counts.data *= self._idf[counts.indices]
        return counts
