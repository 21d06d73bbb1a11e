"""Arrays and batches: the types and the helper that every room uses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


def batched(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """Lists of at most ``size`` items, in order."""
    batch: list[Any] = []
    for item in items:
        batch.append(item)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch
