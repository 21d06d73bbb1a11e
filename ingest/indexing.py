"""Indexing: encode, send in batches, try again what the engine could not take just then, and keep what it refuses."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from resift.arrays import Floats
from resift.encoders.model import Model
from resift.errors import EngineError, EngineUnavailable, ResiftError
from resift.ingest.readers import BadLine, Record
from resift.plugin.documents import Document, Rejection
from resift.plugin.engine import Engine
from resift.plugin.query_dsl import document_text

BATCH = 500
BATCH_BYTES = 4 * 2**20
ATTEMPTS = 8


@dataclass
class Report:
    """What became of the documents: how many are in the index and how many in the dead-letter file."""

    indexed: int = 0
    dead: int = 0
    retries: int = 0
    seconds: float = 0.0


@dataclass
class DeadLetters:
    """The file of refused documents, a JSON object a line: ``file``, ``line``, ``status``, ``reason``, ``document``.

    It is written only if there is one, and never over an earlier one: ``path`` is then numbered. Such a file can be
    indexed again as it is, once it was put right.
    """

    path: Path
    _file: TextIO | None = field(default=None, repr=False)

    def add(self, record: Record | BadLine, status: int, reason: str, document: Any) -> None:
        """Write one, on disk before anything goes on."""
        file = self._file = self._file or self._open()
        entry = {
            "file": record.file,
            "line": record.line,
            "status": status,
            "reason": reason,
            "document": document,
        }
        file.write(json.dumps(entry, ensure_ascii=False) + "\n")
        file.flush()

    def _open(self) -> TextIO:
        stem, number = self.path, 0
        while True:
            try:
                return self.path.open("x", encoding="utf-8")
            except FileExistsError:
                number += 1
                self.path = stem.with_suffix(f".{number}{stem.suffix}")

    def close(self) -> None:
        """Close the file, if there is one."""
        if self._file is not None:
            self._file.close()


class Indexer:
    """Sends records to an index that holds ``model``'s vectors; the index is made if there is none.

    Retries wait 0.5 s, then twice as long each time, up to 30 s, give or take a quarter (``sleep`` does the waiting).
    """

    def __init__(
        self,
        engine: Engine,
        model: Model,
        index: str,
        dead: DeadLetters,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.engine, self.model, self.index, self.dead, self.sleep = engine, model, index, dead, sleep
        self.report = Report()
        self._jitter = random.Random(0)
        self._lock = threading.Lock()

    def run(
        self,
        records: Iterable[Record | BadLine],
        fields: Sequence[str],
        analyzer: str = "english",
        progress: Callable[[Report], None] = lambda report: None,
    ) -> Report:
        """Index all records; each is acknowledged by the engine or in the dead-letter file when this returns.

        Raises ModelMismatch where the index belongs to another model, and EngineUnavailable where the engine does
        not come back: the documents under way are then in the dead-letter file, and running again is safe.
        """
        started = time.perf_counter()
        self._prepare(fields, analyzer)
        fields = self.engine.info(self.index).fields
        try:
            for _ in self._sent(_batches(self._good(records), fields), fields):
                self.report.seconds = time.perf_counter() - started
                progress(self.report)
        finally:
            self.dead.close()
        self.engine.refresh(self.index)
        return self.report

    def _sent(self, batches: Iterable[list[Record]], fields: Sequence[str]) -> Iterator[None]:
        """Encode one batch while others are under way; of two batches with a document of the same id one waits."""
        running: deque[tuple[set[str], Future[None]]] = deque()
        with ThreadPoolExecutor(self.engine.writers) as pool:
            for batch in batches:
                vectors = self.model.encode([document_text(record.source, fields) for record in batch])
                if self.engine.writers == 1:
                    self._send(batch, vectors)
                    yield
                    continue
                ids = {record.id for record in batch}
                while len(running) >= self.engine.writers or any(ids & theirs for theirs, _ in running):
                    running.popleft()[1].result()
                    yield
                running.append((ids, pool.submit(self._send, batch, vectors)))
            for _, future in running:
                future.result()
                yield

    def _prepare(self, fields: Sequence[str], analyzer: str) -> None:
        try:
            self.engine.info(self.index).require(self.model)
        except LookupError:
            self.engine.create(self.index, fields, self.model, analyzer)

    def _good(self, records: Iterable[Record | BadLine]) -> Iterator[Record]:
        for record in records:
            if isinstance(record, BadLine):
                self._bury(record, 400, record.reason, record.raw)
            else:
                yield record

    def _bury(self, record: Record | BadLine, status: int, reason: str, document: Any) -> None:
        with self._lock:
            self.dead.add(record, status, reason, document)
            self.report.dead += 1

    def _send(self, batch: list[Record], vectors: Floats) -> None:
        todo = [(record, vectors[i]) for i, record in enumerate(batch)]
        for attempt in range(ATTEMPTS):
            last = attempt == ATTEMPTS - 1
            rejected, stopped = self._try(todo)
            again = [r for r in rejected if r.status == 429 or r.status >= 500]
            with self._lock:
                self.report.indexed += len(todo) - len(rejected)
            for rejection in rejected if last else [r for r in rejected if r not in again]:
                record = todo[rejection.position][0]
                self._bury(record, rejection.status, rejection.reason, {"_id": record.id, **record.source})
            if last and stopped:
                raise EngineUnavailable(
                    f"the engine did not take lines {batch[0].line} to {batch[-1].line}: {stopped.message}",
                    expected=f"run again when it is back; these lines are in {self.dead.path}",
                )
            if not again or last:
                return
            with self._lock:
                self.report.retries += 1
            self.sleep(min(30, 0.5 * 2**attempt) * self._jitter.uniform(0.75, 1.25))
            todo = [todo[rejection.position] for rejection in again]

    def _try(self, todo: list[tuple[Record, Floats]]) -> tuple[list[Rejection], ResiftError | None]:
        """Rejections of one bulk request; where it failed as a whole, all of them for that reason."""
        documents = [Document(record.id, record.source, vector) for record, vector in todo]
        try:
            return self.engine.bulk(self.index, documents), None
        except (EngineUnavailable, EngineError) as error:
            if error.status == 413 and len(todo) > 1:
                half = len(todo) // 2
                (first, one), (second, two) = self._try(todo[:half]), self._try(todo[half:])
                shifted = [Rejection(r.position + half, r.id, r.status, r.reason) for r in second]
                return first + shifted, one or two
            reasons = [Rejection(i, document.id, error.status, error.message) for i, document in enumerate(documents)]
            return reasons, error if error.status == 429 or error.status >= 500 else None


def _batches(records: Iterable[Record], fields: Sequence[str]) -> Iterator[list[Record]]:
    batch: list[Record] = []
    size = 0
    for record in records:
        batch.append(record)
        size += len(document_text(record.source, fields))
        if len(batch) == BATCH or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
