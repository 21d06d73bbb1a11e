"""Pooling with numpy: the rows of a text's words made into one; the mean is compiled in :mod:`resift.encoders.kernels`.

Texts are parts of ``ids`` (m,), rows of ``matrix`` (V, K): part i is ``ids[offsets[i]:offsets[i + 1]]``. ``factors``
(V,) float32 are what a row is multiplied by: its word's weight, and its scale where the matrix is int8.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats

KERNELS = "resift.encoders.kernels"
_GATHER = 4096


def pool_mean(
    ids: NDArray[np.int32],
    offsets: NDArray[np.int64],
    matrix: NDArray[Any],
    factors: Floats,
    divisors: Floats,
    out: Floats,
) -> None:
    """Σ factor · row / Σ divisor of each part's words, written to ``out`` (n, K); 0 where the ``divisors`` (V,) are."""
    out[:] = 0
    for row, (start, end) in enumerate(pairwise(offsets)):
        total = divisors[ids[start:end]].sum()
        for some in _split(ids[start:end]) if total > 0 else ():
            out[row] += (factors[some] / total) @ matrix[some].astype(np.float32)


def pool_max(
    ids: NDArray[np.int32], offsets: NDArray[np.int64], matrix: NDArray[Any], factors: Floats, out: Floats
) -> None:
    """The largest of factor · row over each part's words, not below 0, written to ``out`` (n, K)."""
    out[:] = 0
    for row, (start, end) in enumerate(pairwise(offsets)):
        for some in _split(ids[start:end]):
            np.maximum(out[row], (factors[some, None] * matrix[some]).max(axis=0), out=out[row])


def _split(ids: NDArray[np.int32]) -> Iterator[NDArray[np.int32]]:
    """Parts of a long text, so that its gathered rows stay small."""
    return (ids[start : start + _GATHER] for start in range(0, len(ids), _GATHER))
