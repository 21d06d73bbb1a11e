"""BM25 as Lucene computes it, from the tables of an index.

A term in a field scores boost · idf · tf / (tf + k1 · (1 − b + b · length / mean length)) with k1 = 1.2, b = 0.75 and
idf = ln(1 + (n − df + 0.5) / (df + 0.5)), where n documents have the field and df of them the term. All of it is in
32-bit floats and lengths are rounded as in Lucene's index, so that documents which tie there tie here.
"""

from __future__ import annotations

import math
import sqlite3
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from resift.cache import TtlCache
from resift.plugin.sqlite.tables import IndexTables, Matches, Rows, Scores

_K1, _B = np.float32(1.2), np.float32(0.75)
Postings = tuple[Rows, Scores, Rows]  # of a term in a field: rows, how often it is there, and how many terms are
_EXACT_LENGTHS, _KEPT_BITS = 24, 4
_KEPT_POSTINGS = 1_000_000  # of 20 bytes


class Bm25:
    """The scores of an index's text fields as these are at a count of its changes.

    Of each field it knows in how many documents there is a term, and how many terms there are together; postings that
    were read are kept, since a session asks for the same words in each search.
    """

    def __init__(self, db: sqlite3.Connection, tables: IndexTables) -> None:
        sums = ", ".join(f"total({column} > 0), total({column})" for column in tables.columns)
        (found,) = db.execute(f"SELECT {sums} FROM {tables.lengths}").fetchall()
        self._tables, self._documents, self._terms = tables, found[::2], found[1::2]
        self._kept = TtlCache[Postings](_KEPT_POSTINGS, math.inf)  # by column and term

    def matches(
        self,
        db: sqlite3.Connection,
        field: str,
        terms: Sequence[str],
        every: bool,
        boost: float,
        within: Rows | None,
    ) -> Matches:
        """The rows that hold one of the ``terms`` in a field, or ``every`` one, among those ``within`` if these are
        given, in ascending order, and their scores there."""
        found, column = [], self._tables.meta.fields.index(field)
        for term, times in Counter(terms).items():
            rows, frequencies, lengths = self._postings(db, column, term)
            if len(rows):
                weight = np.float32(boost * times) * _idf(self._documents[column], len(rows))
                mean = np.float32(self._terms[column] / self._documents[column])
                if within is not None:
                    places = np.minimum(np.searchsorted(rows, within), len(rows) - 1)
                    places = places[rows[places] == within]
                    rows, frequencies, lengths = rows[places], frequencies[places], lengths[places]
                found.append((rows, _term_scores(weight, frequencies, lengths, mean)))
        if not found or (every and len(found) < len(set(terms))):
            return np.empty(0, np.int64), np.empty(0, np.float32)
        return sum_by_row(found, len(found) if every else 1)

    def _postings(self, db: sqlite3.Connection, column: int, term: str) -> Postings:
        kept = self._kept.get((column, term))
        if kept is not None:
            return kept
        postings, lengths = self._tables.postings, self._tables.lengths
        sql = (
            f"SELECT p.doc, p.frequency, l.c{column} FROM "
            f"(SELECT doc, count(*) AS frequency FROM {postings} WHERE term = ? AND col = ? GROUP BY doc) p "
            f"JOIN {lengths} l ON l.row = p.doc"
        )
        found = np.array(db.execute(sql, (term, f"c{column}")).fetchall(), np.int64).reshape(-1, 3)
        read = found[:, 0].copy(), found[:, 1].astype(np.float32), found[:, 2].copy()
        return self._kept.put((column, term), read, len(found) + 20)  # what a key and three empty arrays take


def sum_by_row(found: list[Matches], least: int) -> Matches:
    """The rows that at least ``least`` of several results have, in ascending order, and the sums of their scores."""
    rows, places, counts = np.unique(
        np.concatenate([rows for rows, _ in found]), return_inverse=True, return_counts=True
    )
    sums = np.bincount(places, np.concatenate([scores for _, scores in found]), len(rows)).astype(np.float32)
    return rows[counts >= least], sums[counts >= least]


def _idf(documents: float, frequency: int) -> np.float32:
    idf: np.float32 = np.float32(math.log(1 + (documents - frequency + 0.5) / (frequency + 0.5)))
    return idf


def _term_scores(
    weight: np.float32, frequencies: NDArray[np.float32], lengths: NDArray[np.int64], mean: np.float32
) -> Scores:
    """As in Lucene's ``BM25Similarity``, in the same order of operations."""
    inverse = np.float32(1) / (_K1 * ((np.float32(1) - _B) + _B * _rounded(lengths).astype(np.float32) / mean))
    return np.asarray(weight - weight / (np.float32(1) + frequencies * inverse), np.float32)


def _rounded(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Lengths as Lucene keeps them, in one byte: exact below 24, above with the four highest bits of the rest."""
    rest = np.maximum(lengths - _EXACT_LENGTHS, 0)
    _, bits = np.frexp(rest)  # the number of binary digits
    shift = np.maximum(bits - _KEPT_BITS, 0)
    return np.where(lengths < _EXACT_LENGTHS, lengths, _EXACT_LENGTHS + ((rest >> shift) << shift))
