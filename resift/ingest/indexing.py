"""Indexing: encode documents, send them in batches, retry what a busy engine turned away, keep what it refuses."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from resift.contracts.documents import Document, Rejection
from resift.contracts.engine import Engine
from resift.encoders.model import Model
from resift.errors import CorruptEngine, EngineError, EngineUnavailable, ResiftError
from resift.ingest.dead_letters import DeadLetters
from resift.ingest.readers import BadLine, Record, is_stream
from resift.ingest.stopping import Stop
from resift.ingest.writing import UNSERIALIZABLE, Batch, BatchWriter, is_temporary
from resift.query.dsl import VECTOR_FIELD, document_text

__all__ = ["DeadLetters", "Indexer", "Report"]

BATCH = 500
BATCH_BYTES = 4 * 2**20


@dataclass
class Report:
    """What became of the documents.

    Attributes:
        indexed: documents that the engine acknowledged.
        dead: documents that are in the dead-letter file instead.
        without_text: documents with no text in the index's fields, which no search for words finds.
        retries: how often a batch, or what was left of one, was sent again.
        seconds: how long indexing has taken so far.
        last_read: the file and the line of the last record that was read, None before the first.
    """

    indexed: int = 0
    dead: int = 0
    without_text: int = 0
    retries: int = 0
    seconds: float = 0.0
    last_read: tuple[str, int] | None = None


class Indexer(BatchWriter):
    """Sends records to an index that holds ``model``'s vectors; the index is created if it does not exist.

    What the engine is too busy for is sent again, up to ``ATTEMPTS`` times in all. Before the first retry the indexer
    waits 0.5 s, then twice as long each time, up to 30 s, give or take a quarter (``sleep`` does the waiting). When a
    ``stop`` is requested nothing is sent again; the source of the records shares it, and ends then.

    Raises BadInput for a model of queries alone.
    """

    def __init__(
        self,
        engine: Engine,
        model: Model,
        index: str,
        dead_letters: DeadLetters,
        sleep: Callable[[float], None] | None = None,
        stop: Stop | None = None,
    ) -> None:
        model.require_documents()
        super().__init__(engine.writers, stop, sleep)
        self.engine, self.model, self.index = engine, model, index
        self.dead_letters = dead_letters
        self.report = Report()
        # What was read and is neither acknowledged nor a dead letter yet, by the record's identity: ids may be equal.
        self._open: dict[int, Record] = {}
        self._vector_field = VECTOR_FIELD

    def run(
        self,
        records: Iterable[Record | BadLine],
        fields: Sequence[str],
        analyzer: str = "english",
        progress: Callable[[Report], None] = lambda report: None,
    ) -> Report:
        """Index all records; however this ends, the engine has each one that was read or the dead-letter file does.

        After an interruption a document may be in both, which does no harm when the file is indexed.

        Args:
            records: documents, and lines that are none, as the readers give them.
            fields: the text fields of a new index; an existing index keeps its own.
            analyzer: how a new index cuts texts into words, one of ``resift.contracts.documents.ANALYZERS``.
            progress: called with the report so far, after each batch.

        Raises ModelMismatch if the index belongs to another model; EngineUnavailable if the engine does not come back,
        in which case the rest of a stream, which cannot be read again, goes to the dead-letter file too; EngineError if
        it lets the caller write nothing; BadInput if
        that file cannot be written, after which nothing more is read; and what reading ``records`` raises, after what
        was read before is indexed. Running again is safe.
        """
        started = time.perf_counter()
        self._open_index(fields, analyzer)
        info = self.engine.info(self.index).require_model(self.model)
        fields, self._vector_field = info.fields, info.vector_field

        def tell() -> None:
            self.report.seconds = time.perf_counter() - started
            progress(self.report)

        self._tell = tell
        reading = self._read(records)
        try:
            with self:
                for batch in _batches(reading, fields, self._refuse):
                    self.put(self._encoded(batch, fields))
        except BaseException as error:
            self._keep_open_records(error)
            if isinstance(error, EngineUnavailable):
                self._keep_rest_of_stream(reading, error)
            raise
        finally:
            self.dead_letters.close()
        self.engine.refresh(self.index)
        return self.report

    def _open_index(self, fields: Sequence[str], analyzer: str) -> None:
        """Create the index, or check that an existing one belongs to the model."""
        try:
            self.engine.info(self.index).require_model(self.model)
        except LookupError:
            self.engine.create(self.index, fields, self.model, analyzer)

    def _read(self, records: Iterable[Record | BadLine]) -> Iterator[Record]:
        """The documents among the records, each noted as open; lines that are none become dead letters."""
        for record in records:
            self.report.last_read = record.file, record.line
            if isinstance(record, BadLine):
                self._add_dead_letter(record, 400, record.reason, record.raw)
            else:
                with self._lock:
                    self._open[id(record)] = record
                yield record
            # The source ends, and not this loop: a few records may have been read ahead of it.
            if self.dead_letters.failure is not None:
                self.stop.requested = True

    def _keep_open_records(self, error: BaseException) -> None:
        reason = getattr(error, "message", str(error)) or type(error).__name__
        for record in list(self._open.values()):
            self._refuse(record, getattr(error, "status", 500), f"not indexed: {reason}")

    def _keep_rest_of_stream(self, reading: Iterator[Record], error: EngineUnavailable) -> None:
        """Put the rest of a pipe into the dead-letter file. What is in files can be read again, and is left there."""
        for record in reading:
            self._refuse(record, error.status, f"not sent: {error.message}")
            if not is_stream(record.file):
                return

    def _encoded(self, records: Sequence[Record], fields: Sequence[str]) -> Batch:
        texts = [document_text(record.source, fields) for record in records]
        self.report.without_text += sum(not text.strip() for text in texts)
        return [(record.id, record, vector) for record, vector in zip(records, self.model.encode(texts), strict=True)]

    def _request(self, batch: Batch) -> list[Rejection]:
        documents = [Document(id, record.source, vector) for id, record, vector in batch]
        try:
            return self.engine.bulk(self.index, documents, self._vector_field)
        except EngineError as error:
            # 401 and 403: who asks lacks a right, and no other document will fare better
            if is_temporary(error.status) or error.status in (401, 403, 413):
                raise
            return [Rejection(i, one.id, error.status, error.message) for i, one in enumerate(documents)]

    def _settle(self, item: Any, rejection: Rejection | None) -> None:
        record: Record = item[1]
        if rejection is None:
            self._open.pop(id(record), None)
            self.report.indexed += 1
        else:
            self._refuse(record, rejection.status, rejection.reason)

    def _give_up(self, batch: Batch, reason: str, failure: ResiftError | None) -> None:
        if failure is not None:
            first, last, damaged = batch[0][1].line, batch[-1][1].line, isinstance(failure, CorruptEngine)
            kind, when = (CorruptEngine, "with another") if damaged else (EngineUnavailable, "when it is back")
            raise kind(
                f"the engine did not take lines {first} to {last}: {reason}",
                expected=f"run again {when}; these lines are in {self.dead_letters.path}",
            )

    def _wait(self, attempt: int) -> None:
        with self._lock:
            self.report.retries += 1
        super()._wait(attempt)

    def _refuse(self, record: Record, status: int, reason: str) -> None:
        """Put a document into the dead-letter file: it is open no longer."""
        self._add_dead_letter(record, status, reason, {"_id": record.id, **record.source})
        with self._lock:
            self._open.pop(id(record), None)

    def _add_dead_letter(self, record: Record | BadLine, status: int, reason: str, document: Any) -> None:
        with self._lock:
            self.dead_letters.add(record, status, reason, document)
            self.report.dead += 1


def _batches(
    records: Iterable[Record], fields: Sequence[str], refuse: Callable[[Record, int, str], None]
) -> Iterator[list[Record]]:
    """Lists of at most BATCH records and about BATCH_BYTES characters of text.

    What reading the records raises is raised after the last of them; a record whose text cannot be had is refused.
    """
    batch: list[Record] = []
    size = 0
    try:
        for record in records:
            try:
                size += len(document_text(record.source, fields))
            except UNSERIALIZABLE as error:
                refuse(record, 400, f"{type(error).__name__}: {error}")
                continue
            batch.append(record)
            if len(batch) == BATCH or size >= BATCH_BYTES:
                yield batch
                batch, size = [], 0
    except Exception:
        if batch:
            yield batch
        raise
    if batch:
        yield batch
