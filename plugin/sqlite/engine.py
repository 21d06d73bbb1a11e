"""The embedded engine: BM25 by SQLite's FTS5 and exact k-NN over vectors, all in one file."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from resift.arrays import Floats
from resift.encoders.model import Model
from resift.errors import BadInput, EngineError, EngineUnavailable, NotFound, ResiftError
from resift.plugin.documents import (
    Document,
    IndexInfo,
    Rejection,
    SearchResult,
    check_document,
    check_index,
    index_meta,
)
from resift.plugin.engine import Engine, Headers
from resift.plugin.query_dsl import MAX_RESULTS, VECTOR_FIELD, Body, knn_body
from resift.plugin.sqlite.bm25 import matching_rows
from resift.plugin.sqlite.connection import connect
from resift.plugin.sqlite.hits import page_hits
from resift.plugin.sqlite.knn import ExactKnn
from resift.plugin.sqlite.query import natural_number, translate
from resift.plugin.sqlite.tables import (
    SCHEMA,
    count_change,
    create_tables,
    delete_document,
    drop_tables,
    find_tables,
    write_document,
)

_BODY_KEYS = {"query", "size", "from", "_source", "highlight", "track_total_hits"}
# What a value of another type than the query language has leads to, here or in SQLite.
_MALFORMED = (
    TypeError,
    AttributeError,
    ValueError,
    KeyError,
    OverflowError,
    sqlite3.InterfaceError,
    sqlite3.ProgrammingError,
)


class SqliteEngine(Engine):
    """An engine in the SQLite file at ``path``, which is created if there is none.

    A bulk request is a transaction. Threads and processes may share the file and the engine. Raises EngineUnavailable
    if the file cannot be opened.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._local = threading.local()
        self._knn = ExactKnn()
        with self._transaction() as db:
            db.execute(SCHEMA)

    @property
    def _db(self) -> sqlite3.Connection:
        """This thread's connection."""
        # A connection must not be carried across a fork: both processes would write to the file by the same locks and
        # damage it. Servers fork their workers after the engine is open, so the process is compared, too.
        if getattr(self._local, "pid", None) != os.getpid():
            try:
                db = connect(self.path)
                db.execute("PRAGMA journal_mode = WAL")
            except sqlite3.Error as error:
                raise EngineUnavailable(f"{self.path} cannot be opened: {error}", value=self.path) from error
            self._local.db, self._local.pid = db, os.getpid()
        connection: sqlite3.Connection = self._local.db
        return connection

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        db = self._db
        try:
            # IMMEDIATE waits for other writers here: a transaction that reads first and then writes would fail.
            db.execute("BEGIN IMMEDIATE")
            yield db
            db.execute("COMMIT")
        except sqlite3.DatabaseError as error:
            if db.in_transaction:  # some errors, such as a full disk, have ended it already
                db.execute("ROLLBACK")
            raise EngineUnavailable(f"{self.path}: {error}", value=self.path) from error
        except BaseException:
            db.execute("ROLLBACK")
            raise

    def close(self) -> None:
        """Close this thread's connection."""
        if getattr(self._local, "pid", None) == os.getpid():
            self._local.db.close()
            self._local.pid = None

    def ping(self) -> str:
        return f"SQLite {sqlite3.sqlite_version}"

    def create(self, index: str, fields: Sequence[str], model: Model, analyzer: str = "english") -> None:
        check_index(index, fields, analyzer)
        meta = {**index_meta(fields, model), "space": model.space_type}
        with self._transaction() as db:
            create_tables(db, index, meta, analyzer)

    def info(self, index: str, headers: Headers = None) -> IndexInfo:
        meta = find_tables(self._db, index).meta
        return IndexInfo(index, tuple(meta["fields"]), meta["model"], meta["model_name"], meta["dim"])

    def drop(self, index: str) -> None:
        tables = find_tables(self._db, index)
        with self._transaction() as db:
            drop_tables(db, tables)

    def refresh(self, index: str) -> None:
        find_tables(self._db, index)

    def bulk(self, index: str, documents: Sequence[Document]) -> list[Rejection]:
        tables = find_tables(self._db, index)
        rejected = []
        with self._transaction() as db:
            for position, document in enumerate(documents):
                reason = check_document(document, tables.fields, tables.dim)
                if reason is None:
                    write_document(db, tables, document)
                else:
                    rejected.append(Rejection(position, document.id, 400, reason))
            count_change(db, tables)
        return rejected

    def get(self, index: str, id: str) -> tuple[dict[str, Any], Any]:
        tables = find_tables(self._db, index)
        row = self._db.execute(f"SELECT source, version FROM {tables.documents} WHERE id = ?", (id,)).fetchone()
        if row is None:
            raise NotFound(f"no document {id!r} in {index!r}", value=id, expected="the id of a document")
        return json.loads(row[0]), row[1]

    def put(self, index: str, document: Document, version: Any) -> bool:
        tables = find_tables(self._db, index)
        reason = check_document(document, tables.fields, tables.dim)
        if reason is not None:
            raise EngineError(reason, status=400, value=document.id)
        with self._transaction() as db:
            row = db.execute(f"SELECT version FROM {tables.documents} WHERE id = ?", (document.id,)).fetchone()
            if row is None or row[0] != version:
                return False
            write_document(db, tables, document)
            count_change(db, tables)
        return True

    def scan(self, index: str) -> Iterator[tuple[str, dict[str, Any], Floats | None]]:
        tables = find_tables(self._db, index)
        last = 0
        # By pages instead of one cursor, since the caller may write to the index between two documents, and a read that
        # stays open keeps SQLite from clearing its log.
        while True:
            sql = f"SELECT row, id, source, vector FROM {tables.documents} WHERE row > ? ORDER BY row LIMIT 500"
            rows = self._db.execute(sql, (last,)).fetchall()
            for _, id, source, blob in rows:
                yield id, json.loads(source), None if blob is None else np.frombuffer(blob, "<f4")
            if not rows:
                return
            last = rows[-1][0]

    def delete(self, index: str, ids: Sequence[str]) -> int:
        tables = find_tables(self._db, index)
        with self._transaction() as db:
            deleted = sum(delete_document(db, tables, id) for id in ids)
            count_change(db, tables)
        return deleted

    def search(self, index: str, body: Body, vectors: bool = False, headers: Headers = None) -> SearchResult:
        started = time.perf_counter()
        try:
            result = self._search(index, body, vectors)
        except ResiftError:
            raise
        except _MALFORMED as error:
            raise BadInput(
                f"malformed search body: {error}", value=body, expected="OpenSearch's query language"
            ) from error
        result.response["took"] = round((time.perf_counter() - started) * 1000)
        return result

    def _search(self, index: str, body: Body, vectors: bool) -> SearchResult:
        db = self._db
        tables = find_tables(db, index)
        start, size = _checked_page(body)
        query = body.get("query", {"match_all": {}})
        if isinstance(query, dict) and set(query) == {"knn"}:
            scored = self._knn.nearest_rows(db, tables, query["knn"])
        else:
            scored = matching_rows(db, tables, translate(query, tables.fields, tables.words))
        hits, hit_vectors = page_hits(db, tables, body, scored[start : start + size])
        response = {
            "took": 0,
            "timed_out": False,
            "_shards": {"total": 1, "successful": 1, "skipped": 0, "failed": 0},
            "hits": {
                "total": {"value": len(scored), "relation": "eq"},
                "max_score": scored[0][1] if scored else None,
                "hits": hits,
            },
        }
        return SearchResult(response, hit_vectors if vectors else [None] * len(hits))

    def masked_body(
        self, vector: Floats, mask: Floats, similarity: str, size: int, filter: Body | None = None, source: Any = True
    ) -> Body:
        """A ``knn`` clause with ``mask`` and ``similarity`` added, which :class:`ExactKnn` understands."""
        body = knn_body(vector, size, filter, source)
        body["query"]["knn"][VECTOR_FIELD] |= {"mask": np.asarray(mask, np.float32).tolist(), "similarity": similarity}
        return body


def _checked_page(body: Body) -> tuple[int, int]:
    """The ``from`` and ``size`` of a body. Raises BadInput for what the embedded engine does not know or give."""
    unknown = sorted(set(body) - _BODY_KEYS)
    if unknown:
        expected = " | ".join(sorted(_BODY_KEYS))
        raise BadInput(f"the embedded engine does not know {unknown}", value=unknown[0], expected=expected)
    size, start = natural_number(body, "size", 10), natural_number(body, "from", 0)
    if size + start > MAX_RESULTS:
        raise BadInput(f"from + size is {size + start}", value=size + start, expected=f"at most {MAX_RESULTS}")
    return start, size
