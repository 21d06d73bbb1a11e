"""The hit cache: what earlier searches fetched of documents, so that a search asks for new and changed ones alone."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

V = TypeVar("V")
STATE_SECONDS = 5.0
SIZE = 32 * 2**20
_MAX_NAMES = 1000
_ENTRY_BYTES = 200  # of a key and its place in a dictionary


@dataclass(frozen=True)
class IndexState:
    """What the cache has to know of an index.

    ``key`` distinguishes it from every other index that had or will have its name. ``numbered`` says that a sequence
    number and its primary term stand for one document of it (it has one shard), and that no search pipeline of its
    own expects whole hits.
    """

    key: str
    numbered: bool


class HitCache(Generic[V]):
    """Values by their version, at most ``size`` bytes of them.

    A version holds whatever changes with each write: the key of the index, and the document's sequence number and
    primary term. So a cached value is never older than the hit that it is looked up for. An index that was deleted
    and created again under its name is noticed after STATE_SECONDS. A version of None is never cached.

    There are two halves: what is used goes into the newer one, and when that is full it becomes the older one, whose
    values are dropped. That comes close to dropping the least recently used, at no cost for each look-up.
    """

    def __init__(self, size: int = SIZE, clock: Callable[[], float] = time.monotonic) -> None:
        self.size, self.clock = size, clock
        self._states: dict[str, tuple[float, Mapping[str, IndexState]]] = {}
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self._newer: dict[Hashable, V] = {}
        self._older: dict[Hashable, V] = {}
        self._newer_bytes = 0
        self._states.clear()

    def states(self, index: str, fetch: Callable[[], Mapping[str, IndexState]]) -> Mapping[str, IndexState]:
        """The state of each index that a name stands for, as ``fetch()`` returned it at most STATE_SECONDS ago."""
        cached = self._states.get(index)
        if cached is None or self.clock() - cached[0] > STATE_SECONDS:
            cached = (self.clock(), fetch())
            if len(self._states) >= _MAX_NAMES:
                self._states = {}
            self._states[index] = cached
        return cached[1]

    def get(self, version: Hashable) -> V | None:
        """The value of a version, or None if it is not cached."""
        value = self._newer.get(version)
        if value is None and (value := self._older.get(version)) is not None:
            self.put(version, value)
        return value

    def put(self, version: Hashable, value: V) -> None:
        """Cache a value, unless it alone is larger than half of the cache."""
        if version is None:
            return
        size = _ENTRY_BYTES + size_of(value)
        if self._newer_bytes + size > self.size // 2:
            self._older, self._newer, self._newer_bytes = self._newer, {}, 0
        if size <= self.size // 2:
            self._newer[version] = value
            self._newer_bytes += size


def size_of(value: Any) -> int:
    """The bytes of a JSON value or an array, with all that it holds."""
    size = sys.getsizeof(value)
    if isinstance(value, dict):
        return size + sum(size_of(key) + size_of(inner) for key, inner in value.items())
    if isinstance(value, (list, tuple)):
        return size + sum(map(size_of, value))
    # sys.getsizeof leaves out the numbers of an array that is a view of another one.
    return size + (0 if getattr(value, "base", None) is None else int(value.nbytes))
