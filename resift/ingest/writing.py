"""Documents, or vectors into those that there are, written to an engine: several requests at a time, nothing lost."""

from __future__ import annotations

import random
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from resift.contracts.documents import IndexInfo, Rejection
from resift.contracts.engine import Engine
from resift.errors import CorruptEngine, EngineError, EngineUnavailable, ResiftError
from resift.ingest.stopping import Stop

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")
Batch = Sequence[tuple[str, Any, Any]]  # what is written in one request; each begins with the document's id

ATTEMPTS = 8  # which take a minute or so, beside the time of the requests themselves
# what a document leads to that cannot be written as text or as JSON, such as lists nested a thousand deep
UNSERIALIZABLE = (ValueError, TypeError, OverflowError, RecursionError)
_CHANGED = (404, 409)  # the statuses of documents that were deleted or changed since they were read


def is_temporary(status: int) -> bool:
    """Whether a request that was refused with this HTTP status may succeed later."""
    return status == 429 or status >= 500


def wait(attempt: int, sleep: Callable[[float], None]) -> None:
    """Wait after an attempt that failed, the first being 1: 0.5 s, then twice as long each time, up to 30 s, give or
    take a quarter."""
    sleep(min(30, 0.5 * 2 ** (attempt - 1)) * random.uniform(0.75, 1.25))


class BatchWriter(ABC):
    """Writes batches, several requests at a time; used as a context manager, at whose end everything is written.

    What the engine is too busy for is sent again, as often as :data:`ATTEMPTS` says, and so is all of a request that is
    not answered; but not once a ``stop`` is requested or the block has failed. A request that is too large, or cannot
    be made because of a document in it, is halved. ``sleep`` does the waiting.
    """

    def __init__(self, writers: int, stop: Stop | None, sleep: Callable[[float], None] | None = None) -> None:
        self.stop = stop or Stop()
        self._writers, self._sleep = writers, sleep or self.stop.wait
        # taken by whoever changes what the threads share
        self._lock = threading.RLock()
        # called after each batch, by the thread that puts them
        self._tell: Callable[[], None] = lambda: None

    @abstractmethod
    def _request(self, batch: Batch) -> list[Rejection]:
        """Send one request; what was refused of it."""

    @abstractmethod
    def _settle(self, item: Any, rejection: Rejection | None) -> None:
        """Note what became of a document, None for a written one; the lock is taken."""

    @abstractmethod
    def _give_up(self, batch: Batch, reason: str, failure: ResiftError | None) -> None:
        """Called where some of a batch were refused for now to the last, or, which is a failure, the whole request."""

    def __enter__(self) -> Self:
        self._pool = ThreadPoolExecutor(self._writers)
        self._running: deque[tuple[set[str], Future[None]]] = deque()
        self._gives_up = False
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._gives_up = error is not None
        try:
            while self._running and error is None:
                self._finish_one()
        finally:
            self._gives_up = True
            self._pool.shutdown()

    def put(self, batch: Batch) -> None:
        """Have one batch written.

        Waits while as many as the engine gains from are being written already, and for those that hold a document of
        the same id, so that the last one stays. Raises what a request raises that is not sent again.
        """
        if self._writers == 1:  # a thread would gain nothing
            self._send(batch)
            self._tell()
            return
        ids = {item[0] for item in batch}
        while len(self._running) >= self._writers or any(ids & other for other, _ in self._running):
            self._finish_one()
        self._running.append((ids, self._pool.submit(self._send, batch)))

    def _finish_one(self) -> None:
        self._running.popleft()[1].result()
        self._tell()

    def _send(self, batch: Batch) -> None:
        """Send a batch until each document is settled."""
        pending = batch
        for attempt in range(1, ATTEMPTS + 1):
            rejections, failure = self._ask(pending)
            is_last = attempt == ATTEMPTS or self.stop.requested or self._gives_up or isinstance(failure, CorruptEngine)
            late = {one.position: one for one in rejections if is_temporary(one.status)}
            refused = {one.position: one for one in rejections}
            with self._lock:
                for position, item in enumerate(pending):
                    if is_last or position not in late:
                        self._settle(item, refused.get(position))
            if not late:
                return
            if is_last:
                self._give_up(batch, next(iter(late.values())).reason, failure)
                return
            self._wait(attempt)
            pending = [pending[position] for position in late]

    def _wait(self, attempt: int) -> None:
        wait(attempt, self._sleep)

    def _ask(self, pending: Batch) -> tuple[list[Rejection], ResiftError | None]:
        """One request: its rejections and, if it failed as a whole for now, the error."""
        try:
            return self._request(pending), None
        except (EngineUnavailable, EngineError) as error:
            for_now = is_temporary(error.status)
            if not for_now and error.status != 413:
                raise
            if for_now or len(pending) == 1:
                rejections = [Rejection(i, item[0], error.status, error.message) for i, item in enumerate(pending)]
                return rejections, error if for_now else None
        except UNSERIALIZABLE as error:
            if len(pending) == 1:
                return [Rejection(0, pending[0][0], 400, f"{type(error).__name__}: {error}")], None
        half = len(pending) // 2
        (first, failure), (second, other) = self._ask(pending[:half]), self._ask(pending[half:])
        shifted = [Rejection(one.position + half, one.id, one.status, one.reason) for one in second]
        return first + shifted, failure or other


class CountingWriter(BatchWriter):
    """Has documents written by ``send``, each only where it is still as it was read. No state is kept: who reads the
    index again after a kill finds what was not written.

    Attributes:
        written: documents that were written.
        changed: ids of those that clients changed or deleted since they were read, or of which that is not known:
            they are to be read again.
        refused: documents that the engine does not take, with the reasons.
    """

    def __init__(self, send: Callable[[Any], list[Rejection]], writers: int, stop: Stop | None = None) -> None:
        super().__init__(writers, stop)
        self._sent_by = send
        self.written = 0
        self.changed: list[str] = []
        self.refused: list[Rejection] = []

    def _request(self, batch: Batch) -> list[Rejection]:
        return self._sent_by(batch)

    def _settle(self, item: Any, rejection: Rejection | None) -> None:
        if rejection is None:
            self.written += 1
        elif rejection.status in _CHANGED or is_temporary(rejection.status):
            self.changed.append(rejection.id)
        else:
            self.refused.append(rejection)

    def _give_up(self, batch: Batch, reason: str, failure: ResiftError | None) -> None:
        if not self.stop.requested:
            raise failure or EngineUnavailable(f"too busy: {reason}", expected="run again later")


def vector_writer(engine: Engine, info: IndexInfo, stop: Stop | None = None) -> CountingWriter:
    """What gives documents of one index the vectors of ``info``: ids, the versions that were read, vectors (K,)."""

    def send(vectors: Batch) -> list[Rejection]:
        rejections = engine.put_vectors(info.name, vectors, info.vector_field)
        for one in rejections:
            if one.status == 403:  # a block on the index, which would refuse each document that there is
                raise EngineError(f"vectors cannot be written: {one.reason}", status=403, value=info.name)
        return rejections

    return CountingWriter(send, engine.writers, stop)
