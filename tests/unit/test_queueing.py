"""Tests of queues of the service: lanes, late requests, and the longest wait."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from clock import Clock
from flask.testing import FlaskClient
from service_app import config as config
from service_app import plain as plain
from waiting import until

from resift.cli.fair_pool import FairPool
from resift.cli.lanes import REVIEW_THREADS, SESSION_THREADS, Lanes
from resift.reranker.access.keys import KeyFile
from resift.reranker.access.requests import ApiKeys
from resift.reranker.queueing import LONGEST_WAIT, MAX_WAIT, WAITED, LongestWait, RateLimitedLog


class Body:
    """The body of a request that has been received."""

    def __init__(self, text: bytes) -> None:
        self.text = text

    def getbuf(self) -> Body:
        return self

    def get(self, size: int) -> bytes:
        return self.text[:size]


class Caller:
    """A connection with a request. The request is answered when ``may_end`` is set."""

    numbers = count()

    def __init__(self, may_end: threading.Event, path: str = "/v1/rewrite", body: bytes = b"{}") -> None:
        self.number = next(self.numbers)
        request = SimpleNamespace(path=path, body_rcv=Body(body), body_bytes_received=len(body))
        self.requests = [request]
        self.may_end, self.answered = may_end, threading.Event()
        self.count = 0
        self.key = ""

    def answer(self, waited: float) -> None:
        self.count += 1
        assert waited >= 0
        assert self.may_end.wait(60)
        self.answered.set()


def caller_of(connection: Any) -> int:
    """Return a different caller for each connection."""
    return connection.number


SESSION = b'{"body": {"ext": {"ml_inference": {"session": "a"}}}}'


def is_set() -> threading.Event:
    event = threading.Event()
    event.set()
    return event


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/rewrite", b'{"body": {}}'),
        ("/v1/rewrite", b'{"body": {"ext": {"ml_inference": {"alpha": 0}}}}'),
        ("/v1/search", b'{"query": "session"}'.replace(b'"session"', b'"sessions"')),
        ("/v1/feedback", SESSION),
        ("/healthz", b""),
    ],
)
def test_requests_without_a_session_do_not_wait_behind_sessions(path: str, body: bytes) -> None:
    lanes, may_end = Lanes(caller_of), threading.Event()
    in_sessions = [Caller(may_end, body=SESSION) for _ in range(SESSION_THREADS + 2)]
    other = Caller(is_set(), path, body)
    connections: list[Any] = [*in_sessions, other]
    for connection in connections:
        lanes.add_task(connection)
    assert other.answered.wait(60)
    may_end.set()
    assert all(caller.answered.wait(60) for caller in in_sessions)


@pytest.mark.parametrize("path", ["/v1/search", "/v1/feedback", "/healthz", "/v1/reviewsearch"])
def test_no_other_request_waits_for_reviews(path: str) -> None:
    lanes, may_end = Lanes(caller_of), threading.Event()
    paths = ["/v1/reviews", "/v1/reviews/r", "/v1/reviews/r/next", "/v1/reviews/r/export"] * REVIEW_THREADS
    reviews = [Caller(may_end, path) for path in paths]
    other = Caller(is_set(), path)
    connections: list[Any] = [*reviews, other]
    for connection in connections:
        lanes.add_task(connection)
    assert other.answered.wait(60)
    may_end.set()
    assert all(review.answered.wait(60) for review in reviews)


def test_a_body_that_waits_too_long_is_passed_on_and_answered_once() -> None:
    lanes, may_end = Lanes(caller_of), threading.Event()
    callers = [Caller(may_end, body=SESSION) for _ in range(SESSION_THREADS)]
    search, last = Caller(is_set(), "/v1/search", SESSION), Caller(is_set(), body=SESSION)
    connections: list[Any] = [*callers, search, last]
    for connection in connections:
        lanes.add_task(connection)
    lanes.answer_late(0.0)
    assert not last.answered.is_set()
    lanes.answer_late(float("inf"))
    assert last.answered.wait(60)
    assert not search.answered.is_set()  # a search is answered late rather than badly
    may_end.set()
    assert search.answered.wait(60)
    final: Any = Caller(is_set(), body=SESSION)
    lanes.add_task(final)
    assert final.answered.wait(60)
    assert last.count == 1


def test_the_loop_wakes_up_when_a_body_is_late() -> None:
    lanes, may_end = Lanes(caller_of), threading.Event()
    assert lanes.seconds_until_late(0.0, at_most=0.5) == 0.5
    waiting: list[Any] = [Caller(may_end, body=SESSION) for _ in range(SESSION_THREADS + 1)]
    for connection in waiting:
        lanes.add_task(connection)
    assert lanes.seconds_until_late(float("inf"), at_most=0.5) < 0.01
    may_end.set()


def test_callers_take_turns() -> None:
    pool, may_begin, order = FairPool(1, 1, 1), threading.Event(), list[str]()
    done = threading.Event()
    pool.submit("first", lambda: order.append(str(may_begin.wait(60))))
    for number in range(4):
        pool.submit("anna", lambda number=number: order.append(f"anna {number}"))
    for name in ("bob", "carl"):
        for number in range(2):
            pool.submit(name, lambda name=name, number=number: order.append(f"{name} {number}"))
    pool.submit("last", lambda: None)
    pool.submit("anna", done.set)
    may_begin.set()
    assert done.wait(60)
    rounds = ["anna 0", "bob 0", "carl 0", "anna 1", "bob 1", "carl 1", "anna 2", "anna 3"]
    assert order == ["True", *rounds]


def test_a_single_caller_leaves_threads_free_for_others() -> None:
    lanes, may_end = Lanes(lambda connection: connection.key), threading.Event()
    costly = [Caller(may_end, "/v1/search", SESSION) for _ in range(50)]
    others = [Caller(is_set(), "/v1/search", SESSION) for _ in range(20)]
    for key, callers in (("costly", costly), ("other", others)):
        for caller in callers:
            caller.key = key
            lanes.add_task(caller)  # type: ignore[arg-type]
    assert all(caller.answered.wait(60) for caller in others)
    # a thread that has taken a request may not have called its caller yet
    assert until(lambda: sum(caller.count for caller in costly) == SESSION_THREADS * 3 // 4)
    time.sleep(0.05)  # in which a further thread could take a request
    assert sum(caller.count for caller in costly) == SESSION_THREADS * 3 // 4
    may_end.set()
    assert all(caller.answered.wait(60) for caller in costly)
    assert {caller.count for caller in costly} == {1}


class Works:
    """Functions in a pool of eight threads, each of which ends when the test allows it."""

    def __init__(self) -> None:
        self.pool, self.running, self.changed = (
            FairPool(8, 4, 6),
            list[tuple[str, threading.Event]](),
            threading.Condition(),
        )
        self.is_over = False

    def submit(self, caller: str, number: int) -> None:
        """Add functions to the queue of a caller."""
        for _ in range(number):
            self.pool.submit(caller, lambda: self.run(caller))

    def run(self, caller: str) -> None:
        """Run until the test ends the function."""
        end = threading.Event()
        with self.changed:
            if self.is_over:
                return
            self.running.append((caller, end))
            self.changed.notify_all()
        assert end.wait(60)

    def end(self, caller: str) -> None:
        """End the function of a caller that runs longest."""
        with self.changed:
            work = next(work for work in self.running if work[0] == caller)
            self.running.remove(work)
        work[1].set()

    def wait_for(self, **threads: int) -> None:
        """Wait until so many threads run functions of each caller, and check that no other function begins."""
        with self.changed:
            assert self.changed.wait_for(lambda: self.counts() == threads, 60), (self.counts(), threads)
            assert not self.changed.wait(0.05), self.counts()

    def counts(self) -> dict[str, int]:
        """Return the number of running functions by caller."""
        return dict(Counter(caller for caller, _ in self.running))

    def end_all(self) -> None:
        """End all functions, including those that have not begun."""
        with self.changed:
            self.is_over = True
            for _, end in self.running:
                end.set()


@pytest.fixture
def works() -> Iterator[Works]:
    works = Works()
    yield works
    works.end_all()


def test_a_caller_begins_no_more_than_its_share_while_others_wait(works: Works) -> None:
    works.submit("anna", 50)
    works.wait_for(anna=6)
    works.submit("ben", 50)
    works.wait_for(anna=6, ben=2)
    for anna, ben in ((5, 3), (4, 4)):
        works.end("anna")  # anna has more than her share, so the thread goes to ben
        works.wait_for(anna=anna, ben=ben)
    for caller in ("anna", "ben"):
        works.end(caller)
        works.wait_for(anna=4, ben=4)


def test_a_caller_uses_more_threads_when_no_other_waits_any_more(works: Works) -> None:
    works.submit("anna", 20)
    works.wait_for(anna=6)
    works.submit("ben", 4)
    for anna, ben in ((5, 3), (4, 4)):
        works.end("anna")
        works.wait_for(anna=anna, ben=ben)
    for anna, ben in ((5, 3), (6, 2), (6, 1)):
        works.end("ben")
        works.wait_for(anna=anna, ben=ben)


def test_requests_with_an_unknown_key_have_no_queue_of_their_own(tmp_path: Path) -> None:
    file = KeyFile(str(tmp_path / "keys.jsonl"))
    key = file.create("shop", ["search"])
    keys = ApiKeys(str(file.path))
    for headers in ({"X-Api-Key": key}, {"Authorization": f"Bearer {key}"}):
        assert keys.name_of(headers) == ("key", "shop")
    unknown = key[:-1] + ("a" if key[-1] != "a" else "b")
    for headers in ({}, {"X-Api-Key": unknown}, {"Authorization": "Bearer token-of-the-cluster"}):
        assert keys.name_of(headers) is None


def test_the_longest_wait_is_forgotten_after_some_seconds() -> None:
    clock = Clock()
    waits = LongestWait(clock)
    for seconds in (0.1, 0.4, 0.2):
        waits.add(seconds)
    clock.now = 2.5
    waits.add(0.3)
    assert waits.get() == 0.4
    clock.now = 5.0
    assert waits.get() == 0.3
    clock.now = 60.0
    assert waits.get() == 0.0


def test_events_of_one_kind_are_logged_every_ten_seconds(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    late = RateLimitedLog("Late: %d searches, the latest in %s", clock)
    with caplog.at_level(logging.WARNING):
        for clock.now in (0.0, 1.0, 9.0, 11.0, 12.0):
            late.add(f"index{clock.now:g}")
    messages = [record.getMessage() for record in caplog.records]
    assert messages == ["Late: 1 searches, the latest in index0", "Late: 3 searches, the latest in index11"]


def test_a_late_body_is_answered_unchanged_and_counted(plain: FlaskClient) -> None:
    body = {"query": {"match": {"text": "fire"}}, "ext": {"ml_inference": {"session": "a"}}}
    late = {WAITED: MAX_WAIT + 0.01}
    answer = plain.post("/v1/rewrite", json={"index": "news", "body": body}, environ_overrides=late)
    assert answer.get_json() == {
        "body": body,
        "resift": {"rewritten": False, "outcome": "overloaded", "reason": "the service is overloaded"},
    }
    assert 'resift_rewrites_total{outcome="overloaded"} 1.0' in plain.get("/metrics").text


@pytest.mark.parametrize(("seconds", "overloaded"), [(0.0, False), (0.25, False), (0.35, True)])
def test_the_health_check_says_that_requests_wait(plain: FlaskClient, seconds: float, overloaded: bool) -> None:
    health = plain.get("/healthz", environ_overrides={LONGEST_WAIT: seconds}).get_json()
    assert (health["longest_wait"], health["overloaded"]) == (seconds, overloaded)
