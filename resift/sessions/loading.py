"""Background threads that load the data of sessions into caches."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future, wait
from contextvars import copy_context
from queue import SimpleQueue

from resift.errors import ResiftError

log = logging.getLogger(__name__)
THREADS = 2
MAX_AWAITED = 2 * THREADS
"""If more calls than this are pending, a caller does not wait. Otherwise, waiting callers could occupy all threads that
answer searches."""
_MAX_WAITING = 64
"""Maximum number of pending calls. Further sessions are loaded when they are searched again."""


class LoadingPool:
    """A small thread pool that loads the data of sessions into caches. Instances are thread-safe.

    After a restart, a service must load all its sessions again. The pool has two threads, so that loading does not
    delay other searches.

    The pool does nothing before :meth:`start` is called. Commands and the Python library never start it, because they
    load a session only when they need it.
    """

    def __init__(self) -> None:
        self._queue: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self._is_running = False
        self._pending: dict[Hashable, Future[None]] = {}
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start the threads of the pool.

        Call this in the process that answers requests, not in its parent process.
        """
        self._is_running = True
        for _ in range(THREADS):
            # Daemon threads, so that a process that stops does not wait for the work.
            threading.Thread(target=self._run_queued_calls, name="loader", daemon=True).start()

    def _run_queued_calls(self) -> None:
        """Run the queued calls one after the other. This is the endless loop of each thread."""
        while True:
            self._queue.get()()

    @property
    def is_running(self) -> bool:
        """Whether :meth:`start` has been called."""
        return self._is_running

    def submit(self, key: Hashable, work: Callable[[], object]) -> Future[None] | None:
        """Let a thread of the pool call a function in the background.

        Args:
            key: An object that identifies the data that the function loads. If a call with an equal key is pending,
                ``work`` is not called.
            work: The function. Its result is ignored.

        Returns:
            The new call, or the pending call with an equal key. None if the pool has not been started, or if too many
            calls are pending.
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

    def run_and_wait(self, key: Hashable, work: Callable[[], object], seconds: float) -> bool:
        """Let a thread of the pool call a function, and wait until the call ends.

        If too many other calls are pending, this method returns False at once.

        Args:
            key: An object that identifies the data that the function loads. If a call with an equal key is pending,
                this method waits for that call, and does not call ``work``.
            work: The function. Its result is ignored.
            seconds: The maximum time to wait, in seconds.

        Returns:
            Whether the call has ended in time. Otherwise, a call that was started continues in the background.

        Raises:
            Exception: If the function fails. Its error is passed on.
        """
        future = self.submit(key, work)
        if future is None or len(self._pending) > MAX_AWAITED:
            return False
        # Not ``future.result(seconds)``, whose TimeoutError cannot be told from one that the function raised. On Python
        # 3.10, that TimeoutError is not the built-in exception either.
        finished, _ = wait([future], seconds)
        if not finished:
            return False
        future.result()
        return True

    def _run(self, key: Hashable, work: Callable[[], object], future: Future[None]) -> None:
        """Call a function in a thread of the pool, and report its end or its error to the waiting callers.

        Args:
            key: The key of the call, which is then no longer pending.
            work: The function to call.
            future: The object on which the callers wait.
        """
        failure: Exception | None = None
        try:
            work()
        except Exception as error:
            failure = error
            # Nobody may wait for the call, so an error that is not raised on purpose is logged with its traceback.
            if isinstance(error, ResiftError):
                log.info("nothing was loaded: %s", error)
            else:
                log.exception("Loading failed")
        with self._lock:
            del self._pending[key]
        if failure is None:
            future.set_result(None)
        else:
            future.set_exception(failure)
