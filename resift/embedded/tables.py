"""The tables of the embedded engine.

The table ``indices`` has a row for each index. The index with the number N has four tables of its own, in which a
document has the same row number:

- ``documents_N`` contains the documents.
- ``words_N``, an FTS5 table, contains the terms of the text fields in the order of the text, joined by blanks. Its
  columns c0, c1, … are the text fields.
- ``postings_N`` gives access to ``words_N`` by term.
- ``lengths_N`` contains the number of terms of each text field.
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

Rows = NDArray[np.int64]  # row numbers of documents
Scores = NDArray[np.float32]
Matches = tuple[Rows, Scores]  # the rows of matching documents, and their scores

FORMAT = 2  # version of the file format, stored as user_version
SCHEMA = (
    "CREATE TABLE IF NOT EXISTS indices (number INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE NOT NULL, "
    "meta TEXT NOT NULL, changes INTEGER NOT NULL DEFAULT 0)",
)
_ROWS_AT_ONCE = 500  # number of documents that are read with a single statement
# Texts are already analyzed. FTS5 must split them at blanks only, so all other ASCII characters are part of a term.
_TOKEN_CHARACTERS = "".join(chr(point) for point in range(33, 127) if not chr(point).isalnum())
_TOKENIZER = "ascii tokenchars '{}'".format(_TOKEN_CHARACTERS.replace("'", "''"))


class IndexSettings(msgspec.Struct, frozen=True, omit_defaults=True):
    """The settings of an index, as they are stored in the database.

    Attributes:
        fields: The names of the text fields.
        model: The hash that identifies the embedding model.
        model_name: The name of the embedding model.
        dim: The number of dimensions of the vectors.
        space: The name of the k-NN space, which defines the similarity of vectors.
        analyzer: The name of the analyzer of the text fields.
        tuning: Search settings that were chosen for this index (:class:`resift.contracts.tuning.Tuning`) as JSON, or
            None.
    """

    fields: tuple[str, ...]
    model: str
    model_name: str
    dim: int
    space: str
    analyzer: Literal[ANALYZERS]  # type: ignore[valid-type]
    tuning: Any = None


class IndexTables:
    """The settings of an index, and the names of the database tables that contain its data.

    Attributes:
        name: The name of the index.
        number: The number of the index, which is part of the table names.
        meta: The settings of the index.
        changes: The number of write requests to the index so far. When the number increases, cached data is stale.
        documents: The name of the table of documents.
        words: The name of the FTS5 table, which contains the terms of each document.
        postings: The name of the table of postings, which finds the documents of a term.
        lengths: The name of the table of text lengths.
        columns: The names of the columns for the text fields in ``words`` and ``lengths``.
    """

    def __init__(self, name: str, number: int, meta: IndexSettings, changes: int) -> None:
        self.name = name
        self.number = number
        self.meta = meta
        self.changes = changes
        self.documents = f"documents_{number}"
        self.words = f"words_{number}"
        self.postings = f"postings_{number}"
        self.lengths = f"lengths_{number}"
        self.columns = [f"c{i}" for i in range(len(meta.fields))]

    def info(self) -> IndexInfo:
        """Return the description of the index."""
        meta = self.meta
        return IndexInfo(
            name=self.name,
            fields=meta.fields,
            model=meta.model,
            model_name=meta.model_name,
            dim=meta.dim,
            indices=(self.name,),
            vector_fields={VECTOR_FIELD: VectorField(VECTOR_FIELD, dim=meta.dim, space=meta.space)},
            tuning=Tuning.from_json(meta.tuning),
        )


def create_tables(db: sqlite3.Connection, index: str, meta: IndexSettings) -> None:
    """Create the tables of a new index. If the index already exists with the same settings, do nothing.

    Args:
        db: The database connection.
        index: The name of the index.
        meta: The settings of the index.

    Raises:
        EngineError: With status 400, if the index exists with other settings.
    """
    row = db.execute("INSERT OR IGNORE INTO indices (name, meta) VALUES (?, ?)", (index, _json(meta)))
    if row.rowcount == 0:
        if replace(find_tables(db, index).meta, tuning=None) != meta:
            raise EngineError(f"index {index!r} already exists with other settings", status=400, value=index)
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


def _json(meta: IndexSettings) -> str:
    return msgspec.json.encode(meta).decode()


def find_tables(db: sqlite3.Connection, index: str) -> IndexTables:
    """Look up an index, and return its settings and the names of its tables.

    Args:
        db: The database connection.
        index: The name of the index.

    Raises:
        IndexNotFound: If the index does not exist.
        CorruptEngine: If the stored settings are damaged.
    """
    row = db.execute("SELECT number, meta, changes FROM indices WHERE name = ?", (index,)).fetchone()
    if row is None:
        names = [name for (name,) in db.execute("SELECT name FROM indices ORDER BY name LIMIT 20")]
        expected = " | ".join(map(str, names)) or "an index created with: resift index"
        raise IndexNotFound(f"no index {index!r}", value=index, expected=expected)
    try:
        meta = msgspec.json.decode(row[1], type=IndexSettings)
    except (TypeError, ValueError) as error:
        raise CorruptEngine(f"index {index!r} is damaged: {error}", value=index) from error
    return IndexTables(index, row[0], meta, row[2])


def store_tuning(db: sqlite3.Connection, tables: IndexTables, tuning: Tuning | None) -> None:
    """Store search settings with an index, such as the weight of vector similarity, or delete the stored settings.

    Args:
        db: The database connection.
        tables: The database tables of the index.
        tuning: The settings, or None to delete the stored settings.
    """
    meta = replace(tables.meta, tuning=None if tuning is None else tuning.to_json())
    db.execute("UPDATE indices SET meta = ? WHERE name = ?", (_json(meta), tables.name))


def drop_tables(db: sqlite3.Connection, tables: IndexTables) -> None:
    """Delete all tables of an index, and the entry of the index in the table ``indices``.

    Args:
        db: The database connection with an open transaction.
        tables: The database tables of the index.
    """
    for table in (tables.postings, tables.words, tables.lengths, tables.documents):
        db.execute(f"DROP TABLE {table}")
    db.execute("DELETE FROM indices WHERE number = ?", (tables.number,))


def increment_changes(db: sqlite3.Connection, tables: IndexTables) -> None:
    """Increment the counter of changes to an index, so that all processes discard the data that they have cached."""
    db.execute("UPDATE indices SET changes = changes + 1 WHERE number = ?", (tables.number,))


def write_document(db: sqlite3.Connection, tables: IndexTables, document: Document) -> None:
    """Write a document to an index. If a document with the same id exists, replace it.

    Args:
        db: The database connection with an open transaction.
        tables: The database tables of the index.
        document: The document. It must have passed :func:`resift.contracts.documents.check_document`.
    """
    vector = None if document.vector is None else np.asarray(document.vector, "<f4").tobytes()
    source = json.dumps(document.source, ensure_ascii=False)
    # Unlike lastrowid, RETURNING also returns the row of an updated document.
    ((row,),) = db.execute(
        f"INSERT INTO {tables.documents} (id, source, vector, version) VALUES (?, ?, ?, 1) "
        "ON CONFLICT (id) DO UPDATE SET source = excluded.source, vector = excluded.vector, "
        "version = version + 1 RETURNING row",
        (document.id, source, vector),
    ).fetchall()
    _write_words(db, tables, row, document.source)


def write_vector(db: sqlite3.Connection, tables: IndexTables, id: str, version: int, vector: Floats) -> bool:
    """Replace the vector of a document, unless the document has changed since it was read.

    Args:
        db: The database connection.
        tables: The database tables of the index.
        id: The id of the document.
        version: The version number of the document when it was read.
        vector: The new vector, of shape (n_dimensions,).

    Returns:
        Whether the vector was replaced.
    """
    sql = f"UPDATE {tables.documents} SET vector = ?, version = version + 1 WHERE id = ? AND version = ?"
    return db.execute(sql, (np.asarray(vector, "<f4").tobytes(), id, version)).rowcount == 1


def _write_words(db: sqlite3.Connection, tables: IndexTables, row: int, source: dict[str, Any]) -> None:
    """Write the terms of a document to the full-text index, and replace earlier terms of the document.

    Args:
        db: The database connection.
        tables: The database tables of the index.
        row: The row number of the document.
        source: The fields of the document.
    """
    terms = [terms_of(document_text(source, [name]), tables.meta.analyzer) for name in tables.meta.fields]
    columns, marks = ", ".join(tables.columns), ", ".join("?" * (len(terms) + 1))
    db.execute(f"DELETE FROM {tables.words} WHERE rowid = ?", (row,))
    db.execute(f"INSERT INTO {tables.words} (rowid, {columns}) VALUES ({marks})", (row, *map(" ".join, terms)))
    db.execute(f"INSERT OR REPLACE INTO {tables.lengths} VALUES ({marks})", (row, *map(len, terms)))


def delete_document(db: sqlite3.Connection, tables: IndexTables, id: str) -> bool:
    """Delete a document by its id, and return whether it existed.

    Args:
        db: The database connection with an open transaction.
        tables: The database tables of the index.
        id: The id of the document.
    """
    rows = db.execute(f"DELETE FROM {tables.documents} WHERE id = ? RETURNING row", (id,)).fetchall()
    db.executemany(f"DELETE FROM {tables.words} WHERE rowid = ?", rows)
    db.executemany(f"DELETE FROM {tables.lengths} WHERE row = ?", rows)
    return bool(rows)


def parse_stored_object(text: Any, where: str) -> dict[str, Any]:
    """Parse a JSON object from the database.

    Args:
        text: The stored JSON text.
        where: A description of the place where the text is stored, for the error message.

    Raises:
        CorruptEngine: If the text is not a JSON object.
    """
    try:
        value = json.loads(text)
    except (TypeError, ValueError) as error:
        raise CorruptEngine(f"{where} is damaged: {error}", value=where) from error
    if not isinstance(value, dict):
        raise CorruptEngine(f"{where} is damaged: not a JSON object", value=where)
    return value


def read_sources(db: sqlite3.Connection, tables: IndexTables, rows: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Read documents from the database, and yield the fields of each document in the order of ``rows``.

    Args:
        db: The database connection.
        tables: The database tables of the index.
        rows: The row numbers of the documents.

    Raises:
        CorruptEngine: If a document is missing or damaged.
    """
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        batch = rows[start : start + _ROWS_AT_ONCE]
        sql = f"SELECT row, source FROM {tables.documents} WHERE row IN ({', '.join(map(str, batch))})"
        sources = dict(db.execute(sql).fetchall())
        yield from (parse_stored_object(sources.get(row), f"row {row}") for row in batch)


def decode_vector(blob: Any, dim: int, where: str) -> Floats | None:
    """Decode a document vector from the database.

    Args:
        blob: The stored bytes, or None if the document has no vector.
        dim: The number of dimensions of the vector.
        where: A description of the place where the vector is stored, for the error message.

    Returns:
        The vector, of shape (dim,), or None if ``blob`` is None.

    Raises:
        CorruptEngine: If the bytes are not ``dim`` 32-bit floats.
    """
    if blob is None:
        return None
    if not isinstance(blob, bytes) or len(blob) != 4 * dim:
        raise CorruptEngine(f"the vector of {where} is damaged", value=where, expected=f"{dim} numbers")
    return np.frombuffer(blob, "<f4")
