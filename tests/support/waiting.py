"""Wait for a state that other processes or threads bring about."""

from __future__ import annotations

import time
from collections.abc import Callable

SECONDS = 60.0  # long enough for a slow and busy machine


def until(condition: Callable[[], bool]) -> bool:
    """Return whether a condition becomes true within a minute."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True
