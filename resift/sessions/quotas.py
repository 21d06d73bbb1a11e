"""Daily limits on the storage of each API key, so that a published key cannot fill the disk."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable

from resift.errors import QuotaExceeded

_DAY = 86_400  # seconds


class Quotas:
    """Counts what each API key stores during a day (UTC), and enforces limits. Instances are thread-safe.

    Each process counts separately. Requests without a key are not limited, because they come from the same machine.

    Args:
        marks: The maximum number of marks of a key in a day. 0 means no limit.
        sessions: The maximum number of new sessions.
        bytes: The maximum number of bytes.
        clock: A function that returns the time in Unix seconds.
    """

    def __init__(
        self, marks: int = 0, sessions: int = 0, bytes: int = 0, clock: Callable[[], float] = time.time
    ) -> None:
        self.limits = {"marks": marks, "sessions": sessions, "bytes": bytes}
        self.clock = clock
        self._day = 0
        self._used = Counter[tuple[str, str]]()  # by key and kind
        self._lock = threading.Lock()

    def check(self, key: str | None, *kinds: str) -> None:
        """Check that a key has not reached its limit of any of these kinds.

        Args:
            key: The name of the key, or None.
            kinds: Names of limits: "marks", "sessions" or "bytes".

        Raises:
            QuotaExceeded: If a limit is reached.
        """
        now = int(self.clock())
        with self._lock:
            if self._day != now // _DAY:
                self._day, self._used = now // _DAY, Counter()
            exhausted = [kind for kind in kinds if key and 0 < self.limits[kind] <= self._used[key, kind]]
        for kind in exhausted:
            raise QuotaExceeded(
                f"key {key!r} has reached its daily limit of {kind}",
                value=key,
                expected=f"at most {self.limits[kind]} {kind} per day (RESIFT_MAX_{kind.upper()}_PER_DAY)",
                seconds=_DAY - now % _DAY,
            )

    def count(self, key: str | None, **amounts: int) -> None:
        """Add amounts that a key has stored, by kind."""
        with self._lock:
            self._used.update({(key, kind): amount for kind, amount in amounts.items() if key})
