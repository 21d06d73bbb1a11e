"""Load loops compiled by numba (extra ``fast``), for jobs that are large enough to be worth the load time.

numba compiles a loop when it is first called, which takes seconds. It caches the machine code next to the source, in
the user's cache folder, or in ``NUMBA_CACHE_DIR``. Loading the machine code from there takes a third of a second. If
numba is not installed, or none of these folders is writable, NumPy does the same work more slowly, with the same
results.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from functools import cache
from typing import Any

MIN_CHARACTERS = 32_768
"""Minimum total length of texts for which compiled loops are loaded."""


def compiled(function: Any) -> Any:
    """Compile a function with numba when it is first called.

    The machine code is cached on disk, and runs without Python's global interpreter lock (GIL).

    Args:
        function: The function. It must only use numbers and arrays.

    Raises:
        RuntimeError: If no folder for the cache is writable.
    """
    from numba import njit

    return njit(cache=True, nogil=True, fastmath={"contract"})(function)


def loops_for_texts(texts: Sequence[str], module: str) -> Any:
    """Load a module of compiled functions if the given texts are long enough to benefit from compiled code.

    Args:
        texts: The texts to process. They must have at least MIN_CHARACTERS characters in total.
        module: The full name of the module.

    Returns:
        The module, or None if the texts are too short or the module cannot be loaded.
    """
    return load_loops(module) if sum(map(len, texts)) >= MIN_CHARACTERS else None


@cache
def load_loops(module: str) -> Any:
    """Import a module of compiled functions.

    Args:
        module: The full name of the module.

    Returns:
        The module, or None if it cannot be loaded, for example because numba is not installed.
    """
    try:
        return importlib.import_module(module)
    except (ImportError, RuntimeError):
        return None
