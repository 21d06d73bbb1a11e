"""Adam on the rows of an array that a batch touches, by numpy.

The session's mask has an Adam of its own, :func:`resift.feedback.mask.adam`. They are two because they are fast for
opposite reasons: here a batch moves a few rows of a large table and the moments of all others stay as they are; there
ten documents move one small vector twenty times, within a request, by unnormalised float64 sums that spare most of the
operations on arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats

_BETA_FIRST, _BETA_SECOND, _EPSILON = 0.9, 0.999, 1e-8
_LOWEST_RATE = 0.02


def remaining_rate(step: int, total: int) -> float:
    """The part of the learning rate that is left at ``step`` (from 0) of ``total``: it falls evenly, down to 2 %."""
    return max(1 - step / total, _LOWEST_RATE)


class Adam:
    """Adam (Kingma and Ba 2015, Algorithm 1) on some rows of ``values`` at a time, with learning rate ``rate``.

    ``values`` (V,) or (V, D) float32 are changed in place. The moments of rows that a step does not touch stay as they
    are, but the bias correction counts every step.
    """

    def __init__(self, values: Floats, rate: float) -> None:
        self.values, self.rate = values, rate
        self.first_moment, self.second_moment = np.zeros_like(values), np.zeros_like(values)

    def update(self, rows: NDArray[Any], gradient: Floats, step: int, remaining: float) -> None:
        """Move the rows by their ``gradient`` (R,) or (R, D); ``step`` counts from 1, ``remaining`` is of the rate."""
        first = self.first_moment[rows] * np.float32(_BETA_FIRST) + gradient * np.float32(1 - _BETA_FIRST)
        second = self.second_moment[rows] * np.float32(_BETA_SECOND) + gradient**2 * np.float32(1 - _BETA_SECOND)
        self.first_moment[rows], self.second_moment[rows] = first, second
        spread = np.sqrt(second / np.float32(1 - _BETA_SECOND**step)) + np.float32(_EPSILON)
        self.values[rows] -= np.float32(self.rate * remaining / (1 - _BETA_FIRST**step)) * first / spread
