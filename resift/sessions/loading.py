"""Background threads that load the data of sessions into caches."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future, wait
from contextvars import copy_context
from queue import SimpleQueue

from resift.errors import ResiftError

log = logging.getLogger(__name__)
THREADS = 2
MAX_AWAITED = 2 * THREADS
"""Maximum number of pending calls at which a caller still waits. Without this limit, waiting callers could occupy all
threads that answer searches."""
_MAX_WAITING = 64
"""Maximum number of pending calls. Further sessions are loaded when they are searched again."""
_STOP_SECONDS = 2.0
"""Maximum seconds that :meth:`LoadingPool.stop` waits for running calls, which may wait for the engine."""


class LoadingPool:
    """A small thread pool that loads the data of sessions into caches. Instances are thread-safe.

    After a restart, a service must load all its sessions again. The pool has two threads, so that loading does not
    delay other searches.

    The pool does nothing before :meth:`start` is called. Commands and the Python library never start it, because they
    load a session only when they need it.
    """

    def __init__(self) -> None:
        self._queue: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
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
            thread = threading.Thread(target=self._run_queued_calls, name="loader", daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self, seconds: float = _STOP_SECONDS) -> None:
        """Stop the threads of the pool. Calls that have not been started are dropped.

        Call this before the connections that the calls use are closed.

        Args:
            seconds: The maximum time to wait for running calls, in seconds. Calls that take longer are left running.
        """
        with self._lock:
            self._is_running = False
            for _ in self._threads:
                self._queue.put(None)
        end = time.monotonic() + seconds
        while self._threads:
            self._threads.pop().join(max(0.0, end - time.monotonic()))

    def _run_queued_calls(self) -> None:
        """Run the queued calls one after the other, until :meth:`stop` is called. This is the loop of each thread."""
        while (call := self._queue.get()) is not None:
            call()

    @property
    def is_running(self) -> bool:
        """Whether :meth:`start` has been called, and :meth:`stop` has not."""
        return self._is_running

    def submit(self, key: Hashable, work: Callable[[], object]) -> Future[None] | None:
        """Let a thread of the pool call a function in the background.

        Args:
            key: An object that identifies the data that the function loads. If a call with an equal key is pending,
                ``work`` is not called.
            work: The function. Its result is ignored.

        Returns:
            The new call, or the pending call with an equal key. None if the pool is not running, or if too many calls
            are pending.
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
        if not finished or future.cancelled():
            return False
        future.result()
        return True

    def _run(self, key: Hashable, work: Callable[[], object], future: Future[None]) -> None:
        """Call a function in a thread of the pool, and report its end or its error to the waiting callers.

        If the pool has been stopped, the function is not called.

        Args:
            key: The key of the call, which is then no longer pending.
            work: The function to call.
            future: The object on which the callers wait.
        """
        failure: Exception | None = None
        if not self._is_running:
            with self._lock:
                del self._pending[key]
            future.cancel()
            future.set_running_or_notify_cancel()  # only this method wakes the callers that wait
            return
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
