"""What a query asks for, as a tree of clauses, each of which finds its documents, with the scores that OpenSearch would
give them."""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import orjson

from resift.arrays import Floats
from resift.embedded.fields import FieldTest
from resift.embedded.scoring import Bm25, Script, Vectors, sum_by_row
from resift.embedded.tables import IndexTables, Matches, Rows, stored_object


class Kept:
    """What is kept in memory of an index until its count of ``changes`` moves."""

    def __init__(self, db: sqlite3.Connection, tables: IndexTables) -> None:
        self.changes, self.bm25 = tables.changes, Bm25(db, tables)
        self.vectors: Vectors | None = None


class View:
    """An index as one transaction sees it."""

    def __init__(self, db: sqlite3.Connection, tables: IndexTables, kept: Kept) -> None:
        self.db, self.tables, self._kept = db, tables, kept
        self.bm25 = kept.bm25
        self.texts: dict[Any, Matches] = {}  # what whole clauses matched, since a rewritten query holds some twice

    def vectors(self) -> Vectors:
        """The vectors of the index, which are read when they are asked for first."""
        self._kept.vectors = self._kept.vectors or Vectors.of(self.db, self.tables)
        return self._kept.vectors

    def rows(self, ids: frozenset[str] | None, within: Rows | None) -> Rows:
        """All rows, or those of documents with these ids, among those ``within`` if these are given."""
        if ids is None and within is not None:
            return within
        sql, values = f"SELECT row FROM {self.tables.documents}", []
        if ids is not None:
            # As JSON, since the number of values that a statement takes is limited.
            sql, values = f"{sql} WHERE id IN (SELECT value FROM json_each(?))", [orjson.dumps(list(ids)).decode()]
        found = np.array(self.db.execute(f"{sql} ORDER BY row", values).fetchall(), np.int64).reshape(-1)
        return found if within is None else np.intersect1d(found, within, assume_unique=True)

    def passing(self, test: FieldTest, within: Rows | None) -> Rows:
        """The rows of documents that pass a test. Raises CorruptEngine for one that is damaged."""
        sql, values = f"SELECT row, source FROM {self.tables.documents}", []
        if within is not None:
            sql = f"{sql} WHERE row IN (SELECT value FROM json_each(?))"
            values = [orjson.dumps(within.tolist()).decode()]
        rows = []
        for row, source in self.db.execute(f"{sql} ORDER BY row", values):
            try:
                document = orjson.loads(source)
            except orjson.JSONDecodeError:
                document = stored_object(source, f"row {row}")
            if test(document):
                rows.append(row)
        return np.array(rows, np.int64)


@dataclass(frozen=True, kw_only=True)
class Clause(ABC):
    """A part of a query, whose scores are times its ``boost``."""

    boost: float = 1.0

    @abstractmethod
    def matches(self, view: View, within: Rows | None = None) -> Matches:
        """The matching rows, among those ``within`` if these are given, in ascending order, and their scores."""

    def count(self, view: View) -> int:
        """How many documents match."""
        return len(self.matches(view)[0])

    def words(self, field: str) -> Iterator[str]:
        """The words that are highlighted in a field: not what must not match, nor those of a k-NN's filter."""
        return iter(())


@dataclass(frozen=True)
class Constant(Clause):
    """The documents that ``find`` finds, among others if these are given, with one score."""

    find: Callable[[View, Rows | None], Rows]

    def matches(self, view: View, within: Rows | None = None) -> Matches:
        rows = self.find(view, within)
        return rows, np.full(len(rows), self.boost, np.float32)


@dataclass(frozen=True)
class Scored(Clause):
    """What ``query`` matches, with one score."""

    query: Clause

    def matches(self, view: View, within: Rows | None = None) -> Matches:
        rows, _ = self.query.matches(view, within)
        return rows, np.full(len(rows), self.boost, np.float32)

    def words(self, field: str) -> Iterator[str]:
        return self.query.words(field)


@dataclass(frozen=True)
class Text(Clause):
    """The documents that hold terms in some text fields: the BM25 score of the best field, and a part of the others'.

    ``boosts``: text field → its weight. ``terms``: as often as they occur in the query. ``every``: whether all terms
    must be in one field; else one is enough. ``tie_breaker``: the part of the other fields' scores, 0 to 1.
    """

    boosts: dict[str, float]
    terms: tuple[str, ...]
    every: bool = False
    tie_breaker: float = 0.0

    def matches(self, view: View, within: Rows | None = None) -> Matches:
        key = (*self.boosts.items(), self.terms, self.every, self.tie_breaker, self.boost)
        if within is None:
            return view.texts.get(key) or view.texts.setdefault(key, self._scored(view, None))
        if key not in view.texts:
            return self._scored(view, within)
        rows, scores = view.texts[key]
        held = np.isin(rows, within, assume_unique=True)
        return rows[held], scores[held]

    def _scored(self, view: View, within: Rows | None) -> Matches:
        found = [
            view.bm25.matches(view.db, field, self.terms, self.every, boost * self.boost, within)
            for field, boost in self.boosts.items()
        ]
        found = [one for one in found if len(one[0])] or found[:1]
        if len(found) == 1:
            return found[0]
        rows, places = np.unique(np.concatenate([rows for rows, _ in found]), return_inverse=True)
        scores = np.concatenate([scores for _, scores in found])
        best = np.zeros(len(rows), np.float32)
        np.maximum.at(best, places, scores)
        # in doubles, as Lucene's DisjunctionMaxScorer adds them up
        others = np.bincount(places, scores, len(rows)) - best
        return rows, (best + others * np.float32(self.tie_breaker)).astype(np.float32)

    def count(self, view: View) -> int:
        if len(self.terms) != 1:
            return super().count(view)
        return len(np.unique(np.concatenate([view.bm25.rows(view.db, field, *self.terms) for field in self.boosts])))

    def words(self, field: str) -> Iterator[str]:
        return iter(self.terms if field in self.boosts else ())


