"""Metrics of rankings and of similarity scores, and how sure one can be of them.

A ranking is by falling similarity, ties by position. Precision, recall and gains are fractions of 1; a query without
any relevant document has no average precision, recall or nDCG: NaN, for callers to leave out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import pearsonr, spearmanr

from resift.errors import BadInput
from resift.evaluation.pairwise import Block, Matrix, similarity_blocks

Numbers = NDArray[np.float64]

LEVELS = 11
SCOPES = (1, 2, 5, 10, 20, 30, 50, 75, 100)
_TOP = (10, 20, 50)
_CHUNK = 2_000_000


def ranked(similarity: NDArray[Any], relevant: NDArray[Any]) -> NDArray[np.bool_]:
    """``relevant`` (Q, N) bool in the order of falling ``similarity`` (Q, N), ties by position; shape (Q, N)."""
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
    return _interpolated(ranked(similarity, relevant))[0]


def map11(similarity: NDArray[Any], relevant: NDArray[Any]) -> Numbers:
    """11-point interpolated average precision of each query, shape (Q,); NaN where nothing is relevant.

    ``similarity`` (Q, N) floats, ``relevant`` (Q, N) bool. The mean over queries is the mAP of Passalis and Tefas
    (2018, section 4.2).
    """
    return np.asarray(interpolated_precision(similarity, relevant).mean(axis=1))


def precision_at(similarity: NDArray[Any], relevant: NDArray[Any], k: int) -> Numbers:
    """Relevant documents among the first ``k``, over ``k``, shape (Q,); with fewer than k documents still over k."""
    return _precision(ranked(similarity, relevant), (k,))[:, 0]


def interpolated_precision_at(similarity: NDArray[Any], relevant: NDArray[Any], k: int) -> Numbers:
    """The largest precision among the first k' documents for any k' ≥ ``k``, shape (Q,).

    Passalis and Tefas (2018) define it in section 4.2; the "top-k precision" of their tables is this one (tf-idf on
    WebKB: 67.9 and 62.6 at 20 and 50, they print 68.0 and 62.9; plain precision is 61.2 and 58.4).
    """
    return _interpolated(ranked(similarity, relevant), (k,))[1][:, 0]


def precision_scope(similarity: NDArray[Any], relevant: NDArray[Any], scopes: Sequence[int] = SCOPES) -> Numbers:
    """Precision among the first k documents for each k of ``scopes`` (S,), shape (Q, S)."""
    return _precision(ranked(similarity, relevant), scopes)


def _interpolated(hits: NDArray[np.bool_], ranks: Sequence[int] = ()) -> tuple[Numbers, Numbers]:
    """Largest precision at or after each recall level (Q, 11), and at or after each of ``ranks`` (Q, R)."""
    levels, tops = np.full((len(hits), LEVELS), np.nan), np.zeros((len(hits), len(ranks)))
    for line, level, top in zip(hits, levels, tops, strict=True):
        places = np.flatnonzero(line) + 1
        if count := len(places):
            best = np.maximum.accumulate((np.arange(1, count + 1) / places)[::-1])[::-1]
            needed = -(-np.arange(LEVELS) * count // (LEVELS - 1))  # ceil(level · count), in integers
            level[:] = best[np.maximum(needed - 1, 0)]
            for column, k in enumerate(ranks):
                before, within = np.searchsorted(places, [k, k + 1])
                top[column] = max(within / k, best[before] if before < count else 0.0)
    return levels, tops


def _precision(hits: NDArray[np.bool_], scopes: Sequence[int]) -> Numbers:
    if not scopes or min(scopes) < 1:
        raise BadInput(f"precision at {list(scopes)}", value=list(scopes), expected="ranks from 1")
    found = np.cumsum(hits[:, : max(scopes)], axis=1)
    if not found.shape[1]:
        return np.zeros((len(hits), len(scopes)))
    return np.stack([found[:, min(k, found.shape[1]) - 1] / k for k in scopes], axis=1)


@dataclass(frozen=True)
class SameClass:
    """How well documents of a query's class are ranked; a row a query, NaN where its class is not in the database.

    ``map11`` (Q,); ``precision`` and ``interpolated`` (see :func:`interpolated_precision_at`), k → (Q,); ``curve``
    (Q, 11), precision at recall 0, .1, …, 1; ``scope`` (Q, S), precision among the first k for each k of ``scopes``.
    """

    map11: Numbers
    precision: dict[int, Numbers]
    interpolated: dict[int, Numbers]
    curve: Numbers
    scope: Numbers
    scopes: tuple[int, ...] = SCOPES


def same_class_scores(
    queries: Matrix,
    database: Matrix,
    query_labels: Sequence[Any] | NDArray[Any],
    database_labels: Sequence[Any] | NDArray[Any],
    similarity: str | Block = "cosine",
    top: Sequence[int] = _TOP,
) -> SameClass:
    """Same-class retrieval: ``queries`` (Q, K) against ``database`` (N, K), a document with an equal label is relevant.

    Works in blocks of queries, so memory does not grow with Q · N. ``similarity``: see
    :func:`resift.evaluation.pairwise.similarity_blocks`.
    """
    if len(query_labels) != queries.shape[0] or len(database_labels) != database.shape[0]:
        raise BadInput(
            f"{len(query_labels)} and {len(database_labels)} labels",
            expected=f"one for each of {queries.shape[0]} queries and {database.shape[0]} documents",
        )
    numbers: dict[Any, int] = {}
    left, right = (
        np.array([numbers.setdefault(label, len(numbers)) for label in labels], np.int64)
        for labels in (query_labels, database_labels)
    )
    wanted = (*top, *SCOPES)
    curve, best = np.full((len(left), LEVELS), np.nan), np.full((len(left), len(top)), np.nan)
    scope = np.full((len(left), len(wanted)), np.nan)
    for rows, scores in similarity_blocks(queries, database, similarity):
        hits = ranked(scores, left[rows, None] == right)
        curve[rows], best[rows] = _interpolated(hits, top)
        scope[rows] = _precision(hits, wanted)
    unknown = np.isnan(curve[:, 0])
    scope[unknown], best[unknown] = np.nan, np.nan
    return SameClass(
        curve.mean(axis=1),
        {k: scope[:, i] for i, k in enumerate(top)},
        {k: best[:, i] for i, k in enumerate(top)},
        curve,
        scope[:, len(top) :],
    )


def ndcg_at(gains: Sequence[float] | NDArray[Any], ideal: Sequence[float] | NDArray[Any], k: int = 10) -> float:
    """Normalised discounted cumulative gain of the first ``k`` (Järvelin and Kekäläinen 2002; trec_eval's form).

    ``gains`` (n,): graded relevance of the ranked documents, best rank first; ``ideal`` (m,): the grades of all judged
    documents, in any order. Gains are the grades themselves (negative ones count 0), discounted by log2(rank + 1).
    """
    best = np.sort(np.maximum(np.asarray(ideal, np.float64), 0))[::-1][:k]
    got = np.maximum(np.asarray(gains, np.float64), 0)[:k]
    discount = 1 / np.log2(np.arange(k) + 2)
    most = float(best @ discount[: len(best)])
    return float(got @ discount[: len(got)]) / most if most > 0 else float("nan")


def average_precision(relevant: Sequence[bool] | NDArray[Any], total: int) -> float:
    """Mean of the precision at each relevant document's rank, missing ones as 0 (TREC's AP, not interpolated).

    ``relevant`` (n,) bool of the ranked documents, best rank first; ``total`` counts the query's relevant documents.
    """
    places = np.flatnonzero(relevant)
    return float(np.sum(np.arange(1, len(places) + 1) / (places + 1))) / total if total else float("nan")


def recall_at(relevant: Sequence[bool] | NDArray[Any], total: int, k: int) -> float:
    """Relevant documents among the first ``k`` over all ``total`` relevant ones."""
    return float(np.count_nonzero(np.asarray(relevant)[:k])) / total if total else float("nan")


def reciprocal_rank(relevant: Sequence[bool] | NDArray[Any], k: int = 10) -> float:
    """1 / rank of the first relevant document if it is among the first ``k``, else 0."""
    places = np.flatnonzero(np.asarray(relevant)[:k])
    return 1 / (int(places[0]) + 1) if len(places) else 0.0


def spearman(predicted: Sequence[float] | NDArray[Any], gold: Sequence[float] | NDArray[Any]) -> float:
    """Spearman's rank correlation of two (n,) lists; 0 where one of them is constant, NaN below two pairs."""
    return _correlation(spearmanr, predicted, gold)


