"""Write documents or vectors to an engine, with concurrent requests and retries."""

from __future__ import annotations

import random
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from resift.contracts.documents import IndexInfo, Rejection
from resift.contracts.engine import Engine
from resift.errors import CorruptEngine, EngineError, EngineUnavailable, ResiftError
from resift.stopping import Stop

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")
Batch = Sequence[tuple[str, Any, Any]]  # the content of a request; each item starts with the document's id

ATTEMPTS = 8  # maximum number of attempts, whose waits take about a minute in total
# Errors that a document causes if it cannot be written as JSON, such as lists nested a thousand levels deep.
UNSERIALIZABLE = (ValueError, TypeError, OverflowError, RecursionError)
_CHANGED = (404, 409)  # statuses of documents that were deleted or changed since they were read


def is_temporary(status: int) -> bool:
    """Return whether a request that failed with this HTTP status may succeed if it is sent again later."""
    return status == 429 or status >= 500


def wait_before_retry(attempt: int, sleep: Callable[[float], None]) -> None:
    """Wait for some time before a failed request is sent again.

    The first wait takes 0.5 s. The time doubles with each attempt, up to 30 s, and varies randomly by up to 25 %.

    Args:
        attempt: The number of the failed attempt, counted from 1.
        sleep: A function that waits for a number of seconds.
    """
    sleep(min(30, 0.5 * 2 ** (attempt - 1)) * random.uniform(0.75, 1.25))


