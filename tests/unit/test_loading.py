"""Tests of the loader, which loads sessions in the background."""

from __future__ import annotations

import threading

import pytest

from resift.errors import EngineUnavailable
from resift.sessions.loading import MAX_AWAITED, LoadingPool


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
