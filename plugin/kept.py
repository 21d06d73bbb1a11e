"""Vectors of documents that were fetched before, so that a search asks for those of new and changed ones alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from resift.vectors import Floats

Version = tuple[Any, ...]

UUID_SECONDS = 5.0


class KeptVectors:
    """At most ``size`` bytes of vectors, the least recently used half let go when the other is full.

    A vector is known by its index's uuid, and its document's id, routing, sequence number and primary term, which
    change with every write: what is kept is never older than the hit. An index that was deleted and made again under
    its name is noticed after five seconds.
    """

    def __init__(self, size: int = 32 * 2**20, clock: Callable[[], float] = time.monotonic) -> None:
        self.size, self.clock = size, clock
        self._young: dict[Version | None, Floats | None] = {}
        self._old: dict[Version | None, Floats | None] = {}
        self._uuids: dict[str, tuple[float, Mapping[str, str]]] = {}

    def uuids(self, index: str, fetch: Callable[[], Mapping[str, str]]) -> Mapping[str, str]:
        """The uuid of each index that a name stands for, by ``fetch()`` if what is known is older than five seconds."""
        known = self._uuids.get(index)
        if known is None or self.clock() - known[0] > UUID_SECONDS:
            known = (self.clock(), fetch())
            if len(self._uuids) >= 1000:
                self._uuids = {}
            self._uuids[index] = known
        return known[1]

    def get(self, version: Version | None) -> tuple[bool, Floats | None]:
        """Whether a vector is kept, and the vector: None where the document has none."""
        if version in self._young:
            return True, self._young[version]
        if version in self._old:
            vector = self._old[version]
            self.put(version, vector)
            return True, vector
        return False, None

    def put(self, version: Version | None, vector: Floats | None) -> None:
        """Keep a vector; not where its version is None."""
        each = 400 + (0 if vector is None else vector.nbytes)
        if len(self._young) * each > self.size // 2:
            self._old, self._young = self._young, {}
        if version is not None:
            self._young[version] = vector
