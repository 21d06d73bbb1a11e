"""A thread pool whose callers take turns."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor

Work = Callable[[], None]


class FairPool:
    """A thread pool with a queue for each caller.

    A free thread calls the first function in the queue of the caller whose turn it is (round robin). A caller with many
    requests therefore does not delay other callers.

    A caller that already occupies its maximum number of threads is passed over, so that its slow requests cannot occupy
    all threads. The maximum is larger while no other caller waits. Even this larger maximum can leave some threads free
    for the next caller, because a thread cannot be taken back from a slow request.

    Args:
        threads: The number of threads.
        max_per_caller: The maximum number of threads that work for the same caller while several callers wait.
        max_for_lone_caller: The maximum number of threads that work for a caller while no other caller waits. It is not
            smaller than ``max_per_caller``.
    """

    def __init__(self, threads: int, max_per_caller: int, max_for_lone_caller: int) -> None:
        self._executor = ThreadPoolExecutor(threads)
        self._max_per_caller, self._max_for_lone_caller = max_per_caller, max_for_lone_caller
        self._lock = threading.Lock()
        self._queues: OrderedDict[Hashable, deque[Work]] = OrderedDict()  # the caller whose turn it is comes first
        self._running: Counter[Hashable] = Counter()

    def submit(self, caller: Hashable, work: Work) -> None:
        """Add a function to the queue of a caller.

        Args:
            caller: The API key or the network address of the caller.
            work: The function, which a thread of the pool calls.
        """
        with self._lock:
            self._queues.setdefault(caller, deque()).append(work)
        self._executor.submit(self._serve)

    def _serve(self) -> None:
        """Call the queued functions one after the other, as long as a function may be called.

        A thread of the pool runs this method once for each function that is added to a queue. The method ends if all
        queues are empty, or if each caller with queued functions already occupies its maximum number of threads. One of
        these threads then calls the caller's next function when it becomes free.
        """
        while (taken := self._take()) is not None:
            caller, work = taken
            try:
                work()
            finally:
                self._release(caller)

    def _take(self) -> tuple[Hashable, Work] | None:
        """Remove the next function to call from its queue.

        Returns:
            The caller who added the function, and the function. None if no function is queued, or if all callers with
            queued functions already occupy their maximum number of threads.
        """
        with self._lock:
            limit = self._max_per_caller if len(self._queues) > 1 else self._max_for_lone_caller
            # At most `threads / max_per_caller` callers are passed over.
            caller = next((caller for caller in self._queues if self._running[caller] < limit), None)
            if caller is None:
                return None
            queue = self._queues[caller]
            work = queue.popleft()
            if queue:
                self._queues.move_to_end(caller)
            else:
                del self._queues[caller]
            self._running[caller] += 1
            return caller, work

    def _release(self, caller: Hashable) -> None:
        with self._lock:
            self._running[caller] -= 1
            if not self._running[caller]:
                del self._running[caller]
