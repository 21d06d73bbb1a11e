"""Exact k-NN over the vectors of an index."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.contracts.query_dsl import VECTOR_FIELD
from resift.plugin.sqlite.bm25 import Rows, Scores
from resift.plugin.sqlite.scripts import Script
from resift.plugin.sqlite.tables import IndexTables, stored_vector


@dataclass(frozen=True)
class Vectors:
    """The vectors (n, K) of an index as they were at a count of its changes, and their rows, in ascending order."""

    changes: int
    space: str
    rows: Rows
    vectors: Floats

    def nearest(self, vector: Floats, k: int, allowed: Rows | None) -> tuple[Rows, Scores]:
        """The rows of the ``k`` nearest documents, in ascending order, and Lucene's scores; ``allowed`` may be hits."""
        scores = _scores(self.vectors, vector, self.space)
        order = np.argsort(-scores, kind="stable")
        if allowed is not None:
            order = order[np.isin(self.rows[order], allowed)]
        order = np.sort(order[:k])
        return self.rows[order], scores[order]

    def scripted(self, script: Script, rows: Rows) -> Scores:
        """The scores that a script gives documents; of any other field than VECTOR_FIELD none has a vector."""
        held = np.isin(rows, self.rows, assume_unique=True) & (script.field == VECTOR_FIELD)
        return script.scores(self.vectors[np.searchsorted(self.rows, rows[held])], held)


class VectorCache:
    """The vectors of indices, which stay in memory until an index changes."""

    def __init__(self) -> None:
        self._kept: dict[int, Vectors] = {}

    def of(self, db: sqlite3.Connection, tables: IndexTables) -> Vectors:
        """The vectors of an index."""
        found = self._kept.get(tables.number)
        if found is None or found.changes != tables.changes:
            stored = db.execute(
                f"SELECT row, vector FROM {tables.documents} WHERE vector IS NOT NULL ORDER BY row"
            ).fetchall()
            vectors = np.empty((len(stored), tables.dim), np.float32)
            for i, (row, blob) in enumerate(stored):
                vectors[i] = stored_vector(blob, tables.dim, f"row {row}")
            rows = np.array([row for row, _ in stored], np.int64)
            found = self._kept[tables.number] = Vectors(tables.changes, tables.meta["space"], rows, vectors)
        return found


def _scores(vectors: Floats, vector: Floats, space: str) -> NDArray[np.float32]:
    """Lucene's scores (n,) of ``vectors`` (n, K): of the product with ``vector`` (K,), or of l2."""
    if space == "l2":
        return np.asarray(1 / (1 + ((vectors - vector) ** 2).sum(axis=1)), np.float32)
    product = vectors @ vector
    return np.asarray(np.where(product > 0, product + 1, 1 / (1 - np.minimum(product, 0))), np.float32)
