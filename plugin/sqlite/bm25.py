"""Rows that match a condition, with BM25 scores by SQLite's FTS5."""

from __future__ import annotations

import sqlite3

from resift.plugin.sqlite.query import Condition
from resift.plugin.sqlite.tables import IndexTables


def matching_rows(db: sqlite3.Connection, tables: IndexTables, condition: Condition) -> list[tuple[int, float]]:
    """The rows of all documents that match, with their scores, best first; the score is 1 where no text scores."""
    if condition.required is None and not condition.optional:
        sql = f"SELECT d.row, 1.0 FROM {tables.documents} d WHERE {condition.where} ORDER BY d.row"
        return db.execute(sql, condition.values).fetchall()
    scored = f"SELECT w.rowid, -bm25({tables.words}) FROM {tables.words} w "
    filtered = (
        f"{scored} JOIN {tables.documents} d ON d.row = w.rowid WHERE {tables.words} MATCH ? AND {condition.where}"
    )
    scores: dict[int, float] = {}
    required = [condition.required] if condition.required else []
    for expression, boost in required or condition.optional:
        for row, score in db.execute(filtered, (expression, *condition.values)):
            scores[row] = scores.get(row, 0.0) + boost * score
    # Without the filter, since which rows match is known by now.
    for expression, boost in condition.optional if required else ():
        for row, score in db.execute(f"{scored} WHERE {tables.words} MATCH ?", (expression,)):
            if row in scores:
                scores[row] += boost * score
    return sorted(scores.items(), key=lambda match: (-match[1], match[0]))
