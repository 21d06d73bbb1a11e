"""Reduce the memory that the C library (glibc) retains for later allocations.

On systems with another C library, the functions do nothing.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress

_ARENA_MAX = -8  # the parameter M_ARENA_MAX of mallopt
_ARENAS = 2


def limit_arenas() -> None:
    """Let the threads of this process, and of processes that it forks, share two areas of memory.

    By default, each of up to eight threads per core allocates from an area of its own, and each area retains the
    largest amount that was in use at a time. Python's threads seldom allocate at the same time.
    """
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).mallopt(_ARENA_MAX, _ARENAS)


def release_memory() -> None:
    """Return unused memory to the operating system. The C library would otherwise retain it for later allocations."""
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
