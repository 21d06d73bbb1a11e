"""A thread pool whose callers take turns."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor

Work = Callable[[], None]


class FairPool:
    """A thread pool with a queue for each caller.

    A free thread takes the first work of the caller whose turn it is (round robin). A caller with many requests
    therefore does not delay other callers.

    A caller that already occupies its maximum number of threads is passed over. Otherwise, slow requests of one caller
    could occupy all threads. The maximum is larger while no other caller waits. Even then, some threads can stay free
    for the next caller, because a thread cannot be taken back from a slow request.

    Args:
        threads: The number of threads.
        per_caller: The maximum number of threads that work for the same caller. While several callers wait, work of a
            caller begins only if the caller occupies fewer threads.
        alone: The maximum number of threads that work for a caller while no other caller waits. It is not smaller than
            ``per_caller``.
    """

    def __init__(self, threads: int, per_caller: int, alone: int) -> None:
        self._executor = ThreadPoolExecutor(threads)
        self._per_caller, self._alone = per_caller, alone
        self._lock = threading.Lock()
        self._queues: OrderedDict[Hashable, deque[Work]] = OrderedDict()  # the caller whose turn it is comes first
        self._running: Counter[Hashable] = Counter()

    def submit(self, caller: Hashable, work: Work) -> None:
        """Add work to the queue of a caller.

        Args:
            caller: The key or the network address of the caller.
            work: The function to call in a thread of the pool.
        """
        with self._lock:
            self._queues.setdefault(caller, deque()).append(work)
        self._executor.submit(self._serve)

    def _serve(self) -> None:
        """Call the queued functions one after the other, until no more work may begin now.

        This method runs in a thread of the pool, once for each function that is added to a queue. It ends if all queues
        are empty, or if each caller with queued work already occupies its maximum number of threads. One of these
        threads continues with the caller's work when it becomes free.
        """
        while (taken := self._take()) is not None:
            caller, work = taken
            try:
                work()
            finally:
                self._release(caller)

    def _take(self) -> tuple[Hashable, Work] | None:
        """Remove the next function from the queues, and return it with the caller who added it.

        The result is None if no function is queued, or if all callers with queued functions already occupy their
        maximum number of threads.
        """
        with self._lock:
            limit = self._per_caller if len(self._queues) > 1 else self._alone
            # At most `threads / per_caller` callers are passed over.
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
