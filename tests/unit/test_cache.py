"""Tests of the cache: time to live, limited size, and eviction order."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from clock import Clock

from resift.cache import TtlCache, get_or_fetch


def make_cache(size: int) -> tuple[TtlCache[str], Clock]:
    clock = Clock()
    return TtlCache(size, 10.0, clock), clock


def cached_keys(cache: TtlCache[str]) -> str:
    return "".join(key for key in "abcde" if cache.get(key) is not None)


def test_values_expire_after_their_time_to_live() -> None:
    values, clock = make_cache(9)
    assert values.get("a") is None
    assert values.put("a", "fire") == "fire"
    clock.now += 10
    assert values.get("a") == "fire"
    clock.now += 0.1
    assert values.get("a") is None


def test_the_oldest_entry_is_evicted_first() -> None:
    values, _ = make_cache(3)
    for key in "abcabd":
        values.put(key, key)
    # c is the oldest, because a and b were stored a second time
    assert cached_keys(values) == "abd"


def test_sizes_are_added_up() -> None:
    values, _ = make_cache(10)
    for key, size in (("a", 4), ("b", 4), ("c", 2)):
        values.put(key, key, size)
    assert cached_keys(values) == "abc"
    values.put("d", "d", 5)
    assert cached_keys(values) == "cd"
    # a value that is stored a second time counts only once
    values.put("d", "d", 5)
    values.put("e", "e", 3)
    assert cached_keys(values) == "cde"


def test_a_value_larger_than_the_cache_is_not_stored_and_evicts_nothing() -> None:
    values, _ = make_cache(10)
    values.put("a", "old")
    values.put("b", "b")
    assert values.put("a", "new", 11) == "new"
    assert cached_keys(values) == "b"
    values.put("c", "c", 9)
    assert cached_keys(values) == "bc"


def test_expired_entries_are_removed_by_the_next_put() -> None:
    values, clock = make_cache(10)
    values.put("a", "a")
    clock.now = 10.1
    values.put("b", "b")
    clock.now = 0.0  # the first entry would still be valid at this time
    assert cached_keys(values) == "b"


class SlowEngine:
    """Loads values when it is released, and records which keys each call loads."""

    def __init__(self) -> None:
        self.release = threading.Event()
        self.began = threading.Event()
        self.requests: list[list[str]] = []

    def load(self, keys: list[str]) -> dict[str, str]:
        self.requests.append(keys)
        self.began.set()
        assert self.release.wait(60)
        return {key: key.upper() for key in keys}


def test_threads_that_need_the_same_values_load_them_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resift.cache._MAX_WAIT", 60.0)
    values, _ = make_cache(9)
    engine = SlowEngine()
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(get_or_fetch, values, {"a": "a", "b": "b"}, engine.load, group="index")
        assert engine.began.wait(60)
        others = [pool.submit(get_or_fetch, values, {"b": "b", key: key}, engine.load, group="index") for key in "ac"]
        engine.release.set()
        assert first.result() == {"a": "A", "b": "B"}
        assert [other.result()["b"] for other in others] == ["B", "B"]
    assert engine.requests == [["a", "b"], ["c"]]


def test_a_value_is_loaded_again_after_a_failure() -> None:
    values, _ = make_cache(9)

    def fail() -> str:
        raise OSError

    with pytest.raises(OSError):
        values.get_or_load("a", fail)
    assert values.get_or_load("a", lambda: "fire") == "fire"
    assert values.get_or_load("a", fail) == "fire"


def test_nobody_waits_long_for_a_thread_that_hangs() -> None:
    values, _ = make_cache(9)
    engine = SlowEngine()
    with ThreadPoolExecutor(1) as pool:
        hanging = pool.submit(values.get_or_load, "a", lambda: engine.load(["a"])["a"])
        assert engine.began.wait(60)
        assert values.get_or_load("a", lambda: "other") == "other"
        engine.release.set()
        assert hanging.result() == "A"
    assert values.get_or_load("b", lambda: "next") == "next"


def test_none_is_loaded_once() -> None:
    values: TtlCache[str | None] = TtlCache(9, 10.0)
    loads = list[int]()
    assert [values.get_or_load("a", lambda: loads.append(1)) for _ in range(2)] == [None, None]
    assert loads == [1]
