"""The embedded engine: BM25 with SQLite's FTS5 and exact k-NN, in a single file."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from resift.arrays import Floats
from resift.contracts.documents import (
    Document,
    IndexInfo,
    ModelDescription,
    Rejection,
    SearchResult,
    check_document,
    check_index,
)
from resift.contracts.engine import Engine, Headers
from resift.contracts.tuning import Tuning
from resift.embedded.clauses import IndexCache, IndexView
from resift.embedded.database import Database
from resift.embedded.fields import count_values, exact_field_names
from resift.embedded.query import parse_query
from resift.embedded.ranking import parse_search
from resift.embedded.tables import (
    SCHEMA,
    IndexSettings,
    IndexTables,
    create_tables,
    decode_vector,
    delete_document,
    drop_tables,
    find_tables,
    increment_changes,
    parse_stored_object,
    read_sources,
    store_tuning,
    write_document,
    write_vector,
)
from resift.errors import CorruptEngine, EngineUnavailable, NotFound
from resift.query.dsl import VECTOR_FIELD, Body, filter_source, is_resift_field, leaf_values

_PAGE = 500  # number of documents that are read together
_FIELD_SAMPLE = 200  # number of documents that are inspected for the names of their fields


class SqliteEngine(Engine):
    """A search engine that stores its indices in an SQLite file. The file is created if it does not exist.

    Several threads can share an engine object, and several processes can share a file. Each bulk request is one
    transaction.

    Args:
        path: The path of the file.

    Raises:
        EngineUnavailable: If the file cannot be opened or has the format of a newer version of Resift.
        CorruptEngine: If the file is damaged. The constructor and every method can raise it.
    """

    uses_headers = False

    def __init__(self, path: str) -> None:
        self.path = path
        self._database = Database(path, "indices", SCHEMA, EngineUnavailable, CorruptEngine)
        self._caches: dict[int, IndexCache] = {}  # by index number

    def close(self) -> None:
        """Close the connections."""
        self._database.close()

    def ping(self) -> str:
        """Return the name and version of the database library, SQLite."""
        return f"SQLite {sqlite3.sqlite_version}"

    def create(self, index: str, fields: Sequence[str], model: ModelDescription, analyzer: str = "english") -> None:
        """Create an index for documents and their vectors. Do nothing if it exists with the same settings.

        Args:
            index: The name of the new index.
            fields: The text fields, which are searched and encoded.
            model: The embedding model that encodes the documents.
            analyzer: The analyzer of the text fields, one of :data:`resift.contracts.documents.ANALYZERS`.

        Raises:
            BadInput: If the index name, a field name or the analyzer is invalid.
            EngineError: If the index exists with other settings (status 400).
        """
        check_index(index, fields, analyzer)
        meta = IndexSettings(tuple(fields), model.hash, model.name, model.dim, model.space_type, analyzer)
        with self._database.transaction() as db:
            create_tables(db, index, meta)

    def info(self, index: str, headers: Headers = None) -> IndexInfo:
        """Return the description of an index: its text fields, its model and its vectors.

        Args:
            index: The name of the index.
            headers: Ignored by this engine.
        """
        with self._database.transaction(write=False) as db:
            return find_tables(db, index).info()

    def tune(self, index: str, tuning: Tuning | None) -> None:
        """Store search settings with an index, such as the weight of vector similarity.

        Searches of the index use these settings instead of the defaults.

        Args:
            index: The name of the index.
            tuning: The settings, or None to delete the stored settings.
        """
        with self._database.transaction() as db:
            store_tuning(db, find_tables(db, index), tuning)

    def resolve(self, index: str, headers: Headers = None) -> list[str]:
        """Return a list that contains only ``index``, because an SQLite file has no aliases of indices.

        Args:
            index: The name of the index. It is not treated as a pattern.
            headers: Ignored by this engine.

        Raises:
            IndexNotFound: If the index does not exist.
        """
        return [self.info(index, headers).name]

    def indices(self, patterns: Sequence[str] = ("*",), headers: Headers = None) -> list[IndexInfo]:
        """Return the descriptions of all indices, sorted by name. This engine ignores ``patterns`` and ``headers``."""
        with self._database.transaction(write=False) as db:
            names = [name for (name,) in db.execute("SELECT name FROM indices ORDER BY name").fetchall()]
            return [find_tables(db, name).info() for name in names]

    def exact_fields(self, index: str, headers: Headers = None) -> list[str]:
        """Return the names of the fields that support exact filters (``term`` queries).

        This engine has no mappings. Therefore, these are the fields with numbers and short strings in a sample of the
        documents.

        Args:
            index: The name of the index.
            headers: The HTTP headers of the caller, which this engine ignores.
        """
        hits = self.sample(index, _FIELD_SAMPLE, headers=headers).hits
        return exact_field_names([hit["_source"] for hit in hits], self.info(index).fields)

    def field_names(self, index: str) -> list[str]:
        """Return the names of all known fields of an index.

        These are its text fields, and all fields that occur in a sample of its documents.

        Args:
            index: The name of the index.
        """
        hits = self.sample(index, _FIELD_SAMPLE).hits
        names = [name for hit in hits for name, _ in leaf_values(hit["_source"]) if not is_resift_field(name)]
        return list(dict.fromkeys([*self.info(index).fields, *names]))

    def value_counts(
        self, index: str, query: Body, fields: Sequence[str], size: int, headers: Headers = None
    ) -> dict[str, list[tuple[Any, int]]]:
        """Return the most frequent values of fields in the documents that match a query.

        Args:
            index: The name of the index.
            query: The query clause that selects the documents.
            fields: The names of the fields.
            size: The maximum number of values for each field.
            headers: Ignored by this engine.

        Returns:
            For each field, pairs of a value and its number of documents, most frequent first.
        """
        with self._database.transaction(write=False) as db:
            tables = find_tables(db, index)
            rows, _ = parse_query(query, tables, whole=True).clause.matches(self._view(db, tables))
            return count_values(read_sources(db, tables, rows.tolist()), fields, size)

    def document_counts(
        self, index: str, clauses: Sequence[Body], headers: Headers = None, skip_pipeline: bool = False
    ) -> list[int]:
        """Return how many documents of an index match each query clause.

        Args:
            index: The name of the index.
            clauses: The query clauses.
            headers: The HTTP headers of the caller, which this engine ignores.
            skip_pipeline: Ignored, because this engine stores no search pipelines.

        Returns:
            The numbers of documents, in the order of the clauses.
        """
        with self._database.transaction(write=False) as db:
            tables = find_tables(db, index)
            view = self._view(db, tables)
            return [parse_query(clause, tables, whole=True).clause.count(view) for clause in clauses]

    def drop(self, index: str) -> None:
        """Delete an index with all its documents."""
        with self._database.transaction() as db:
            drop_tables(db, find_tables(db, index))

    def refresh(self, index: str) -> None:
        """Check that an index exists. Nothing else is necessary, because every write is visible immediately.

        Raises:
            IndexNotFound: If the index does not exist.
        """
        self.info(index)

    def bulk(self, index: str, documents: Sequence[Document], vector_field: str = VECTOR_FIELD) -> list[Rejection]:
        """Index documents in a single transaction. Invalid documents are rejected, and all others are indexed.

        Args:
            index: The name of the index.
            documents: The documents. They replace existing documents with the same ids.
            vector_field: Ignored, because an index of this engine has a single vector field.

        Returns:
            A rejection for each invalid document.
        """
        rejected = []
        with self._database.transaction() as db:
            tables = find_tables(db, index)
            for position, document in enumerate(documents):
                reason = check_document(document, tables.meta.fields, tables.meta.dim)
                if reason is None:
                    write_document(db, tables, document)
                else:
                    rejected.append(Rejection(position, document.id, 400, reason))
            increment_changes(db, tables)
        return rejected

    def get(self, index: str, id: str) -> tuple[dict[str, Any], Any]:
        """Read a document by its id.

        Args:
            index: The name of the index.
            id: The id of the document.

        Returns:
            The fields of the document, and its version number.

        Raises:
            NotFound: If the index does not contain the document.
        """
        for document in self.scan(index, ids=[id]):
            return document.source, document.version
        raise NotFound(f"no document {id!r} in {index!r}", value=id, expected="the id of a document")

    def put_vectors(
        self, index: str, vectors: Sequence[tuple[str, Any, Floats]], vector_field: str = VECTOR_FIELD
    ) -> list[Rejection]:
        """Replace the vectors of documents, unless the documents have changed since they were read.

        Args:
            index: The name of the index.
            vectors: Tuples of a document id, the version of the document when it was read, and the new vector, of shape
                (n_dimensions,).
            vector_field: Ignored, because an index of this engine has a single vector field.

        Returns:
            A rejection for each document that was not updated.
        """
        with self._database.transaction() as db:
            tables = find_tables(db, index)
            written = [write_vector(db, tables, id, version, vector) for id, version, vector in vectors]
            increment_changes(db, tables)
        reason = "changed or deleted since it was read"
        return [Rejection(i, vectors[i][0], 409, reason) for i, success in enumerate(written) if not success]

    def scan(
        self,
        index: str,
        vector_field: str = VECTOR_FIELD,
        fields: Sequence[str] | None = None,
        missing: bool = False,
        ids: Sequence[str] | None = None,
        query: Body | None = None,
    ) -> Iterator[Document]:
        """Yield the documents of an index, with their vectors and version numbers.

        The caller may write to the index between two documents.

        Args:
            index: The name of the index.
            vector_field: Ignored, because an index of this engine has a single vector field.
            fields: The names of the fields to return, or None for all fields.
            missing: Whether to yield only documents without a vector.
            ids: If not None, yield only the documents with these ids.
            query: If not None, yield only the documents that match this query, best first.
        """
        if query is not None:
            matching_ids = self._matching_ids(index, query)
            for start in range(0, len(matching_ids), _PAGE):
                page = matching_ids[start : start + _PAGE]
                documents = {document.id: document for document in self.scan(index, fields=fields, ids=page)}
                yield from (documents[id] for id in page if id in documents)
            return
        last = 0
        condition = " AND vector IS NULL" if missing else ""
        values: tuple[str, ...] = ()
        if ids is not None:
            # Pass the ids as a JSON array, because SQLite limits the number of parameters of a statement.
            condition += " AND id IN (SELECT value FROM json_each(?))"
            values = (json.dumps(list(ids)),)
        # Read pages instead of using a cursor. The caller may write to the index between two documents, and an open
        # read would keep SQLite from truncating its log.
        while True:
            with self._database.transaction(write=False) as db:
                tables = find_tables(db, index)
                columns = "row, id, source, vector, version"
                sql = f"SELECT {columns} FROM {tables.documents} WHERE row > ?{condition} ORDER BY row LIMIT {_PAGE}"
                rows = db.execute(sql, (last, *values)).fetchall()
            for _, id, source, blob, version in rows:
                where = f"document {id!r}"
                vector = decode_vector(blob, tables.meta.dim, where)
                stored = parse_stored_object(source, where)
                shown = stored if fields is None else filter_source(stored, list(fields)) or {}
                yield Document(id, shown, vector, version)
            if not rows:
                return
            last = rows[-1][0]

    def delete(self, index: str, ids: Sequence[str]) -> int:
        """Delete documents by their ids, and return how many of them existed."""
        with self._database.transaction() as db:
            tables = find_tables(db, index)
            deleted = sum(delete_document(db, tables, id) for id in ids)
            increment_changes(db, tables)
        return deleted

    def search(self, index: str, body: Body, vectors: str | None = None, headers: Headers = None) -> SearchResult:
        """Run a search, and return its hits.

        Args:
            index: The name of the index.
            body: The search body in OpenSearch's format.
            vectors: The name of the vector field to return for each hit, or None for no vectors.
            headers: Ignored by this engine.
        """
        started = time.perf_counter()
        with self._database.transaction(write=False) as db:
            tables = find_tables(db, index)
            view, search = self._view(db, tables), parse_search(body, tables)
            (rows, scores), total = search.ranking(view)
            page = slice(search.start, search.start + search.size)
            hits, hit_vectors = search.hits(view, rows[page], scores[page], vectors is not None)
        response = {
            "took": round((time.perf_counter() - started) * 1000),
            "timed_out": False,
            "_shards": {"total": 1, "successful": 1, "skipped": 0, "failed": 0},
            "hits": {
                "total": {"value": total, "relation": "eq"},
                "max_score": float(scores[0]) if len(rows) and search.size else None,
                "hits": hits,
            },
        }
        return SearchResult(response, hit_vectors)

    def sample(
        self,
        index: str,
        size: int,
        source: Any = True,
        vectors: str | None = None,
        headers: Headers = None,
    ) -> SearchResult:
        """Return random documents of an index. The same arguments return the same documents.

        Args:
            index: The name of the index.
            size: The maximum number of documents.
            source: The value of ``_source``, which selects the returned fields.
            vectors: The name of the vector field to return, or None for no vectors.
            headers: Ignored by this engine.
        """
        with self._database.transaction(write=False) as db:
            tables = find_tables(db, index)
            # Knuth's multiplicative hashing: multiples of this constant are spread evenly over 32 bits.
            sql = f"SELECT id FROM {tables.documents} ORDER BY row * 2654435761 & 4294967295 LIMIT ?"
            ids = [id for (id,) in db.execute(sql, (size,))]
        return self.search(index, _ids_body(ids, size, source), vectors, headers=headers)

    def sample_matches(self, index: str, query: Body, size: int, source: Any = True, seed: int = 7) -> SearchResult:
        """Return random documents that match a query.

        Args:
            index: The name of the index.
            query: The query clause that the documents must match.
            size: The maximum number of documents.
            source: The value of ``_source``, which selects the returned fields.
            seed: The seed of the random selection.
        """
        matching_ids = self._matching_ids(index, query)
        ids = np.random.default_rng(seed).permutation(matching_ids)[:size].tolist()
        return self.search(index, _ids_body(ids, size, source))

    def _matching_ids(self, index: str, query: Body) -> list[str]:
        """Return the ids of all documents that match a query, in descending order of their scores."""
        with self._database.transaction(write=False) as db:
            tables = find_tables(db, index)
            view, search = self._view(db, tables), parse_search({"query": query, "_source": False}, tables)
            (rows, scores), _ = search.ranking(view)
            pages = (slice(start, start + _PAGE) for start in range(0, len(rows), _PAGE))
            return [hit["_id"] for page in pages for hit in search.hits(view, rows[page], scores[page], False)[0]]

    def _view(self, db: sqlite3.Connection, tables: IndexTables) -> IndexView:
        """Return a view of an index, in which query clauses look up documents, term statistics and vectors.

        A view shows the index as it is in the current transaction. Term statistics and vectors are cached between
        transactions. They are read again if the index has changed.

        Args:
            db: The connection with the open transaction.
            tables: The database tables of the index.
        """
        cache = self._caches.get(tables.number)
        if cache is None or cache.changes != tables.changes:
            cache = self._caches[tables.number] = IndexCache(db, tables)
        return IndexView(db, tables, cache)


def _ids_body(ids: Sequence[str], size: int, source: Any) -> Body:
    """Return an OpenSearch search body that retrieves documents by their ids.

    Args:
        ids: The ids of the documents.
        size: The maximum number of hits.
        source: The value of ``_source``, which selects the returned fields.
    """
    return {"query": {"ids": {"values": list(ids)}}, "size": size, "_source": source}
