"""How documents are scored, from the tables of an index: BM25 as Lucene computes it, exact k-NN, and our own two
Painless files, which are the scripts that the embedded engine knows, in numpy.

A term in a field scores boost · idf · tf / (tf + k1 · (1 − b + b · length / mean length)) with k1 = 1.2, b = 0.75 and
idf = ln(1 + (n − df + 0.5) / (df + 0.5)), where n documents have the field and df of them the term. All of it is in
32-bit floats and lengths are rounded as in Lucene's index, and the sums of scripts are of 64-bit floats, number by
number, as in Painless, so that documents which tie there tie here.
"""

from __future__ import annotations

import math
import sqlite3
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.cache import TtlCache
from resift.embedded.tables import IndexTables, Matches, Rows, Scores, stored_vector
from resift.errors import BadInput, UnsupportedQuery
from resift.query.dsl import VECTOR_FIELD
from resift.rewriting.clauses import script_source
from resift.schema import convert, read_struct
from resift.vectors.weights import MAX_BETA

_K1, _B = np.float32(1.2), np.float32(0.75)
_EXACT_LENGTHS, _KEPT_BITS = 24, 4
_KEPT_POSTINGS = 1_000_000  # of 12 bytes


class Bm25:
    """The scores of an index's text fields as these are at a count of its changes.

    Of each field it knows in how many documents there is a term, and how many terms there are together; postings that
    were read are kept, since a session asks for the same words in each search.
    """

    def __init__(self, db: sqlite3.Connection, tables: IndexTables) -> None:
        sums = ", ".join(f"total({column} > 0), total({column})" for column in tables.columns)
        (found,) = db.execute(f"SELECT {sums} FROM {tables.lengths}").fetchall()
        self._tables, self._documents, self._terms = tables, found[::2], found[1::2]
        self._kept = TtlCache[Matches](_KEPT_POSTINGS, math.inf)  # by column and term

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
            rows, saturations = self._postings(db, column, term)
            if len(rows):
                weight = np.float32(boost * times) * _idf(self._documents[column], len(rows))
                if within is not None:
                    places = np.minimum(np.searchsorted(rows, within), len(rows) - 1)
                    places = places[rows[places] == within]
                    rows, saturations = rows[places], saturations[places]
                found.append((rows, np.asarray(weight - weight / (np.float32(1) + saturations), np.float32)))
        if not found or (every and len(found) < len(set(terms))):
            return np.empty(0, np.int64), np.empty(0, np.float32)
        return sum_by_row(found, len(found) if every else 1)

    def rows(self, db: sqlite3.Connection, field: str, term: str) -> Rows:
        """The rows that hold a term in a field."""
        return self._postings(db, self._tables.meta.fields.index(field), term)[0]

    def _postings(self, db: sqlite3.Connection, column: int, term: str) -> Matches:
        """The rows of a term in a field, in ascending order, and tf / (k1 · (1 − b + b · length / mean length))."""
        kept = self._kept.get((column, term))
        if kept is not None:
            return kept
        postings, lengths = self._tables.postings, self._tables.lengths
        sql = (
            f"SELECT p.doc, p.frequency, l.c{column} FROM "
            f"(SELECT doc, count(*) AS frequency FROM {postings} WHERE term = ? AND col = ? GROUP BY doc) p "
            f"JOIN {lengths} l ON l.row = p.doc ORDER BY p.doc"
        )
        found = np.array(db.execute(sql, (term, f"c{column}")).fetchall(), np.int64).reshape(-1, 3)
        read = found[:, 0].copy(), found[:, 1].astype(np.float32)
        if len(found):
            mean = np.float32(self._terms[column] / self._documents[column])
            read = read[0], _saturations(read[1], found[:, 2], mean)
        return self._kept.put((column, term), read, len(found) + 20)  # what a key and two empty arrays take


def sum_by_row(found: list[Matches], least: int) -> Matches:
    """The rows that at least ``least`` of several results have, in ascending order, and the sums of their scores."""
    if len(found) == 1 == least:
        return found[0]
    rows, places, counts = np.unique(
        np.concatenate([rows for rows, _ in found]), return_inverse=True, return_counts=True
    )
    sums = np.bincount(places, np.concatenate([scores for _, scores in found]), len(rows)).astype(np.float32)
    return rows[counts >= least], sums[counts >= least]


def _idf(documents: float, frequency: int) -> np.float32:
    idf: np.float32 = np.float32(math.log(1 + (documents - frequency + 0.5) / (frequency + 0.5)))
    return idf


def _saturations(frequencies: Scores, lengths: NDArray[np.int64], mean: np.float32) -> Scores:
    """As in Lucene's ``BM25Similarity``, in the same order of operations."""
    inverse = np.float32(1) / (_K1 * ((np.float32(1) - _B) + _B * _rounded(lengths).astype(np.float32) / mean))
    return np.asarray(frequencies * inverse, np.float32)


