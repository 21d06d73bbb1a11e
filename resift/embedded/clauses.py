"""Query clauses that compute their matching documents, with the same scores as OpenSearch."""

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
from resift.embedded.tables import IndexTables, Matches, Rows, parse_stored_object


class IndexCache:
    """Data of an index that is cached in memory until documents of the index change.

    Args:
        db: The connection to read the data from.
        tables: The database tables of the index.

    Attributes:
        changes: The change counter of the index when the data was read. If the counter has increased, the data is
            stale.
        bm25: The term statistics for BM25.
        vectors: All document vectors of the index, or None if no search has needed them yet.
        rows: The row numbers of all documents, or None if no search has needed them yet.
    """

    def __init__(self, db: sqlite3.Connection, tables: IndexTables) -> None:
        self.changes = tables.changes
        self.bm25 = Bm25(db, tables)
        self.vectors: Vectors | None = None
        self.rows: Rows | None = None


class IndexView:
    """Read access of query clauses to an index, within a database transaction.

    Clauses look up the row numbers, the term statistics and the vectors of documents. In the database, a row number
    identifies a document.

    Attributes:
        db: The database connection with the open transaction.
        tables: The database tables of the index.
        bm25: The term statistics for BM25.
        text_matches: A cache for the results of text clauses, because rewritten queries contain some clauses twice.
    """

    def __init__(self, db: sqlite3.Connection, tables: IndexTables, cache: IndexCache) -> None:
        self.db = db
        self.tables = tables
        self.bm25 = cache.bm25
        self.text_matches: dict[Any, Matches] = {}
        self._cache = cache

    def vectors(self) -> Vectors:
        """Return all document vectors of the index. They are read from the database only once."""
        self._cache.vectors = self._cache.vectors or Vectors.load(self.db, self.tables)
        return self._cache.vectors

    def row_numbers(self, ids: frozenset[str] | None, within: Rows | None) -> Rows:
        """Look up the row numbers of documents by their ids.

        Args:
            ids: The document ids, or None for all documents.
            within: If not None, only row numbers in this array are returned.

        Returns:
            The row numbers in ascending order.
        """
        if ids is None:
            return self._all_rows() if within is None else within
        # Pass the ids as a JSON array, because SQLite limits the number of parameters of a statement.
        sql = f"SELECT row FROM {self.tables.documents} WHERE id IN (SELECT value FROM json_each(?)) ORDER BY row"
        rows = np.array(self.db.execute(sql, [orjson.dumps(list(ids)).decode()]).fetchall(), np.int64).reshape(-1)
        return rows if within is None else np.intersect1d(rows, within, assume_unique=True)

    def _all_rows(self) -> Rows:
        """Return the row numbers of all documents, in ascending order. The first call reads them."""
        if self._cache.rows is None:
            rows = self.db.execute(f"SELECT row FROM {self.tables.documents} ORDER BY row")
            self._cache.rows = np.fromiter((row for (row,) in rows), np.int64)
            self._cache.rows.flags.writeable = False
        return self._cache.rows

    def passing_rows(self, test: FieldTest, within: Rows | None) -> Rows:
        """Find the documents that pass a test, and return their row numbers in ascending order.

        Args:
            test: A function that receives the fields of a document, and returns whether the document passes.
            within: If not None, only the documents with these row numbers are tested.

        Raises:
            CorruptEngine: If a stored document is damaged.
        """
        sql, values = f"SELECT row, source FROM {self.tables.documents}", []
        if within is not None:
            sql = f"{sql} WHERE row IN (SELECT value FROM json_each(?))"
            values = [orjson.dumps(within.tolist()).decode()]
        rows = []
        for row, source in self.db.execute(f"{sql} ORDER BY row", values):
            try:
                document = orjson.loads(source)
            except orjson.JSONDecodeError:
                document = parse_stored_object(source, f"row {row}")
            if test(document):
                rows.append(row)
        return np.array(rows, np.int64)


