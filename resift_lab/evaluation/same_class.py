"""Measures of same-class retrieval, computed for many queries at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.errors import BadInput
from resift_lab.evaluation.metrics import LEVELS, SCOPES, Numbers, interpolated, precision, relevance_by_rank
from resift_lab.evaluation.pairwise import Block, Matrix, similarity_blocks

TOP = (10, 20, 50)


@dataclass(frozen=True)
class SameClassScores:
    """Measures of same-class retrieval. Rows of queries whose class is not in the database are NaN.

    Attributes:
        map11: 11-point interpolated average precision, of shape (Q,).
        precision: Precision among the first k documents, of shape (Q,), by k.
        interpolated: Interpolated precision (:func:`resift_lab.evaluation.metrics.interpolated_precision_at`), of shape
            (Q,), by k.
        curve: Precision at recall 0, 0.1, …, 1, of shape (Q, 11).
        scope: Precision among the first k documents for each k of ``scopes``, of shape (Q, S).
        scopes: The values of k of ``scope``.
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
    """Rank a database for each query, where documents with the same label are relevant.

    The computation works on blocks of queries, so memory does not grow with Q · N.

    Args:
        queries: Matrix of shape (Q, K).
        database: Matrix of shape (N, K).
        query_labels: Q labels.
        database_labels: N labels.
        similarity: The similarity, see :func:`resift_lab.evaluation.pairwise.similarity_blocks`.
        top: The ranks of ``precision`` and ``interpolated``.

    Raises:
        BadInput: If there is not one label for each row.
    """
    if len(query_labels) != queries.shape[0] or len(database_labels) != database.shape[0]:
        raise BadInput(
            f"{len(query_labels)} and {len(database_labels)} labels",
            expected=f"one for each of {queries.shape[0]} queries and {database.shape[0]} documents",
        )
    query_classes, classes = _numbered(query_labels, database_labels)
    ranks = (*top, *SCOPES)
    curve, best = np.full((len(query_classes), LEVELS), np.nan), np.full((len(query_classes), len(top)), np.nan)
    plain = np.full((len(query_classes), len(ranks)), np.nan)
    for rows, scores in similarity_blocks(queries, database, similarity):
        hits = relevance_by_rank(scores, query_classes[rows, None] == classes)
        curve[rows], best[rows] = interpolated(hits, top)
        plain[rows] = precision(hits, ranks)
    # no document is of their class, so that a precision of 0 would say nothing about the system
    unknown = np.isnan(curve[:, 0])
    plain[unknown], best[unknown] = np.nan, np.nan
    return SameClassScores(
        curve.mean(axis=1),
        {k: plain[:, column] for column, k in enumerate(top)},
        {k: best[:, column] for column, k in enumerate(top)},
        curve,
        plain[:, len(top) :],
    )


def _numbered(*sides: Sequence[Any] | NDArray[Any]) -> list[NDArray[np.int64]]:
    """Labels as integers, equal ones by the same."""
    numbers: dict[Any, int] = {}
    return [np.array([numbers.setdefault(label, len(numbers)) for label in labels], np.int64) for labels in sides]
