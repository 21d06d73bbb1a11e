"""The hits of a page: fields, vectors and highlights of rows that a search found."""

from __future__ import annotations

import html
import json
import sqlite3
from collections.abc import Sequence
from typing import Any

import numpy as np

from resift.arrays import Floats
from resift.plugin.query_dsl import VECTOR_FIELD, Body, filter_source, names_vector
from resift.plugin.sqlite.query import translate
from resift.plugin.sqlite.tables import WORD_EDGE, IndexTables

# What stands in a snippet for the tags around a word: private characters of Unicode, so that the text can be escaped
# before the tags are put in.
_OPEN, _CLOSE = "\ue000", "\ue001"
_SNIPPET_WORDS = 40


def page_hits(
    db: sqlite3.Connection, tables: IndexTables, body: Body, page: Sequence[tuple[int, float]]
) -> tuple[list[dict[str, Any]], list[Floats | None]]:
    """The hits for the rows and scores of a ``page``, in its order, and their vectors (K,), None for one without."""
    rows = ", ".join(str(row) for row, _ in page)
    sql = f"SELECT row, id, source, vector FROM {tables.documents} WHERE row IN ({rows})"
    stored = {row: rest for row, *rest in db.execute(sql)}
    highlights = _highlights(db, tables, body, rows) if body.get("highlight") else {}
    hits, vectors = [], []
    for row, score in page:
        id, text, blob = stored[row]
        vector = None if blob is None else np.frombuffer(blob, "<f4")
        hit: dict[str, Any] = {"_index": tables.name, "_id": id, "_score": score}
        source = _source(text, vector, body.get("_source"))
        if source is not None:
            hit["_source"] = source
        if row in highlights:
            hit["highlight"] = highlights[row]
        hits.append(hit)
        vectors.append(vector)
    return hits, vectors


def _source(text: str, vector: Floats | None, spec: Any) -> dict[str, Any] | None:
    """The stored fields that a body's ``_source`` asks for, with the vector if it names it."""
    source = json.loads(text)
    if names_vector(spec) and vector is not None:
        source[VECTOR_FIELD] = vector.tolist()
    return filter_source(source, spec)


def _highlights(db: sqlite3.Connection, tables: IndexTables, body: Body, rows: str) -> dict[int, dict[str, list[str]]]:
    """For each row, a fragment of each field asked for that holds a word of the query, the words between the tags."""
    settings = body["highlight"]
    names = [name for name in settings.get("fields", {}) if name in tables.fields]
    expression = translate(body.get("query", {}), tables.fields, tables.words).expression
    if expression is None or not names or not rows:
        return {}
    before, after = settings.get("pre_tags", ["<em>"])[0], settings.get("post_tags", ["</em>"])[0]
    escape = html.escape if settings.get("encoder") == "html" else str

    def tagged(snippet: str) -> str:
        return escape(snippet.replace(WORD_EDGE, "")).replace(_OPEN, before).replace(_CLOSE, after)

    columns = ", ".join(
        f"snippet({tables.words}, {tables.fields.index(name)}, ?, ?, '…', {_SNIPPET_WORDS})" for name in names
    )
    sql = f"SELECT rowid, {columns} FROM {tables.words} WHERE {tables.words} MATCH ? AND rowid IN ({rows})"
    return {
        row: {
            name: [tagged(snippet)]
            for name, snippet in zip(names, snippets, strict=True)
            if _OPEN in (snippet or "")  # FTS5 gives the beginning of a field that holds no word of the query
        }
        for row, *snippets in db.execute(sql, (*[_OPEN, _CLOSE] * len(names), expression))
    }
