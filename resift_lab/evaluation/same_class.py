"""Measures of same-class retrieval, computed for many queries at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.errors import BadInput
from resift_lab.evaluation.metrics import (
    LEVELS,
    SCOPES,
    Numbers,
    interpolated_precisions,
    precisions_at,
    relevance_by_rank,
)
from resift_lab.evaluation.pairwise import Block, Matrix, similarity_blocks

# Default ranks k of the measures `precision` and `interpolated`.
TOP = (10, 20, 50)


@dataclass(frozen=True)
class SameClassScores:
    """Measures of same-class retrieval for Q queries.

    The values of a query are NaN if no document of the database has the query's class.

    Attributes:
        map11: 11-point interpolated average precision, of shape (Q,).
        precision: Maps k to the precision among the first k documents, of shape (Q,).
        interpolated: Maps k to the interpolated precision at rank k
            (:func:`resift_lab.evaluation.metrics.interpolated_precision_at`), of shape (Q,).
        curve: Precision at recall 0, 0.1, …, 1, of shape (Q, 11).
        scope: Precision among the first k documents for each of the S values of k in ``scopes``, of shape (Q, S).
        scopes: The S values of k.
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
    top: Sequence[int] = TOP,
) -> SameClassScores:
    """Rank a database for each query, and measure how well documents with the query's label are ranked first.

    The similarities are computed for blocks of queries, so memory does not grow with Q · N.

    Args:
        queries: Query vectors of shape (Q, K) for Q queries and K dimensions.
        database: Document vectors of shape (N, K) for N documents.
        query_labels: The label of each query.
        database_labels: The label of each document.
        similarity: The similarity, see :func:`resift_lab.evaluation.pairwise.similarity_blocks`.
        top: The values of k for ``precision`` and ``interpolated``.

    Returns:
        The measures of each query.

    Raises:
        BadInput: If the number of labels differs from the number of queries or documents.
    """
    if len(query_labels) != queries.shape[0] or len(database_labels) != database.shape[0]:
        raise BadInput(
            f"{len(query_labels)} and {len(database_labels)} labels",
            expected=f"one for each of {queries.shape[0]} queries and {database.shape[0]} documents",
        )
    query_classes, classes = _label_numbers(query_labels, database_labels)
    ranks = (*top, *SCOPES)
    curve, best = np.full((len(query_classes), LEVELS), np.nan), np.full((len(query_classes), len(top)), np.nan)
    plain = np.full((len(query_classes), len(ranks)), np.nan)
    for rows, scores in similarity_blocks(queries, database, similarity):
        hits = relevance_by_rank(scores, query_classes[rows, None] == classes)
        curve[rows], best[rows] = interpolated_precisions(hits, top)
        plain[rows] = precisions_at(hits, ranks)
    # NaN rather than a precision of 0, because no document has the class of these queries
    unknown = np.isnan(curve[:, 0])
    plain[unknown], best[unknown] = np.nan, np.nan
    return SameClassScores(
        curve.mean(axis=1),
        {k: plain[:, column] for column, k in enumerate(top)},
        {k: best[:, column] for column, k in enumerate(top)},
        curve,
        plain[:, len(top) :],
    )


def _label_numbers(*label_lists: Sequence[Any] | NDArray[Any]) -> list[NDArray[np.int64]]:
    """Replace labels with integers. Equal labels get the same integer, also in different lists.

    Args:
        *label_lists: Lists of labels.

    Returns:
        An integer array for each list.
    """
    numbers: dict[Any, int] = {}
    return [np.array([numbers.setdefault(label, len(numbers)) for label in labels], np.int64) for labels in label_lists]
