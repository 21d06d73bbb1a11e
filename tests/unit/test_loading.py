"""Tests of the loader, which loads sessions in the background."""

from __future__ import annotations

import threading
from concurrent.futures import wait
from functools import partial

import pytest

from resift.errors import EngineUnavailable
from resift.sessions.loading import MAX_AWAITED, THREADS, LoadingPool


def started_loader() -> LoadingPool:
    loader = LoadingPool()
    loader.start()
    return loader


def test_nothing_is_loaded_before_the_start() -> None:
    assert LoadingPool().submit("a", list) is None
    assert not LoadingPool().run_and_wait("a", list, seconds=60)


def test_work_that_ends_in_time_is_waited_for() -> None:
    results: list[str] = []
    assert started_loader().run_and_wait("a", lambda: results.append("loaded"), seconds=60)
    assert results == ["loaded"]


def test_errors_of_the_work_are_raised() -> None:
    loader = started_loader()
    with pytest.raises(ZeroDivisionError):
        loader.run_and_wait("a", lambda: 1 / 0, seconds=60)
    assert loader.run_and_wait("a", list, seconds=60)


@pytest.mark.parametrize(("error", "level"), [(EngineUnavailable("no node answers"), "INFO"), (KeyError("x"), "ERROR")])
def test_errors_of_work_that_nobody_waits_for_are_logged(
    error: Exception, level: str, caplog: pytest.LogCaptureFixture
) -> None:
    def work() -> None:
        raise error

    with caplog.at_level("INFO"):
        future = started_loader().submit("a", work)
        assert future is not None
        assert future.exception(60) is error
    (record,) = caplog.records
    assert record.levelname == level
    assert (record.exc_info is not None) == (level == "ERROR")


def test_a_time_limit_that_the_work_exceeded_is_an_error() -> None:
    def work() -> None:
        raise TimeoutError("the engine is slow")

    with pytest.raises(TimeoutError, match="the engine is slow"):
        started_loader().run_and_wait("a", work, seconds=60)


def test_work_that_takes_long_goes_on_without_its_caller() -> None:
    loader, release, done = started_loader(), threading.Event(), threading.Event()

    def work() -> None:
        assert release.wait(60)
        done.set()

    assert not loader.run_and_wait("a", work, seconds=0.01)
    release.set()
    assert done.wait(60)


def test_equal_work_is_done_once() -> None:
    loader, release, calls = started_loader(), threading.Event(), list[int]()

    def work() -> None:
        calls.append(1)
        assert release.wait(60)

    pending = [loader.submit("a", work) for _ in range(5)]
    release.set()
    for future in pending:
        assert future is not None
        future.result(60)
    assert calls == [1]


def test_nobody_waits_behind_much_other_work() -> None:
    loader, release = started_loader(), threading.Event()
    busy = [loader.submit(number, lambda: release.wait(60)) for number in range(MAX_AWAITED)]
    assert not loader.run_and_wait("a", list, seconds=10_000)  # returns at once, but the work is done later
    later = loader.submit("a", list)
    assert later is not None
    release.set()
    for future in [*busy, later]:
        assert future is not None
        future.result(60)


def test_too_much_work_is_dropped() -> None:
    loader, release = started_loader(), threading.Event()
    pending = [loader.submit(number, lambda: release.wait(60)) for number in range(1000)]
    assert pending[0] is not None
    assert pending[-1] is None
    release.set()


def test_stopping_waits_for_running_calls_and_drops_the_others() -> None:
    loader, started, release = LoadingPool(), threading.Semaphore(0), threading.Event()
    loader.start()
    ended: list[int] = []

    def work(number: int) -> None:
        started.release()
        release.wait(60)
        ended.append(number)

    running = [loader.submit(number, partial(work, number)) for number in range(THREADS)]
    for _ in range(THREADS):
        assert started.acquire(timeout=60)
    dropped = loader.submit("dropped", lambda: ended.append(-1))
    assert dropped is not None
    loader.stop(seconds=0)  # does not wait for calls that take longer
    assert not loader.is_running
    assert ended == []
    assert loader.submit("late", list) is None
    release.set()
    assert {future.result(60) for future in running if future is not None} == {None}
    assert wait([dropped], 60).done == {dropped}
    assert dropped.cancelled()
    assert sorted(ended) == list(range(THREADS))


def test_stopping_waits_until_the_calls_have_ended() -> None:
    loader, started = started_loader(), threading.Event()
    ended: list[str] = []

    def work() -> None:
        started.set()
        threading.Event().wait(0.1)
        ended.append("a")

    loader.submit("a", work)
    assert started.wait(60)
    loader.stop(seconds=60)
    assert ended == ["a"]


def test_a_caller_of_a_dropped_call_does_not_wait_longer() -> None:
    loader, started, release = started_loader(), threading.Semaphore(0), threading.Event()

    def work() -> None:
        started.release()
        release.wait(60)

    for number in range(THREADS):
        loader.submit(number, work)
        assert started.acquire(timeout=60)
    results: list[bool] = []
    caller = threading.Thread(target=lambda: results.append(loader.run_and_wait("dropped", list, seconds=600)))
    caller.start()
    while len(loader._pending) == THREADS:
        threading.Event().wait(0.001)
    loader.stop(seconds=0)
    release.set()
    caller.join(60)
    assert results == [False]
