"""tf-idf: how often a word occurs, times how rare it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from resift_lab.corpus import document_frequency, tfidf_idf
from resift_lab.evaluation.baselines.terms import Analyzer, Terms

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


class TfIdf:
    """tf · idf with idf = log((1 + N) / (1 + df)) + 1 (scikit-learn's, which Passalis and Tefas 2018 used).

    Terms are those that ``analyze`` finds in ``min_df`` documents or more.
    """

    similarity = "cosine"

    def __init__(self, analyze: Analyzer, min_df: int = 1) -> None:
        self.analyze, self.min_df = analyze, min_df

    def fit(self, documents: Sequence[str]) -> csr_matrix:
        """Learn terms and their idf from the documents; their rows, (N, V) float32."""
        self._terms = Terms(documents, self.analyze, self.min_df)
        counts = self._terms.counts(documents)
        self._idf = tfidf_idf(document_frequency(counts), len(documents)).astype(np.float32)
        return self._weighted(counts)

    def queries(self, texts: Sequence[str]) -> csr_matrix:
        """Rows of other texts, (n, V) float32, by the learnt idf."""
        return self._weighted(self._terms.counts(texts))

    def _weighted(self, counts: csr_matrix) -> csr_matrix:
        counts.data *= self._idf[counts.indices]
        return counts
