"""What was fetched lately is remembered for a while, and takes no more room than it may."""

from __future__ import annotations

from clock import Clock

from resift.cache import TtlCache


def cache(size: int) -> tuple[TtlCache[str], Clock]:
    clock = Clock()
    return TtlCache(size, 10.0, clock), clock


def known(cache: TtlCache[str]) -> str:
    return "".join(key for key in "abcde" if cache.get(key) is not None)


def test_values_are_remembered_for_their_time() -> None:
    values, clock = cache(9)
    assert values.get("a") is None
    assert values.put("a", "fire") == "fire"
    clock.now += 10
    assert values.get("a") == "fire"
    clock.now += 0.1
    assert values.get("a") is None


def test_what_was_put_longest_ago_makes_room() -> None:
    values, _ = cache(3)
    for key in "abcabd":
        values.put(key, key)
    # c was put once and a and b again
    assert known(values) == "abd"


def test_sizes_are_added_up() -> None:
    values, _ = cache(10)
    for key, size in (("a", 4), ("b", 4), ("c", 2)):
        values.put(key, key, size)
    assert known(values) == "abc"
    values.put("d", "d", 5)
    assert known(values) == "cd"
    # what is put again takes its room once
    values.put("d", "d", 5)
    values.put("e", "e", 3)
    assert known(values) == "cde"


def test_what_is_too_large_is_not_kept_and_pushes_nothing_out() -> None:
    values, _ = cache(10)
    values.put("a", "old")
    values.put("b", "b")
    assert values.put("a", "new", 11) == "new"
    assert known(values) == "b"
    values.put("c", "c", 9)
    assert known(values) == "bc"


def test_what_is_over_makes_room_at_once() -> None:
    values, clock = cache(10)
    values.put("a", "a")
    clock.now = 10.1
    values.put("b", "b")
    clock.now = 0.0  # when the first one would still be known
    assert known(values) == "b"
