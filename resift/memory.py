"""Reduce the memory that the C library (glibc) retains for later allocations.

On systems with another C library, the functions do nothing.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress

_ARENA_MAX = -8  # the parameter M_ARENA_MAX of mallopt
_ARENAS = 2


def limit_arenas() -> None:
    """Limit the C library to two memory arenas, in this process and in processes that it forks.

    An arena is an area of memory from which threads allocate. Each arena retains the largest amount of memory that was
    in use at a time. By default, each of up to eight threads per core gets an arena of its own. Two arenas are enough,
    because Python's threads seldom allocate at the same time.
    """
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).mallopt(_ARENA_MAX, _ARENAS)


def release_memory() -> None:
    """Return unused memory to the operating system. The C library would otherwise retain it for later allocations."""
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
