"""The hits of a page: fields, vectors and highlights of rows that a search found."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from resift.arrays import Floats
from resift.contracts.query_dsl import VECTOR_FIELD, filter_source, names_vector
from resift.errors import CorruptEngine
from resift.plugin.sqlite.highlights import FieldHighlight
from resift.plugin.sqlite.tables import IndexTables, stored_object, stored_vector


def page_hits(
    db: sqlite3.Connection,
    tables: IndexTables,
    page: Sequence[tuple[int, float]],
    source: Any,
    highlights: Mapping[str, FieldHighlight],
    names: Mapping[int, list[str]],
    vectors: bool,
) -> tuple[list[dict[str, Any]], list[Floats | None]]:
    """The hits for the rows and scores of a ``page``, in its order, and their vectors (K,) if ``vectors`` are wanted.

    A vector is None for a document without one. ``source`` is the body's ``_source``, ``highlights`` says how each
    field that it highlights is, and ``names`` which named clauses a row matches.
    """
    rows = ", ".join(str(row) for row, _ in page)
    # Ids alone are read alone: of a page of thousands the rest takes longer than the search.
    read = "source, vector" if vectors or highlights or source is not False else "'{}', NULL"
    sql = f"SELECT row, id, {read} FROM {tables.documents} WHERE row IN ({rows})"
    stored = {row: rest for row, *rest in db.execute(sql)}
    hits, found_vectors = [], []
    for row, score in page:
        if row not in stored:
            raise CorruptEngine(f"{tables.name!r} is damaged: row {row} has no document", value=row)
        id, text, blob = stored[row]
        fields, vector = stored_object(text, f"document {id!r}"), stored_vector(blob, tables.dim, f"document {id!r}")
        hit: dict[str, Any] = {"_index": tables.name, "_id": id, "_score": score}
        fragments = {
            name: found for name, one in highlights.items() if (found := one.of(fields, name, tables.analyzer))
        }
        shown = _shown(fields, vector, source)
        if shown is not None:
            hit["_source"] = shown
        if names[row]:
            hit["matched_queries"] = names[row]
        if fragments:
            hit["highlight"] = fragments
        hits.append(hit)
        found_vectors.append(vector)
    return hits, found_vectors


def _shown(fields: dict[str, Any], vector: Floats | None, source: Any) -> dict[str, Any] | None:
    """The stored fields that a body's ``_source`` asks for, with the vector if it names it."""
    if names_vector(source) and vector is not None:
        fields = {**fields, VECTOR_FIELD: vector.tolist()}
    return filter_source(fields, source)
