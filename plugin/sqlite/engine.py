"""The embedded engine: BM25 by SQLite's FTS5 and exact k-NN over vectors, all in one file."""

from __future__ import annotations

import html
import json
import os
import re
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from resift.arrays import Floats
from resift.encoders.model import Model
from resift.errors import BadInput, EngineError, EngineUnavailable, IndexNotFound, NotFound, ResiftError
from resift.plugin.documents import Document, IndexInfo, Rejection, SearchResult, check_document, check_index
from resift.plugin.engine import OVERSAMPLING, Engine
from resift.plugin.query_dsl import VECTOR_FIELD, document_text, filter_source, knn_body, names_vector
from resift.plugin.sqlite.query import Condition, translate
from resift.text import UNSPACED
from resift.vectors.similarity import SIMILARITIES

_SCHEMA = """
CREATE TABLE IF NOT EXISTS indices (
    number INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE NOT NULL,
    meta TEXT NOT NULL, changes INTEGER NOT NULL DEFAULT 0
)"""
_BODY = {"query", "size", "from", "_source", "highlight", "track_total_hits"}
_MAX_WINDOW = 10_000
# what a value of another type than the query language has leads to, here or in SQLite
_MALFORMED = (
    TypeError,
    AttributeError,
    ValueError,
    KeyError,
    OverflowError,
    sqlite3.InterfaceError,
    sqlite3.ProgrammingError,
)
_SPACED = re.compile(f"([{UNSPACED}])")
_EDGE, _OPEN, _CLOSE = "\u200b", "\ue000", "\ue001"


