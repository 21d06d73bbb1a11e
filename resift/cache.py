"""A cache of recently fetched values, shared by the threads of a process."""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")
_NO_ENTRY: Any = (0.0, None, 0)
_Entry = tuple[float, V, int]  # the time at which a value was stored, the value, and its size
_MAX_WAIT = 1.0
"""Maximum seconds that a thread waits while another thread loads the same values.

After this time the waiting thread loads the values as well. Otherwise an engine that hangs would delay the waiting
threads one after the other.
"""


def digest(content: str | bytes) -> bytes:
    """Return a key of 16 bytes for a text or a JSON document, which may be too long to be stored as a key itself."""
    encoded = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    return hashlib.blake2b(encoded, digest_size=16).digest()


class TtlCache(Generic[V]):
    """A thread-safe cache whose entries expire after some time, and whose total size is limited.

    When the cache is full, the oldest entries are removed. A value can be None, but :meth:`get` returns None for a
    missing key as well.

    Args:
        size: The maximum total size of the entries. The unit is up to the caller, for example entries or bytes.
        seconds: The lifetime of an entry.
        clock: A function that returns the current time in seconds.
    """

    def __init__(self, size: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.size, self.seconds, self.clock = size, seconds, clock
        self._values: OrderedDict[Hashable, _Entry[V]] = OrderedDict()
        self._used = 0
        self._lock = threading.Lock()
        self._loading: dict[Hashable, threading.Event] = {}

    def get(self, key: Hashable) -> V | None:
        """Return the value of a key, or None if the key is missing or its entry has expired."""
        entry = self._entry(key)
        return None if entry is None else entry[1]

    def _entry(self, key: Hashable) -> _Entry[V] | None:
        """Return the entry of a key, or None if the key is missing or its entry has expired."""
        # No lock: a single look-up is atomic, and a search makes about a hundred of them.
        entry = self._values.get(key)
        return None if entry is None or self.clock() - entry[0] > self.seconds else entry

    def get_all(self, keys: Mapping[K, Hashable]) -> dict[K, V]:
        """Return the values of several items. Items that are missing or have expired are left out.

        This is faster than a call of :meth:`get` for each item.

        Args:
            keys: A mapping from items to their keys in the cache.
        """
        oldest, values = self.clock() - self.seconds, self._values
        entries = ((item, values.get(key)) for item, key in keys.items())
        return {item: entry[1] for item, entry in entries if entry is not None and entry[0] >= oldest}

    def put(self, key: Hashable, value: V, size: int = 1) -> V:
        """Store a value in the cache, and return the value.

        A value that is larger than the whole cache is not stored.

        Args:
            key: The key. An earlier value of this key is replaced.
            value: The value.
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

    def remove(self, key: Hashable) -> None:
        """Remove a key, if the cache contains it."""
        with self._lock:
            self._used -= self._values.pop(key, _NO_ENTRY)[2]

    @contextmanager
    def loading(self, group: Hashable) -> Iterator[None]:
        """Return a context manager in which only one thread at a time loads a group of values.

        Other threads with an equal group wait at most one second. Inside the ``with`` block, check again whether the
        values are missing, because another thread may have stored them.

        Args:
            group: An object that identifies the values, such as their keys.
        """
        done, deadline = threading.Event(), time.monotonic() + _MAX_WAIT
        while (other := self._loading.setdefault(group, done)) is not done:
            if not other.wait(max(0.0, deadline - time.monotonic())):
                break
        try:
            yield
        finally:
            if self._loading.get(group) is done:
                del self._loading[group]
            done.set()

    def get_or_load(self, key: Hashable, load: Callable[[], V], size: Callable[[V], int] = lambda value: 1) -> V:
        """Return the value of a key. If the cache does not contain the value, load and store it.

        If several threads need the same key, one of them loads the value, and the others wait for at most one second.

        Args:
            key: The key of the value, any hashable object.
            load: A function that returns the value.
            size: A function that returns the size of the value, in the same unit as the size of the cache.
        """
        entry = self._entry(key)
        if entry is not None:
            return entry[1]
        with self.loading(key):
            entry = self._entry(key)
            if entry is not None:
                return entry[1]
            value = load()
            return self.put(key, value, size(value))

    def clear(self) -> None:
        """Remove all entries. If a thread is loading a value now, it stores the value after this call."""
        with self._lock:
            self._values.clear()
            self._used = 0


def get_or_fetch(
    cache: TtlCache[V],
    keys: Mapping[K, Hashable],
    fetch: Callable[[list[K]], Mapping[K, V]],
    size: Callable[[V], int] = lambda value: 1,
    group: Hashable = None,
) -> dict[K, V]:
    """Return the values of several items from a cache. Fetch all missing values in a single call, and cache them.

    Args:
        cache: The cache in which values are looked up and stored.
        keys: A mapping from items to their keys in the cache.
        fetch: A function that takes the items that are not in the cache, and returns a mapping from items to values. It
            may leave out items.
        size: A function that returns the size of a value in the cache.
        group: Threads with an equal group fetch one after the other (see :meth:`TtlCache.loading`). By default, only
            threads that miss the same keys wait for each other.

    Returns:
        A mapping from items to values. Items that ``fetch`` leaves out are missing.
    """
    cached = cache.get_all(keys)
    if len(cached) == len(keys):
        return cached
    missing = tuple(key for item, key in keys.items() if item not in cached)
    with cache.loading(missing if group is None else group):
        cached = cache.get_all(keys)
        items = [item for item in keys if item not in cached]
        fetched = fetch(items) if items else {}
        return cached | {item: cache.put(keys[item], value, size(value)) for item, value in fetched.items()}
