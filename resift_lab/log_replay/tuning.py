"""Choice of the constants of sessions for an index, by a click log or by judged queries.

Each constant has three or four candidate values, one of which is the default. The clients or queries are divided into
two halves. Each half chooses the constants, one after another, and the other half evaluates the choice. If both
together are significantly better than the present constants, all clients or queries choose the final constants.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from resift.contracts.tuning import Tuning
from resift_lab.evaluation.metrics import Numbers
from resift_lab.evaluation.significance import paired_randomization, require_scipy
from resift_lab.training.gate import SIGNIFICANT

# The constants of sessions (attributes of Tuning), with their candidate values. Each value is a factor of the default.
FACTORS = {"words": (0.5, 1.0, 2.0), "strength": (0.5, 1.0, 2.0), "carried": (0.0, 0.5, 1.0, 2.0)}
# Maximum number of evaluations: the present constants, all values of each constant, and the choice of each half.
TRIALS = 3 + sum(map(len, FACTORS.values()))
# A function that evaluates constants, and returns a value for each client or query, shape (n,); NaN for clients or
# queries without a value.
QualityFunction = Callable[[Tuning], Numbers]


@dataclass(frozen=True)
class Choice:
    """The constants that :func:`choose_constants` has chosen for sessions, and their evaluation.

    Attributes:
        tuning: The new constants if ``better`` is true, otherwise the present constants.
        better: Whether the new constants are significantly better than the present constants.
        units: The number of clients or queries in the evaluation.
        before: The mean value with the present constants.
        held_out: The mean value with new constants. Each half of the clients or queries is evaluated with the constants
            that were chosen on the other half.
        p: The two-sided p-value of the difference between ``held_out`` and ``before``.
    """

    tuning: Tuning
    better: bool
    units: int
    before: float
    held_out: float
    p: float


def choose_constants(quality: QualityFunction, start: Tuning, seed: int = 0) -> Choice:
    """Look for better ranking constants for searches in sessions, and verify them by two-fold cross-validation.

    The constants determine how strongly the judgements of a session change the ranking.

    Args:
        quality: A function that measures the ranking quality with given constants. It returns a number for each client
            or query, and NaN for clients or queries that cannot be measured.
        start: The current constants.
        seed: The seed of the division into two halves and of the significance test.

    Returns:
        The result of the comparison. Its ``tuning`` contains the new constants if they are significantly better, and
        otherwise the current constants.

    Raises:
        MissingExtra: If SciPy is not installed.
    """
    require_scipy()
    cache: dict[tuple[float, ...], Numbers] = {}

    def cached_quality(tuning: Tuning) -> Numbers:
        key = tuple(getattr(tuning, name) for name in FACTORS)
        if key not in cache:
            cache[key] = quality(tuning)
        return cache[key]

    before = cached_quality(start)
    half = np.random.default_rng(seed).permutation(len(before)) % 2 == 0
    held_out = np.empty_like(before)
    for part in (half, ~half):
        held_out[~part] = cached_quality(_best_constants(cached_quality, start, part))[~part]
    counted = ~np.isnan(held_out - before)
    p = paired_randomization(held_out, before, np.random.default_rng(seed))
    mean_before = mean_held_out = 0.0
    if counted.any():
        mean_before, mean_held_out = float(before[counted].mean()), float(held_out[counted].mean())
    better = mean_held_out > mean_before and p < SIGNIFICANT
    best = _best_constants(cached_quality, start, np.ones(len(before), bool)) if better else start
    return Choice(
        tuning=best,
        better=better and best != start,
        units=int(counted.sum()),
        before=mean_before,
        held_out=mean_held_out,
        p=p,
    )


def _best_constants(quality: QualityFunction, start: Tuning, part: NDArray[np.bool_]) -> Tuning:
    """Choose the best value of each ranking constant, while the other constants keep their current values.

    A constant is changed only if the mean improvement is larger than its standard error.

    Args:
        quality: A function that measures the ranking quality with given constants.
        start: The current constants.
        part: True for the clients or queries to choose the constants with, shape (n,).

    Returns:
        The chosen constants.
    """
    best, before = start, quality(start)[part]
    for name, factors in FACTORS.items():
        gains = {0.0: getattr(start, name)}
        for factor in factors:
            gain = quality(structs.replace(start, **{name: factor}))[part] - before
            gain = gain[~np.isnan(gain)]
            if len(gain) > 1 and gain.mean() > gain.std() / np.sqrt(len(gain)):
                gains[float(gain.mean())] = factor
        best = structs.replace(best, **{name: gains[max(gains)]})
    return best
