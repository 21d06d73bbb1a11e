"""The mean of :mod:`resift.encoders.pooling`, compiled (numba, extra ``fast``)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import float32

from resift.vectors.compiled import compiled

_SHORT_SUM = 64


@compiled
def pool_mean(ids: Any, offsets: Any, matrix: Any, factors: Any, divisors: Any, out: Any) -> None:
    """Σ factor · row / Σ divisor of each part's words, written to ``out`` (n, K), float32; 0 where the divisors are.

    The n parts are ``ids[offsets[i]:offsets[i + 1]]``; ``factors`` and ``divisors`` (V,), float32; ``matrix`` (V, K).
    Long sums are made of short ones, so that they lose no digits.
    """
    some = np.empty(matrix.shape[1], np.float32)
    for i in range(len(offsets) - 1):
        row, total = out[i], 0.0
        row[:] = 0
        for start in range(offsets[i], offsets[i + 1], _SHORT_SUM):
            some[:] = 0
            for k in range(start, min(start + _SHORT_SUM, offsets[i + 1])):
                factor, values = factors[ids[k]], matrix[ids[k]]
                for j in range(len(some)):
                    some[j] += factor * float32(values[j])
                total += divisors[ids[k]]
            for j in range(len(row)):
                row[j] += some[j]
        if total > 0:
            share = float32(1 / total)
            for j in range(len(row)):
                row[j] *= share
