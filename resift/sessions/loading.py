"""Background threads that load what sessions need."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from contextvars import copy_context
from queue import SimpleQueue

log = logging.getLogger(__name__)
THREADS = 2
MAX_AWAITED = 2 * THREADS
"""Pieces of work up to which callers wait for theirs. More would occupy all threads that answer searches."""
_MAX_WAITING = 64
"""Pieces of work that wait at most. More sessions than these are loaded when they are searched again."""


class Loader:
    """A small thread pool that fills caches. Its work may be dropped. Thread-safe.

    A service that has just restarted must load all its sessions again. The pool loads a few of them at a time, so that
    they leave the engine and the processor to other searches.

    Until :meth:`start` is called, all work is dropped. Commands and the library load sessions when they need them.
    """

    def __init__(self) -> None:
        self._queue: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self._is_running = False
        self._pending: dict[Hashable, Future[None]] = {}
        self._lock = threading.Lock()

    def start(self) -> None:
        """Accept work from now on. Call this in the process that answers requests, not in its parent."""
        self._is_running = True
        for _ in range(THREADS):
            # Daemon threads, so that a process that stops does not wait for the work.
            threading.Thread(target=self._serve, name="loader", daemon=True).start()

    def _serve(self) -> None:
        while True:
            self._queue.get()()

    @property
    def is_running(self) -> bool:
        """Whether :meth:`start` has been called."""
        return self._is_running

    def submit(self, key: Hashable, work: Callable[[], object]) -> Future[None] | None:
        """Let a thread of the pool call a function, unless a call with an equal key is pending.

        Args:
            key: What the function loads.
            work: The function. Its result is ignored.

        Returns:
            The pending call, or None if the work was dropped.
        """
        with self._lock:
            pending = self._pending.get(key)
            if pending is not None:
                return pending
            if not self._is_running or len(self._pending) >= _MAX_WAITING:
                return None
            future = self._pending[key] = Future()
            context = copy_context()
        self._queue.put(lambda: context.run(self._run, key, work, future))
        return future

    def load(self, key: Hashable, work: Callable[[], object], seconds: float) -> bool:
        """Let the pool call a function, and wait for its end unless too much other work is pending.

        Args:
            key: What the function loads.
            work: The function.
            seconds: The time to wait at most.

        Returns:
            Whether the function has ended in time. If not, it goes on.

        Raises:
            Exception: The error of the function.
        """
        future = self.submit(key, work)
        if future is None or len(self._pending) > MAX_AWAITED:
            return False
        try:
            future.result(seconds)
        except TimeoutError:
            return False
        return True

    def _run(self, key: Hashable, work: Callable[[], object], future: Future[None]) -> None:
        failure: Exception | None = None
        try:
            work()
        except Exception as error:
            log.info("nothing was loaded: %s", error)
            failure = error
        with self._lock:
            del self._pending[key]
        if failure is None:
            future.set_result(None)
        else:
            future.set_exception(failure)
