"""Exact k-NN over the vectors of an index."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.errors import BadInput
from resift.plugin.engine import OVERSAMPLING
from resift.plugin.query_dsl import VECTOR_FIELD
from resift.plugin.sqlite.bm25 import Rows
from resift.plugin.sqlite.matching import Matcher
from resift.plugin.sqlite.query import Clause, natural_number, parse_query
from resift.plugin.sqlite.tables import IndexTables, stored_vector
from resift.vectors.similarity import SIMILARITIES

_KEYS = {"vector", "k", "filter", "mask", "similarity", "ignore_unmapped"}


@dataclass(frozen=True)
class _Matrix:
    """The vectors (n, K) of an index as they were at a count of its changes, and their rows."""

    changes: int
    rows: Rows
    vectors: Floats


@dataclass(frozen=True)
class KnnSearch:
    """A search for the ``k`` documents nearest to a ``vector`` (K,) in a ``space``, among those that match ``filter``.

    With a ``mask`` (K,), nearness is the masked ``similarity``.
    """

    vector: Floats
    k: int
    space: str
    filter: Clause | None
    mask: Floats | None
    similarity: str


class ExactKnn:
    """k-NN over all vectors of an index, which stay in memory until the index changes."""

    def __init__(self) -> None:
        self._matrices: dict[int, _Matrix] = {}

    def nearest_rows(self, matcher: Matcher, search: KnnSearch) -> list[tuple[int, float]]:
        """The rows of the nearest documents and their scores, best first.

        Nearness is that of the index's space, and scores are Lucene's. With a mask the best OVERSAMPLING · k of
        them are scored again by the masked similarity, as OpenSearch's rescore does.
        """
        matrix = self._matrix(matcher.db, matcher.tables)
        vector, mask = search.vector, search.mask
        scores = _scores(matrix.vectors, vector, np.ones_like(vector) if mask is None else mask, search.space)
        order = np.argsort(-scores, kind="stable")
        if search.filter is not None:
            allowed, _ = matcher.matches(search.filter)
            order = order[np.isin(matrix.rows[order], allowed)]
        if mask is not None:
            order = order[: search.k * OVERSAMPLING]
            # 1 is added since OpenSearch, whose script this follows, refuses negative scores.
            masked = SIMILARITIES[search.similarity](mask * vector, mask * matrix.vectors[order])
            scores[order] = masked + (search.similarity == "cosine")
            order = order[np.argsort(-scores[order], kind="stable")]
        order = order[: search.k]
        return list(zip(matrix.rows[order].tolist(), scores[order].tolist(), strict=True))

    def _matrix(self, db: sqlite3.Connection, tables: IndexTables) -> _Matrix:
        matrix = self._matrices.get(tables.number)
        if matrix is None or matrix.changes != tables.changes:
            stored = db.execute(
                f"SELECT row, vector FROM {tables.documents} WHERE vector IS NOT NULL ORDER BY row"
            ).fetchall()
            vectors = np.empty((len(stored), tables.dim), np.float32)
            for i, (row, blob) in enumerate(stored):
                vectors[i] = stored_vector(blob, tables.dim, f"row {row}")
            matrix = _Matrix(tables.changes, np.array([row for row, _ in stored], np.int64), vectors)
            self._matrices[tables.number] = matrix
        return matrix


def parse_knn(query: Any, tables: IndexTables) -> KnnSearch:
    """The search that the body of a ``knn`` clause asks for. Raises BadInput for a malformed one."""
    clause = query.get(VECTOR_FIELD) if isinstance(query, dict) and len(query) == 1 else None
    if not isinstance(clause, dict) or not {"vector", "k"} <= set(clause) <= _KEYS:
        expected = f'{{"{VECTOR_FIELD}": {{"vector", "k", "filter"}}}}'
        raise BadInput("malformed knn query", value=query, expected=expected)
    similarity = clause.get("similarity", "cosine")
    if similarity not in SIMILARITIES:
        raise BadInput(f"unknown similarity {similarity!r}", value=similarity, expected=" | ".join(SIMILARITIES))
    filtering, mask = clause.get("filter"), clause.get("mask")
    return KnnSearch(
        _checked_vector("query vector", clause["vector"], tables.dim),
        natural_number(clause, "k", 10),
        tables.meta["space"],
        None if filtering is None else parse_query(filtering, tables.fields, tables.analyzer),
        None if mask is None else _checked_vector("mask", mask, tables.dim),
        similarity,
    )


def _checked_vector(name: str, values: Any, dim: int) -> Floats:
    try:
        vector = np.asarray(values, np.float32)
    except (TypeError, ValueError, OverflowError):
        vector = np.empty(0, np.float32)
    if vector.shape != (dim,) or not np.isfinite(vector).all():
        raise BadInput(f"{name} of shape {vector.shape}", value=str(values)[:200], expected=f"{dim} finite numbers")
    return vector


def _scores(vectors: Floats, vector: Floats, mask: Floats, space: str) -> NDArray[np.float32]:
    """Lucene's scores (n,) of ``vectors`` (n, K): of the product with mask² ⊙ vector, or without mask of l2."""
    if space == "l2":
        return np.asarray(1 / (1 + ((vectors - vector) ** 2).sum(axis=1)), np.float32)
    product = vectors @ (mask**2 * vector)
    return np.asarray(np.where(product > 0, product + 1, 1 / (1 - np.minimum(product, 0))), np.float32)
