"""Daily limits on the storage of each API key, so that a published key cannot fill the disk."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable

from resift.errors import QuotaExceeded

_DAY = 86_400  # seconds


class Quotas:
    """Limits how much data each API key may store per day (UTC). Instances are thread-safe.

    Each process of the service counts separately. Requests without an API key are not limited. Without keys, `resift
    serve` refuses to listen at an address that other machines can reach, but a proxy can forward their requests.

    Args:
        marks: The maximum number of relevance judgements per key and day. 0 means no limit.
        sessions: The maximum number of new sessions per key and day. 0 means no limit.
        bytes: The maximum number of stored bytes per key and day. 0 means no limit.
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
        """Check that an API key has not reached its daily limits.

        Args:
            key: The name of the key, or None for a request without a key, which is not limited.
            kinds: The limits to check: "marks", "sessions" or "bytes".

        Raises:
            QuotaExceeded: If the key has reached one of these limits.
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

    def record_usage(self, key: str | None, **amounts: int) -> None:
        """Record that an API key has stored data, which counts towards its limits of today.

        Args:
            key: The name of the key, or None for a request without a key, which is not counted.
            **amounts: The numbers of ``marks``, ``sessions`` and ``bytes`` that were stored.
        """
        with self._lock:
            self._used.update({(key, kind): amount for kind, amount in amounts.items() if key})
