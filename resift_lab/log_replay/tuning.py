"""The few constants of a session, chosen for one index by what people did there, and kept only if that helps.

Each constant has three values, the usual one among them. One half of the clients or queries chooses, constant by
constant, and the other half judges what was chosen, and the other way round; all of them choose what is kept. Nothing
is chosen for a query or a person.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from resift.contracts.tuning import Tuning
from resift_lab.evaluation.metrics import Numbers
from resift_lab.evaluation.significance import paired_randomization
from resift_lab.training.gate import SIGNIFICANT

FACTORS = {"words": (0.5, 1.0, 2.0), "strength": (0.5, 1.0, 2.0), "carried": (0.0, 1.0, 2.0)}
TRIALS = 12  # at most: the start, three values of three constants, and what each half chooses
Values = Callable[[Tuning], Numbers]  # what constants are worth to each client or query, (n,); NaN where nothing is


@dataclass(frozen=True)
class Chosen:
    """What came of it: ``tuning``, which is the one before unless it is ``better``; what the ``units`` that judged have
    of the one ``before``, and of constants that they had no part in choosing (``held_out``); and ``p`` of no
    difference, two-sided."""

    tuning: Tuning
    better: bool
    units: int
    before: float
    held_out: float
    p: float


def choose(values: Values, start: Tuning, seed: int = 0) -> Chosen:
    """The best constants in place of those of ``start``, by what they are worth."""
    known: dict[tuple[float, ...], Numbers] = {}

    def worth(tuning: Tuning) -> Numbers:
        key = tuple(getattr(tuning, name) for name in FACTORS)
        if key not in known:
            known[key] = values(tuning)
        return known[key]

    before = worth(start)
    half = np.random.default_rng(seed).permutation(len(before)) % 2 == 0
    held_out = np.empty_like(before)
    for part in (half, ~half):
        held_out[~part] = worth(_best(worth, start, part))[~part]
    counted = ~np.isnan(held_out - before)
    p = paired_randomization(held_out, before, np.random.default_rng(seed))
    means = [float(found[counted].mean()) if counted.any() else 0.0 for found in (before, held_out)]
    better = means[1] > means[0] and p < SIGNIFICANT
    best = _best(worth, start, np.ones(len(before), bool)) if better else start
    return Chosen(best, better and best != start, int(counted.sum()), means[0], means[1], p)


def _best(worth: Values, start: Tuning, part: NDArray[np.bool_]) -> Tuning:
    """Each constant's best value by a part of the units (n,), where it gains more than its own standard error."""
    best, before = start, worth(start)[part]
    for name, factors in FACTORS.items():
        gains = {0.0: getattr(start, name)}
        for factor in factors:
            gain = worth(structs.replace(start, **{name: factor}))[part] - before
            gain = gain[~np.isnan(gain)]
            if len(gain) > 1 and gain.mean() > gain.std() / np.sqrt(len(gain)):
                gains[float(gain.mean())] = factor
        best = structs.replace(best, **{name: gains[max(gains)]})
    return best
