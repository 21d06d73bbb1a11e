"""A cache of what was fetched lately, shared by the threads of a process."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

V = TypeVar("V")


class TtlCache(Generic[V]):
    """Keeps at most ``size`` values, each for ``seconds``; the one that was put longest ago goes first.

    ``clock`` gives seconds. Values must not be None, which is what an unknown key gives.
    """

    def __init__(self, size: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.size, self.seconds, self.clock = size, seconds, clock
        self._values: OrderedDict[Hashable, tuple[float, V]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> V | None:
        """The value of ``key``; None if there is none or its time is over."""
        with self._lock:
            entry = self._values.get(key)
        return None if entry is None or self.clock() - entry[0] > self.seconds else entry[1]

    def put(self, key: Hashable, value: V) -> V:
        """Keep ``value``, and return it."""
        with self._lock:
            # popped first: a key that is there already would keep its old place in the order
            self._values.pop(key, None)
            self._values[key] = (self.clock(), value)
            while len(self._values) > self.size:
                self._values.popitem(last=False)
        return value
