"""Indexing: encode documents, send them in batches, retry what a busy engine turned away, keep what it refuses."""

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
from resift.files import create_private
from resift.ingest.readers import BadLine, Record
from resift.plugin.documents import Document, Rejection
from resift.plugin.engine import Engine
from resift.plugin.query_dsl import document_text

BATCH = 500
BATCH_BYTES = 4 * 2**20
ATTEMPTS = 8


@dataclass
class Report:
    """What became of the documents.

    Attributes:
        indexed: documents that the engine acknowledged.
        dead: documents that are in the dead-letter file instead.
        without_text: documents with no text in the index's fields, which no search for words finds.
        retries: how often a batch, or what was left of one, was sent again.
        seconds: how long indexing has taken so far.
    """

    indexed: int = 0
    dead: int = 0
    without_text: int = 0
    retries: int = 0
    seconds: float = 0.0


@dataclass
class DeadLetters:
    """The file of refused documents, a JSON object a line: ``file``, ``line``, ``status``, ``reason``, ``document``.

    The file is made with its first entry. An earlier file is never overwritten: ``path`` gets a number instead. Once
    its documents are corrected, such a file can be indexed as it is.
    """

    path: Path
    _file: TextIO | None = field(default=None, repr=False)

    def add(self, record: Record | BadLine, status: int, reason: str, document: Any) -> None:
        """Write one entry, flushed to the file before this returns.

        Args:
            record: where the document was read.
            status: the HTTP status that the engine gave, 400 for a line that is no document.
            reason: why it was refused.
            document: the document as a dictionary with ``_id``, or the text of a line that is no document.
        """
        file = self._file = self._file or self._create()
        entry = {
            "file": record.file,
            "line": record.line,
            "status": status,
            "reason": reason,
            "document": document,
        }
        file.write(json.dumps(entry, ensure_ascii=False) + "\n")
        file.flush()

    def _create(self) -> TextIO:
        first, number = self.path, 0
        while True:
            try:
                return create_private(self.path)
            except FileExistsError:
                number += 1
                self.path = first.with_suffix(f".{number}{first.suffix}")

    def close(self) -> None:
        """Close the file, if there is one."""
        if self._file is not None:
            self._file.close()


