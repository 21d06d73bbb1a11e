"""Load loops compiled by numba (extra ``fast``), for jobs that are large enough to be worth the load time.

numba compiles a loop when it is first called, which takes seconds. It caches the machine code next to the source, in
the user's cache folder, or in ``NUMBA_CACHE_DIR``. Loading the machine code from there takes a third of a second. If
numba is not installed, or none of these folders is writable, NumPy does the same work more slowly, with the same
results.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Sequence
from functools import cache
from typing import Any

log = logging.getLogger(__name__)
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


def loops_for_texts(texts: Sequence[str]) -> Any:
    """Load the compiled loops if the given texts are long enough to benefit from compiled code.

    Args:
        texts: The texts to process. They must have at least MIN_CHARACTERS characters in total.

    Returns:
        The module :mod:`resift.vectors.kernels`, or None if the texts are too short or the module cannot be loaded.
    """
    return load_loops() if sum(map(len, texts)) >= MIN_CHARACTERS else None


@cache
def load_loops() -> Any:
    """Import the module :mod:`resift.vectors.kernels`, which contains the compiled loops.

    Returns:
        The module, or None if it cannot be loaded. The reason is logged once.
    """
    try:
        return importlib.import_module("resift.vectors.kernels")
    except ModuleNotFoundError as error:
        log.info("texts are encoded with NumPy: %s is not installed (extra `fast`)", error.name)
    except (ImportError, RuntimeError) as error:
        log.warning("texts are encoded with NumPy, because the compiled loops cannot be loaded: %s", error)
    return None
