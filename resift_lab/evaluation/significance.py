"""Confidence intervals of means over queries, and significance tests of the difference between two systems."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.errors import BadInput, needs_extra
from resift_lab.evaluation.metrics import Numbers

_CHUNK = 2_000_000  # maximum number of random numbers to draw at once


def require_scipy() -> None:
    """Check that SciPy is installed, before a long measurement whose last step needs it.

    Raises:
        MissingExtra: If SciPy is not installed.
    """
    with needs_extra("lab", "Evaluation"):
        import scipy.stats  # noqa: F401


def bootstrap_mean(
    values: Sequence[float] | NDArray[Any],
    rng: np.random.Generator,
    confidence: float = 0.95,
    resamples: int = 2000,
) -> tuple[float, float]:
    """Return a percentile bootstrap confidence interval of the mean.

    Args:
        values: The n values, shape (n,). NaN values are ignored.
        rng: Random generator for the resampling.
        confidence: Confidence level, 0 to 1.
        resamples: Number of bootstrap samples.

    Returns:
        The lower and the upper limit. Without any value, both are NaN. With a single value, both are this value.

    Raises:
        MissingExtra: If SciPy is not installed.

    Source:
        Efron and Tibshirani 1993.
    """
    with needs_extra("lab", "Evaluation"):
        from scipy.stats import bootstrap
    sample = _without_nan(values)
    if len(sample) < 2:
        value = float(sample[0]) if len(sample) else float("nan")
        return value, value
    settings = {"confidence_level": confidence, "n_resamples": resamples, "batch": _rows_per_draw(len(sample))}
    interval = bootstrap((sample,), np.mean, method="percentile", rng=rng, **settings).confidence_interval
    return float(interval.low), float(interval.high)


def paired_randomization(
    first: Sequence[float] | NDArray[Any],
    second: Sequence[float] | NDArray[Any],
    rng: np.random.Generator,
    permutations: int = 10_000,
) -> float:
    """Return the two-sided p-value of Fisher's randomisation test for the difference of two means.

    The null hypothesis is that both systems have the same mean. In each permutation, the two values of each query are
    swapped at random, which changes the sign of their difference.

    Args:
        first: Values of the first system for n queries, of shape (n,).
        second: Values of the second system for the same queries, of shape (n,). Queries with NaN for either system are
            ignored.
        rng: Random generator for the swaps.
        permutations: Number of random permutations.

    Returns:
        (1 + m) / (1 + permutations), where m is the number of permutations whose means differ at least as much as the
        observed means. 1 if there are no queries.

    Raises:
        BadInput: If ``first`` and ``second`` are not lists of the same length.
        MissingExtra: If SciPy is not installed.

    Source:
        Smucker et al. 2007.
    """
    with needs_extra("lab", "Evaluation"):
        from scipy.stats import monte_carlo_test
    a, b = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if a.shape != b.shape or a.ndim != 1:
        message = f"values of two systems have the shapes {a.shape} and {b.shape}"
        raise BadInput(message, expected="two lists of the same length")
    difference = _without_nan(a - b)
    if not len(difference):
        return 1.0

    def swap(size: tuple[int, int]) -> Numbers:
        return (rng.integers(0, 2, size, dtype=np.int8) * 2 - 1) * difference

    def distance(sample: Numbers, axis: int) -> Numbers:
        return np.asarray(np.abs(sample.sum(axis=axis)))

    settings = {"n_resamples": permutations, "batch": _rows_per_draw(len(difference)), "alternative": "greater"}
    return float(monte_carlo_test(difference, swap, distance, vectorized=True, **settings).pvalue)


def _rows_per_draw(width: int) -> int:
    """Return how many rows of random numbers to draw at a time, so that they fit in memory.

    Args:
        width: The number of random numbers in a row.
    """
    return max(1, _CHUNK // max(1, width))


def chunk_sizes(total: int, width: int) -> list[int]:
    """Divide the rows of a large matrix into chunks of at most two million numbers, and return their sizes.

    Args:
        total: Number of rows.
        width: Number of columns.

    Returns:
        The number of rows in each chunk, at least 1.
    """
    size = _rows_per_draw(width)
    return [min(size, total - start) for start in range(0, total, size)]


def _without_nan(values: Any) -> Numbers:
    flat = np.asarray(values, np.float64).ravel()
    return flat[~np.isnan(flat)]
