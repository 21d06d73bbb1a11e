"""How sure one can be of a mean over queries, and of the difference between two systems."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.errors import BadInput
from resift_lab.evaluation.metrics import Numbers

_CHUNK = 2_000_000


def bootstrap_mean(
    values: Sequence[float] | NDArray[Any],
    rng: np.random.Generator,
    confidence: float = 0.95,
    resamples: int = 2000,
) -> tuple[float, float]:
    """Percentile bootstrap interval of the mean of ``values`` (n,), NaN left out (Efron and Tibshirani 1993).

    Returns the lower and the upper bound; NaN twice where nothing is left.
    """
    known = _without_nan(values)
    count = len(known)
    if not count:
        return float("nan"), float("nan")
    means = np.concatenate(
        [known[rng.integers(0, count, (rows, count))].mean(axis=1) for rows in chunks(resamples, count)]
    )
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def paired_randomization(
    first: Sequence[float] | NDArray[Any],
    second: Sequence[float] | NDArray[Any],
    rng: np.random.Generator,
    permutations: int = 10_000,
) -> float:
    """Two-sided p of no difference between two systems' means over the same queries (n,): Fisher's randomisation test.

    Each query's two values are swapped at random (Smucker et al. 2007); p = (1 + swaps at least as far apart) /
    (1 + permutations). Queries that are NaN for either are left out; without any query p is 1. Raises BadInput if the
    two are not lists of one length.
    """
    a, b = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if a.shape != b.shape or a.ndim != 1:
        raise BadInput(f"values of shapes {a.shape} and {b.shape}", expected="two lists of the same length")
    difference = _without_nan(a - b)
    if not len(difference):
        return 1.0
    # a little less than observed, because the same sum in another order may round differently
    observed, extreme = abs(difference.sum()) * (1 - 1e-12), 0
    for rows in chunks(permutations, len(difference)):
        signs = rng.integers(0, 2, (rows, len(difference)), dtype=np.int8) * 2 - 1
        extreme += int(np.count_nonzero(np.abs(signs @ difference) >= observed))
    return (1 + extreme) / (1 + permutations)


def chunks(total: int, width: int) -> list[int]:
    """``total`` rows of ``width`` numbers in parts of at most two million numbers, or of one row: each part's rows."""
    size = max(1, _CHUNK // max(1, width))
    return [min(size, total - start) for start in range(0, total, size)]


def _without_nan(values: Any) -> Numbers:
    flat = np.asarray(values, np.float64).ravel()
    return flat[~np.isnan(flat)]
