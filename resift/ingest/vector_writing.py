"""Documents written, or vectors into those that there are: several requests at a time, and nothing is lost."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import TYPE_CHECKING, Any

from resift.arrays import Floats
from resift.contracts.documents import IndexInfo, Rejection
from resift.contracts.engine import Engine
from resift.errors import EngineError, EngineUnavailable, ResiftError
from resift.ingest.retrying import ATTEMPTS, Patience, is_temporary
from resift.ingest.stopping import Stop

if TYPE_CHECKING:
    from typing_extensions import Self

Vectors = Sequence[tuple[str, Any, Floats]]  # ids, the versions that were read, and vectors (K,)
Batch = Sequence[tuple[str, Any, Any]]  # what is written in one request; each begins with the document's id
_CHANGED = (404, 409)  # the statuses of documents that were deleted or changed since they were read


class BatchWriter:
    """Has batches written by ``send``, which returns what was refused: several requests at a time.

    Use it as a context manager: at the end of the block everything is written. What the engine is too busy for is sent
    again, as often as :data:`ATTEMPTS` says, and so is all of a request that is not answered. No state is kept: who
    reads the index again after a kill finds what was not written.

    Attributes:
        written: documents that were written.
        changed: ids of those that clients changed or deleted since they were read, or of which that is not known:
            they are to be read again.
        refused: documents that the engine does not take, with the reasons.
    """

    def __init__(
        self,
        send: Callable[[Any], list[Rejection]],
        writers: int,
        stop: Stop | None = None,
        sleep: Callable[[float], None] | None = None,
    ) -> None:
        self.written = 0
        self.changed: list[str] = []
        self.refused: list[Rejection] = []
        self._sent_by, self._writers, self._stop = send, writers, stop or Stop()
        self._patience = Patience(sleep or self._stop.wait)
        self._pool = ThreadPoolExecutor(writers)
        self._running: deque[Future[None]] = deque()
        self._gives_up = False
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
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
        """Have one batch written; waits while as many as the engine gains from are being written already.

        Raises EngineUnavailable where the engine does not come back, and EngineError for what it refuses as a whole.
        """
        while len(self._running) >= self._writers:
            self._finish_one()
        self._running.append(self._pool.submit(self._send, batch))

    def _finish_one(self) -> None:
        self._running.popleft().result()

    def _send(self, batch: Batch) -> None:
        """Send a batch until each document is written, was changed by somebody, or is refused."""
        pending = batch
        for attempt in range(1, ATTEMPTS + 1):
            rejections, failure = self._put(pending)
            late = [one for one in rejections if is_temporary(one.status)]
            final = [one for one in rejections if not is_temporary(one.status)]
            self._add_changed([one for one in final if one.status in _CHANGED])
            with self._lock:
                self.written += len(pending) - len(rejections)
                self.refused += [one for one in final if one.status not in _CHANGED]
            if not late:
                return
            if self._stop.requested:
                self._add_changed(late)
                return
            if attempt == ATTEMPTS or self._gives_up:
                raise failure or EngineUnavailable(f"too busy: {late[0].reason}", expected="run again later")
            self._patience.wait(attempt)
            pending = [pending[one.position] for one in late]

    def _add_changed(self, rejections: Sequence[Rejection]) -> None:
        with self._lock:
            self.changed += [one.id for one in rejections]

    def _put(self, pending: Batch) -> tuple[list[Rejection], ResiftError | None]:
        """One request: its rejections and, if it failed as a whole for now, the error.

        What a failed request has written is found changed when it is sent again.
        """
        try:
            return self._sent_by(pending), None
        except (EngineUnavailable, EngineError) as error:
            if error.status == 413 and len(pending) > 1:  # larger than the cluster allows, and half of it may be taken
                return self._put_in_halves(pending)
            if not is_temporary(error.status):
                raise
            return [Rejection(i, id, error.status, error.message) for i, (id, _, _) in enumerate(pending)], error

    def _put_in_halves(self, pending: Batch) -> tuple[list[Rejection], ResiftError | None]:
        half = len(pending) // 2
        (first, failure), (second, other) = self._put(pending[:half]), self._put(pending[half:])
        shifted = [Rejection(one.position + half, one.id, one.status, one.reason) for one in second]
        return first + shifted, failure or other


class VectorWriter(BatchWriter):
    """Gives documents of one index the vectors of ``info``, each only where it is still the version that was read."""

    def __init__(
        self, engine: Engine, info: IndexInfo, stop: Stop | None = None, sleep: Callable[[float], None] | None = None
    ) -> None:
        def send(vectors: Vectors) -> list[Rejection]:
            rejections = engine.put_vectors(info.name, vectors, info.vector_field)
            for one in rejections:
                if one.status == 403:  # a block on the index, which would refuse each document that there is
                    raise EngineError(f"vectors cannot be written: {one.reason}", status=403, value=info.name)
            return rejections

        super().__init__(send, engine.writers, stop, sleep)
