"""Documents and queries of a feedback evaluation, prepared for all feedback methods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
from resift_lab.evaluation.feedback.whole_set import SelfTrainingClassifier
from resift_lab.evaluation.pairwise import Matrix
from resift_lab.evaluation.served import SearchableCollection, Serve, SimulatedSearch, ranking_to_scores
from resift_lab.evaluation.system import System, known_word_share, similarity_weights

with needs_extra("lab", "Evaluation"):
    from scipy.sparse import csc_matrix, csr_matrix

Scores = NDArray[np.float64]
"""Scores of all documents, (N,). Documents that are not hits have the score -inf."""

Judged = Sequence[tuple[int, float]]
"""Pairs of a judged document's position and its grade. A grade above 0 means relevant, below 0 irrelevant."""


@dataclass(frozen=True)
class BenchOptions:
    """Options of a :class:`FeedbackBench`, which runs simulated searches with relevance feedback.

    Attributes:
        idf: Function that returns the inverse document frequency of a word. None uses the word vectors of the evaluated
            system, or the word vectors that come with Resift if the system has none.
        alpha: Weight of the vector similarity in searches without feedback, 0 to 1. None uses the system's own weight.
        whole: Whether feedback ranks all documents. If False, feedback reranks only the first hits of a search, the
            rescore window.
    """

    idf: Callable[[str], float] | None = None
    alpha: float | None = None
    whole: bool = False


class FeedbackBench:
    """The N documents and Q queries of an evaluation, with their vectors, term counts and searches.

    All feedback methods share a bench, so that each document is encoded and indexed only once.

    Args:
        system: The system that encodes documents and queries.
        documents: Texts of the documents.
        queries: Texts of the queries.
        serve: Function that indexes the documents, so that they can be searched as in the service.
        options: Weight of the vectors, and whether feedback ranks all documents.

    Attributes:
        vectors: Vectors of the documents, shape (N, K) for K dimensions, float32.
        query_vectors: Vectors of the queries, shape (Q, K), float32.
        alpha: Weight of the vector similarity without feedback.
        max_alpha: Limit that this weight approaches as the number of judgements grows.
    """

    def __init__(
        self,
        system: System,
        documents: Sequence[str],
        queries: Sequence[str],
        serve: Serve,
        options: BenchOptions | None = None,
    ) -> None:
        self.documents, self.queries = documents, queries
        self.vectors, self.query_vectors = _dense(system.fit(documents)), _dense(system.encode_queries(queries))
        self._options = options or BenchOptions()
        # read after `fit`, which replaces the word table and the weights of an adapted system
        system_alpha, self.max_alpha = similarity_weights(system)
        self.alpha = system_alpha if self._options.alpha is None else self._options.alpha
        self._system = system
        self._table = getattr(system, "table", None)
        self._serve, self._similarity = serve, system.similarity

    @cached_property
    def search(self) -> SearchableCollection:
        """The documents of the evaluation in a temporary index, whose searches return the same hits as the service."""
        # an index has no similarity "dot", by which lexical systems compare term counts
        similarity = "cosine" if self._similarity == "dot" else self._similarity
        return self._serve(self.documents, self.vectors, similarity, self.idf)

    @cached_property
    def _fitted_bm25(self) -> tuple[BM25, csc_matrix]:
        bm25 = BM25()
        # compressed by columns, because a query selects few terms
        return bm25, csc_matrix(bm25.fit(self.documents))

    @property
    def bm25(self) -> BM25:
        """BM25 with the vocabulary and the term statistics of the documents."""
        return self._fitted_bm25[0]

    @cached_property
    def idf(self) -> Callable[[str], float]:
        """A function that returns the inverse document frequency (idf) of a word."""
        if self._options.idf is not None:
            return self._options.idf
        return (load_vectors() if self._table is None else self._table).idf

    @cached_property
    def counts(self) -> csr_matrix:
        """The count of each of the V terms in each of the N documents, a sparse matrix of shape (N, V)."""
        return self.bm25.terms.counts(self.documents)

    @cached_property
    def whitened_vectors(self) -> tuple[Floats, Floats]:
        """The vectors of the N documents and the Q queries after half-whitening, shapes (N, K) and (Q, K).

        Let μ be the mean of the document vectors, and V and s the right singular vectors and the singular values of the
        centred document vectors. A vector x of K dimensions becomes (x - μ) · V / s^½, scaled to unit length.
        """
        mean = self.vectors.mean(axis=0)
        values, axes = np.linalg.eigh(np.cov((self.vectors - mean).T.astype(np.float64)) * len(self.vectors))
        # a lower limit, because dividing directions without variance by their scale would amplify noise
        scale = np.sqrt(np.maximum(values, values.max() * 1e-8)) ** 0.5
        projection = (axes / scale).astype(np.float32)
        return unit_rows((self.vectors - mean) @ projection), unit_rows((self.query_vectors - mean) @ projection)

    @cached_property
    def classifier(self) -> SelfTrainingClassifier:
        """A classifier that ranks all documents, and learns from judgements and from its own predictions."""
        return SelfTrainingClassifier(self.documents)

    def query_terms(self, query: int) -> NDArray[np.float64]:
        """Return the term counts of a query as a vector of unit length.

        Args:
            query: Position of the query.

        Returns:
            The scaled count of each of the V terms, shape (V,). All values are 0 if the query contains no term of the
            documents.
        """
        counts = self.bm25.encode_queries([self.queries[query]]).toarray()[0].astype(np.float64)
        return np.asarray(counts / (np.linalg.norm(counts) or 1.0))

    def bm25_scores(self, weights: NDArray[Any]) -> Scores:
        """Return the BM25 scores of all N documents for a query with weighted terms.

        Args:
            weights: The weight of each of the V terms of the vocabulary in the query, shape (V,). Terms that are not in
                the query have the weight 0.

        Returns:
            Scores of shape (N,). -inf for documents that contain no term of the query.
        """
        columns = np.flatnonzero(weights)
        scores = np.asarray(self._fitted_bm25[1][:, columns] @ weights[columns], np.float64)
        return np.where(scores == 0, -np.inf, scores)

    def judged_documents(self, query: str, judged: Judged) -> list[JudgedDocument]:
        """Convert judgements to the form in which sessions store them.

        Args:
            query: Text of the query for which the documents were judged.
            judged: Pairs of a document's position and its grade.

        Returns:
            The judged documents with their vectors and texts.
        """
        return [
            JudgedDocument(Judgement("", str(row), grade, query), self.vectors[row], self.documents[row])
            for row, grade in judged
        ]

    def search_scores(self, query: int, judged: Sequence[JudgedDocument] = (), method: str = DEFAULT_METHOD) -> Scores:
        """Run a query in the same way as the service, and return a score for each document of the collection.

        If there are judged documents, the query is run in a session with these judgements.

        Args:
            query: Position of the query.
            judged: Judged documents of the session. If empty, the query is run without a session.
            method: Name of the feedback method, a key of :data:`resift_lab.evaluation.feedback.learners.LEARNERS`.

        Returns:
            A score for each of the N documents, shape (N,). The scores of the hits decrease with their rank. All other
            documents have the score -inf.
        """
        options = self._options
        search = SimulatedSearch(
            text=self.queries[query],
            vector=self.query_vectors[query],
            alpha=self.alpha,
            max_alpha=self.max_alpha,
            judged=judged,
            method=method,
            whole=options.whole,
            known_share=partial(known_word_share, self._system) if options.alpha is None else None,
        )
        return ranking_to_scores(self.search.hits(search).positions, len(self.documents))


def _dense(rows: Matrix) -> Floats:
    return np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows, np.float32)
