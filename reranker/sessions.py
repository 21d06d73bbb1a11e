"""Sessions: who judged what, step by step, and what was learned from it. One SQLite file, shared by all workers."""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from resift.errors import BadInput, SessionNotFound
from resift.feedback import Feedback
from resift.vectors import Floats

MAX_JUDGEMENTS = 1000
_ID = re.compile(r"[A-Za-z0-9_.:-]{1,128}")
_SCHEMA = """
CREATE TABLE IF NOT EXISTS sessions (id TEXT PRIMARY KEY, created REAL NOT NULL, used REAL NOT NULL);
CREATE TABLE IF NOT EXISTS judgements (
    session TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE, step INTEGER NOT NULL, at REAL NOT NULL,
    query TEXT NOT NULL, idx TEXT NOT NULL, document TEXT NOT NULL, label INTEGER NOT NULL,
    model TEXT NOT NULL, vector BLOB NOT NULL, PRIMARY KEY (session, step, idx, document)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS learned (
    session TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE, model TEXT NOT NULL,
    mask BLOB NOT NULL, shift BLOB NOT NULL, PRIMARY KEY (session, model)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS sessions_used ON sessions (used);
"""


@dataclass(frozen=True)
class Judgement:
    """One mark: ``label`` 1 relevant, -1 not relevant, 0 taken back."""

    document: str
    label: int
    vector: Floats


@dataclass(frozen=True)
class Session:
    """A session's marks in order (each with its step, time, query, index, document and label) and its times."""

    id: str
    created: float
    expires: float
    judgements: list[dict[str, Any]]


class SessionStore:
    """Sessions in an SQLite file. ``hours``: how long an unused session lives. ``clock`` gives seconds."""

    def __init__(self, path: str, hours: float = 24.0, clock: Callable[[], float] = time.time) -> None:
        self.path, self.seconds, self.clock = path, hours * 3600, clock
        with self._open() as db:
            db.execute("PRAGMA journal_mode = WAL")
            db.executescript(_SCHEMA)

    @contextmanager
    def _open(self, write: bool = False) -> Iterator[sqlite3.Connection]:
        """A connection, in one transaction if it writes; what expired is not seen, and goes with the next write."""
        try:
            db = sqlite3.connect(self.path, timeout=30, isolation_level=None)
        except sqlite3.Error as error:
            raise BadInput(f"{self.path} cannot be opened: {error}", value=self.path, expected="a file") from error
        try:
            db.execute("PRAGMA foreign_keys = ON")
            if write:
                db.execute("BEGIN IMMEDIATE")
                db.execute("DELETE FROM sessions WHERE used < ?", (self.clock() - self.seconds,))
            yield db
            if write:
                db.execute("COMMIT")
        finally:
            db.close()

    def add(self, session: str, model: str, index: str, query: str, judgements: Sequence[Judgement]) -> Feedback:
        """Note one step's marks and learn again; a document's latest mark counts. Returns what is learned now."""
        with self._open(write=True) as db:
            now = self.clock()
            db.execute(
                "INSERT INTO sessions VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE SET used = excluded.used",
                (check_id(session), now, now),
            )
            ((count, step),) = db.execute(
                "SELECT count(*), coalesce(max(step), 0) FROM judgements WHERE session = ?", (session,)
            )
            if count + len(judgements) > MAX_JUDGEMENTS:
                raise BadInput(
                    f"session {session!r} would have {count + len(judgements)} marks",
                    value=session,
                    expected=f"at most {MAX_JUDGEMENTS}: undo some, or begin another session",
                )
            db.executemany(
                "INSERT INTO judgements VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    (
                        session,
                        step + 1,
                        now,
                        query,
                        index,
                        mark.document,
                        mark.label,
                        model,
                        _blob(mark.vector),
                    )
                    for mark in judgements
                ],
            )
            return self._learn(db, session, model, len(judgements[0].vector))

    def _learn(self, db: sqlite3.Connection, session: str, model: str, dim: int) -> Feedback:
        rows = db.execute(
            "SELECT idx, document, label, vector FROM judgements WHERE session = ? AND model = ? ORDER BY step",
            (session, model),
        )
        latest = {(index, document): (label, vector) for index, document, label, vector in rows}
        by_label = {
            wanted: np.array([_vector(blob) for label, blob in latest.values() if label == wanted]).reshape(-1, dim)
            for wanted in (1, -1)
        }
        feedback = Feedback.learn(by_label[1], by_label[-1])
        db.execute(
            "INSERT OR REPLACE INTO learned VALUES (?, ?, ?, ?)",
            (session, model, _blob(feedback.mask), _blob(feedback.shift)),
        )
        return feedback

    def learned(self, session: str, model: str) -> Feedback | None:
        """What a session has taught for this model, or None: it is new, expired, or has no marks."""
        oldest = self.clock() - self.seconds
        with self._open() as db:
            row = db.execute(
                "SELECT mask, shift, used FROM learned JOIN sessions ON id = session "
                "WHERE session = ? AND model = ? AND used >= ?",
                (check_id(session), model, oldest),
            ).fetchone()
            if row is None:
                return None
            if self.clock() - row[2] > self.seconds / 100:
                db.execute("UPDATE sessions SET used = ? WHERE id = ?", (self.clock(), session))
        return Feedback(_vector(row[0]), _vector(row[1]))

    def get(self, session: str) -> Session:
        """A session with its marks. Raises SessionNotFound."""
        with self._open() as db:
            return self._read(db, session)

    def _read(self, db: sqlite3.Connection, session: str) -> Session:
        row = db.execute(
            "SELECT created, used FROM sessions WHERE id = ? AND used >= ?",
            (check_id(session), self.clock() - self.seconds),
        ).fetchone()
        if row is None:
            raise SessionNotFound(
                f"no session {session!r}", value=session, expected="a session with marks, not expired"
            )
        names = ("step", "at", "query", "index", "document", "label")
        marks = db.execute(
            "SELECT step, at, query, idx, document, label FROM judgements WHERE session = ? ORDER BY step, document",
            (session,),
        )
        return Session(session, row[0], row[1] + self.seconds, [dict(zip(names, mark, strict=True)) for mark in marks])

    def undo(self, session: str) -> Session:
        """Take the last step back and learn from the rest. Raises SessionNotFound, BadInput where no step is left."""
        with self._open(write=True) as db:
            found = self._read(db, session)
            if not found.judgements:
                raise BadInput(
                    f"session {session!r} has no step to undo", value=session, expected="a session with marks"
                )
            last = found.judgements[-1]["step"]
            ((model, size),) = db.execute(
                "SELECT DISTINCT model, length(vector) FROM judgements WHERE session = ? AND step = ?",
                (session, last),
            )
            db.execute("DELETE FROM judgements WHERE session = ? AND step = ?", (session, last))
            self._learn(db, session, model, size // 4)
            return self._read(db, session)

    def delete(self, session: str) -> None:
        """Forget a session. Raises SessionNotFound."""
        with self._open(write=True) as db:
            if not db.execute("DELETE FROM sessions WHERE id = ?", (check_id(session),)).rowcount:
                raise SessionNotFound(f"no session {session!r}", value=session, expected="a session with marks")


def check_id(session: str) -> str:
    """``session`` if it can name one, else BadInput."""
    if not isinstance(session, str) or not _ID.fullmatch(session):
        raise BadInput("malformed session id", value=session, expected="1 to 128 letters, digits and _ . : -")
    return session


def _blob(vector: Floats) -> bytes:
    return np.asarray(vector, "<f4").tobytes()


def _vector(blob: bytes) -> Floats:
    return np.frombuffer(blob, "<f4")
