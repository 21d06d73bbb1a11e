"""The bench that feedback is measured on: documents and queries as the methods see them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.errors import needs_extra
from resift.evaluation.baselines.bm25 import BM25
from resift.evaluation.pairwise import Matrix
from resift.evaluation.system import ALPHA, MAX_ALPHA, System
from resift.ranking.feedback import DEFAULT_METHOD, METHODS, Bag, Feedback, bag_of_words
from resift.ranking.fusion import combine
from resift.vectors.packaged import load_vectors
from resift.vectors.similarity import SIMILARITIES, unit_rows

with needs_extra("eval", "Evaluation"):
    from scipy.sparse import csc_matrix, csr_matrix

Scores = NDArray[np.float64]
Judged = Sequence[tuple[int, float]]  # judged documents, each with its grade


class FeedbackBench:
    """Documents (N) and queries (Q): their vectors by a system, and their words counted for BM25.

    ``idf`` says how rare a word is; if it is not given, the table of the fitted system does, or the packaged vectors'
    where it has none. ``alpha`` is the weight of the similarity against BM25 before any feedback.
    """

    def __init__(
        self,
        system: System,
        documents: Sequence[str],
        queries: Sequence[str],
        idf: Callable[[str], float] | None = None,
        alpha: float = ALPHA,
    ) -> None:
        self.documents, self.queries, self.alpha = documents, queries, alpha
        self.vectors, self.query_vectors = _dense(system.fit(documents)), _dense(system.queries(queries))
        # only now, because an adapted system has another table and another weight once it is fitted
        self.max_alpha: float = getattr(system, "max_alpha", MAX_ALPHA)
        self._table = getattr(system, "table", None)
        self._given_idf = idf
        # "dot", which BM25 asks for, is no similarity of one vector with many
        self.similarity = SIMILARITIES["cosine" if system.similarity == "dot" else system.similarity]
        self.bm25 = BM25()
        # by columns, because a query asks for few of the terms
        self._columns = csc_matrix(self.bm25.fit(documents))
        self._bags: dict[int, Bag] = {}

    @cached_property
    def idf(self) -> Callable[[str], float]:
        """How rare a word is."""
        if self._given_idf is not None:
            return self._given_idf
        return (load_vectors() if self._table is None else self._table).zipf_idf

    @cached_property
    def counts(self) -> csr_matrix:
        """How often each term occurs in each document, (N, V)."""
        return self.bm25.terms.counts(self.documents)

    @cached_property
    def whitened(self) -> tuple[Floats, Floats]:
        """Documents and queries in the half-whitened space: (x - μ) · V / s^½, at length 1."""
        mean = self.vectors.mean(axis=0)
        values, axes = np.linalg.eigh(np.cov((self.vectors - mean).T.astype(np.float64)) * len(self.vectors))
        # directions without variance would otherwise be blown up to noise
        scale = np.sqrt(np.maximum(values, values.max() * 1e-8)) ** 0.5
        projection = (axes / scale).astype(np.float32)
        return unit_rows((self.vectors - mean) @ projection), unit_rows((self.query_vectors - mean) @ projection)

    def bag(self, document: int) -> Bag:
        """A document's weighted words."""
        if document not in self._bags:
            self._bags[document] = bag_of_words(self.documents[document], self.idf)
        return self._bags[document]

    def query_terms(self, query: int) -> NDArray[np.float64]:
        """A query's term counts as a vector of length 1, (V,); zeros without known words."""
        counts = self.bm25.queries([self.queries[query]]).toarray()[0].astype(np.float64)
        return np.asarray(counts / (np.linalg.norm(counts) or 1.0))

    def expanded_terms(self, query: int, feedback: Feedback) -> NDArray[np.float64]:
        """A query's terms and those that the feedback adds, (V,); words that no document has are left out."""
        columns, added = self.bm25.terms.index, np.zeros(len(self.bm25.terms.index))
        for word, weight in feedback.expansion_terms.items():
            for term in self.bm25.analyze(word):
                if term in columns:
                    added[columns[term]] += weight
        return self.query_terms(query) + added

    def lexical(self, weights: NDArray[Any]) -> Scores:
        """BM25 (N,) of terms weighted by ``weights`` (V,)."""
        columns = np.flatnonzero(weights)
        return np.asarray(self._columns[:, columns] @ weights[columns], np.float64)

    def semantic(self, vector: NDArray[Any], mask: NDArray[Any] | float = 1.0) -> Scores:
        """Similarity (N,) of the documents with a vector (K,), both masked."""
        return np.asarray(self.similarity(vector * mask, self.vectors * mask), np.float64)

    def hybrid(self, query: int, feedback: Feedback | None = None) -> Scores:
        """The reranker's score of all documents, (N,): (1 - α) · z(BM25) + α · z(similarity).

        With feedback the terms, the vector, the mask and α are as it changes them.
        """
        vector = self.query_vectors[query]
        if feedback is None:
            return _combined(self.lexical(self.query_terms(query)), self.semantic(vector), self.alpha)
        return _combined(
            self.lexical(self.expanded_terms(query, feedback)),
            self.semantic(feedback.transform_query(vector), feedback.mask),
            feedback.adjusted_alpha(self.alpha, self.max_alpha),
        )

    def learn(self, judged: Judged, method: str = DEFAULT_METHOD) -> Feedback:
        """What judged documents teach a method of :data:`resift.ranking.feedback.METHODS`."""
        ordered = sorted(judged, key=lambda judgement: judgement[1] < 0)
        documents = [document for document, _ in ordered]
        relevant = sum(grade > 0 for _, grade in ordered)
        bags = [self.bag(document) for document in documents] if METHODS[method].expands else []
        sides = self.vectors[documents[:relevant]], self.vectors[documents[relevant:]]
        return Feedback.learn(*sides, method, [grade for _, grade in ordered], bags)


def _combined(lexical: Scores, semantic: Scores, alpha: float) -> Scores:
    return np.asarray(combine(lexical, semantic, alpha, "z_score"), np.float64)


def _dense(rows: Matrix) -> Floats:
    return np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows, np.float32)
