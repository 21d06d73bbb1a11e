"""The documents that a query matches, with the scores that OpenSearch would give."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence

import numpy as np
import orjson

from resift.errors import CorruptEngine
from resift.plugin.sqlite.bm25 import FieldStatistics, sum_by_row, text_scores
from resift.plugin.sqlite.clauses import (
    Bool,
    Clause,
    Constant,
    Everything,
    Ids,
    Nearest,
    Passing,
    Query,
    Scripted,
    Text,
    Weighted,
)
from resift.plugin.sqlite.fields import FieldTest
from resift.plugin.sqlite.tables import IndexTables, Matches, Rows
from resift.plugin.sqlite.vectors import VectorCache


class Matcher:
    """Runs queries on an index as one transaction sees it."""

    def __init__(
        self, db: sqlite3.Connection, tables: IndexTables, statistics: FieldStatistics, vectors: VectorCache
    ) -> None:
        self.db, self.tables, self.statistics, self._vectors = db, tables, statistics, vectors

    def ranking(self, clause: Clause) -> Matches:
        """The rows of all documents that match, and their scores, best first; of equal ones the first written first."""
        rows, scores = self.matches(clause)
        order = np.argsort(-scores, kind="stable")
        return rows[order], scores[order]

    def names(self, queries: Sequence[Query], page: Rows) -> Mapping[int, list[str]]:
        """The names of clauses that each row of a page matches; of clauses with one name the last counts."""
        found: dict[int, list[str]] = {row: [] for row in page.tolist()}
        clauses = {name: clause for query in queries for name, clause in query.names.items()}
        for name, clause in sorted(clauses.items()):
            # What the whole search asked for, all of its hits match.
            rows = page if clause is queries[0].clause else self.matches(clause, np.sort(page))[0]
            for row in rows.tolist():
                found[row].append(name)
        return found

    def matches(self, clause: Clause, within: Rows | None = None) -> Matches:
        """The matching rows, among those ``within`` if these are given, and their scores."""
        if isinstance(clause, Bool):
            return self._bool(clause, within)
        if isinstance(clause, Text):
            return text_scores(self.db, self.tables, self.statistics, clause, within)
        if isinstance(clause, Scripted):
            rows, _ = self.matches(clause.query, within)
            scores = self._vectors.of(self.db, self.tables).scripted(clause.script, rows)
            return rows, scores * np.float32(clause.boost)
        if isinstance(clause, Weighted):
            return self._weighted(clause, within)
        if isinstance(clause, Nearest):
            return self._nearest(clause, within)
        if isinstance(clause, Constant):
            rows, _ = self.matches(clause.filter, within)
        elif isinstance(clause, Passing):
            rows = self._passing(clause.test, within)
        elif isinstance(clause, Everything) and within is not None:
            rows = within
        else:
            rows = self._rows(clause.ids if isinstance(clause, Ids) else None, within)
        return rows, np.full(len(rows), clause.boost, np.float32)

    def _weighted(self, clause: Weighted, within: Rows | None) -> Matches:
        rows, scores = self.matches(clause.query, within)
        factors, done = np.full(len(rows), clause.boost), np.zeros(len(rows), bool)
        for condition, weight in clause.functions:
            matching = np.isin(rows, self.matches(condition, rows)[0], assume_unique=True) & ~done
            factors[matching] *= weight
            done |= matching & clause.first
        return rows, (scores * factors).astype(np.float32)

    def _nearest(self, clause: Nearest, within: Rows | None) -> Matches:
        # The nearest of all documents, of which those within are hits, and not the nearest of those within.
        allowed = None if clause.filter is None else self.matches(clause.filter)[0]
        rows, scores = self._vectors.of(self.db, self.tables).nearest(clause.vector, clause.k, clause.least, allowed)
        chosen = slice(None) if within is None else np.isin(rows, within, assume_unique=True)
        return rows[chosen], scores[chosen] * np.float32(clause.boost)

    def _bool(self, clause: Bool, within: Rows | None) -> Matches:
        scored = []
        # Texts first: they are looked up, while all else reads the documents that are left.
        for inner, counts in sorted(
            [*((inner, True) for inner in clause.must), *((inner, False) for inner in clause.filter)],
            key=lambda one: not isinstance(one[0], Text),
        ):
            within, scores = found = self.matches(inner, within)
            if counts:
                scored.append(found)
        least = clause.least
        alternatives = [self.matches(inner, within) for inner in clause.should]
        if least > len(alternatives):
            within = np.empty(0, np.int64)
        elif least:
            within, _ = sum_by_row(alternatives, least)
        if within is None:
            within = self._rows(None, None)
        for inner in clause.must_not:
            within = np.setdiff1d(within, self.matches(inner, within)[0], assume_unique=True)
        total = np.zeros(len(within), np.float64)
        for rows, scores in scored + alternatives:
            places = np.searchsorted(within, rows)
            places[places == len(within)] = 0
            held = within[places] == rows if len(within) else np.zeros(len(rows), bool)
            places, scores = places[held], scores[held]
            total[places] = np.maximum(total[places], scores) if clause.best else total[places] + scores
        return within, (total.astype(np.float32) * np.float32(clause.boost)).astype(np.float32)

    def _rows(self, ids: frozenset[str] | None, within: Rows | None) -> Rows:
        """All rows, or those of documents with these ids."""
        sql, values = f"SELECT row FROM {self.tables.documents} WHERE 1", []
        if ids is not None:
            # As JSON, since the number of values that a statement takes is limited.
            sql, values = f"{sql} AND id IN (SELECT value FROM json_each(?))", [orjson.dumps(list(ids)).decode()]
        found = np.array(self.db.execute(f"{sql} ORDER BY row", values).fetchall(), np.int64).reshape(-1)
        return found if within is None else np.intersect1d(found, within, assume_unique=True)

    def _passing(self, test: FieldTest, within: Rows | None) -> Rows:
        """The rows of documents whose fields pass a test."""
        sql, values = f"SELECT row, source FROM {self.tables.documents}", []
        if within is not None:
            sql = f"{sql} WHERE row IN (SELECT value FROM json_each(?))"
            values = [orjson.dumps(within.tolist()).decode()]
        rows = []
        for row, source in self.db.execute(f"{sql} ORDER BY row", values):
            try:
                document = orjson.loads(source)
            except orjson.JSONDecodeError as error:
                where = f"the document of row {row} in {self.tables.name!r}"
                raise CorruptEngine(f"{where} is damaged: {error}", value=where) from error
            if test.passes(document):
                rows.append(row)
        return np.array(rows, np.int64)