@dataclass(frozen=True)
class Bool(Clause):
    """What all of ``must`` and ``filter`` match, none of ``must_not``, and ``least`` of ``should``.

    The score is the sum of the scores of ``must`` and ``should``, or with ``best`` the largest of them.
    """

    must: tuple[Clause, ...] = ()
    should: tuple[Clause, ...] = ()
    filter: tuple[Clause, ...] = ()
    must_not: tuple[Clause, ...] = ()
    least: int = 0
    best: bool = False

    def matches(self, view: View, within: Rows | None = None) -> Matches:
        scored = []
        # Texts first: they are looked up, while all else reads the documents that are left.
        for inner, counts in sorted(
            [*((inner, True) for inner in self.must), *((inner, False) for inner in self.filter)],
            key=lambda one: not isinstance(one[0], Text),
        ):
            within, scores = found = inner.matches(view, within)
            if counts:
                scored.append(found)
        alternatives = [inner.matches(view, within) for inner in self.should]
        if self.least > len(alternatives):
            within = np.empty(0, np.int64)
        elif self.least:
            within, _ = sum_by_row(alternatives, self.least)
        within = view.rows(None, within)
        for inner in self.must_not:
            within = np.setdiff1d(within, inner.matches(view, within)[0], assume_unique=True)
        total = np.zeros(len(within), np.float32)
        for group in (scored, alternatives):  # each is added up in doubles, and both in floats, as Lucene does
            part = np.zeros(len(within), np.float64)
            for rows, scores in group:
                places = np.searchsorted(within, rows)
                places[places == len(within)] = 0
                held = within[places] == rows if len(within) else np.zeros(len(rows), bool)
                places, scores = places[held], scores[held]
                part[places] = np.maximum(part[places], scores) if self.best else part[places] + scores
            total += part.astype(np.float32)
        return within, total * np.float32(self.boost)

    def words(self, field: str) -> Iterator[str]:
        return chain.from_iterable(inner.words(field) for inner in self.must + self.should + self.filter)


@dataclass(frozen=True)
class Scripted(Scored):
    """What ``query`` matches, with the scores of a script."""

    script: Script

    def matches(self, view: View, within: Rows | None = None) -> Matches:
        rows, _ = self.query.matches(view, within)
        return rows, view.vectors().scripted(self.script, rows) * np.float32(self.boost)


@dataclass(frozen=True)
class Weighted(Scored):
    """What ``query`` matches, its scores times the weights of all ``functions`` whose clause matches, or the first."""

    functions: tuple[tuple[Clause, float], ...]
    first: bool

    def matches(self, view: View, within: Rows | None = None) -> Matches:
        rows, scores = self.query.matches(view, within)
        factors, done = np.full(len(rows), self.boost), np.zeros(len(rows), bool)
        for condition, weight in self.functions:
            matching = np.isin(rows, condition.matches(view, rows)[0], assume_unique=True) & ~done
            factors[matching] *= weight
            done |= matching & self.first
        return rows, (scores * factors).astype(np.float32)


@dataclass(frozen=True)
class Nearest(Clause):
    """The ``k`` documents nearest to a ``vector`` (K,) in the index's space, among those that match ``condition``, if
    there is one."""

    vector: Floats
    k: int
    condition: Clause | None

    def matches(self, view: View, within: Rows | None = None) -> Matches:
        # The nearest of all documents, of which those within are hits, and not the nearest of those within.
        allowed = None if self.condition is None else self.condition.matches(view)[0]
        rows, scores = view.vectors().nearest(self.vector, self.k, allowed)
        chosen = slice(None) if within is None else np.isin(rows, within, assume_unique=True)
        return rows[chosen], scores[chosen] * np.float32(self.boost)


@dataclass(frozen=True)
class Query:
    """A clause, and those of its parts that have a name (``_name``).

    ``queries``: the sub-queries of a hybrid query, each of which finds its best ``depth`` documents, or as many as the
    page has; ``clause`` is what at least one of them matches.
    """

    clause: Clause
    names: Mapping[str, Clause]
    queries: tuple[Clause, ...] = ()
    depth: int | None = None
