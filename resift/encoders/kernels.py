"""Compiled loops of pooling (numba, extra ``fast``): the functions of :mod:`resift.encoders.pooling`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import float32

from resift.vectors.compiled import compiled

_SHORT_SUM = 512


@compiled
def pool_mean(ids: Any, offsets: Any, matrix: Any, factors: Any, divisors: Any, out: Any) -> None:
    """Σ factor · row / Σ divisor of each part's words, written to ``out`` (n, K), float32; 0 where the divisors are.

    The n parts are ``ids[offsets[i]:offsets[i + 1]]``; ``factors`` and ``divisors`` (V,), float32; ``matrix`` (V, K).
    Long sums are made of short ones, so that they lose no digits.
    """
    some = np.empty(matrix.shape[1], np.float32)
    for i in range(len(offsets) - 1):
        row, total, k = out[i], 0.0, offsets[i]
        row[:] = 0
        while k < offsets[i + 1]:
            end = min(k + _SHORT_SUM, offsets[i + 1])
            some[:] = 0
            while k < end:
                if k + 4 <= end:  # four at a time: the sums are read and written less often
                    a, b, c, d = ids[k], ids[k + 1], ids[k + 2], ids[k + 3]
                    fa, fb, fc, fd = factors[a], factors[b], factors[c], factors[d]
                    ra, rb, rc, rd = matrix[a], matrix[b], matrix[c], matrix[d]
                    for j in range(len(some)):
                        some[j] += (fa * float32(ra[j]) + fb * float32(rb[j])) + (
                            fc * float32(rc[j]) + fd * float32(rd[j])
                        )
                    total += divisors[a] + divisors[b] + divisors[c] + divisors[d]
                    k += 4
                else:
                    factor, values = factors[ids[k]], matrix[ids[k]]
                    for j in range(len(some)):
                        some[j] += factor * float32(values[j])
                    total += divisors[ids[k]]
                    k += 1
            for j in range(len(row)):
                row[j] += some[j]
        if total > 0:
            share = float32(1 / total)
            for j in range(len(row)):
                row[j] *= share


@compiled
def pool_max(ids: Any, offsets: Any, matrix: Any, factors: Any, out: Any) -> None:
    """The largest of factor · row over each part's words, not below 0; arrays as in :func:`pool_mean`."""
    for i in range(len(offsets) - 1):
        row = out[i]
        row[:] = 0
        for k in range(offsets[i], offsets[i + 1]):
            values, factor = matrix[ids[k]], factors[ids[k]]
            for j in range(len(row)):
                value = factor * float32(values[j])
                row[j] = value if value > row[j] else row[j]


def compile_all() -> None:
    """Compile both loops for the types that a model calls them with: its matrix is read-only, int8 or float32."""
    ids, offsets, weights = np.zeros(1, np.int32), np.array([0, 1], np.int64), np.ones(1, np.float32)
    pooled = np.zeros((1, 1), np.float32)
    for kind in (np.int8, np.float32):
        matrix = np.zeros((1, 1), kind)
        matrix.flags.writeable = False
        pool_mean(ids, offsets, matrix, weights, weights, pooled)
        pool_max(ids, offsets, matrix, weights, pooled)
