"""A small memory of what was fetched lately, shared by a process' threads."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

V = TypeVar("V")


class TtlCache(Generic[V]):
    """At most ``size`` values, each for ``seconds`` since it was put; the least lately put goes first."""

    def __init__(self, size: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.size, self.seconds, self.clock = size, seconds, clock
        self._values: OrderedDict[Hashable, tuple[float, V]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> V | None:
        """The value put under ``key``, or None."""
        with self._lock:
            found = self._values.get(key)
        return None if found is None or self.clock() - found[0] > self.seconds else found[1]

    def put(self, key: Hashable, value: V) -> V:
        """Remember a value, and give it back."""
        with self._lock:
            self._values.pop(key, None)
            self._values[key] = (self.clock(), value)
            while len(self._values) > self.size:
                self._values.popitem(last=False)
        return value
