"""How long the parts of a search take."""

from __future__ import annotations

from time import perf_counter


class Stopwatch:
    """Runs from when it is made. ``seconds``: the time of each part that was noted, in their order."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = perf_counter()

    def lap(self, part: str) -> None:
        """Count the time since the last call to a ``part``."""
        now = perf_counter()
        self.seconds[part] = self.seconds.get(part, 0.0) + now - self._last
        self._last = now