class SqliteEngine(Engine):
    """An engine in one SQLite file. A bulk request is a transaction; threads and processes may share the file."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._local = threading.local()
        self._matrices: dict[str, tuple[tuple[int, int], list[int], Floats]] = {}
        with self._transaction() as db:
            db.execute(_SCHEMA)

    @property
    def _db(self) -> sqlite3.Connection:
        if getattr(self._local, "pid", None) != os.getpid():
            try:
                db = sqlite3.connect(self.path, timeout=30, isolation_level=None)
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
            db.execute("BEGIN IMMEDIATE")
            yield db
            db.execute("COMMIT")
        except sqlite3.DatabaseError as error:
            if db.in_transaction:
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
        meta = {
            "fields": list(fields),
            "model": model.hash,
            "model_name": model.name,
            "dim": model.dim,
            "space": model.space_type,
        }
        tokenizer = "porter unicode61" if analyzer == "english" else "unicode61"
        columns = ", ".join(f"c{i}" for i in range(len(fields)))
        with self._transaction() as db:
            try:
                row = db.execute("INSERT INTO indices (name, meta) VALUES (?, ?)", (index, json.dumps(meta)))
            except sqlite3.IntegrityError:
                raise EngineError(f"index {index!r} exists already", status=400, value=index) from None
            number = row.lastrowid
            db.execute(
                f"CREATE TABLE documents_{number} (row INTEGER PRIMARY KEY, id TEXT UNIQUE NOT NULL, "
                "source TEXT NOT NULL, vector BLOB, version INTEGER NOT NULL)"
            )
            db.execute(f"CREATE VIRTUAL TABLE words_{number} USING fts5({columns}, tokenize = '{tokenizer}')")

    def _find(self, index: str) -> tuple[int, dict[str, Any], int]:
        row = self._db.execute("SELECT number, meta, changes FROM indices WHERE name = ?", (index,)).fetchone()
        if row is None:
            raise IndexNotFound(f"no index {index!r}", value=index, expected=self._names())
        return row[0], json.loads(row[1]), row[2]

    def _names(self) -> str:
        names = [name for (name,) in self._db.execute("SELECT name FROM indices ORDER BY name LIMIT 20")]
        return " | ".join(names) or "an index made by: resift index"

    def info(self, index: str, headers: Mapping[str, str] | None = None) -> IndexInfo:
        _, meta, _ = self._find(index)
        return IndexInfo(index, tuple(meta["fields"]), meta["model"], meta["model_name"], meta["dim"])

    def drop(self, index: str) -> None:
        number, _, _ = self._find(index)
        with self._transaction() as db:
            db.execute(f"DROP TABLE documents_{number}")
            db.execute(f"DROP TABLE words_{number}")
            db.execute("DELETE FROM indices WHERE number = ?", (number,))

    def refresh(self, index: str) -> None:
        self._find(index)

    def bulk(self, index: str, documents: Sequence[Document]) -> list[Rejection]:
        number, meta, _ = self._find(index)
        rejected = []
        with self._transaction() as db:
            for position, document in enumerate(documents):
                reason = check_document(document, meta["fields"], meta["dim"])
                if reason is None:
                    self._write(db, number, meta["fields"], document)
                else:
                    rejected.append(Rejection(position, document.id, 400, reason))
            self._changed(db, number)
        return rejected

    @staticmethod
    def _write(db: sqlite3.Connection, number: int, fields: list[str], document: Document) -> None:
        vector = None if document.vector is None else np.asarray(document.vector, "<f4").tobytes()
        source = json.dumps(document.source, ensure_ascii=False)
        ((row,),) = db.execute(
            f"INSERT INTO documents_{number} (id, source, vector, version) VALUES (?, ?, ?, 1) "
            "ON CONFLICT (id) DO UPDATE SET source = excluded.source, vector = excluded.vector, "
            "version = version + 1 RETURNING row",
            (document.id, source, vector),
        ).fetchall()
        texts = [_SPACED.sub(f"{_EDGE}\\1{_EDGE}", document_text(document.source, [name])) for name in fields]
        db.execute(f"DELETE FROM words_{number} WHERE rowid = ?", (row,))
        marks = ", ".join("?" * (len(fields) + 1))
        columns = ", ".join(f"c{i}" for i in range(len(fields)))
        db.execute(f"INSERT INTO words_{number} (rowid, {columns}) VALUES ({marks})", (row, *texts))

    @staticmethod
    def _changed(db: sqlite3.Connection, number: int) -> None:
        db.execute("UPDATE indices SET changes = changes + 1 WHERE number = ?", (number,))

    def get(self, index: str, id: str) -> tuple[dict[str, Any], Any]:
        number, _, _ = self._find(index)
        row = self._db.execute(f"SELECT source, version FROM documents_{number} WHERE id = ?", (id,)).fetchone()
        if row is None:
            raise NotFound(f"no document {id!r} in {index!r}", value=id, expected="the id of a document")
        return json.loads(row[0]), row[1]

    def put(self, index: str, document: Document, version: Any) -> bool:
        number, meta, _ = self._find(index)
        reason = check_document(document, meta["fields"], meta["dim"])
        if reason is not None:
            raise EngineError(reason, status=400, value=document.id)
        with self._transaction() as db:
            row = db.execute(f"SELECT version FROM documents_{number} WHERE id = ?", (document.id,)).fetchone()
            if row is None or row[0] != version:
                return False
            self._write(db, number, meta["fields"], document)
            self._changed(db, number)
        return True

    def scan(self, index: str) -> Iterator[tuple[str, dict[str, Any], Floats | None]]:
        number, _, _ = self._find(index)
        last = 0
        while True:
            sql = f"SELECT row, id, source, vector FROM documents_{number} WHERE row > ? ORDER BY row LIMIT 500"
            rows = self._db.execute(sql, (last,)).fetchall()
            for _, id, source, blob in rows:
                yield id, json.loads(source), None if blob is None else np.frombuffer(blob, "<f4")
            if not rows:
                return
            last = rows[-1][0]

    def delete(self, index: str, ids: Sequence[str]) -> int:
        number, _, _ = self._find(index)
        deleted = 0
        with self._transaction() as db:
            for id in ids:
                for (row,) in db.execute(
                    f"DELETE FROM documents_{number} WHERE id = ? RETURNING row", (id,)
                ).fetchall():
                    db.execute(f"DELETE FROM words_{number} WHERE rowid = ?", (row,))
                    deleted += 1
            self._changed(db, number)
        return deleted

    def search(
        self,
        index: str,
        body: dict[str, Any],
        vectors: bool = False,
        headers: Mapping[str, str] | None = None,
    ) -> SearchResult:
        started = time.perf_counter()
        try:
            return self._search(index, body, vectors, started)
        except ResiftError:
            raise
        except _MALFORMED as error:
            raise BadInput(
                f"malformed search body: {error}", value=body, expected="OpenSearch's query language"
            ) from error

    def _search(self, index: str, body: dict[str, Any], vectors: bool, started: float) -> SearchResult:
        number, meta, changes = self._find(index)
        unknown = set(body) - _BODY
        if unknown:
            raise BadInput(
                f"the embedded engine does not know {sorted(unknown)}",
                value=sorted(unknown)[0],
                expected=" | ".join(sorted(_BODY)),
            )
        size, start = _natural(body, "size", 10), _natural(body, "from", 0)
        if size + start > _MAX_WINDOW:
            raise BadInput(f"from + size is {size + start}", value=size + start, expected=f"at most {_MAX_WINDOW}")
        query = body.get("query", {"match_all": {}})
        if isinstance(query, dict) and set(query) == {"knn"}:
            scored = self._nearest(number, changes, meta, query["knn"])
        else:
            scored = self._matching(number, translate(query, meta["fields"], f"words_{number}"))
        hits, found = self._hits(index, number, meta["fields"], body, scored[start : start + size])
        response = {
            "took": round((time.perf_counter() - started) * 1000),
            "timed_out": False,
            "_shards": {"total": 1, "successful": 1, "skipped": 0, "failed": 0},
            "hits": {
                "total": {"value": len(scored), "relation": "eq"},
                "max_score": scored[0][1] if scored else None,
                "hits": hits,
            },
        }
        return SearchResult(response, found if vectors else [None] * len(hits))

    def masked_body(
        self,
        vector: Floats,
        mask: Floats,
        similarity: str,
        size: int,
        filter: dict[str, Any] | None = None,
        source: Any = True,
    ) -> dict[str, Any]:
        body = knn_body(vector, size, filter, source)
        body["query"]["knn"][VECTOR_FIELD] |= {"mask": np.asarray(mask, np.float32).tolist(), "similarity": similarity}
        return body

    def _matching(self, number: int, condition: Condition) -> list[tuple[int, float]]:
        """Rows and scores of all matches, best first: BM25 where there is a text, else 1."""
        if condition.match is None and not condition.more:
            sql = f"SELECT d.row, 1.0 FROM documents_{number} d WHERE {condition.where} ORDER BY d.row"
            return self._db.execute(sql, condition.values).fetchall()
        sql = f"SELECT w.rowid, -bm25(words_{number}) FROM words_{number} w "
        filtered = (
            f"{sql} JOIN documents_{number} d ON d.row = w.rowid WHERE words_{number} MATCH ? AND {condition.where}"
        )
        scores: dict[int, float] = {}
        if condition.match is not None:
            expression, boost = condition.match
            for row, score in self._db.execute(filtered, (expression, *condition.values)):
                scores[row] = boost * score
        for expression, boost in condition.more:
            if condition.match is None:
                for row, score in self._db.execute(filtered, (expression, *condition.values)):
                    scores[row] = scores.get(row, 0.0) + boost * score
            else:
                for row, score in self._db.execute(f"{sql} WHERE words_{number} MATCH ?", (expression,)):
                    if row in scores:
                        scores[row] += boost * score
        return sorted(scores.items(), key=lambda one: (-one[1], one[0]))

    def _nearest(self, number: int, changes: int, meta: dict[str, Any], query: Any) -> list[tuple[int, float]]:
        """Exact k-NN in the model's space; scores are Lucene's, for inner product and l2.

        With a ``mask`` the best OVERSAMPLING · k of them are scored again, as OpenSearch's rescore does.
        """
        clause = query.get(VECTOR_FIELD) if isinstance(query, dict) else None
        known = {"vector", "k", "filter", "mask", "similarity"}
        if not isinstance(clause, dict) or not {"vector", "k"} <= set(clause) <= known:
            raise BadInput(
                "malformed knn query",
                value=query,
                expected=f'{{"{VECTOR_FIELD}": {{"vector", "k", "filter"}}}}',
            )
        vector, mask = (np.asarray(clause.get(name, [1.0] * meta["dim"]), np.float32) for name in ("vector", "mask"))
        for name, given in (("query vector", vector), ("mask", mask)):
            if given.shape != (meta["dim"],) or not np.isfinite(given).all():
                raise BadInput(f"{name} of shape {given.shape}", expected=f"{meta['dim']} finite numbers")
        rows, matrix = self._matrix(number, changes, meta["dim"])
        if meta["space"] == "l2":
            scores = 1 / (1 + ((matrix - vector) ** 2).sum(axis=1))
        else:
            product = matrix @ (mask**2 * vector)
            scores = np.where(product > 0, product + 1, 1 / (1 - np.minimum(product, 0)))
        order = np.argsort(-scores, kind="stable")
        if clause.get("filter") is not None:
            condition = translate(clause["filter"], meta["fields"], f"words_{number}")
            allowed = {row for row, _ in self._matching(number, condition)}
            order = np.asarray([i for i in order if rows[i] in allowed], np.int64)
        size = _natural(clause, "k", 10)
        if "mask" in clause:
            order, similarity = order[: size * OVERSAMPLING], clause["similarity"]
            scores[order] = SIMILARITIES[similarity](mask * vector, mask * matrix[order]) + (similarity == "cosine")
            order = order[np.argsort(-scores[order], kind="stable")]
        return [(rows[i], float(scores[i])) for i in order[:size]]

    def _matrix(self, number: int, changes: int, dim: int) -> tuple[list[int], Floats]:
        cached = self._matrices.get(str(number))
        if cached is None or cached[0] != (changes, dim):
            found = self._db.execute(
                f"SELECT row, vector FROM documents_{number} WHERE vector IS NOT NULL ORDER BY row"
            ).fetchall()
            matrix = np.frombuffer(b"".join(blob for _, blob in found), "<f4").reshape(len(found), dim)
            cached = ((changes, dim), [row for row, _ in found], matrix)
            self._matrices[str(number)] = cached
        return cached[1], cached[2]

    def _hits(
        self, index: str, number: int, fields: list[str], body: dict[str, Any], page: list[tuple[int, float]]
    ) -> tuple[list[dict[str, Any]], list[Floats | None]]:
        rows = ", ".join(str(row) for row, _ in page)
        sql = f"SELECT row, id, source, vector FROM documents_{number} WHERE row IN ({rows})"
        stored = {row: rest for row, *rest in self._db.execute(sql)}
        highlights = self._highlights(number, fields, body, rows) if body.get("highlight") else {}
        hits, vectors = [], []
        for row, score in page:
            id, text, blob = stored[row]
            vector = None if blob is None else np.frombuffer(blob, "<f4")
            source = json.loads(text)
            if names_vector(body.get("_source")) and vector is not None:
                source[VECTOR_FIELD] = vector.tolist()
            hit = {
                "_index": index,
                "_id": id,
                "_score": score,
                "_source": filter_source(source, body.get("_source")),
            }
            if row in highlights:
                hit["highlight"] = highlights[row]
            hits.append({key: value for key, value in hit.items() if value is not None})
            vectors.append(vector)
        return hits, vectors

    def _highlights(
        self, number: int, fields: list[str], body: dict[str, Any], rows: str
    ) -> dict[int, dict[str, list[str]]]:
        """A fragment of each asked-for field that holds a word of the query, the words between the tags."""
        wanted = [name for name in body["highlight"].get("fields", {}) if name in fields]
        match = translate(body.get("query", {}), fields, f"words_{number}").words
        if match is None or not wanted or not rows:
            return {}
        settings = body["highlight"]
        before, after = settings.get("pre_tags", ["<em>"])[0], settings.get("post_tags", ["</em>"])[0]
        escape = html.escape if settings.get("encoder") == "html" else str
        columns = ", ".join(f"snippet(words_{number}, {fields.index(name)}, ?, ?, '…', 40)" for name in wanted)
        sql = f"SELECT rowid, {columns} FROM words_{number} WHERE words_{number} MATCH ? AND rowid IN ({rows})"
        return {
            row: {
                name: [escape(text.replace(_EDGE, "")).replace(_OPEN, before).replace(_CLOSE, after)]
                for name, text in zip(wanted, texts, strict=True)
                if _OPEN in (text or "")
            }
            for row, *texts in self._db.execute(sql, (*[_OPEN, _CLOSE] * len(wanted), match))
        }


def _natural(body: Mapping[str, Any], name: str, default: int) -> int:
    value = body.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise BadInput(f"{name} is {value!r}", value=value, expected="a whole number, 0 or more")
    return value
