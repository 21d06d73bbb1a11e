"""Two rankings in one: whose hits do people click? And how sure one may be of the answer, however often one looks."""

from __future__ import annotations

import random
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

K = TypeVar("K", bound=Hashable)
ERROR = 0.02  # the chance, at most, that a preference is found where there is none
_STEPS = 400  # of the interval: means from -1 to 1 are tried at so many places
_MOST = 0.5  # of the wealth that would be lost by the worst outcome is staked


def team_draft(first: Sequence[K], second: Sequence[K], seed: str) -> dict[K, bool | None]:
    """One ranking of two, by team draft (Radlinski, Kurup and Joachims 2008), as long as the longer of them.

    Both take turns in picking the best hit that is left to them; who begins a round is drawn by ``seed``. The result
    says of each hit, best first, whether the ``second`` ranking picked it. The hits that both begin with in the same
    order are nobody's (None): a click there would tell nothing, and only add noise.

    >>> team_draft("abcd", "abdc", "any")
    {'a': None, 'b': None, 'd': True, 'c': False}
    """
    common = [one for one, other in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False))]
    drafted: dict[K, bool | None] = dict.fromkeys(common)
    rng, picks = random.Random(seed), {False: 0, True: 0}
    left = {False: list(first), True: list(second)}
    while len(drafted) < max(len(first), len(second)):
        team = picks[True] < picks[False] if picks[True] != picks[False] else rng.random() < 0.5
        picks[team] += 1
        picked = next((one for one in left[team] if one not in drafted), None)
        if picked is not None:
            drafted[picked] = team
    return drafted


@dataclass(frozen=True)
class Preference:
    """The ``mean`` of outcomes from -1 to 1, and an interval for it, ``low`` to ``high``, which holds at any time."""

    outcomes: int
    mean: float
    low: float
    high: float


def preference(outcomes: Sequence[float], error: float = ERROR) -> Preference:
    """The mean of ``outcomes`` (n,), -1 to 1, in the order in which they came, with a confidence sequence.

    The hedged betting of Waudby-Smith and Ramdas (2024, "Estimating means of bounded random variables by betting",
    section 4.2, with the bets of eq. 26): for each mean that may be, a gambler bets against it, and one by whom he gets
    rich, 1 / ``error`` times, is left out for good. By Ville's inequality the true mean is ever left out with a chance
    of ``error`` at most, whenever one looks and stops. Nothing is supposed but that the mean, given what came before,
    is always the same.
    """
    values = (np.asarray(outcomes, np.float64) + 1) / 2
    means = np.linspace(0.0, 1.0, _STEPS + 1)
    bets = _bets(values, error)[:, None]
    gains = values[:, None] - means
    with np.errstate(divide="ignore"):
        up = np.log1p(np.minimum(bets, _MOST / means) * gains).cumsum(axis=0)
        down = np.log1p(-np.minimum(bets, _MOST / (1 - means)) * gains).cumsum(axis=0)
    richest = np.maximum(up, down).max(axis=0, initial=0.0)
    kept = means[richest < np.log(2 / error)]
    mean = float(values.mean()) if len(values) else 0.5
    # between two places that were tried the truth may be anywhere
    low, high = (kept[0] - 1 / _STEPS, kept[-1] + 1 / _STEPS) if len(kept) else (mean, mean)
    return Preference(len(values), 2 * mean - 1, float(max(-1.0, 2 * low - 1)), float(min(1.0, 2 * high - 1)))


def _bets(values: NDArray[np.float64], error: float) -> NDArray[Any]:
    """What is staked on each of the values (n,), by those before it alone."""
    count = np.arange(1, len(values) + 1)
    mean = (0.5 + values.cumsum()) / (count + 1)
    variance = (0.25 + ((values - mean) ** 2).cumsum()) / (count + 1)
    before = np.concatenate([[0.25], variance[:-1]]) if len(values) else variance
    return np.asarray(np.sqrt(2 * np.log(2 / error) / (before * count * np.log(count + 1))))