def _rounded(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Lengths as Lucene keeps them, in one byte: exact below 24, above with the four highest bits of the rest."""
    rest = np.maximum(lengths - _EXACT_LENGTHS, 0)
    _, bits = np.frexp(rest)  # the number of binary digits
    shift = np.maximum(bits - _KEPT_BITS, 0)
    return np.where(lengths < _EXACT_LENGTHS, lengths, _EXACT_LENGTHS + ((rest >> shift) << shift))


Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class Script:
    """A similarity of the vector in ``field`` with ``query`` (K,), both weighted by ``mask`` (K,).

    With ``beta`` a score is exp(beta · similarity), where cosines are counted from 0 up, as 1 + cosine.
    """

    name: str
    field: str
    query: Doubles
    mask: Doubles
    beta: float | None


def _plus_cosine(query: Doubles, vectors: Doubles) -> Doubles:
    """1 + cosine of ``query`` (K,) with each column of ``vectors`` (K, n); 1 where either is zero."""
    squares = _sum(vectors**2) * _sum((query**2)[:, None])
    cosines = np.divide(_sum(query[:, None] * vectors), np.sqrt(squares), out=np.zeros_like(squares), where=squares > 0)
    return np.asarray(np.maximum(1 + cosines, 0))


def _jaccard(query: Doubles, vectors: Doubles) -> Doubles:
    """Fuzzy Jaccard of ``query`` (K,) with each column of ``vectors`` (K, n)."""
    a, b = np.maximum(query, 0)[:, None], np.maximum(vectors, 0)
    shared, total = _sum(np.minimum(a, b)), _sum(np.maximum(a, b))
    return np.asarray(np.divide(shared, total, out=np.zeros_like(total), where=total > 0))


def _sum(numbers: Doubles) -> Doubles:
    """The sums of columns. ``np.sum`` of a row would pair numbers up, and round otherwise than a loop does."""
    return np.asarray(np.add.reduce(np.ascontiguousarray(numbers), axis=0))


# File → similarity, and what it is of a document that is similar to nothing.
_SCRIPTS: dict[str, tuple[Callable[[Doubles, Doubles], Doubles], float]] = {
    "masked_cosine": (_plus_cosine, 1.0),
    "fuzzy_jaccard": (_jaccard, 0.0),
}


def parse_script(script: Any, dim: int) -> Script:
    """The script of a ``script_score`` over vectors of ``dim`` numbers. Raises UnsupportedQuery for any but ours."""
    source = script.get("source") if isinstance(script, Mapping) else None
    name = next((name for name in _SCRIPTS if source == script_source(name)), None)
    if name is None or set(script) - {"lang", "source", "params"} or script.get("lang", "painless") != "painless":
        expected = "an inline script, the text of masked_cosine.painless or fuzzy_jaccard.painless"
        message = "the embedded engine runs no scripts but Resift's own"
        raise UnsupportedQuery(message, value=str(script)[:200], expected=expected)
    params = read_struct(_Params, convert("params of a script", script.get("params"), dict[str, Any]))
    mask = np.ones(dim) if params.mask is None else checked_numbers("mask", params.mask, dim)
    return Script(name, params.field, checked_numbers("query vector", params.query, dim), mask, params.beta)


class _Params(msgspec.Struct, forbid_unknown_fields=True):
    field: str
    query: list[float]
    mask: list[float] | None = None
    beta: Annotated[float, msgspec.Meta(ge=0, le=MAX_BETA)] | None = None


def checked_numbers(name: str, values: Any, dim: int) -> Doubles:
    """``values`` as an array (``dim``,). Raises BadInput if they are anything else."""
    try:
        numbers = np.asarray(values, np.float64)
    except (TypeError, ValueError, OverflowError):
        numbers = np.empty(0)
    # also those that 32 bits do not hold
    if numbers.shape != (dim,) or not (np.abs(numbers) <= np.finfo(np.float32).max).all():
        raise BadInput(f"{name} of shape {numbers.shape}", value=str(values)[:200], expected=f"{dim} finite numbers")
    return numbers


@dataclass(frozen=True)
class Vectors:
    """The vectors (n, K) of an index as they are at a count of its changes, and their rows, in ascending order."""

    space: str
    rows: Rows
    vectors: Floats

    @classmethod
    def of(cls, db: sqlite3.Connection, tables: IndexTables) -> Vectors:
        """All vectors of an index."""
        sql = f"SELECT row, vector FROM {tables.documents} WHERE vector IS NOT NULL ORDER BY row"
        stored = db.execute(sql).fetchall()
        vectors = np.empty((len(stored), tables.meta.dim), np.float32)
        for i, (row, blob) in enumerate(stored):
            vectors[i] = stored_vector(blob, tables.meta.dim, f"row {row}")
        return cls(tables.meta.space, np.array([row for row, _ in stored], np.int64), vectors)

    def nearest(self, vector: Floats, k: int, allowed: Rows | None) -> Matches:
        """The rows of the ``k`` nearest documents, in ascending order, and Lucene's scores; ``allowed`` may be hits."""
        if self.space == "l2":
            scores = 1 / (1 + ((self.vectors - vector) ** 2).sum(axis=1))
        else:
            near = self.vectors @ vector
            scores = np.where(near > 0, near + 1, 1 / (1 - np.minimum(near, 0)))
        order = np.argsort(-scores, kind="stable")
        if allowed is not None:
            order = order[np.isin(self.rows[order], allowed)]
        order = np.sort(order[:k])
        return self.rows[order], scores[order].astype(np.float32)

    def scripted(self, script: Script, rows: Rows) -> Scores:
        """The scores that a script gives documents; of any other field than VECTOR_FIELD none has a vector."""
        held = np.isin(rows, self.rows, assume_unique=True) & (script.field == VECTOR_FIELD)
        similarity, without = _SCRIPTS[script.name]
        # A document without a vector is as good as any that is similar to nothing, where scores are to be multiplied.
        found = np.full(len(rows), 0.0 if script.beta is None else without)
        vectors = self.vectors[np.searchsorted(self.rows, rows[held])]
        found[held] = similarity(script.mask * script.query, (script.mask * vectors).T)
        return (found if script.beta is None else np.exp(script.beta * found)).astype(np.float32)
