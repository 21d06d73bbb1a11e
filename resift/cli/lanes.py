"""Thread pools of ``resift serve``, one for each kind of request, and the times that requests wait for a thread."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from resift.cli.fair_pool import FairPool
from resift.reranker.queueing import MAX_WAIT, LongestWait

THREADS = 8
SESSION_THREADS = 8
COMPUTING_THREADS = 2
REVIEW_THREADS = 3
LATE_THREADS = 1
# Endpoints that only compute, in proportion to the size of the body. Small bodies are answered like other requests.
COMPUTING = frozenset(("/v1/rerank", "/v1/embeddings"))
SMALL_BODY = 2048  # bytes
REVIEWS = "/v1/reviews"
_REWRITE = "/v1/rewrite"
_SEARCHES = frozenset((_REWRITE, "/v1/search"))
# A body that contains one of these names has a session or clicks. The body is searched as text, without parsing it.
_SESSION_NAMES = (b'"session"', b'"client_id"')
_SCANNED = 64 * 1024  # bytes of a body in which these names are searched


class Connection(Protocol):
    """A client's connection with at least one request.

    Attributes:
        requests: The requests that have been received completely. The first of them is answered next.
        queued: The time at which the request began to wait for a thread, if the request belongs to a small thread pool,
            such as the pool for expensive computations. Otherwise, the value is infinity.
    """

    requests: list[Any]
    queued: float

    def answer(self, waited: float) -> None:
        """Answer the next request.

        Args:
            waited: The time in seconds that the request has waited for a thread.
        """


class Lanes:
    """The thread pools that answer requests.

    Each kind of request has a pool of its own, so that it does not wait behind requests of other kinds:

    - expensive computations without searches (reranking and embeddings), in a small pool,
    - reviews, in a small pool,
    - health checks,
    - searches in a session, which read and learn from judged documents if the session is not cached,
    - search bodies for ``/v1/rewrite`` that have waited longer than ``MAX_WAIT`` for a thread, and are returned
      unchanged,
    - all other requests, including searches without a session.

    Callers take turns in each pool. A caller is an API key, or a network address for requests without a known key. One
    caller can only occupy a limited number of threads, so that the next caller need not wait:

    - searches in a session: four of eight threads, or six while no other caller waits, because all searches of a
      cluster may come with the same key,
    - reviews: one of three threads, or two while no other caller waits,
    - other requests, which include costly searches without a session: four of eight threads,
    - expensive computations: both threads, because the size of a body bounds their duration.

    The thread pool of waitress distributes requests to its threads in turn. A request would then rarely find the data
    that SQLite and the memory allocator cache for each thread. With these pools, the requests of a client usually run
    in the same thread, and searches take a third less time.

    Args:
        caller_of: A function that returns the caller of a connection's next request.
    """

    def __init__(self, caller_of: Callable[[Any], Hashable]) -> None:
        self._caller_of = caller_of
        self._general = FairPool(THREADS, THREADS // 2, THREADS // 2)
        self._sessions, self._reviews = _create_pool(SESSION_THREADS), _create_pool(REVIEW_THREADS)
        self._late = ThreadPoolExecutor(LATE_THREADS)
        self._computing = FairPool(COMPUTING_THREADS, COMPUTING_THREADS, COMPUTING_THREADS)
        self._health = FairPool(1, 1, 1)
        self._waits = LongestWait()
        self._waiting: deque[_Ticket] = deque()

    def add_task(self, connection: Connection) -> None:
        """Put the next request of a connection into the queue of the thread pool for its kind of request.

        Args:
            connection: The connection, whose first request has been received completely.
        """
        request = connection.requests[0]
        path, pool = getattr(request, "path", ""), self._general
        ticket = _Ticket(connection, self._waits)
        if path in COMPUTING and request.body_bytes_received > SMALL_BODY:
            connection.queued, pool = ticket.queued, self._computing
            ticket.waits = None
        elif path == REVIEWS or path.startswith(f"{REVIEWS}/"):
            connection.queued, pool = ticket.queued, self._reviews
            ticket.waits = None
        elif path == "/healthz":
            pool = self._health
        elif path in _SEARCHES:
            if _names_session(request):
                pool = self._sessions
            if path == _REWRITE:
                self._waiting.append(ticket)
        pool.submit(self._caller_of(connection), ticket.serve)

    def answer_late(self, now: float) -> None:
        """Answer search bodies that have waited too long for a free thread, without rewriting them.

        A separate thread pool returns these search bodies unchanged, so that the cluster can run the searches in time.

        Args:
            now: The current time in seconds, as ``time.monotonic`` returns it.
        """
        waiting = self._waiting
        while waiting and (waiting[0].is_taken or now - waiting[0].queued > MAX_WAIT):
            ticket = waiting.popleft()
            if not ticket.is_taken:
                self._late.submit(ticket.serve)

    def seconds_until_late(self, now: float, at_most: float) -> float:
        """Return the number of seconds until :meth:`answer_late` should be called next.

        At that time, the search body that has waited longest for a free thread is late, and should be answered
        unchanged.

        Args:
            now: The current time in seconds, as ``time.monotonic`` returns it.
            at_most: The maximum return value. It is also returned if no search body is waiting.
        """
        if not self._waiting:
            return at_most
        return min(at_most, max(0.0, self._waiting[0].queued + MAX_WAIT - now) + 0.001)

    def longest_wait(self) -> float:
        """Return the longest time, in seconds, that a recent request waited for a thread.

        Requests of at least the last two seconds and at most the last four seconds are taken into account.
        """
        return self._waits.get()


def _create_pool(threads: int) -> FairPool:
    """Create a pool in which a caller gets half of the threads, or three quarters while no other caller waits."""
    return FairPool(threads, threads // 2, threads - max(1, threads // 4))


class _Ticket:
    """The place of a request in the queue of a thread pool.

    If a search body waits too long for a thread that rewrites it, its ticket is also added to a second queue, in which
    search bodies are returned unchanged. The first thread that takes the ticket from either queue answers the request.

    Args:
        connection: The connection whose next request is answered.
        waits: An object that records how long the request waited, or None to record nothing.

    Attributes:
        queued: The time at which the request began to wait, in seconds, as ``time.monotonic`` returns it.
    """

    __slots__ = ("_connection", "_taken", "queued", "waits")

    def __init__(self, connection: Connection, waits: LongestWait | None) -> None:
        self._connection, self.waits = connection, waits
        self._taken = threading.Lock()
        self.queued = time.monotonic()

    @property
    def is_taken(self) -> bool:
        """Whether a thread has begun to answer the request."""
        return self._taken.locked()

    def serve(self) -> None:
        """Answer the request, unless another thread has already begun to answer it."""
        if not self._taken.acquire(blocking=False):
            return
        waited = time.monotonic() - self.queued
        if self.waits is not None:
            self.waits.add(waited)
        self._connection.answer(waited)


def _names_session(request: Any) -> bool:
    if request.body_rcv is None:
        return False
    body = request.body_rcv.getbuf().get(_SCANNED)
    return any(name in body for name in _SESSION_NAMES)
