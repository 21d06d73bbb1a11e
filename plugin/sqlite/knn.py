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
from resift.plugin.sqlite.bm25 import matching_rows
from resift.plugin.sqlite.query import natural_number, translate
from resift.plugin.sqlite.tables import IndexTables
from resift.vectors.similarity import SIMILARITIES

_KEYS = {"vector", "k", "filter", "mask", "similarity"}


@dataclass(frozen=True)
class _Matrix:
    """The vectors (n, K) of an index as they were at a count of its changes, and their rows."""

    changes: int
    rows: list[int]
    vectors: Floats


class ExactKnn:
    """k-NN over all vectors of an index, which stay in memory until the index changes."""

    def __init__(self) -> None:
        self._matrices: dict[int, _Matrix] = {}

    def nearest_rows(self, db: sqlite3.Connection, tables: IndexTables, query: Any) -> list[tuple[int, float]]:
        """The rows of the nearest documents and their scores, best first, by the body of a ``knn`` clause.

        Nearness is that of the index's space, and scores are Lucene's. With a ``mask`` the best OVERSAMPLING · k of
        them are scored again by the masked ``similarity``, as OpenSearch's rescore does. Raises BadInput for a
        malformed clause.
        """
        clause = _checked_clause(query)
        ones = [1.0] * tables.dim
        vector = _checked_vector("query vector", clause["vector"], tables.dim)
        mask = _checked_vector("mask", clause.get("mask", ones), tables.dim)
        matrix = self._matrix(db, tables)
        scores = _scores(matrix.vectors, vector, mask, tables.meta["space"])
        order = np.argsort(-scores, kind="stable")
        if clause.get("filter") is not None:
            condition = translate(clause["filter"], tables.fields, tables.words)
            allowed = {row for row, _ in matching_rows(db, tables, condition)}
            order = np.asarray([i for i in order if matrix.rows[i] in allowed], np.int64)
        size = natural_number(clause, "k", 10)
        if "mask" in clause:
            order, similarity = order[: size * OVERSAMPLING], clause["similarity"]
            # 1 is added since OpenSearch, whose script this follows, refuses negative scores.
            masked = SIMILARITIES[similarity](mask * vector, mask * matrix.vectors[order])
            scores[order] = masked + (similarity == "cosine")
            order = order[np.argsort(-scores[order], kind="stable")]
        return [(matrix.rows[i], float(scores[i])) for i in order[:size]]

    def _matrix(self, db: sqlite3.Connection, tables: IndexTables) -> _Matrix:
        matrix = self._matrices.get(tables.number)
        if matrix is None or matrix.changes != tables.changes:
            stored = db.execute(
                f"SELECT row, vector FROM {tables.documents} WHERE vector IS NOT NULL ORDER BY row"
            ).fetchall()
            vectors = np.frombuffer(b"".join(blob for _, blob in stored), "<f4").reshape(len(stored), tables.dim)
            matrix = _Matrix(tables.changes, [row for row, _ in stored], vectors)
            self._matrices[tables.number] = matrix
        return matrix


def _checked_clause(query: Any) -> dict[str, Any]:
    clause = query.get(VECTOR_FIELD) if isinstance(query, dict) else None
    if not isinstance(clause, dict) or not {"vector", "k"} <= set(clause) <= _KEYS:
        expected = f'{{"{VECTOR_FIELD}": {{"vector", "k", "filter"}}}}'
        raise BadInput("malformed knn query", value=query, expected=expected)
    return clause


def _checked_vector(name: str, values: Any, dim: int) -> Floats:
    vector = np.asarray(values, np.float32)
    if vector.shape != (dim,) or not np.isfinite(vector).all():
        raise BadInput(f"{name} of shape {vector.shape}", expected=f"{dim} finite numbers")
    return vector


def _scores(vectors: Floats, vector: Floats, mask: Floats, space: str) -> NDArray[np.float32]:
    """Lucene's scores (n,) of ``vectors`` (n, K): of the product with mask² ⊙ vector, or without mask of l2."""
    if space == "l2":
        return np.asarray(1 / (1 + ((vectors - vector) ** 2).sum(axis=1)), np.float32)
    product = vectors @ (mask**2 * vector)
    return np.asarray(np.where(product > 0, product + 1, 1 / (1 - np.minimum(product, 0))), np.float32)