def pearson(predicted: Sequence[float] | NDArray[Any], gold: Sequence[float] | NDArray[Any]) -> float:
    """Pearson's correlation of two (n,) lists; 0 where one of them is constant, NaN below two pairs."""
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


def bootstrap_mean(
    values: Sequence[float] | NDArray[Any],
    rng: np.random.Generator,
    confidence: float = 0.95,
    resamples: int = 2000,
) -> tuple[float, float]:
    """Percentile bootstrap interval of the mean of ``values`` (n,), NaN left out (Efron and Tibshirani 1993).

    NaN twice where nothing is left.
    """
    kept = _finite(values)
    if not len(kept):
        return float("nan"), float("nan")
    means = np.concatenate(
        [kept[rng.integers(0, len(kept), (count, len(kept)))].mean(axis=1) for count in chunks(resamples, len(kept))]
    )
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def paired_randomization(
    first: Sequence[float] | NDArray[Any],
    second: Sequence[float] | NDArray[Any],
    rng: np.random.Generator,
    permutations: int = 10_000,
) -> float:
    """Two-sided p of no difference between two systems' means over the same queries (n,): Fisher's randomisation test.

    Each query's two values are swapped at random (Smucker et al. 2007); p = (1 + swaps at least as far apart) /
    (1 + permutations). Queries that are NaN for either are left out; without any query p is 1.
    """
    a, b = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if a.shape != b.shape or a.ndim != 1:
        raise BadInput(f"values of shapes {a.shape} and {b.shape}", expected="two lists of the same length")
    difference = _finite(a - b)
    if not len(difference):
        return 1.0
    seen, extreme = abs(difference.sum()) * (1 - 1e-12), 0
    for count in chunks(permutations, len(difference)):
        signs = rng.integers(0, 2, (count, len(difference)), dtype=np.int8) * 2 - 1
        extreme += int(np.count_nonzero(np.abs(signs @ difference) >= seen))
    return (1 + extreme) / (1 + permutations)


def _finite(values: Any) -> Numbers:
    flat = np.asarray(values, np.float64).ravel()
    return flat[~np.isnan(flat)]


def chunks(total: int, width: int) -> list[int]:
    """``total`` rows of ``width`` numbers in parts of two million numbers or one row: the parts' rows."""
    size = max(1, _CHUNK // max(1, width))
    return [min(size, total - start) for start in range(0, total, size)]
