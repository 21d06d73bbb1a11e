"""A cache of recently fetched values, shared by the threads of a process."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")
_NO_ENTRY: Any = (0.0, None, 0)


class TtlCache(Generic[V]):
    """A thread-safe cache whose entries expire after some time, and whose total size is limited.

    When the cache is full, the oldest entries are removed. Values must not be None, because :meth:`get` returns None
    for a missing key.

    Args:
        size: The maximum total size of the entries. The unit is up to the caller, for example entries or bytes.
        seconds: The lifetime of an entry.
        clock: A function that returns the current time in seconds.
    """

    def __init__(self, size: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.size, self.seconds, self.clock = size, seconds, clock
        self._values: OrderedDict[Hashable, tuple[float, V, int]] = OrderedDict()
        self._used = 0
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> V | None:
        """Return the value of a key, or None if the key is missing or its entry has expired."""
        # No lock: a single look-up is atomic, and a search makes about a hundred of them.
        entry = self._values.get(key)
        return None if entry is None or self.clock() - entry[0] > self.seconds else entry[1]

    def put(self, key: Hashable, value: V, size: int = 1) -> V:
        """Store a value in the cache, and return the value.

        A value that is larger than the whole cache is not stored.

        Args:
            key: The key. An earlier value of this key is replaced.
            value: The value, which must not be None.
            size: The size of the value, in the same unit as the size of the cache.
        """
        with self._lock:
            # Remove the key first: an OrderedDict would leave an existing key at its old position.
            self._used -= self._values.pop(key, _NO_ENTRY)[2]
            if size > self.size:
                return value
            now = self.clock()
            self._values[key] = (now, value, size)
            self._used += size
            while self._used > self.size or now - next(iter(self._values.values()))[0] > self.seconds:
                _, (_, _, freed) = self._values.popitem(last=False)
                self._used -= freed
        return value

    def clear(self) -> None:
        """Remove all entries."""
        with self._lock:
            self._values.clear()
            self._used = 0


def get_or_fetch(
    cache: TtlCache[V],
    keys: Mapping[K, Hashable],
    fetch: Callable[[list[K]], Mapping[K, V]],
    size: Callable[[V], int] = lambda value: 1,
) -> dict[K, V]:
    """Return the values of several items from a cache. Fetch all missing values in a single call, and cache them.

    Args:
        cache: The cache.
        keys: A mapping from items to their keys in the cache.
        fetch: A function that takes the items that are not in the cache, and returns a mapping from items to values. It
            may leave out items.
        size: A function that returns the size of a value in the cache.

    Returns:
        A mapping from items to values. Items that ``fetch`` leaves out are missing.
    """
    cached = {item: value for item, key in keys.items() if (value := cache.get(key)) is not None}
    missing = [item for item in keys if item not in cached]
    fetched = fetch(missing) if missing else {}
    return cached | {item: cache.put(keys[item], value, size(value)) for item, value in fetched.items()}
