"""A cache of what was fetched lately, shared by the threads of a process."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")
_NOTHING: Any = (0.0, None, 0)


class TtlCache(Generic[V]):
    """Keeps values for ``seconds`` each, ``size`` of them in all; the one that was put longest ago goes first.

    What ``size`` counts is said at each :meth:`put`: values, or bytes where some take much more than others. ``clock``
    gives seconds. Values must not be None, which is what an unknown key gives.
    """

    def __init__(self, size: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.size, self.seconds, self.clock = size, seconds, clock
        self._values: OrderedDict[Hashable, tuple[float, V, int]] = OrderedDict()
        self._taken = 0
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> V | None:
        """The value of ``key``; None if there is none or its time is over."""
        entry = self._values.get(key)  # without the lock: one look-up is whole, and a search makes a hundred
        return None if entry is None or self.clock() - entry[0] > self.seconds else entry[1]

    def put(self, key: Hashable, value: V, size: int = 1) -> V:
        """Keep ``value``, which takes ``size`` of the cache's, and return it; one that takes all of it is not kept."""
        with self._lock:
            # popped first: a key that is there already would keep its old place in the order
            self._taken -= self._values.pop(key, _NOTHING)[2]
            if size > self.size:
                return value
            now = self.clock()
            self._values[key] = (now, value, size)
            self._taken += size
            while self._taken > self.size or now - next(iter(self._values.values()))[0] > self.seconds:
                _, (_, _, freed) = self._values.popitem(last=False)
                self._taken -= freed
        return value

    def clear(self) -> None:
        """Keep nothing of what was put."""
        with self._lock:
            self._values.clear()
            self._taken = 0


def get_or_fetch(
    cache: TtlCache[V],
    keys: Mapping[K, Hashable],
    fetch: Callable[[list[K]], Mapping[K, V]],
    size: Callable[[V], int] = lambda value: 1,
) -> dict[K, V]:
    """What a cache has of things, by their ``keys`` in it; ``fetch`` is asked once for all that it lacks, and what that
    finds is kept, each of its ``size``. Things of which nothing is found are left out."""
    found = {one: value for one, key in keys.items() if (value := cache.get(key)) is not None}
    missing = [one for one in keys if one not in found]
    fetched = fetch(missing) if missing else {}
    return found | {one: cache.put(keys[one], value, size(value)) for one, value in fetched.items()}
