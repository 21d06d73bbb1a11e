"""How much one API key may store in a day, so that a published key cannot fill the disk."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable

from resift.errors import QuotaExceeded

_DAY = 86_400


class Quotas:
    """Counts what each key stores in a day of UTC, in this process alone, against bounds by kind; 0 is no bound.

    Without a key nothing is bounded: such a caller is on this machine, and may do everything. ``clock`` gives Unix
    seconds. May be used from several threads.
    """

    def __init__(
        self, marks: int = 0, sessions: int = 0, bytes: int = 0, clock: Callable[[], float] = time.time
    ) -> None:
        self.bounds, self.clock = {"marks": marks, "sessions": sessions, "bytes": bytes}, clock
        self._day, self._used = 0, Counter[tuple[str, str]]()
        self._lock = threading.Lock()

    def check(self, key: str | None, *kinds: str) -> None:
        """Raise QuotaExceeded if a key has reached its bound of one of these kinds."""
        now = int(self.clock())
        with self._lock:
            if self._day != now // _DAY:
                self._day, self._used = now // _DAY, Counter()
            full = [kind for kind in kinds if key and 0 < self.bounds[kind] <= self._used[key, kind]]
        for kind in full:
            bound = self.bounds[kind]
            raise QuotaExceeded(
                f"key {key!r} has stored its {kind} of today",
                value=key,
                expected=f"at most {bound} {kind} a day (RESIFT_MAX_{kind.upper()}_PER_DAY)",
                seconds=_DAY - now % _DAY,
            )

    def count(self, key: str | None, **amounts: int) -> None:
        """Add what a key has stored, by kind."""
        with self._lock:
            self._used.update({(key, kind): amount for kind, amount in amounts.items() if key})