class BatchWriter(ABC):
    """A context manager that sends batches of documents to an engine, with several requests at the same time.

    An instance can be used in a single ``with`` statement.

    The end of the ``with`` block waits for all requests. If a request gets no response, or if the engine rejects
    documents temporarily, for example because it is overloaded, the documents are sent again, up to :data:`ATTEMPTS`
    times. There are no retries after ``stop`` has been requested, or after the block has raised an exception. If a
    request is too large, or if a document cannot be serialized, the batch is split in halves.

    Args:
        writers: The maximum number of concurrent requests.
        stop: A flag to stop early.
        sleep: A function that waits for a number of seconds. Tests replace it.
    """

    def __init__(self, writers: int, stop: Stop | None, sleep: Callable[[float], None] | None = None) -> None:
        self.stop = stop or Stop()
        self._writers = writers
        self._sleep = sleep or self.stop.wait
        # Protects the state that the threads share.
        self._lock = threading.RLock()
        self._pool = ThreadPoolExecutor(writers)  # starts a thread when it is needed
        self._running: deque[tuple[set[str], Future[None]]] = deque()
        self._aborted = False

    @abstractmethod
    def _request(self, batch: Batch) -> list[Rejection]:
        """Send a batch to the engine in one request, and return the documents that the engine rejected."""

    @abstractmethod
    def _settle(self, item: Any, rejection: Rejection | None) -> None:
        """Record whether a document was written.

        The writer calls this method once for each document. It holds its lock during the call, so that calls do not
        overlap.

        Args:
            item: The document as an item of its batch: a tuple that starts with the document id.
            rejection: The engine's rejection of the document, or None if the document was written.
        """

    @abstractmethod
    def _give_up(self, batch: Batch, reason: str, failure: ResiftError | None) -> None:
        """Handle a batch that was not completely written after the last attempt.

        Subclasses decide what happens. For example, :class:`CountingWriter` raises an exception unless a stop was
        requested.

        Args:
            batch: The whole batch, including documents that were written.
            reason: The reason why a document was not written.
            failure: The error of the whole request, or None if the engine only rejected some documents.
        """

    def _after_batch(self) -> None:  # noqa: B027 - most writers have nothing to report
        """Report the progress. The method is called after each batch, in the thread that calls :meth:`put`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._aborted = error is not None
        try:
            while self._running and error is None:
                self._finish_oldest()
        finally:
            self._aborted = True
            self._pool.shutdown()

    def put(self, batch: Batch) -> None:
        """Send a batch in another thread.

        The method waits while the maximum number of requests is already running, or while a running request contains a
        document with the same id. The second condition ensures that the last version of a document remains in the
        index.

        Args:
            batch: The documents to send. Each item starts with the document id.

        Raises:
            ResiftError: If an earlier request has failed permanently.
        """
        if self._writers == 1:  # a thread would be no faster
            self._send(batch)
            self._after_batch()
            return
        ids = {item[0] for item in batch}
        while len(self._running) >= self._writers or any(ids & running_ids for running_ids, _ in self._running):
            self._finish_oldest()
        self._running.append((ids, self._pool.submit(self._send, batch)))

    def _finish_oldest(self) -> None:
        """Wait for the oldest running request, and raise its error if it failed."""
        self._running.popleft()[1].result()
        self._after_batch()

    def _send(self, batch: Batch) -> None:
        """Send a batch, and retry temporarily rejected documents until each document is written or refused."""
        pending = batch
        for attempt in range(1, ATTEMPTS + 1):
            rejections, failure = self._request_in_parts(pending)
            is_last = attempt == ATTEMPTS or self.stop.requested or self._aborted or isinstance(failure, CorruptEngine)
            refused = {rejection.position: rejection for rejection in rejections}
            temporary = {position: refusal for position, refusal in refused.items() if is_temporary(refusal.status)}
            with self._lock:
                for position, item in enumerate(pending):
                    if is_last or position not in temporary:
                        self._settle(item, refused.get(position))
            if not temporary:
                return
            if is_last:
                self._give_up(batch, next(iter(temporary.values())).reason, failure)
                return
            self._wait(attempt)
            pending = [pending[position] for position in temporary]

    def _wait(self, attempt: int) -> None:
        wait_before_retry(attempt, self._sleep)

    def _request_in_parts(self, pending: Batch) -> tuple[list[Rejection], ResiftError | None]:
        """Send documents in a single request, or in several smaller requests if that is not possible.

        Documents are divided if the request is too large, or if a document cannot be serialized as JSON.

        Args:
            pending: The documents.

        Returns:
            The documents that the engine rejected, and the error of a request that failed temporarily as a whole, or
            None.
        """
        try:
            return self._request(pending), None
        except (EngineUnavailable, EngineError) as error:
            temporary = is_temporary(error.status)
            if not temporary and error.status != 413:
                raise
            if temporary or len(pending) == 1:
                rejections = [Rejection(i, item[0], error.status, error.message) for i, item in enumerate(pending)]
                return rejections, error if temporary else None
        except UNSERIALIZABLE as error:
            if len(pending) == 1:
                return [Rejection(0, pending[0][0], 400, f"{type(error).__name__}: {error}")], None
        half = len(pending) // 2
        first, first_failure = self._request_in_parts(pending[:half])
        second, second_failure = self._request_in_parts(pending[half:])
        shifted = [replace(rejection, position=rejection.position + half) for rejection in second]
        return first + shifted, first_failure or second_failure


class CountingWriter(BatchWriter):
    """A writer that updates documents which were read from the index before, and counts the results.

    No progress is stored. After a crash, the index itself shows which documents must still be written.

    Args:
        send: A function that sends a batch to the engine, and returns the documents that the engine rejected.
        writers: The maximum number of concurrent requests.
        stop: A flag to stop early.

    Attributes:
        written: The number of documents that were written.
        changed: The ids of documents that must be read again, because a client has changed or deleted them, or because
            a request failed temporarily and their state is unknown.
        refused: The documents that the engine refused permanently.
    """

    def __init__(self, send: Callable[[Any], list[Rejection]], writers: int, stop: Stop | None = None) -> None:
        super().__init__(writers, stop)
        self._send_batch = send
        self.written = 0
        self.changed: list[str] = []
        self.refused: list[Rejection] = []

    def _request(self, batch: Batch) -> list[Rejection]:
        return self._send_batch(batch)

    def _settle(self, item: Any, rejection: Rejection | None) -> None:
        if rejection is None:
            self.written += 1
        elif rejection.status in _CHANGED or is_temporary(rejection.status):
            self.changed.append(rejection.id)
        else:
            self.refused.append(rejection)

    def _give_up(self, batch: Batch, reason: str, failure: ResiftError | None) -> None:
        if not self.stop.requested:
            raise failure or EngineUnavailable(f"the engine is too busy: {reason}", expected="run again later")


def vector_writer(engine: Engine, info: IndexInfo, stop: Stop | None = None) -> CountingWriter:
    """Return a writer that replaces the vectors of documents in an index.

    Each item of its batches is a tuple of the document id, the version of the document when it was read, and the new
    vector, of shape (n_dimensions,).

    Args:
        engine: The search engine that contains the index.
        info: The description of the index.
        stop: A flag to stop early.
    """

    def send(vectors: Batch) -> list[Rejection]:
        rejections = engine.put_vectors(info.name, vectors, info.vector_field)
        for rejection in rejections:
            if rejection.status == 403:  # a write block on the index, which affects all documents
                raise EngineError(f"vectors cannot be written: {rejection.reason}", status=403, value=info.name)
        return rejections

    return CountingWriter(send, engine.writers, stop)
