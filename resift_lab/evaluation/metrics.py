"""Metrics of rankings and of predicted similarities.

A ranking is by falling similarity, ties by position. Precision, recall and gains are fractions of 1. A query without
any relevant document has no average precision, recall or nDCG: these are NaN, for callers to leave out.

The tests compare the metrics with ir-measures. It does not replace them: trec_eval takes integer grades only, and the
grades of clicks and of judgement lists are fractions. It also takes 20 times as long for a ranking of 11,000 documents.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.errors import BadInput, needs_extra

Numbers = NDArray[np.float64]

LEVELS = 11
SCOPES = (1, 2, 5, 10, 20, 30, 50, 75, 100)


def relevance_by_rank(similarity: NDArray[Any], relevant: NDArray[Any]) -> NDArray[np.bool_]:
    """``relevant`` (Q, N) bool in the order of falling ``similarity`` (Q, N), ties by position; shape (Q, N).

    Both may also be one query's, (N,). Raises BadInput if the shapes differ or a similarity is NaN.
    """
    similarity, relevant = np.atleast_2d(similarity), np.atleast_2d(np.asarray(relevant, bool))
    if similarity.shape != relevant.shape:
        raise BadInput(f"similarities {similarity.shape}, relevance {relevant.shape}", expected="the same shape")
    if np.isnan(similarity).any():
        raise BadInput("a similarity is NaN", expected="numbers")
    return np.asarray(np.take_along_axis(relevant, np.argsort(-similarity, axis=1, kind="stable"), axis=1))


def interpolated_precision(similarity: NDArray[Any], relevant: NDArray[Any]) -> Numbers:
    """Precision at the recall levels 0, .1, …, 1 for each query, shape (Q, 11); the precision–recall curve.

    Precision at a level is the largest at any rank of at least that recall (Passalis and Tefas 2018, section 4.2,
    Pr_interp(q, k) = max over k' ≥ k). Rows without a relevant document are NaN.
    """
    return interpolated(relevance_by_rank(similarity, relevant))[0]


def map11(similarity: NDArray[Any], relevant: NDArray[Any]) -> Numbers:
    """11-point interpolated average precision of each query, shape (Q,); NaN where nothing is relevant.

    ``similarity`` (Q, N) floats, ``relevant`` (Q, N) bool. It is the mean of :func:`interpolated_precision` over the
    levels; the mean over queries is the mAP of Passalis and Tefas (2018, section 4.2).
    """
    return np.asarray(interpolated_precision(similarity, relevant).mean(axis=1))


def precision_at(similarity: NDArray[Any], relevant: NDArray[Any], k: int) -> Numbers:
    """Relevant documents among the first ``k``, over ``k``, shape (Q,); with fewer than k documents still over k.

    Raises BadInput if ``k`` is below 1.
    """
    return precision(relevance_by_rank(similarity, relevant), (k,))[:, 0]


def interpolated_precision_at(similarity: NDArray[Any], relevant: NDArray[Any], k: int) -> Numbers:
    """The largest precision among the first k' documents for any k' ≥ ``k``, shape (Q,).

    Passalis and Tefas (2018) define it in section 4.2; the "top-k precision" of their tables is this one (tf-idf on
    WebKB: 67.9 and 62.6 at 20 and 50, they print 68.0 and 62.9; plain precision is 61.2 and 58.4).
    """
    return interpolated(relevance_by_rank(similarity, relevant), (k,))[1][:, 0]


def precision_scope(similarity: NDArray[Any], relevant: NDArray[Any], scopes: Sequence[int] = SCOPES) -> Numbers:
    """Precision among the first k documents for each k of ``scopes`` (S,), shape (Q, S); the precision–scope curve."""
    return precision(relevance_by_rank(similarity, relevant), scopes)


def interpolated(hits: NDArray[np.bool_], ranks: Sequence[int] = ()) -> tuple[Numbers, Numbers]:
    """Largest precision at or after each recall level (Q, 11), and at or after each of ``ranks`` (Q, R).

    ``hits`` (Q, N): which documents are relevant, by rank, as :func:`relevance_by_rank` gives them.
    """
    levels, tops = np.full((len(hits), LEVELS), np.nan), np.zeros((len(hits), len(ranks)))
    for line, level, top in zip(hits, levels, tops, strict=True):
        relevant_ranks = np.flatnonzero(line) + 1
        if count := len(relevant_ranks):
            # precision falls between relevant documents, so that its maximum is always at one of them
            best = np.maximum.accumulate((np.arange(1, count + 1) / relevant_ranks)[::-1])[::-1]
            needed = -(-np.arange(LEVELS) * count // (LEVELS - 1))  # ceil(level · count), in integers
            level[:] = best[np.maximum(needed - 1, 0)]
            for column, k in enumerate(ranks):
                before, within = np.searchsorted(relevant_ranks, [k, k + 1])
                top[column] = max(within / k, best[before] if before < count else 0.0)
    return levels, tops


def precision(hits: NDArray[np.bool_], ranks: Sequence[int]) -> Numbers:
    """Precision among the first k of ``hits`` (Q, N) for each k of ``ranks``, (Q, R). Raises BadInput for k below 1."""
    if not ranks or min(ranks) < 1:
        raise BadInput(f"precision at {list(ranks)}", value=list(ranks), expected="ranks from 1")
    counts = np.cumsum(hits[:, : max(ranks)], axis=1)
    if not counts.shape[1]:
        return np.zeros((len(hits), len(ranks)))
    return np.stack([counts[:, min(k, counts.shape[1]) - 1] / k for k in ranks], axis=1)


def ndcg_at(gains: Sequence[float] | NDArray[Any], ideal: Sequence[float] | NDArray[Any], k: int = 10) -> float:
    """Normalised discounted cumulative gain of the first ``k`` (Järvelin and Kekäläinen 2002; trec_eval's form).

    DCG = Σ gain of rank r / log2(r + 1), over that of the best ranking there is. ``gains`` (n,): graded relevance of
    the ranked documents, best rank first; ``ideal`` (m,): the grades of all judged documents, in any order. Gains are
    the grades themselves; negative ones count 0.
    """
    best = np.sort(np.maximum(np.asarray(ideal, np.float64), 0))[::-1][:k]
    achieved = np.maximum(np.asarray(gains, np.float64), 0)[:k]
    discount = 1 / np.log2(np.arange(k) + 2)
    ideal_gain = float(best @ discount[: len(best)])
    return float(achieved @ discount[: len(achieved)]) / ideal_gain if ideal_gain > 0 else float("nan")


def average_precision(relevant: Sequence[bool] | NDArray[Any], total: int) -> float:
    """Mean of the precision at each relevant document's rank, missing ones as 0 (TREC's AP, not interpolated).

    ``relevant`` (n,) bool of the ranked documents, best rank first; ``total`` counts the query's relevant documents.
    """
    positions = np.flatnonzero(relevant)
    return float(np.sum(np.arange(1, len(positions) + 1) / (positions + 1))) / total if total else float("nan")


def recall_at(relevant: Sequence[bool] | NDArray[Any], total: int, k: int) -> float:
    """Relevant documents among the first ``k`` over all ``total`` relevant ones; ``relevant`` (n,) bool by rank."""
    return float(np.count_nonzero(np.asarray(relevant)[:k])) / total if total else float("nan")


def reciprocal_rank(relevant: Sequence[bool] | NDArray[Any], k: int = 10) -> float:
    """1 / rank of the first relevant document if it is among the first ``k``, else 0; ``relevant`` (n,) bool by rank.

    Its mean over queries is MRR (Voorhees 1999).
    """
    positions = np.flatnonzero(np.asarray(relevant)[:k])
    return 1 / (int(positions[0]) + 1) if len(positions) else 0.0


def spearman(predicted: Sequence[float] | NDArray[Any], gold: Sequence[float] | NDArray[Any]) -> float:
    """Spearman's rank correlation of two (n,) lists: Pearson's of their ranks, ties sharing their mean rank.

    It is 0 where one list is constant, NaN below two pairs. Raises BadInput if the lists are not of one length or hold
    NaN or infinity.
    """
    with needs_extra("lab", "Evaluation"):
        from scipy.stats import spearmanr
    return _correlation(spearmanr, predicted, gold)


def pearson(predicted: Sequence[float] | NDArray[Any], gold: Sequence[float] | NDArray[Any]) -> float:
    """Pearson's correlation of two (n,) lists, cov(x, y) / (σx · σy).

    Constant lists and errors are as in :func:`spearman`.
    """
    with needs_extra("lab", "Evaluation"):
        from scipy.stats import pearsonr
    return _correlation(pearsonr, predicted, gold)


def _correlation(function: Callable[..., Any], predicted: Any, gold: Any) -> float:
    a, b = np.asarray(predicted, np.float64), np.asarray(gold, np.float64)
    if a.shape != b.shape or a.ndim != 1:
        raise BadInput(f"scores of shapes {a.shape} and {b.shape}", expected="two lists of the same length")
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise BadInput("a score is NaN or infinite", expected="finite numbers")
    if len(a) < 2:
        return float("nan")
    return 0.0 if np.ptp(a) == 0 or np.ptp(b) == 0 else float(function(a, b)[0])
