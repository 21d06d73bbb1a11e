"""The tables of the embedded engine: a row of ``indices`` for each index, and two tables of its own.

``documents_N`` holds the documents of index number N, and ``words_N``, an FTS5 table, the words of its text fields, one
column c0, c1, … for each; the same document has the same row in both.
"""

from __future__ import annotations

import json
import re
import sqlite3
from dataclasses import dataclass
from typing import Any

import numpy as np

from resift.errors import EngineError, IndexNotFound
from resift.plugin.documents import Document
from resift.plugin.query_dsl import document_text
from resift.text import UNSPACED

SCHEMA = """
CREATE TABLE IF NOT EXISTS indices (
    number INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE NOT NULL,
    meta TEXT NOT NULL, changes INTEGER NOT NULL DEFAULT 0
)"""
WORD_EDGE = "\u200b"  # a space without width, which snippets of a text can leave out again
_UNSPACED = re.compile(f"([{UNSPACED}])")


@dataclass(frozen=True)
class IndexTables:
    """An index's row of ``indices``: its number, what it records of its fields and model, and its count of changes."""

    name: str
    number: int
    meta: dict[str, Any]
    changes: int

    @property
    def documents(self) -> str:
        """The name of the table of documents."""
        return f"documents_{self.number}"

    @property
    def words(self) -> str:
        """The name of the table of words."""
        return f"words_{self.number}"

    @property
    def fields(self) -> list[str]:
        """The text fields, in the order of their columns."""
        fields: list[str] = self.meta["fields"]
        return fields

    @property
    def dim(self) -> int:
        """The length K of the vectors."""
        return int(self.meta["dim"])


def create_tables(db: sqlite3.Connection, index: str, meta: dict[str, Any], analyzer: str) -> None:
    """Create the tables of an index. Raises EngineError with status 400 if it exists."""
    try:
        row = db.execute("INSERT INTO indices (name, meta) VALUES (?, ?)", (index, json.dumps(meta)))
    except sqlite3.IntegrityError:
        raise EngineError(f"index {index!r} exists already", status=400, value=index) from None
    tables = IndexTables(index, int(row.lastrowid or 0), meta, 0)
    db.execute(
        f"CREATE TABLE {tables.documents} (row INTEGER PRIMARY KEY, id TEXT UNIQUE NOT NULL, "
        "source TEXT NOT NULL, vector BLOB, version INTEGER NOT NULL)"
    )
    tokenizer = "porter unicode61" if analyzer == "english" else "unicode61"
    db.execute(f"CREATE VIRTUAL TABLE {tables.words} USING fts5({_columns(tables)}, tokenize = '{tokenizer}')")


def find_tables(db: sqlite3.Connection, index: str) -> IndexTables:
    """The tables of an index. Raises IndexNotFound."""
    row = db.execute("SELECT number, meta, changes FROM indices WHERE name = ?", (index,)).fetchone()
    if row is None:
        names = [name for (name,) in db.execute("SELECT name FROM indices ORDER BY name LIMIT 20")]
        expected = " | ".join(names) or "an index made by: resift index"
        raise IndexNotFound(f"no index {index!r}", value=index, expected=expected)
    return IndexTables(index, row[0], json.loads(row[1]), row[2])


def drop_tables(db: sqlite3.Connection, tables: IndexTables) -> None:
    """Drop the tables of an index, and forget it."""
    db.execute(f"DROP TABLE {tables.documents}")
    db.execute(f"DROP TABLE {tables.words}")
    db.execute("DELETE FROM indices WHERE number = ?", (tables.number,))


def count_change(db: sqlite3.Connection, tables: IndexTables) -> None:
    """Note that documents changed, so that every process reads the vectors again."""
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
    # FTS5 takes a run of characters without spaces for one word, where our tokeniser has one word a character.
    texts = [
        _UNSPACED.sub(f"{WORD_EDGE}\\1{WORD_EDGE}", document_text(document.source, [name])) for name in tables.fields
    ]
    db.execute(f"DELETE FROM {tables.words} WHERE rowid = ?", (row,))
    marks = ", ".join("?" * (len(texts) + 1))
    db.execute(f"INSERT INTO {tables.words} (rowid, {_columns(tables)}) VALUES ({marks})", (row, *texts))


def delete_document(db: sqlite3.Connection, tables: IndexTables, id: str) -> bool:
    """Delete a document; whether there was one."""
    rows = db.execute(f"DELETE FROM {tables.documents} WHERE id = ? RETURNING row", (id,)).fetchall()
    db.executemany(f"DELETE FROM {tables.words} WHERE rowid = ?", rows)
    return bool(rows)


def _columns(tables: IndexTables) -> str:
    return ", ".join(f"c{i}" for i in range(len(tables.fields)))
