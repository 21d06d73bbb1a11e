"""Feedback methods by name: methods of Resift, and methods of the literature for comparison.

Methods of Resift's sessions. The ranking is the result of a search in a session with the judgements:

==================  ================================================================================================
Resift's methods    See :mod:`resift.feedback.methods`.
``ridge``           The ridge regression of ``ridge+lexical`` without expansion words.
``rocchio``         Rocchio's formula, see :class:`resift_lab.evaluation.feedback.learners.RocchioFeedback`.
``mask+rocchio``    ``mask`` and ``rocchio`` together.
==================  ================================================================================================

Methods for comparison:

==================  ================================================================================================
``none``            The initial ranking, unchanged.
``whitened``        Rocchio's formula with weights 1 (query), 2 (relevant) and 1 (irrelevant), in the half-whitened
                    space of the document vectors (V / s^½ of their singular value decomposition).
``classifier``      All documents ranked by a classifier that starts from the ranking of a session with the judgements,
                    see :class:`resift_lab.evaluation.feedback.whole_set.SelfTrainingClassifier`.
``rm3``             BM25 of 0.3 · query + 0.7 · the 60 most probable words of the relevant documents. All relevant
                    documents have the same weight. Source: Lavrenko and Croft 2001; Abdul-Jaleel et al. 2004.
``more_like_this``  BM25 of the query and the 25 words of the relevant documents with the highest tf · idf (Lucene).
``qdrant``          Relevance feedback of Qdrant 1.17, strategy "naive": a · (inner product with the query) + a sum over
                    all pairs of a relevant and an irrelevant document. The summand of a pair is c · confidence^b ·
                    (difference of the inner products with both documents). The confidence is 1. c / a = 0.1
                    was the best of 0.01, 0.03, 0.1 and 1.33 (the value of Qdrant's example) on Cranfield and CISI.
``refit``           ReFIT (Reddy et al. 2023): 100 steps of gradient descent move the query vector, so that the softmax
                    of its inner products with the judged documents (temperature 0.1) matches the judgements. The
                    learning rate 0.003 was chosen on Cranfield and CISI.
==================  ================================================================================================
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.errors import BadInput
from resift.feedback.feedback import Feedback
from resift.vectors.similarity import unit_rows
from resift.vectors.weights import beta_from_alpha
from resift_lab.evaluation.feedback.bench import FeedbackBench, Judged, Scores
from resift_lab.evaluation.feedback.learners import LEARNERS

BASELINES = ("rocchio", "rm3", "more_like_this")
"""Methods that ``resift eval feedback`` always evaluates for comparison."""

# RM3: weight of the query against the relevant documents, and number of expansion words
_RM3_QUERY_WEIGHT = 0.3
_RM3_TERMS = 60

_MORE_LIKE_THIS_TERMS = 25  # Lucene's default number of words

# Rocchio's formula in the half-whitened space: weights of the relevant and of the irrelevant documents
_WHITENED_WEIGHTS = (2.0, 1.0)

_QDRANT_WEIGHT = 0.1  # c / a

# ReFIT: steps of gradient descent, learning rate, and temperature of the softmax
_REFIT_STEPS = 100
_REFIT_RATE = 0.003
_REFIT_TEMPERATURE = 0.1


def scores_after(bench: FeedbackBench, method: str, query: int, judged: Judged, first: Scores) -> Scores:
    """Rank all N documents for a query by a feedback method, after some of its hits were judged.

    Args:
        bench: Documents and queries.
        method: Name of the method.
        query: Position of the query.
        judged: Pairs of a hit's position and its grade.
        first: Scores of the initial ranking, shape (N,).

    Returns:
        The scores after the judgements, shape (N,).

    Raises:
        BadInput: If the method is unknown.
    """
    check_method(method)
    if method == "none":
        return first
    if method in _COMPARED:
        return _COMPARED[method](bench, query, judged)
    return bench.search_scores(query, bench.judged_documents(bench.queries[query], judged), method)


def check_method(method: str) -> None:
    """Check that a feedback method exists.

    Args:
        method: Name of the method.

    Raises:
        BadInput: If no feedback method has this name.
    """
    if method not in NAMES:
        raise BadInput(f"unknown method {method!r}", value=method, expected=" | ".join(NAMES))


def _classifier(bench: FeedbackBench, query: int, judged: Judged) -> Scores:
    served = bench.search_scores(query, bench.judged_documents(bench.queries[query], judged))
    return bench.classifier.scores(bench.queries[query], judged, served)


def _whitened_rocchio(bench: FeedbackBench, query: int, judged: Judged) -> Scores:
    """Rank all N documents by a query vector that Rocchio's formula has moved, in a half-whitened vector space.

    The formula moves the query vector towards the relevant and away from the irrelevant documents. Half-whitening
    divides each principal component of the vectors by the square root of its singular value.

    Args:
        bench: Documents and queries, with their half-whitened vectors.
        query: Position of the query.
        judged: Pairs of a judged document's position and its grade.

    Returns:
        The inner product of each document with the moved query vector, shape (N,).
    """
    documents, queries = bench.whitened_vectors
    vector = queries[query].copy()
    for weight, sign in zip(_WHITENED_WEIGHTS, (1, -1), strict=True):
        if rows := [document for document, grade in judged if grade * sign > 0]:
            vector += sign * weight * documents[rows].mean(axis=0)
    return np.asarray(documents @ vector, np.float64)


def _rm3(bench: FeedbackBench, query: int, judged: Judged) -> Scores:
    """Rank all N documents with RM3, which expands the query with words of the relevant documents.

    Args:
        bench: Documents and queries.
        query: Position of the query.
        judged: Pairs of a judged document's position and its grade.

    Returns:
        The BM25 scores of the documents for the expanded query, shape (N,).
    """
    terms, relevant = bench.query_terms(query), _relevant(judged)
    if not relevant:
        return bench.bm25_scores(terms)
    counts = bench.counts[relevant]
    # counts are divided by the document's length (at least 1), so that all documents have the same weight
    lengths = np.maximum(np.asarray(counts.sum(axis=1)).ravel(), 1)
    model = _keep_largest(np.asarray(counts.multiply(1 / lengths[:, None]).mean(axis=0)).ravel(), _RM3_TERMS)
    query_part = _RM3_QUERY_WEIGHT * terms / max(terms.sum(), 1e-9)
    return bench.bm25_scores(query_part + (1 - _RM3_QUERY_WEIGHT) * model / max(model.sum(), 1e-9))


def _more_like_this(bench: FeedbackBench, query: int, judged: Judged) -> Scores:
    """Rank all N documents like Lucene's ``more_like_this``: by the query and the best words of the relevant documents.

    Args:
        bench: Documents and queries.
        query: Position of the query.
        judged: Pairs of a judged document's position and its grade.

    Returns:
        The BM25 scores of the documents for the expanded query, shape (N,).
    """
    terms, relevant = bench.query_terms(query), _relevant(judged)
    if not relevant:
        return bench.bm25_scores(terms)
    tfidf = np.asarray(bench.counts[relevant].sum(axis=0)).ravel() * bench.bm25.idf
    return bench.bm25_scores((terms > 0) + 1.0 * (_keep_largest(tfidf, _MORE_LIKE_THIS_TERMS) > 0))


def _qdrant(bench: FeedbackBench, query: int, judged: Judged) -> Scores:
    """Score all N documents with the strategy "naive" of Qdrant's relevance feedback.

    For each pair of a relevant and an irrelevant document, the strategy adds the difference of their vectors to the
    query vector, multiplied by ``_QDRANT_WEIGHT``. The documents are then ranked by BM25 and this vector.

    Args:
        bench: Documents and queries.
        query: Position of the query.
        judged: Pairs of a judged document's position and its grade. Grades above 0 are relevant, grades below 0
            irrelevant.

    Returns:
        The combined scores of the documents, shape (N,).
    """
    relevant, irrelevant = (bench.vectors[[row for row, grade in judged if grade * sign > 0]] for sign in (1, -1))
    pairs = len(irrelevant) * relevant.sum(axis=0) - len(relevant) * irrelevant.sum(axis=0)
    return _bm25_and_similarity(bench, query, unit_rows(bench.query_vectors[query]) + _QDRANT_WEIGHT * pairs, judged)


def _refit(bench: FeedbackBench, query: int, judged: Judged) -> Scores:
    """Rank all N documents with ReFIT, which moves the query vector by gradient descent to fit the judgements.

    Args:
        bench: Documents and queries.
        query: Position of the query.
        judged: Pairs of a judged document's position and its grade.

    Returns:
        The scores of the documents by BM25 and the moved query vector, shape (N,).
    """
    vector = unit_rows(bench.query_vectors[query]).astype(np.float64)
    relevant = np.array([grade > 0 for _, grade in judged])
    if relevant.any():
        documents, target = bench.vectors[[row for row, _ in judged]], relevant / relevant.sum()
        for _ in range(_REFIT_STEPS):
            powers = np.exp(documents @ vector / _REFIT_TEMPERATURE)
            vector -= _REFIT_RATE * (powers / powers.sum() - target) @ documents / _REFIT_TEMPERATURE
    return _bm25_and_similarity(bench, query, vector, judged)


def _bm25_and_similarity(bench: FeedbackBench, query: int, vector: NDArray[Any], judged: Judged) -> Scores:
    """Score all documents by BM25 for a query and by the similarity of their vectors to a vector.

    The BM25 score of a document is multiplied by exp(beta · cosine), where cosine is the similarity of the document's
    vector to ``vector``. The weight beta is the weight in a session with the same judgements.

    Args:
        bench: Documents and queries.
        query: Position of the query, for the BM25 scores.
        vector: Vector to compare the document vectors with, shape (K,) for K dimensions.
        judged: Pairs of a judged document's position and its grade.

    Returns:
        The combined scores of the N documents, shape (N,).
    """
    rows = [row for row, _ in judged]
    alpha = Feedback.learn(bench.vectors[rows], bench.vectors[:0]).adjusted_alpha(bench.alpha, bench.max_alpha)
    similarities = unit_rows(bench.vectors) @ unit_rows(vector)
    return np.asarray(bench.bm25_scores(bench.query_terms(query)) * np.exp(beta_from_alpha(alpha) * similarities))


_COMPARED = {
    "classifier": _classifier,
    "qdrant": _qdrant,
    "refit": _refit,
    "whitened": _whitened_rocchio,
    "rm3": _rm3,
    "more_like_this": _more_like_this,
}
NAMES = (*LEARNERS, *_COMPARED, "none")
"""Names of all feedback methods."""


def _relevant(judged: Judged) -> list[int]:
    return [document for document, grade in judged if grade > 0]


def _keep_largest(weights: NDArray[Any], count: int) -> NDArray[np.float64]:
    """Return a copy of term weights in which all weights except the largest are 0.

    Args:
        weights: The weights of V terms, shape (V,).
        count: The number of weights to leave unchanged.

    Returns:
        An array of shape (V,).
    """
    largest = np.zeros(len(weights))
    rows = np.argpartition(-weights, min(count, len(weights) - 1))[:count]
    largest[rows] = weights[rows]
    return largest
