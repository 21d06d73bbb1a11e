"""The tables of the embedded engine: a row of ``indices`` for each index, and four tables of its own.

``documents_N`` holds the documents of index number N. ``words_N``, an FTS5 table, holds the terms of their text fields
in the order of the text, joined by blanks, one column c0, c1, … a field; ``postings_N`` reads it term by term; and
``lengths_N`` says how many terms each field has. The same document has the same row everywhere.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.contracts.documents import ANALYZERS, Document, IndexInfo, VectorField
from resift.contracts.tuning import Tuning
from resift.embedded.analysis import terms_of
from resift.errors import CorruptEngine, EngineError, IndexNotFound
from resift.query.dsl import VECTOR_FIELD, document_text

Rows = NDArray[np.int64]  # of documents
Scores = NDArray[np.float32]
Matches = tuple[Rows, Scores]  # the rows that match something, and their scores

FORMAT = 2  # of the whole file, kept as user_version; it counts up when what is stored changes
SCHEMA = (
    "CREATE TABLE IF NOT EXISTS indices (number INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE NOT NULL, "
    "meta TEXT NOT NULL, changes INTEGER NOT NULL DEFAULT 0)",
)
_ROWS_AT_ONCE = 500
# The terms are made by us; FTS5 is only to part them at the blanks, so all other signs of ASCII belong to a term.
_SIGNS = "".join(chr(point) for point in range(33, 127) if not chr(point).isalnum())
_TOKENIZER = "ascii tokenchars '{}'".format(_SIGNS.replace("'", "''"))


class Meta(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an index records of itself: its text fields, the hash and the name of its model, the length K and the k-NN
    space of its vectors, its analyser, and what was chosen for its searches (:class:`Tuning`), if anything."""

    fields: tuple[str, ...]
    model: str
    model_name: str
    dim: int
    space: str
    analyzer: Literal[ANALYZERS]  # type: ignore[valid-type]
    tuning: Any = None


class IndexTables:
    """An index's row of ``indices``: its number, what it records of itself, and its count of changes; and the names of
    its tables, and of the text fields' columns in them."""

    def __init__(self, name: str, number: int, meta: Meta, changes: int) -> None:
        self.name, self.number, self.meta, self.changes = name, number, meta, changes
        self.documents, self.words = f"documents_{number}", f"words_{number}"
        self.postings, self.lengths = f"postings_{number}", f"lengths_{number}"
        self.columns = [f"c{i}" for i in range(len(meta.fields))]

    def info(self) -> IndexInfo:
        """What the index records about itself."""
        meta, own = self.meta, (self.name,)
        mapped = {VECTOR_FIELD: VectorField(VECTOR_FIELD, dim=meta.dim, space=meta.space)}
        tuning = Tuning.from_json(meta.tuning)
        return IndexInfo(
            self.name, meta.fields, meta.model, meta.model_name, meta.dim, own, vector_fields=mapped, tuning=tuning
        )


def create_tables(db: sqlite3.Connection, index: str, meta: Meta) -> None:
    """Create the tables of an index. Raises EngineError with status 400 if there is another one of that name.

    One that has the same ``meta`` is left as it is.
    """
    row = db.execute("INSERT OR IGNORE INTO indices (name, meta) VALUES (?, ?)", (index, _json(meta)))
    if row.rowcount == 0:
        if replace(find_tables(db, index).meta, tuning=None) != meta:
            raise EngineError(f"index {index!r} exists already, and is another one", status=400, value=index)
        return
    tables = IndexTables(index, int(row.lastrowid or 0), meta, 0)
    db.execute(
        f"CREATE TABLE {tables.documents} (row INTEGER PRIMARY KEY, id TEXT UNIQUE NOT NULL, "
        "source TEXT NOT NULL, vector BLOB, version INTEGER NOT NULL)"
    )
    columns = ", ".join(tables.columns)
    tokenizer = _TOKENIZER.replace("'", "''")
    db.execute(f"CREATE VIRTUAL TABLE {tables.words} USING fts5({columns}, tokenize = '{tokenizer}')")
    db.execute(f"CREATE VIRTUAL TABLE {tables.postings} USING fts5vocab({tables.words}, instance)")
    lengths = ", ".join(f"{column} INTEGER NOT NULL" for column in tables.columns)
    db.execute(f"CREATE TABLE {tables.lengths} (row INTEGER PRIMARY KEY, {lengths})")


def _json(meta: Meta) -> str:
    return msgspec.json.encode(meta).decode()


def find_tables(db: sqlite3.Connection, index: str) -> IndexTables:
    """The tables of an index. Raises IndexNotFound."""
    row = db.execute("SELECT number, meta, changes FROM indices WHERE name = ?", (index,)).fetchone()
    if row is None:
        names = [name for (name,) in db.execute("SELECT name FROM indices ORDER BY name LIMIT 20")]
        expected = " | ".join(map(str, names)) or "an index made by: resift index"
        raise IndexNotFound(f"no index {index!r}", value=index, expected=expected)
    try:
        meta = msgspec.json.decode(row[1], type=Meta)
    except (TypeError, ValueError) as error:
        raise CorruptEngine(f"index {index!r} is damaged: {error}", value=index) from error
    return IndexTables(index, row[0], meta, row[2])


