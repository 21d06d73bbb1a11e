"""Tests of the cache: time to live, limited size, and eviction order."""

from __future__ import annotations

from clock import Clock

from resift.cache import TtlCache


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
