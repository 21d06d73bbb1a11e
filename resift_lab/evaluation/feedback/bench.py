"""The bench that feedback is measured on: documents and queries as the methods see them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.errors import needs_extra
from resift.feedback.judgements import JudgedDocument, Judgement
from resift.feedback.methods import DEFAULT_METHOD
from resift.vectors.packaged import load_vectors
from resift.vectors.similarity import unit_rows
from resift_lab.evaluation.baselines.bm25 import BM25
from resift_lab.evaluation.feedback.whole_set import WholeSet
from resift_lab.evaluation.pairwise import Matrix
from resift_lab.evaluation.served import SearchableCollection, Serve, SimulatedSearch, scores_of
from resift_lab.evaluation.system import System, known_by, weights_of

with needs_extra("lab", "Evaluation"):
    from scipy.sparse import csc_matrix, csr_matrix

Scores = NDArray[np.float64]
Judged = Sequence[tuple[int, float]]  # judged documents, each with its grade


class FeedbackBench:
    """Documents (N) and queries (Q): their vectors by a system, what is served of them, and words counted for BM25.

    ``serve`` makes the search. ``idf`` says how rare a word is; if it is not given, the table of the fitted system
    does, or the packaged vectors' where it has none. ``alpha`` is the weight of the similarity before any feedback,
    None the system's own. ``whole``: rankings are of the whole collection, see
    :class:`resift_lab.evaluation.served.SimulatedSearch`.
    """

    def __init__(
        self,
        system: System,
        documents: Sequence[str],
        queries: Sequence[str],
        serve: Serve,
        idf: Callable[[str], float] | None = None,
        alpha: float | None = None,
        whole: bool = False,
    ) -> None:
        self.documents, self.queries, self.whole = documents, queries, whole
        self.vectors, self.query_vectors = _dense(system.fit(documents)), _dense(system.queries(queries))
        # only now, because an adapted system has another table and other weights once it is fitted
        own, self.max_alpha = weights_of(system)
        self.alpha = own if alpha is None else alpha
        self._system, self._own = system, alpha is None
        self._table = getattr(system, "table", None)
        self._given_idf = idf
        self._serve, self._similarity = serve, system.similarity

    @cached_property
    def search(self) -> SearchableCollection:
        """The collection as it is served."""
        # "dot", which word counts are compared by, is no similarity that an index has
        similarity = "cosine" if self._similarity == "dot" else self._similarity
        return self._serve(self.documents, self.vectors, similarity, self.idf)

    @cached_property
    def _fitted_bm25(self) -> tuple[BM25, csc_matrix]:
        bm25 = BM25()
        # by columns, because a query asks for few of the terms
        return bm25, csc_matrix(bm25.fit(self.documents))

    @property
    def bm25(self) -> BM25:
        """BM25, which has counted the documents' words."""
        return self._fitted_bm25[0]

    @cached_property
    def idf(self) -> Callable[[str], float]:
        """How rare a word is."""
        if self._given_idf is not None:
            return self._given_idf
        return (load_vectors() if self._table is None else self._table).idf

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

    @cached_property
    def whole_set(self) -> WholeSet:
        """The documents as a classifier ranks all of them."""
        return WholeSet(self.documents)

    def query_terms(self, query: int) -> NDArray[np.float64]:
        """A query's term counts as a vector of length 1, (V,); zeros without known words."""
        counts = self.bm25.queries([self.queries[query]]).toarray()[0].astype(np.float64)
        return np.asarray(counts / (np.linalg.norm(counts) or 1.0))

    def lexical(self, weights: NDArray[Any]) -> Scores:
        """BM25 (N,) of terms weighted by ``weights`` (V,); -inf for documents without any of them."""
        columns = np.flatnonzero(weights)
        scores = np.asarray(self._fitted_bm25[1][:, columns] @ weights[columns], np.float64)
        return np.where(scores == 0, -np.inf, scores)

    def judged(self, query: str, judged: Judged) -> list[JudgedDocument]:
        """Documents as a session holds them that were ``judged`` for the text ``query``, "" for none in particular."""
        return [
            JudgedDocument(Judgement("", str(row), grade, query), self.vectors[row], self.documents[row])
            for row, grade in judged
        ]

    def served(self, query: int, judged: Sequence[JudgedDocument] = (), method: str = DEFAULT_METHOD) -> Scores:
        """Scores (N,) that give the ranking of a search in a session with ``judged`` documents, or without one.

        They are -inf for documents that it does not find. ``method`` is one of
        :data:`resift_lab.evaluation.feedback.learners.LEARNERS`.
        """
        text, vector = self.queries[query], self.query_vectors[query]
        known = partial(known_by, self._system) if self._own else None
        asked = SimulatedSearch(text, vector, self.alpha, self.max_alpha, judged, method, self.whole, known)
        return scores_of(self.search.hits(asked).positions, len(self.documents))


def _dense(rows: Matrix) -> Floats:
    return np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows, np.float32)
