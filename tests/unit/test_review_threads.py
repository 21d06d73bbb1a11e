"""Tests of the threads that answer reviews: other requests do not wait for them."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from resift.cli.http_worker import REVIEW_THREADS, _Threads


class Connection:
    """A connection with a request. The request is answered when ``may_end`` is set."""

    def __init__(self, may_end: threading.Event, path: str) -> None:
        self.requests = [SimpleNamespace(path=path, body_bytes_received=100)]
        self.may_end, self.answered = may_end, threading.Event()

    def service(self) -> None:
        """Answer the request."""
        assert self.may_end.wait(10)
        self.answered.set()


@pytest.mark.parametrize("path", ["/v1/search", "/v1/feedback", "/healthz", "/v1/reviewsearch"])
def test_no_other_request_waits_for_reviews(path: str) -> None:
    threads, may_end, now = _Threads(), threading.Event(), threading.Event()
    now.set()
    paths = ["/v1/reviews", "/v1/reviews/r", "/v1/reviews/r/next", "/v1/reviews/r/export"] * 10
    reviews = [Connection(may_end, path) for path in paths]
    other = Connection(now, path)
    connections: list[Any] = [*reviews, other]
    for connection in connections:
        threads.add_task(connection)
    assert other.answered.wait(10)
    assert len(reviews) > REVIEW_THREADS
    may_end.set()
    assert all(review.answered.wait(10) for review in reviews)
