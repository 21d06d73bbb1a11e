"""The hits of a search, the marks of its session and its query as points of a plane, for people to look at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.vectors.similarity import unit_rows

Point = list[float] | None


def plane(
    hits: Sequence[Floats | None], marks: Sequence[Floats], query: Floats | None, moved: Floats | None
) -> tuple[list[Point], list[Point], Point, Point]:
    """The points of the ``hits``, the ``marks``, the ``query`` and of where the session ``moved`` it, from -1 to 1.

    All of them are vectors (K,), of which the directions count. The first axis is the way that the query was moved, so
    that what lies to the right is what the session leads to; the second is the one in which the documents differ most
    beside it (the first principal component of what is left). Without a session both are principal components of the
    documents. None stands for what has no vector, or no direction.
    """
    vectors = [*hits, *marks, query, moved]
    held = [row for row, vector in enumerate(vectors) if vector is not None and np.any(vector)]
    points: list[Point] = [None] * len(vectors)
    if held:
        matrix = np.asarray(unit_rows(np.stack([np.asarray(vectors[row]) for row in held])), np.float64)
        documents = np.array(held) < len(vectors) - 2
        way = matrix[-1] - matrix[-2] if {len(vectors) - 2, len(vectors) - 1} <= set(held) else None
        for row, point in zip(held, _coordinates(matrix, documents, way).tolist(), strict=True):
            points[row] = point
    return points[: len(hits)], points[len(hits) : -2], points[-2], points[-1]


def _coordinates(matrix: NDArray[Any], documents: NDArray[np.bool_], way: NDArray[Any] | None) -> NDArray[np.float64]:
    """Coordinates (n, 2) of the rows (n, K), the first along ``way`` (K,) if there is one.

    Those that are ``documents`` (n,) say what the rest differs in: queries, which are short, differ from all of them.
    """
    chosen = documents if documents.sum() > 1 else np.ones(len(matrix), bool)
    left = matrix - matrix[chosen].mean(axis=0)
    columns = []
    for first in (way, None):
        axis = _main_axis(left[chosen]) if first is None or np.linalg.norm(first) < 1e-6 else _unit(first)
        columns.append(left @ axis)
        left = left - np.outer(columns[-1], axis)
    scales = np.max(np.abs(columns), axis=1, keepdims=True)
    points: NDArray[np.float64] = (columns / np.where(scales > 1e-9, scales, 1.0)).T.round(4)
    return points + 0.0  # no -0.0


def _unit(vector: NDArray[Any]) -> NDArray[np.float64]:
    return np.asarray(vector / np.linalg.norm(vector), np.float64)


def _main_axis(rows: NDArray[Any]) -> NDArray[np.float64]:
    """The direction (K,) in which rows (n, K) differ most, its largest part positive."""
    axis: NDArray[np.float64] = np.linalg.svd(rows, full_matrices=False)[2][0]
    return np.asarray(axis if axis[np.argmax(np.abs(axis))] >= 0 else -axis)
