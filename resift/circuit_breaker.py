"""A circuit breaker, which stops calls to a server that fails."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

log = logging.getLogger(__name__)
FAILURES = 3
"""Number of failures in a row after which a circuit breaker opens."""
PAUSE = 5.0
"""Seconds between two attempts while a circuit breaker is open."""


class CircuitBreaker:
    """Decides whether a server may be called. Instances are thread-safe.

    After :data:`FAILURES` failures in a row, the circuit breaker opens: only one call every :data:`PAUSE` seconds is
    allowed. The first call that succeeds closes it again. Opening and closing are logged. Individual calls are not.

    Args:
        address: The address of the server, for the log.
        clock: A function that returns the time in seconds.
    """

    def __init__(self, address: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._address, self._clock, self._lock = address, clock, threading.Lock()
        self._failures, self._next_attempt = 0, 0.0

    @property
    def is_open(self) -> bool:
        """Whether the server has failed so often that most calls are not allowed."""
        return self._failures >= FAILURES

    def allow_call(self) -> bool:
        """Return whether the server may be called now. The caller must report the result of an allowed call."""
        with self._lock:
            if not self.is_open:
                return True
            if (now := self._clock()) < self._next_attempt:
                return False
            self._next_attempt = now + PAUSE
            return True

    def report_success(self) -> None:
        """Report that the server answered a call."""
        with self._lock:
            was_open, self._failures = self.is_open, 0
        if was_open:
            log.warning("%s answers again", self._address)

    def report_failure(self, reason: object) -> None:
        """Report that a call failed.

        Args:
            reason: The reason, for the log.
        """
        with self._lock:
            was_open = self.is_open
            self._failures += 1
            self._next_attempt = self._clock() + PAUSE
            has_opened = self.is_open and not was_open
        if has_opened:
            message = "%s failed %d times in a row: from now on, it is called once in %g seconds until it answers: %s"
            log.warning(message, self._address, FAILURES, PAUSE, reason)
