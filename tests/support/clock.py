"""A clock that tests set."""

from __future__ import annotations


class Clock:
    """A clock that returns the seconds that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now
