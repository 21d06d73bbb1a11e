"""BM25 as Lucene computes it, from the tables of an index.

A term in a field scores boost · idf · tf / (tf + k1 · (1 − b + b · length / mean length)) with k1 = 1.2, b = 0.75 and
idf = ln(1 + (n − df + 0.5) / (df + 0.5)), where n documents have the field and df of them the term. All of it is in
32-bit floats and lengths are rounded as in Lucene's index, so that documents which tie there tie here.
"""

from __future__ import annotations

import math
import sqlite3
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from resift.plugin.sqlite.clauses import Text
from resift.plugin.sqlite.tables import IndexTables, Matches, Rows, Scores

_K1, _B = np.float32(1.2), np.float32(0.75)
Postings = tuple[Rows, Scores, Rows]  # of a term in a field: rows, how often it is there, and how many terms are
_EXACT_LENGTHS, _KEPT_BITS = 24, 4
_KEPT_POSTINGS = 1_000_000  # of 20 bytes


@dataclass(frozen=True)
class FieldStatistics:
    """Of each text field, in how many documents it has a term, and how many terms they have in it together; and
    postings that were read, by column and term, since a session asks for the same words in each search."""

    documents: list[int]
    terms: list[int]
    postings: dict[tuple[int, str], Postings] = field(default_factory=dict)

    @classmethod
    def of(cls, db: sqlite3.Connection, tables: IndexTables) -> FieldStatistics:
        """The statistics of an index as it is now."""
        sums = ", ".join(f"total({column} > 0), total({column})" for column in tables.columns)
        (found,) = db.execute(f"SELECT {sums} FROM {tables.lengths}").fetchall()
        numbers = [int(number) for number in found]
        return cls(numbers[::2], numbers[1::2])


def text_scores(
    db: sqlite3.Connection, tables: IndexTables, statistics: FieldStatistics, text: Text, within: Rows | None
) -> Matches:
    """The rows that match a text clause, among those ``within`` if these are given, in ascending order, with scores."""
    found = [
        _field_scores(db, tables, statistics, tables.fields.index(name), text, boost * text.boost, within)
        for name, boost in text.boosts.items()
    ]
    rows, places = np.unique(np.concatenate([rows for rows, _ in found]), return_inverse=True)
    scores = np.concatenate([scores for _, scores in found])
    best = np.zeros(len(rows), np.float32)
    np.maximum.at(best, places, scores)
    # in doubles, as Lucene's DisjunctionMaxScorer adds them up
    others = np.bincount(places, scores, len(rows)) - best
    return rows, (best + others * np.float32(text.tie_breaker)).astype(np.float32)


def _field_scores(
    db: sqlite3.Connection,
    tables: IndexTables,
    statistics: FieldStatistics,
    column: int,
    text: Text,
    boost: float,
    within: Rows | None,
) -> Matches:
    """The rows that match in one field, and their scores there."""
    found = []
    for term, times in Counter(text.terms).items():
        rows, frequencies, lengths = _postings(db, tables, statistics, column, term)
        if len(rows):
            weight = np.float32(boost * times) * _idf(statistics.documents[column], len(rows))
            mean = np.float32(statistics.terms[column] / statistics.documents[column])
            if within is not None:
                places = np.minimum(np.searchsorted(rows, within), len(rows) - 1)
                places = places[rows[places] == within]
                rows, frequencies, lengths = rows[places], frequencies[places], lengths[places]
            found.append((rows, _term_scores(weight, frequencies, lengths, mean)))
    if not found or (text.every and len(found) < len(set(text.terms))):
        return np.empty(0, np.int64), np.empty(0, np.float32)
    return sum_by_row(found, len(found) if text.every else 1)


def sum_by_row(found: list[Matches], least: int) -> Matches:
    """The rows that at least ``least`` of several results have, in ascending order, and the sums of their scores."""
    rows, places, counts = np.unique(
        np.concatenate([rows for rows, _ in found]), return_inverse=True, return_counts=True
    )
    sums = np.bincount(places, np.concatenate([scores for _, scores in found]), len(rows)).astype(np.float32)
    return rows[counts >= least], sums[counts >= least]


def _postings(
    db: sqlite3.Connection, tables: IndexTables, statistics: FieldStatistics, column: int, term: str
) -> Postings:
    kept = statistics.postings.get((column, term))
    if kept is not None:
        return kept
    sql = (
        f"SELECT p.doc, p.frequency, l.c{column} FROM "
        f"(SELECT doc, count(*) AS frequency FROM {tables.postings} WHERE term = ? AND col = ? GROUP BY doc) p "
        f"JOIN {tables.lengths} l ON l.row = p.doc"
    )
    found = np.array(db.execute(sql, (term, f"c{column}")).fetchall(), np.int64).reshape(-1, 3)
    read = found[:, 0].copy(), found[:, 1].astype(np.float32), found[:, 2].copy()
    # 20: what a key and three empty arrays take
    if sum(len(rows) + 20 for rows, _, _ in list(statistics.postings.values())) > _KEPT_POSTINGS:
        statistics.postings.clear()  # all at once: several threads use them
    statistics.postings[column, term] = read
    return read


def _idf(documents: int, frequency: int) -> np.float32:
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
