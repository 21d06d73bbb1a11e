"""Index documents: encode them, send them in batches, retry temporary failures, and write refused documents to a file.

The file of refused documents is called dead-letter file (:mod:`resift.ingest.dead_letters`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from resift.contracts.documents import Document, Rejection
from resift.contracts.encoding import encode_documents
from resift.contracts.engine import Engine
from resift.encoders.model import Model
from resift.errors import CorruptEngine, EngineError, EngineUnavailable, ResiftError
from resift.ingest.dead_letters import DeadLetters
from resift.ingest.readers import BadLine, Record, is_stream
from resift.ingest.writing import ATTEMPTS, UNSERIALIZABLE, Batch, BatchWriter, is_temporary, wait_before_retry
from resift.query.dsl import VECTOR_FIELD, document_text
from resift.stopping import Stop

__all__ = ["DeadLetters", "Indexer", "Report"]

BATCH = 500  # maximum number of documents in a bulk request
BATCH_CHARACTERS = 4 * 2**20  # approximate maximum number of characters in a bulk request
_NUMBER_CHARACTERS = 20  # approximate number of characters of a number in a bag of vectors


@dataclass
class Report:
    """The result of indexing documents. While indexing is running, it shows the progress.

    Attributes:
        indexed: The number of documents that the engine has indexed.
        refused: The number of documents and invalid lines that were written to the dead-letter file.
        without_text: The number of documents that have no text in the text fields. Lexical searches cannot find them.
        retries: The number of times that a batch of documents, or the rest of a batch, was sent again.
        seconds: The duration in seconds.
        last_read: The file name and line number of the last record that was read, or None before the first record.
    """

    indexed: int = 0
    refused: int = 0
    without_text: int = 0
    retries: int = 0
    seconds: float = 0.0
    last_read: tuple[str, int] | None = None


class Indexer(BatchWriter):
    """Encodes documents as vectors and writes them to an index. The index is created if it does not exist.

    If the engine rejects documents temporarily, for example because it is overloaded, they are sent again, up to
    ``ATTEMPTS`` times in total. The first retry waits for 0.5 s. The waiting time doubles with each retry, up to 30 s,
    and varies randomly by up to 25 %.

    Args:
        engine: The search engine to write to.
        model: The model that encodes the documents.
        index: The name of the index.
        dead_letters: The file for documents that cannot be indexed.
        sleep: A function that waits for a number of seconds. Tests replace it.
        stop: A flag to stop early. When it is set, there are no more retries. The source of the records should check
            the same flag.

    Raises:
        BadInput: If the model can only encode queries.
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
        self.engine = engine
        self.model = model
        self.index = index
        self.dead_letters = dead_letters
        self.report = Report()
        # Records that are neither acknowledged nor dead letters yet, by object identity, because ids may repeat.
        self._open: dict[int, Record] = {}
        self._vector_field = VECTOR_FIELD
        self._started = time.perf_counter()
        self._progress: Callable[[Report], None] = lambda report: None

    def run(
        self,
        records: Iterable[Record | BadLine],
        fields: Sequence[str],
        analyzer: str = "english",
        progress: Callable[[Report], None] = lambda report: None,
    ) -> Report:
        """Index all records. Every record that was read ends up in the index or in the dead-letter file.

        This is also guaranteed if an error or an interruption ends the run. In this case, some documents may be in both
        places. It is always safe to index the dead-letter file, or the same records, again.

        Args:
            records: Documents and invalid lines, as :class:`resift.ingest.readers.Files` yields them.
            fields: The names of the text fields of a new index. Ignored if the index exists.
            analyzer: The analyzer of a new index, a member of ``resift.contracts.documents.ANALYZERS``.
            progress: A function that is called with the report after each batch.

        Raises:
            ModelMismatch: If the index has vectors of another model.
            EngineUnavailable: If the engine cannot be reached after all retries. The unread rest of stdin or of a pipe
                is then written to the dead-letter file, because it cannot be read again.
            EngineError: If the caller has no permission to write to the index.
            BadInput: If the dead-letter file cannot be written. Reading stops then.
            Exception: If reading ``records`` fails. All records that were read before are indexed first.
        """
        self._started, self._progress = time.perf_counter(), progress
        self._open_index(fields, analyzer)
        info = self.engine.info(self.index).require_model(self.model)
        fields, self._vector_field = info.fields, info.vector_field
        reading = self._track_documents(records)
        try:
            with self:
                for batch in _batches(reading, fields, self._refuse, self.model.bags):
                    if encoded := self._encode(*batch, fields):
                        self.put(encoded)
        except BaseException as error:
            self._refuse_open_records(error)
            if isinstance(error, EngineUnavailable):
                self._refuse_rest_of_stream(reading, error)
            raise
        finally:
            self.dead_letters.close()
        self._refresh()
        return self.report

    def _after_batch(self) -> None:
        self.report.seconds = time.perf_counter() - self._started
        self._progress(self.report)

    def _refresh(self) -> None:
        """Make the indexed documents searchable.

        A refresh of many vectors can take longer than the time limit. It then continues in the cluster.

        Raises:
            EngineUnavailable: If the engine still cannot be reached after all retries.
        """
        for attempt in range(1, ATTEMPTS + 1):
            try:
                self.engine.refresh(self.index)
                return
            except EngineUnavailable:
                if attempt == ATTEMPTS or self.stop.requested:
                    raise
                wait_before_retry(attempt, self._sleep)

    def _open_index(self, fields: Sequence[str], analyzer: str) -> None:
        """Create the index, or check that an existing index has vectors of the model.

        Args:
            fields: The names of the text fields of a new index.
            analyzer: The name of the analyzer of a new index.

        Raises:
            ModelMismatch: If the index exists, but has no vectors of the model.
        """
        try:
            self.engine.info(self.index).require_model(self.model)
        except LookupError:
            self.engine.create(self.index, fields, self.model, analyzer)

    def _track_documents(self, records: Iterable[Record | BadLine]) -> Iterator[Record]:
        """Yield all documents, and write invalid lines to the dead-letter file (the file of refused documents).

        Each document is remembered until the engine has accepted or refused it. After an error, the remembered
        documents can be written to the file, so that none is lost.

        Args:
            records: The documents and the invalid lines, in the order of the files.
        """
        for record in records:
            self.report.last_read = record.file, record.line
            if isinstance(record, BadLine):
                self._add_dead_letter(record, 400, record.reason, record.raw)
            else:
                with self._lock:
                    self._open[id(record)] = record
                yield record
            # Stop the source instead of leaving this loop, because the source may have read a few records ahead.
            if self.dead_letters.failure is not None:
                self.stop.requested = True

    def _refuse_open_records(self, error: BaseException) -> None:
        """Write all documents that the engine has neither accepted nor refused to the dead-letter file, after an error.

        Args:
            error: The error. It is written to the file as the reason.
        """
        reason = getattr(error, "message", str(error)) or type(error).__name__
        for record in list(self._open.values()):
            self._refuse(record, getattr(error, "status", 500), f"not indexed: {reason}")

    def _refuse_rest_of_stream(self, reading: Iterator[Record], error: EngineUnavailable) -> None:
        """Write the unread documents of stdin or of a pipe to the dead-letter file (the file of refused documents).

        The unread documents of a regular file are not written, because the file can be read again.

        Args:
            reading: The iterator over the unread documents.
            error: The error that ended indexing. It is written to the file as the reason.
        """
        for record in reading:
            self._refuse(record, error.status, f"not sent: {error.message}")
            if not is_stream(record.file):
                return

    def _encode(self, records: Sequence[Record], texts: Sequence[str], fields: Sequence[str]) -> Batch:
        """Encode documents as vectors. Documents that cannot be encoded are refused.

        Args:
            records: The documents.
            texts: The text of each document.
            fields: The names of the text fields.

        Returns:
            For each encoded document, a tuple of its id, its record, and its vector of shape (n_dimensions,).
        """
        self.report.without_text += sum(not text.strip() for text in texts)
        vectors, faults = encode_documents(self.model, [record.source for record in records], fields, texts)
        for position, reason in faults.items():
            self._refuse(records[position], 400, reason)
        encoded = enumerate(zip(records, vectors, strict=True))
        return [(record.id, record, vector) for position, (record, vector) in encoded if position not in faults]

    def _request(self, batch: Batch) -> list[Rejection]:
        documents = [Document(id, record.source, vector) for id, record, vector in batch]
        try:
            return self.engine.bulk(self.index, documents, self._vector_field)
        except EngineError as error:
            # With 401 and 403 the caller lacks a permission, so all other documents would fail as well.
            if is_temporary(error.status) or error.status in (401, 403, 413):
                raise
            return [Rejection(i, document.id, error.status, error.message) for i, document in enumerate(documents)]

    def _settle(self, item: Any, rejection: Rejection | None) -> None:
        record: Record = item[1]
        if rejection is None:
            self._open.pop(id(record), None)
            self.report.indexed += 1
        else:
            self._refuse(record, rejection.status, rejection.reason)

    def _give_up(self, batch: Batch, reason: str, failure: ResiftError | None) -> None:
        if failure is not None:
            first, last = batch[0][1].line, batch[-1][1].line
            kind: type[ResiftError] = EngineUnavailable
            advice = "run again when the engine is available"
            if isinstance(failure, CorruptEngine):
                kind, advice = CorruptEngine, "run again with another engine"
            raise kind(
                f"the engine did not accept lines {first} to {last}: {reason}",
                expected=f"{advice}; these lines are in {self.dead_letters.path}",
            )

    def _wait(self, attempt: int) -> None:
        with self._lock:
            self.report.retries += 1
        super()._wait(attempt)

    def _refuse(self, record: Record, status: int, reason: str) -> None:
        """Write a document that could not be indexed to the dead-letter file (the file of refused documents).

        Args:
            record: The document.
            status: The HTTP status of the engine's response.
            reason: The reason why the document was not indexed.
        """
        self._add_dead_letter(record, status, reason, {"_id": record.id, **record.source})
        with self._lock:
            self._open.pop(id(record), None)

    def _add_dead_letter(self, record: Record | BadLine, status: int, reason: str, document: Any) -> None:
        """Write a refused document to the dead-letter file, and count it in the report.

        Args:
            record: The record or invalid line that contains the document.
            status: The HTTP status of the engine's response, or 400 for an invalid line.
            reason: The reason why the document was refused.
            document: The document as a dictionary, or the text of an invalid line.
        """
        with self._lock:
            self.dead_letters.add(record, status, reason, document)
            self.report.refused += 1