class Indexer:
    """Sends records to an index that holds ``model``'s vectors; the index is created if it does not exist.

    What the engine is too busy for is sent again, up to ``ATTEMPTS`` times in all. Before the first retry the indexer
    waits 0.5 s, then twice as long each time, up to 30 s, give or take a quarter (``sleep`` does the waiting).
    """

    def __init__(
        self,
        engine: Engine,
        model: Model,
        index: str,
        dead_letters: DeadLetters,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.engine, self.model, self.index, self.sleep = engine, model, index, sleep
        self.dead_letters = dead_letters
        self.report = Report()
        self._jitter = random.Random(0)
        # Batches are sent from several threads, which share the report and the dead-letter file.
        self._lock = threading.Lock()

    def run(
        self,
        records: Iterable[Record | BadLine],
        fields: Sequence[str],
        analyzer: str = "english",
        progress: Callable[[Report], None] = lambda report: None,
    ) -> Report:
        """Index all records; when this returns, the engine has each of them or the dead-letter file does.

        Args:
            records: documents, and lines that are none, as the readers give them.
            fields: the text fields of a new index; an existing index keeps its own.
            analyzer: how a new index cuts texts into words, one of ``resift.plugin.documents.ANALYZERS``.
            progress: called with the report so far, after each batch.

        Raises ModelMismatch if the index belongs to another model, and EngineUnavailable if the engine does not come
        back: the documents that were being sent are then in the dead-letter file, and running again is safe.
        """
        started = time.perf_counter()
        self._open_index(fields, analyzer)
        fields = self.engine.info(self.index).fields
        try:
            for _ in self._send_batches(_batches(self._documents_of(records), fields), fields):
                self.report.seconds = time.perf_counter() - started
                progress(self.report)
        finally:
            self.dead_letters.close()
        self.engine.refresh(self.index)
        return self.report

    def _open_index(self, fields: Sequence[str], analyzer: str) -> None:
        """Create the index, or check that an existing one belongs to the model."""
        try:
            self.engine.info(self.index).require(self.model)
        except LookupError:
            self.engine.create(self.index, fields, self.model, analyzer)

    def _documents_of(self, records: Iterable[Record | BadLine]) -> Iterator[Record]:
        """The records; lines that are none become dead letters."""
        for record in records:
            if isinstance(record, BadLine):
                self._add_dead_letter(record, 400, record.reason, record.raw)
            else:
                yield record

    def _send_batches(self, batches: Iterable[list[Record]], fields: Sequence[str]) -> Iterator[None]:
        """Encode one batch while others are being sent, and yield after each that was.

        A batch waits for those that hold a document of the same id, so that the last one in the file stays.
        """
        running: deque[tuple[set[str], Future[None]]] = deque()
        with ThreadPoolExecutor(self.engine.writers) as pool:
            for batch in batches:
                texts = [document_text(record.source, fields) for record in batch]
                self.report.without_text += sum(not text.strip() for text in texts)
                vectors = self.model.encode(texts)
                # with one writer a thread gains nothing: batches would only wait for each other there
                if self.engine.writers == 1:
                    self._send(batch, vectors)
                    yield
                    continue
                ids = {record.id for record in batch}
                while len(running) >= self.engine.writers or any(ids & other for other, _ in running):
                    running.popleft()[1].result()
                    yield
                running.append((ids, pool.submit(self._send, batch, vectors)))
            for _, future in running:
                future.result()
                yield

    def _send(self, batch: list[Record], vectors: Floats) -> None:
        """Send a batch until each document is taken or refused, or its attempts are used up."""
        pending = [(record, vectors[i]) for i, record in enumerate(batch)]
        for attempt in range(1, ATTEMPTS + 1):
            rejections, outage = self._bulk(pending)
            with self._lock:
                self.report.indexed += len(pending) - len(rejections)
            again = []
            for rejection in rejections:
                record, vector = pending[rejection.position]
                if attempt < ATTEMPTS and _is_temporary(rejection.status):
                    again.append((record, vector))
                else:
                    document = {"_id": record.id, **record.source}
                    self._add_dead_letter(record, rejection.status, rejection.reason, document)
            if not again:
                break
            self._wait(attempt)
            pending = again
        if outage and attempt == ATTEMPTS:
            raise EngineUnavailable(
                f"the engine did not take lines {batch[0].line} to {batch[-1].line}: {outage.message}",
                expected=f"run again when it is back; these lines are in {self.dead_letters.path}",
            )

    def _bulk(self, pending: list[tuple[Record, Floats]]) -> tuple[list[Rejection], ResiftError | None]:
        """One bulk request: its rejections and, if it failed as a whole for now, the error.

        A request that failed as a whole rejects every document for that reason; one that is too large is halved.
        """
        documents = [Document(record.id, record.source, vector) for record, vector in pending]
        try:
            return self.engine.bulk(self.index, documents), None
        except (EngineUnavailable, EngineError) as error:
            # 413: the request is larger than the cluster allows, and half of it may be taken
            if error.status == 413 and len(pending) > 1:
                return self._bulk_in_halves(pending)
            rejections = [
                Rejection(i, document.id, error.status, error.message) for i, document in enumerate(documents)
            ]
            return rejections, error if _is_temporary(error.status) else None

    def _bulk_in_halves(self, pending: list[tuple[Record, Floats]]) -> tuple[list[Rejection], ResiftError | None]:
        half = len(pending) // 2
        (first, first_outage), (second, second_outage) = self._bulk(pending[:half]), self._bulk(pending[half:])
        shifted = [Rejection(one.position + half, one.id, one.status, one.reason) for one in second]
        return first + shifted, first_outage or second_outage

    def _wait(self, attempt: int) -> None:
        """Count a retry and wait before it, longer after each attempt (the first is 1)."""
        with self._lock:
            self.report.retries += 1
        self.sleep(min(30, 0.5 * 2 ** (attempt - 1)) * self._jitter.uniform(0.75, 1.25))

    def _add_dead_letter(self, record: Record | BadLine, status: int, reason: str, document: Any) -> None:
        with self._lock:
            self.dead_letters.add(record, status, reason, document)
            self.report.dead += 1


def _is_temporary(status: int) -> bool:
    """Whether a request that was refused with this HTTP status may succeed later."""
    return status == 429 or status >= 500


def _batches(records: Iterable[Record], fields: Sequence[str]) -> Iterator[list[Record]]:
    """Lists of at most BATCH records and about BATCH_BYTES characters of text."""
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
