"""The log of UBI beside the embedded engine: a table of the file that the sessions are in."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from resift.contracts.session_store import HURRIED_SECONDS
from resift.contracts.ubi import END, EVENTS, KINDS, LATEST, UbiEvent, UbiLog, UbiQuery, seconds_of, text_of
from resift.errors import EngineUnavailable
from resift.plugin.sqlite.database import Database

MAX_ROWS = 100_000  # of a kind; the oldest go first
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS ubi_events (number INTEGER PRIMARY KEY, client TEXT, session TEXT, at REAL NOT NULL, "
    "query TEXT, body TEXT NOT NULL)",
    "CREATE INDEX IF NOT EXISTS ubi_events_client ON ubi_events (client, at)",
    "CREATE INDEX IF NOT EXISTS ubi_events_session ON ubi_events (session, at)",
    "CREATE TABLE IF NOT EXISTS ubi_queries (number INTEGER PRIMARY KEY, query TEXT NOT NULL, body TEXT NOT NULL)",
    "CREATE INDEX IF NOT EXISTS ubi_queries_query ON ubi_queries (query)",
)
# of several rows of one query, as a second page makes one, the first
_QUERY = "SELECT query, body FROM ubi_queries WHERE query IN (SELECT value FROM json_each(?)) ORDER BY number DESC"
_PERSON = " OR ".join(f"json_extract(body, '$.{name}') || '' = ?1" for name in ("client_id", "session_id", "user_id"))


class SqliteUbiLog(UbiLog):
    """The log in the SQLite file at ``path``, which threads and processes of one machine may share.

    Raises EngineUnavailable if the file cannot be opened, and as every method does, if it is damaged.
    """

    def __init__(self, path: str) -> None:
        kind = EngineUnavailable
        self._database = Database(path, "ubi_queries", _SCHEMA, kind, kind, durable=False)

    def add(self, kind: str, sources: Sequence[Mapping[str, Any]]) -> int:
        rows = [row for row in map(_event_row if kind == EVENTS else _query_row, sources) if row is not None]
        table, columns = ("ubi_events", 5) if kind == EVENTS else ("ubi_queries", 2)
        with self._database.transaction() as db:
            db.executemany(f"INSERT INTO {table} VALUES (NULL{', ?' * columns})", rows)
            db.execute(f"DELETE FROM {table} WHERE number <= (SELECT max(number) FROM {table}) - ?", (MAX_ROWS,))
        return len(sources) - len(rows)

    def events(self, client: str, since: float, until: float) -> list[UbiEvent]:
        part = "SELECT number, at, body FROM ubi_events WHERE {} = ? AND at BETWEEN ? AND ?"
        sql = f"{part.format('client')} UNION {part.format('session')} ORDER BY at DESC, number DESC LIMIT ?"
        with self._database.transaction(False, HURRIED_SECONDS) as db:
            rows = db.execute(sql, (client, since, until, client, since, until, LATEST)).fetchall()
        read = (UbiEvent.read(json.loads(body)) for _, _, body in reversed(rows))
        return [event for event in read if event is not None]

    def queries(self, ids: Sequence[str]) -> dict[str, UbiQuery]:
        with self._database.transaction(False, HURRIED_SECONDS) as db:
            rows = db.execute(_QUERY, (json.dumps(list(ids)),)).fetchall()
        return {id: UbiQuery.read(json.loads(body)) for id, body in rows}

    def scan(self, since: float = 0.0, until: float = END) -> Iterator[UbiEvent]:
        rows = self._rows("SELECT body FROM ubi_events WHERE at BETWEEN ? AND ?", since, until)
        return (event for event in map(UbiEvent.read, rows) if event is not None)

    def asked(self, application: str, since: float, until: float) -> list[dict[str, Any]]:
        rows = self._rows("SELECT body FROM ubi_queries WHERE json_extract(body, '$.application') = ?", application)
        return [row for row in rows if since <= (seconds_of(row.get("timestamp")) or 0.0) <= until]

    def of_client(self, client: str) -> dict[str, list[dict[str, Any]]]:
        return {kind: self._rows(f"SELECT body FROM ubi_{kind} WHERE {_PERSON}", client) for kind in KINDS}

    def forget(self, client: str) -> int:
        with self._database.transaction() as db:
            return sum(db.execute(f"DELETE FROM ubi_{kind} WHERE {_PERSON}", (client,)).rowcount for kind in KINDS)

    def _rows(self, sql: str, *values: Any) -> list[dict[str, Any]]:
        with self._database.transaction(write=False) as db:
            return [json.loads(body) for (body,) in db.execute(sql, values).fetchall()]

    def close(self) -> None:
        self._database.close()


def _event_row(source: Mapping[str, Any]) -> tuple[Any, ...] | None:
    event = UbiEvent.read(source)
    if event is None:
        return None
    return event.client, event.session, event.at, event.query_id, _json(source)


def _query_row(source: Mapping[str, Any]) -> tuple[Any, ...] | None:
    id = text_of(source.get("query_id"))
    return (id, _json(source)) if id else None


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