@dataclass(frozen=True, kw_only=True)
class Clause(ABC):
    """A query clause, such as ``match`` or ``bool``. It selects documents and computes their scores.

    Attributes:
        boost: The factor by which the scores of the clause are multiplied.
    """

    boost: float = 1.0

    @abstractmethod
    def matches(self, view: IndexView, within: Rows | None = None) -> Matches:
        """Find the documents that match the clause, and compute their scores.

        Args:
            view: The index to search.
            within: If not None, only the documents with these row numbers can match.

        Returns:
            The row numbers of the matching documents in ascending order, and the score of each document.
        """

    def count(self, view: IndexView) -> int:
        """Return the number of documents in the index that match the clause."""
        return len(self.matches(view)[0])

    def highlight_terms(self, field: str) -> Iterator[str]:
        """Return the terms that this clause searches for in a field, so that they can be highlighted in hits.

        Terms inside ``must_not`` clauses and inside filters of k-NN clauses are left out.

        Args:
            field: The name of the field.
        """
        return iter(())


@dataclass(frozen=True)
class RowFilter(Clause):
    """A clause that selects documents with a function, and gives each of them the same score: the boost.

    Attributes:
        find_rows: The function. It takes a view of the index, and the row numbers of the documents to consider (None
            for all documents). It returns the row numbers of the matching documents.
    """

    find_rows: Callable[[IndexView, Rows | None], Rows]

    def matches(self, view: IndexView, within: Rows | None = None) -> Matches:
        """Find the documents that the function selects. All of them get the same score.

        Args:
            view: The index to search.
            within: If not None, only the documents with these row numbers can match.

        Returns:
            The row numbers of the matching documents in ascending order, and the score of each document.
        """
        rows = self.find_rows(view, within)
        return rows, np.full(len(rows), self.boost, np.float32)


@dataclass(frozen=True)
class ConstantScore(Clause):
    """A clause that matches the same documents as ``query``, and gives each of them the same score: the boost."""

    query: Clause

    def matches(self, view: IndexView, within: Rows | None = None) -> Matches:
        """Find the documents that match the inner query. All of them get the same score.

        Args:
            view: The index to search.
            within: If not None, only the documents with these row numbers can match.

        Returns:
            The row numbers of the matching documents in ascending order, and the score of each document.
        """
        rows, _ = self.query.matches(view, within)
        return rows, np.full(len(rows), self.boost, np.float32)

    def highlight_terms(self, field: str) -> Iterator[str]:
        """Return the terms that the inner query searches for in a field, so that they can be highlighted in hits.

        Args:
            field: The name of the field.
        """
        return self.query.highlight_terms(field)


@dataclass(frozen=True)
class TextMatch(Clause):
    """A clause that searches for terms in text fields, and scores the matching documents with BM25.

    The scores of a document in several fields are combined as in OpenSearch's ``dis_max`` query.

    Attributes:
        boosts: Maps the name of each searched field to its weight.
        terms: The terms of the query. A term that occurs several times in the query is repeated.
        require_all: Whether a field must contain all terms. Otherwise a single term is enough.
        tie_breaker: The factor (0 to 1) by which the scores of other fields are multiplied before they are added to the
            score of the best field.
    """

    boosts: dict[str, float]
    terms: tuple[str, ...]
    require_all: bool = False
    tie_breaker: float = 0.0

    def matches(self, view: IndexView, within: Rows | None = None) -> Matches:
        """Find the documents that contain the terms, and compute their BM25 scores.

        Args:
            view: The index to search.
            within: If not None, only the documents with these row numbers can match.

        Returns:
            The row numbers of the matching documents in ascending order, and the score of each document.
        """
        key = (*self.boosts.items(), self.terms, self.require_all, self.tie_breaker, self.boost)
        if within is None:
            return view.text_matches.get(key) or view.text_matches.setdefault(key, self._scored(view, None))
        if key not in view.text_matches:
            return self._scored(view, within)
        rows, scores = view.text_matches[key]
        selected = np.isin(rows, within, assume_unique=True)
        return rows[selected], scores[selected]

    def _scored(self, view: IndexView, within: Rows | None) -> Matches:
        """Find the documents that contain the terms, and compute their BM25 scores, without using the cache.

        The arguments and the result are those of :meth:`matches`.
        """
        field_matches = [
            view.bm25.matches(view.db, field, self.terms, self.require_all, boost * self.boost, within)
            for field, boost in self.boosts.items()
        ]
        field_matches = [matches for matches in field_matches if len(matches[0])] or field_matches[:1]
        if len(field_matches) == 1:
            return field_matches[0]
        rows, places = np.unique(np.concatenate([rows for rows, _ in field_matches]), return_inverse=True)
        scores = np.concatenate([scores for _, scores in field_matches])
        best = np.zeros(len(rows), np.float32)
        np.maximum.at(best, places, scores)
        # Sum in 64-bit floats, like Lucene's DisjunctionMaxScorer.
        rest = np.bincount(places, scores, len(rows)) - best
        return rows, (best + rest * np.float32(self.tie_breaker)).astype(np.float32)

    def count(self, view: IndexView) -> int:
        """Return the number of matching documents. For a single term, this is fast because no scores are computed."""
        if len(self.terms) != 1:
            return super().count(view)
        return len(
            np.unique(np.concatenate([view.bm25.rows_with_term(view.db, field, *self.terms) for field in self.boosts]))
        )

    def highlight_terms(self, field: str) -> Iterator[str]:
        """Return the terms that this clause searches for in a field, so that they can be highlighted in hits.

        Args:
            field: The name of the field. If the clause does not search this field, the result is empty.
        """
        return iter(self.terms if field in self.boosts else ())


