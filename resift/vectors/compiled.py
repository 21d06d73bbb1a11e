"""Compiled loops (numba, extra ``fast``), for jobs that are large enough to be worth loading them.

numba compiles a loop when it is first called, which takes seconds, and keeps the machine code beside the source, in the
user's cache folder or in ``NUMBA_CACHE_DIR``; from there it is loaded in a third of a second. Without numba, and where
none of these folders can be written to, numpy does all the work: its results agree.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from functools import cache
from typing import Any

MIN_CHARACTERS = 32_768


def compiled(function: Any) -> Any:
    """``function`` compiled at its first call, kept on disk, run without the interpreter's lock.

    Raises RuntimeError where there is no folder to keep it in.
    """
    from numba import njit

    return njit(cache=True, nogil=True, fastmath={"contract"})(function)


def loops_for_texts(texts: Sequence[str], module: str) -> Any:
    """A module of compiled loops by its full name if ``texts`` have MIN_CHARACTERS together, else None."""
    return load_loops(module) if sum(map(len, texts)) >= MIN_CHARACTERS else None


@cache
def load_loops(module: str) -> Any:
    """A module of compiled loops by its full name, None where they cannot be had."""
    try:
        return importlib.import_module(module)
    except (ImportError, RuntimeError):
        return None