def _batches(
    records: Iterable[Record],
    fields: Sequence[str],
    refuse: Callable[[Record, int, str], None],
    bags: str | None = None,
) -> Iterator[tuple[list[Record], list[str]]]:
    """Group records into batches of at most :data:`BATCH` records, and build the text of each record.

    A batch also ends when its texts and bags of vectors reach about :data:`BATCH_CHARACTERS` characters. If reading the
    records fails, the records that were read before are yielded as a last batch, and the exception is raised when the
    next batch is requested.

    Args:
        records: The documents that were read.
        fields: The names of the text fields.
        refuse: A function that is called if the text of a record cannot be computed. Its arguments are the record, an
            HTTP status and the reason.
        bags: The field with the bags of vectors, or None.

    Yields:
        The records of a batch, and the text of each record.
    """
    batch: list[Record] = []
    texts: list[str] = []
    size = 0
    try:
        for record in records:
            try:
                text = document_text(record.source, fields)
                numbers = _count_numbers(record.source.get(bags) if bags else None)
            except UNSERIALIZABLE as error:
                refuse(record, 400, f"{type(error).__name__}: {error}")
                continue
            batch.append(record)
            texts.append(text)
            size += len(text) + _NUMBER_CHARACTERS * numbers
            if len(batch) == BATCH or size >= BATCH_CHARACTERS:
                yield batch, texts
                batch, texts, size = [], [], 0
    except Exception:
        if batch:
            yield batch, texts
        raise
    if batch:
        yield batch, texts


def _count_numbers(bag: Any) -> int:
    """Return the approximate number of numbers in a bag of vectors. A value that is not a list counts as one number."""
    if not isinstance(bag, list):
        return 1
    return sum(map(_count_numbers, bag)) if any(isinstance(item, list) for item in bag) else len(bag)