@dataclass(frozen=True)
class Bool(Clause):
    """A clause that combines other clauses, like OpenSearch's ``bool`` query.

    A document matches if all ``must`` and ``filter`` clauses match it, no ``must_not`` clause matches it, and at least
    ``minimum_should_match`` of the ``should`` clauses match it.

    Attributes:
        must: Clauses that must match. Their scores count.
        should: Clauses that may match. Their scores count.
        filter: Clauses that must match. Their scores do not count.
        must_not: Clauses that must not match.
        minimum_should_match: The minimum number of ``should`` clauses that must match.
        take_maximum: Whether the score is the maximum of the clauses' scores, as in ``dis_max``, instead of their sum.
    """

    must: tuple[Clause, ...] = ()
    should: tuple[Clause, ...] = ()
    filter: tuple[Clause, ...] = ()
    must_not: tuple[Clause, ...] = ()
    minimum_should_match: int = 0
    take_maximum: bool = False

    def matches(self, view: IndexView, within: Rows | None = None) -> Matches:
        """Find the documents that match the inner clauses, and combine their scores.

        Args:
            view: The index to search.
            within: If not None, only the documents with these row numbers can match.

        Returns:
            The row numbers of the matching documents in ascending order, and the score of each document.
        """
        required = [*((inner, True) for inner in self.must), *((inner, False) for inner in self.filter)]
        # Evaluate text clauses first. They use the inverted index, while other clauses read the remaining documents.
        required.sort(key=lambda pair: not isinstance(pair[0], TextMatch))
        scored = []
        for inner, is_scored in required:
            within, scores = inner.matches(view, within)
            if is_scored:
                scored.append((within, scores))
        alternatives = [inner.matches(view, within) for inner in self.should]
        if self.minimum_should_match > len(alternatives):
            within = np.empty(0, np.int64)
        elif self.minimum_should_match:
            within, _ = sum_by_row(alternatives, self.minimum_should_match)
        within = view.row_numbers(None, within)
        for inner in self.must_not:
            within = np.setdiff1d(within, inner.matches(view, within)[0], assume_unique=True)
        total = np.zeros(len(within), np.float32)
        # Like Lucene, sum each group in 64-bit floats, and the two groups in 32-bit floats.
        for group in (scored, alternatives):
            part = np.zeros(len(within), np.float64)
            for rows, scores in group:
                places = np.searchsorted(within, rows)
                places[places == len(within)] = 0
                selected = within[places] == rows if len(within) else np.zeros(len(rows), bool)
                places, scores = places[selected], scores[selected]
                part[places] = np.maximum(part[places], scores) if self.take_maximum else part[places] + scores
            total += part.astype(np.float32)
        return within, total * np.float32(self.boost)

    def highlight_terms(self, field: str) -> Iterator[str]:
        """Return the terms that the inner clauses search for in a field, so that they can be highlighted in hits.

        Terms of ``must_not`` clauses are left out.

        Args:
            field: The name of the field.
        """
        return chain.from_iterable(inner.highlight_terms(field) for inner in self.must + self.should + self.filter)


