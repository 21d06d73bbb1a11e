"""Confidence intervals of a mean over queries, and significance of the difference between two systems."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.errors import BadInput, needs_extra
from resift_lab.evaluation.metrics import Numbers

_CHUNK = 2_000_000  # random numbers that are drawn at once


def bootstrap_mean(
    values: Sequence[float] | NDArray[Any],
    rng: np.random.Generator,
    confidence: float = 0.95,
    resamples: int = 2000,
) -> tuple[float, float]:
    """Return the percentile bootstrap interval of the mean of ``values`` (n,).

    NaN values are left out. Both bounds are NaN if nothing is left, and the value itself if it is the only one.

    Raises:
        MissingExtra: If SciPy is not installed.

    Source:
        Efron and Tibshirani 1993.
    """
    with needs_extra("lab", "Evaluation"):
        from scipy.stats import bootstrap
    known = _without_nan(values)
    if len(known) < 2:
        value = float(known[0]) if len(known) else float("nan")
        return value, value
    settings = {"confidence_level": confidence, "n_resamples": resamples, "batch": _batch(len(known))}
    interval = bootstrap((known,), np.mean, method="percentile", rng=rng, **settings).confidence_interval
    return float(interval.low), float(interval.high)


def paired_randomization(
    first: Sequence[float] | NDArray[Any],
    second: Sequence[float] | NDArray[Any],
    rng: np.random.Generator,
    permutations: int = 10_000,
) -> float:
    """Return the two-sided p of Fisher's randomisation test for two systems' values of the same queries (n,).

    The null hypothesis is that both systems have the same mean. The two values of each query are swapped at random,
    which flips the sign of their difference. p is (1 + swaps at least as far apart) / (1 + permutations). Queries that
    are NaN for either system are left out. Without any query p is 1.

    Raises:
        BadInput: If the arguments are not two lists of the same length.
        MissingExtra: If SciPy is not installed.

    Source:
        Smucker et al. 2007.
    """
    with needs_extra("lab", "Evaluation"):
        from scipy.stats import monte_carlo_test
    a, b = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if a.shape != b.shape or a.ndim != 1:
        raise BadInput(f"values of shapes {a.shape} and {b.shape}", expected="two lists of the same length")
    difference = _without_nan(a - b)
    if not len(difference):
        return 1.0

    def swapped(size: tuple[int, int]) -> Numbers:
        return (rng.integers(0, 2, size, dtype=np.int8) * 2 - 1) * difference

    def distance(sample: Numbers, axis: int) -> Numbers:
        return np.asarray(np.abs(sample.sum(axis=axis)))

    settings = {"n_resamples": permutations, "batch": _batch(len(difference)), "alternative": "greater"}
    return float(monte_carlo_test(difference, swapped, distance, vectorized=True, **settings).pvalue)


def _batch(width: int) -> int:
    """Return the number of rows of ``width`` numbers that are drawn at once."""
    return max(1, _CHUNK // max(1, width))


def chunks(total: int, width: int) -> list[int]:
    """``total`` rows of ``width`` numbers in parts of at most two million numbers, or of one row: each part's rows."""
    size = _batch(width)
    return [min(size, total - start) for start in range(0, total, size)]


def _without_nan(values: Any) -> Numbers:
    flat = np.asarray(values, np.float64).ravel()
    return flat[~np.isnan(flat)]
