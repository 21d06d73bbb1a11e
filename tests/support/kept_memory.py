"""Measure how much memory a program keeps."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def keeps_less_than(size: int) -> Iterator[None]:
    """Check that less than ``size`` bytes, which were allocated inside the ``with`` block, are still in use at its end.

    Args:
        size: The limit in bytes.
    """
    tracemalloc.start()
    try:
        yield
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < size
    finally:
        tracemalloc.stop()
