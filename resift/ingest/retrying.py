"""When to send a request again that an engine was too busy for, or did not answer, and how long to wait before that."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TypeVar

from resift.errors import ResiftError

T = TypeVar("T")

ATTEMPTS = 8  # which take a minute or so, beside the time of the requests themselves


def is_temporary(status: int) -> bool:
    """Whether a request that was refused with this HTTP status may succeed later."""
    return status == 429 or status >= 500


class Patience:
    """Waits between attempts: 0.5 s after the first, then twice as long each time, up to 30 s, give or take a quarter.

    ``sleep`` does the waiting.
    """

    def __init__(self, sleep: Callable[[float], None]) -> None:
        self._sleep, self._jitter = sleep, random.Random(0)

    def wait(self, attempt: int) -> None:
        """Wait after an attempt that failed; the first is 1."""
        self._sleep(min(30, 0.5 * 2 ** (attempt - 1)) * self._jitter.uniform(0.75, 1.25))


def patiently(ask: Callable[[], T], patience: Patience) -> T:
    """The answer of ``ask``, which is called again after errors that are temporary, up to :data:`ATTEMPTS` times."""
    for attempt in range(1, ATTEMPTS):
        try:
            return ask()
        except ResiftError as error:
            if not is_temporary(error.status):
                raise
            patience.wait(attempt)
    return ask()
