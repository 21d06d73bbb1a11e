"""Methods of feedback by name: our own, and those that they are measured against.

==================  ================================================================================================
our own             see :mod:`resift.feedback.feedback`: the search that a session gives which learns by this method
``ridge``           the same for the ridge regression of ``ridge+lexical`` without expansion words
``rocchio``         the same for Rocchio's formula, see :mod:`resift_lab.evaluation.feedback.learners`
``mask+rocchio``    the same for ``mask`` and ``rocchio`` together
``whitened``        Rocchio (1, 2, 1) in the half-whitened space of the documents' vectors: V / s^½ of their SVD
``classifier``      the ranking that a session with these marks gives, and all documents ranked by it anew, see
                    :class:`resift_lab.evaluation.feedback.whole_set.WholeSet`
``none``            the ranking that was judged
``rm3``             BM25 of .3 · query + .7 · the 60 likeliest words of the relevant documents (Lavrenko and Croft
                    2001; Abdul-Jaleel et al. 2004), each document weighing the same
``more_like_this``  BM25 of the query and the 25 words of the relevant documents with the highest tf · idf (Lucene)
``qdrant``          Qdrant's relevance feedback (1.17, "naive"): a · product with the query + the sum over pairs of a
                    relevant and an irrelevant document of c · confidence^b · difference of the products with them. Of
                    marks the confidence is 1; c / a = .1, the best of .01, .03, .1, 1.33 (their example's) on
                    Cranfield and CISI
``refit``           ReFIT (Reddy et al. 2023): 100 steps of gradient descent move the query until the softmax of the
                    judged documents' products with it, over .1, is that of the marks; rate .003, chosen likewise
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
_QUERY_SHARE, _RM3_TERMS = 0.3, 60
_MORE_LIKE_THIS_TERMS = 25
_WHITENED = (2.0, 1.0)
_QDRANT = 0.1
_REFIT = (100, 0.003, 0.1)


def scores_after(bench: FeedbackBench, method: str, query: int, judged: Judged, first: Scores) -> Scores:
    """Scores (N,) of all documents after the judgements; ``first`` are those of the ranking that was judged.

    Raises BadInput for an unknown method.
    """
    check_method(method)
    if method == "none":
        return first
    if method in _OTHERS:
        return _OTHERS[method](bench, query, judged)
    return bench.served(query, bench.judged(bench.queries[query], judged), method)


def check_method(method: str) -> None:
    """Raise BadInput for an unknown method."""
    if method not in NAMES:
        raise BadInput(f"unknown method {method!r}", value=method, expected=" | ".join(NAMES))


def _classifier(bench: FeedbackBench, query: int, judged: Judged) -> Scores:
    served = bench.served(query, bench.judged(bench.queries[query], judged))
    return bench.whole_set.scores(bench.queries[query], judged, served)


def _whitened(bench: FeedbackBench, query: int, judged: Judged) -> Scores:
    documents, queries = bench.whitened
    vector = queries[query].copy()
    for weight, sign in zip(_WHITENED, (1, -1), strict=True):
        if rows := [document for document, grade in judged if grade * sign > 0]:
            vector += sign * weight * documents[rows].mean(axis=0)
    return np.asarray(documents @ vector, np.float64)


def _rm3(bench: FeedbackBench, query: int, judged: Judged) -> Scores:
    terms, relevant = bench.query_terms(query), _relevant(judged)
    if not relevant:
        return bench.lexical(terms)
    counts = bench.counts[relevant]
    # each document's words share one vote, whatever its length; at least 1 for documents without words
    lengths = np.maximum(np.asarray(counts.sum(axis=1)).ravel(), 1)
    model = _largest(np.asarray(counts.multiply(1 / lengths[:, None]).mean(axis=0)).ravel(), _RM3_TERMS)
    own = _QUERY_SHARE * terms / max(terms.sum(), 1e-9)
    return bench.lexical(own + (1 - _QUERY_SHARE) * model / max(model.sum(), 1e-9))


def _more_like_this(bench: FeedbackBench, query: int, judged: Judged) -> Scores:
    terms, relevant = bench.query_terms(query), _relevant(judged)
    if not relevant:
        return bench.lexical(terms)
    tfidf = np.asarray(bench.counts[relevant].sum(axis=0)).ravel() * bench.bm25.idf
    return bench.lexical((terms > 0) + 1.0 * (_largest(tfidf, _MORE_LIKE_THIS_TERMS) > 0))


def _qdrant(bench: FeedbackBench, query: int, judged: Judged) -> Scores:
    relevant, irrelevant = (bench.vectors[[row for row, grade in judged if grade * sign > 0]] for sign in (1, -1))
    pairs = len(irrelevant) * relevant.sum(axis=0) - len(relevant) * irrelevant.sum(axis=0)
    return _mixed(bench, query, unit_rows(bench.query_vectors[query]) + _QDRANT * pairs, judged)


def _refit(bench: FeedbackBench, query: int, judged: Judged) -> Scores:
    vector = unit_rows(bench.query_vectors[query]).astype(np.float64)
    relevant = np.array([grade > 0 for _, grade in judged])
    if relevant.any():
        documents, wanted = bench.vectors[[row for row, _ in judged]], relevant / relevant.sum()
        steps, rate, temperature = _REFIT
        for _ in range(steps):
            powers = np.exp(documents @ vector / temperature)
            vector -= rate * (powers / powers.sum() - wanted) @ documents / temperature
    return _mixed(bench, query, vector, judged)


def _mixed(bench: FeedbackBench, query: int, vector: NDArray[Any], judged: Judged) -> Scores:
    """BM25 of the query · exp(beta · cosine with a ``vector``), as a search in a session with these marks mixes."""
    rows = [row for row, _ in judged]
    alpha = Feedback.learn(bench.vectors[rows], bench.vectors[:0]).adjusted_alpha(bench.alpha, bench.max_alpha)
    similarities = unit_rows(bench.vectors) @ unit_rows(vector)
    return np.asarray(bench.lexical(bench.query_terms(query)) * np.exp(beta_from_alpha(alpha) * similarities))


_OTHERS = {
    "classifier": _classifier,
    "qdrant": _qdrant,
    "refit": _refit,
    "whitened": _whitened,
    "rm3": _rm3,
    "more_like_this": _more_like_this,
}
NAMES = (*LEARNERS, *_OTHERS, "none")


def _relevant(judged: Judged) -> list[int]:
    return [document for document, grade in judged if grade > 0]


def _largest(weights: NDArray[Any], count: int) -> NDArray[np.float64]:
    """``weights`` (V,) with all but the ``count`` largest set to 0."""
    largest = np.zeros(len(weights))
    rows = np.argpartition(-weights, min(count, len(weights) - 1))[:count]
    largest[rows] = weights[rows]
    return largest