@dataclass(frozen=True)
class ScriptScore(ConstantScore):
    """A clause that computes the scores of documents with a script.

    It matches the same documents as the clause that it wraps.

    Attributes:
        query: The wrapped clause.
        boost: The factor by which the scores are multiplied.
        script: The script, one of Resift's own scripts.
    """

    script: Script

    def matches(self, view: IndexView, within: Rows | None = None) -> Matches:
        """Find the documents that match the inner query, and compute their scores with the script.

        Args:
            view: The index to search.
            within: If not None, only the documents with these row numbers can match.

        Returns:
            The row numbers of the matching documents in ascending order, and the score of each document.
        """
        rows, _ = self.query.matches(view, within)
        return rows, view.vectors().script_scores(self.script, rows) * np.float32(self.boost)


@dataclass(frozen=True)
class FunctionScore(ConstantScore):
    """A clause that matches the same documents as its inner query, and multiplies their scores by weights.

    Attributes:
        functions: Pairs of a condition and a weight. The weight applies to the documents that match the condition.
        first_only: Whether only the first matching condition counts if a document matches several conditions.
            Otherwise, the weights of all matching conditions are multiplied.
    """

    functions: tuple[tuple[Clause, float], ...]
    first_only: bool

    def matches(self, view: IndexView, within: Rows | None = None) -> Matches:
        """Find the documents that match the inner query, and multiply their scores by weights.

        Args:
            view: The index to search.
            within: If not None, only the documents with these row numbers can match.

        Returns:
            The row numbers of the matching documents in ascending order, and the score of each document.
        """
        rows, scores = self.query.matches(view, within)
        factors, done = np.full(len(rows), self.boost), np.zeros(len(rows), bool)
        for condition, weight in self.functions:
            matching = np.isin(rows, condition.matches(view, rows)[0], assume_unique=True) & ~done
            factors[matching] *= weight
            done |= matching & self.first_only
        return rows, (scores * factors).astype(np.float32)


@dataclass(frozen=True)
class Knn(Clause):
    """A clause that matches the ``k`` documents whose vectors are nearest to a query vector.

    Attributes:
        vector: The query vector, of shape (n_dimensions,).
        k: The maximum number of documents.
        condition: A clause that the documents must match. It is applied before the nearest documents are selected. None
            allows all documents.
    """

    vector: Floats
    k: int
    condition: Clause | None

    def matches(self, view: IndexView, within: Rows | None = None) -> Matches:
        """Find the documents that are nearest to the query vector, and compute their scores from the distances.

        Args:
            view: The index to search.
            within: If not None, only the documents with these row numbers can match.

        Returns:
            The row numbers of the matching documents in ascending order, and the score of each document.
        """
        # As in OpenSearch, find the k nearest of all documents, and then keep the documents in `within`.
        allowed = None if self.condition is None else self.condition.matches(view)[0]
        rows, scores = view.vectors().nearest(self.vector, self.k, allowed)
        selected = slice(None) if within is None else np.isin(rows, within, assume_unique=True)
        return rows[selected], scores[selected] * np.float32(self.boost)


@dataclass(frozen=True)
class Query:
    """The query of a search, after parsing.

    Attributes:
        clause: The clause of the whole query. For a hybrid query, it matches all documents that match at least one
            sub-query.
        names: The clauses that have a name (``_name`` in OpenSearch), by name.
        queries: The sub-queries of a hybrid query. Empty for other queries.
        depth: The number of hits that each sub-query of a hybrid query retrieves (``pagination_depth`` in OpenSearch).
            None stands for the number of hits on a page.
    """

    clause: Clause
    names: Mapping[str, Clause]
    queries: tuple[Clause, ...] = ()
    depth: int | None = None