def tune(db: sqlite3.Connection, tables: IndexTables, tuning: Tuning | None) -> None:
    """Keep what was chosen for an index; None: forget it."""
    meta = replace(tables.meta, tuning=None if tuning is None else tuning.to_json())
    db.execute("UPDATE indices SET meta = ? WHERE name = ?", (_json(meta), tables.name))


def drop_tables(db: sqlite3.Connection, tables: IndexTables) -> None:
    """Drop the tables of an index, and forget it."""
    for table in (tables.postings, tables.words, tables.lengths, tables.documents):
        db.execute(f"DROP TABLE {table}")
    db.execute("DELETE FROM indices WHERE number = ?", (tables.number,))


def count_change(db: sqlite3.Connection, tables: IndexTables) -> None:
    """Note that documents changed, so that every process reads vectors and lengths again."""
    db.execute("UPDATE indices SET changes = changes + 1 WHERE number = ?", (tables.number,))


def write_document(db: sqlite3.Connection, tables: IndexTables, document: Document) -> None:
    """Write a document, over the one with its id if there is one."""
    vector = None if document.vector is None else np.asarray(document.vector, "<f4").tobytes()
    source = json.dumps(document.source, ensure_ascii=False)
    # RETURNING gives the row of an updated document too, which lastrowid does not.
    ((row,),) = db.execute(
        f"INSERT INTO {tables.documents} (id, source, vector, version) VALUES (?, ?, ?, 1) "
        "ON CONFLICT (id) DO UPDATE SET source = excluded.source, vector = excluded.vector, "
        "version = version + 1 RETURNING row",
        (document.id, source, vector),
    ).fetchall()
    _write_words(db, tables, row, document.source)


def write_vector(db: sqlite3.Connection, tables: IndexTables, id: str, version: int, vector: Floats) -> bool:
    """Give a document another vector if it still has ``version``; whether it had."""
    sql = f"UPDATE {tables.documents} SET vector = ?, version = version + 1 WHERE id = ? AND version = ?"
    return db.execute(sql, (np.asarray(vector, "<f4").tobytes(), id, version)).rowcount == 1


def _write_words(db: sqlite3.Connection, tables: IndexTables, row: int, source: dict[str, Any]) -> None:
    """Index the text fields of a document, in place of what was indexed of its row."""
    terms = [terms_of(document_text(source, [name]), tables.meta.analyzer) for name in tables.meta.fields]
    columns, marks = ", ".join(tables.columns), ", ".join("?" * (len(terms) + 1))
    db.execute(f"DELETE FROM {tables.words} WHERE rowid = ?", (row,))
    db.execute(f"INSERT INTO {tables.words} (rowid, {columns}) VALUES ({marks})", (row, *map(" ".join, terms)))
    db.execute(f"INSERT OR REPLACE INTO {tables.lengths} VALUES ({marks})", (row, *map(len, terms)))


def delete_document(db: sqlite3.Connection, tables: IndexTables, id: str) -> bool:
    """Delete a document; whether there was one."""
    rows = db.execute(f"DELETE FROM {tables.documents} WHERE id = ? RETURNING row", (id,)).fetchall()
    db.executemany(f"DELETE FROM {tables.words} WHERE rowid = ?", rows)
    db.executemany(f"DELETE FROM {tables.lengths} WHERE row = ?", rows)
    return bool(rows)


def stored_object(text: Any, where: str) -> dict[str, Any]:
    """A JSON object as it was stored. Raises CorruptEngine if it is none."""
    try:
        value = json.loads(text)
    except (TypeError, ValueError) as error:
        raise CorruptEngine(f"{where} is damaged: {error}", value=where) from error
    if not isinstance(value, dict):
        raise CorruptEngine(f"{where} is damaged: no JSON object", value=where)
    return value


def stored_sources(db: sqlite3.Connection, tables: IndexTables, rows: Sequence[int]) -> Iterator[dict[str, Any]]:
    """The fields of the documents in these rows, in their order."""
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        chosen = rows[start : start + _ROWS_AT_ONCE]
        sql = f"SELECT row, source FROM {tables.documents} WHERE row IN ({', '.join(map(str, chosen))})"
        sources = dict(db.execute(sql).fetchall())
        yield from (stored_object(sources.get(row), f"row {row}") for row in chosen)


def stored_vector(blob: Any, dim: int, where: str) -> Floats | None:
    """A vector (K,) as it was stored. Raises CorruptEngine if it has not ``dim`` numbers."""
    if blob is None:
        return None
    if not isinstance(blob, bytes) or len(blob) != 4 * dim:
        raise CorruptEngine(f"the vector of {where} is damaged", value=where, expected=f"{dim} numbers")
    return np.frombuffer(blob, "<f4")
