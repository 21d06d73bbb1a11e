"""The time that requests wait for a free thread, and the searches that are answered without rewriting because of it.

``resift serve`` stores two waiting times in the WSGI environment of each request, under :data:`WAITED` and
:data:`LONGEST_WAIT`. Other WSGI servers do not, so all waiting times are 0 there.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from flask import request

log = logging.getLogger(__name__)

WAITED = "resift.waited"
"""Key of the WSGI environment: the time that the request waited for a thread, in seconds."""
LONGEST_WAIT = "resift.longest_wait"
"""Key of the WSGI environment: the longest recent waiting time of a search, in seconds (see :class:`LongestWait`)."""
MAX_WAIT = 0.3
"""Waiting time in seconds after which a search is not rewritten. ML Commons waits for an answer for one second only."""
_WINDOW = 2.0
"""Length in seconds of the time windows of :class:`LongestWait`, which covers the current and the previous window."""
_LOG_SECONDS = 10.0
"""Minimum time in seconds between two log messages of the same kind."""


def is_late() -> bool:
    """Return whether the current HTTP request waited so long for a thread that its search must not be rewritten.

    The cluster stops waiting for the service after a short time. A late search body is therefore returned unchanged.
    """
    return bool(request.environ.get(WAITED, 0.0) > MAX_WAIT)


def longest_wait() -> float:
    """Return the longest time, in seconds, that a search recently waited for a thread.

    The maximum covers the last two to four seconds: the current two-second window and the window before it. Only
    searches in the current process count.
    """
    return float(request.environ.get(LONGEST_WAIT, 0.0))


def has_no_options(body: bytes) -> bool:
    r"""Return whether a search body certainly contains no options for Resift, without parsing the body.

    Options are in the section ``ext``. A body with an escape sequence such as ``\u0065`` may contain options, because
    the name of the section could be escaped.

    Args:
        body: The search body as JSON text.

    >>> [has_no_options(body) for body in (b'{"query": {}}', b'{"ext": {}}', b'{"\\u0065xt": {}}')]
    [True, False, False]
    """
    return b'"ext"' not in body and b"\\u00" not in body


class LongestWait:
    """A record of the longest time that a request had to wait for a thread in the last few seconds.

    Args:
        clock: A function that returns the time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self._current = self._previous = 0.0

    def add(self, seconds: float) -> None:
        """Record how long a request waited for its thread.

        Args:
            seconds: The waiting time in seconds.
        """
        self._start_window_if_due()
        self._current = max(self._current, seconds)

    def get(self) -> float:
        """Return the longest time, in seconds, that a request waited for a thread in the last two to four seconds."""
        self._start_window_if_due()
        return max(self._current, self._previous)

    def _start_window_if_due(self) -> None:
        age = self._clock() - self._began
        if age > _WINDOW:
            self._previous = self._current if age <= 2 * _WINDOW else 0.0
            self._current, self._began = 0.0, self._clock()


class RateLimitedLog:
    """A log that counts events of the same kind, and writes at most one message in ten seconds about them.

    Args:
        message: The message, with a placeholder for the number of events, and further placeholders for values of the
            latest event.
        clock: A function that returns the time in seconds.
    """

    def __init__(self, message: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._message, self._clock, self._lock = message, clock, threading.Lock()
        self._count, self._logged = 0, -_LOG_SECONDS

    def add(self, *values: object) -> None:
        """Count an event. If the last message is at least ten seconds old, log the number of events since then.

        Args:
            values: The values of this event for the placeholders in the message.
        """
        with self._lock:
            self._count += 1
            now = self._clock()
            if now - self._logged < _LOG_SECONDS:
                return
            count, self._count, self._logged = self._count, 0, now
        log.warning(self._message, count, *values)


late_log = RateLimitedLog(
    f"Overloaded: %d searches waited longer than {MAX_WAIT:g} s for a thread and were not rewritten"
)
"""Counts searches that are answered without rewriting because the service is overloaded."""
failed_log = RateLimitedLog("Not rewritten: %d searches failed, the latest because %s")
"""Counts searches whose rewriting failed, for example because of an invalid option."""
unknown_keys_log = RateLimitedLog("Ignored options: %d searches have unknown keys, the latest because %s")
"""Counts searches with keys in ``ext`` that are no options, for example because they are misspelt."""
