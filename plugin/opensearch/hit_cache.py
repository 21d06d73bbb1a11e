"""What was fetched of documents before, so that a search asks for new and changed ones alone."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

V = TypeVar("V")
T = TypeVar("T")
STATE_SECONDS = 5.0
SIZE = 32 * 2**20


@dataclass(frozen=True)
class IndexState:
    """Of one index: ``key`` tells it from all others of its name; ``numbered``: a sequence number, with its primary
    term, is that of one document (one shard), and no search pipeline of its own expects whole hits."""

    key: str
    numbered: bool


class HitCache(Generic[V]):
    """Values by version, at most ``size`` bytes of them: the least recently used half goes when the other is full.

    A version holds what changes with every write: the index's key, a document's sequence number and primary term. So
    what is kept is never older than the hit. An index that was deleted and made again under its name is noticed after
    five seconds. A key of None is never kept.
    """

    def __init__(self, size: int = SIZE, clock: Callable[[], float] = time.monotonic) -> None:
        self.size, self.clock = size, clock
        self._young: dict[Hashable, V] = {}
        self._old: dict[Hashable, V] = {}
        self._filled = 0
        self._states: dict[str, tuple[float, Mapping[str, IndexState]]] = {}

    def states(self, index: str, fetch: Callable[[], Mapping[str, IndexState]]) -> Mapping[str, IndexState]:
        """The state of each index that a name stands for, by ``fetch()`` if the known is older than five seconds."""
        known = self._states.get(index)
        if known is None or self.clock() - known[0] > STATE_SECONDS:
            known = (self.clock(), fetch())
            if len(self._states) >= 1000:
                self._states = {}
            self._states[index] = known
        return known[1]

    def get(self, key: Hashable) -> V | None:
        """What is kept, or None."""
        found = self._young.get(key)
        if found is None and (found := self._old.get(key)) is not None:
            self.put(key, found)
        return found

    def put(self, key: Hashable, value: V) -> None:
        """Keep a value."""
        if key is None:
            return
        size = 200 + size_of(value)
        if self._filled + size > self.size // 2:
            self._old, self._young, self._filled = self._young, {}, 0
        if size <= self.size // 2:
            self._young[key] = value
            self._filled += size


def size_of(value: Any) -> int:
    """Bytes of JSON values and arrays, all that they hold together."""
    size = sys.getsizeof(value)
    if isinstance(value, dict):
        return size + sum(size_of(key) + size_of(inner) for key, inner in value.items())
    if isinstance(value, (list, tuple)):
        return size + sum(map(size_of, value))
    return size + (0 if getattr(value, "base", None) is None else int(value.nbytes))
