"""The Adam optimiser for some rows of a large array, in NumPy.

:func:`resift.feedback.mask.adam` is a second implementation, for the mask of a session. Each is fast for a different
use. This class updates the few rows of a large table that a batch touches and leaves the moments of all other rows
unchanged. The session's mask is a small vector that is updated twenty times within a request.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats

_BETA_FIRST = 0.9
_BETA_SECOND = 0.999
_EPSILON = 1e-8
# Smallest factor of the initial learning rate, which is reached at the end of a training run.
_LOWEST_RATE = 0.02


def rate_factor(step: int, total: int) -> float:
    """Return the factor by which the initial learning rate is multiplied at a step of the training.

    The factor falls linearly, from 1 at the first step to 0 at the end of the training, but never below 0.02.

    Args:
        step: The step, counted from 0.
        total: The total number of steps.
    """
    return max(1 - step / total, _LOWEST_RATE)


class Adam:
    """The Adam optimiser for large arrays. Each step updates only some rows of an array.

    The first and second moments of a row change only when the row is updated. The bias correction depends on the number
    of training steps, and not on the number of updates of the row.

    Args:
        values: The parameters: V values, shape (V,), or V vectors of D dimensions, shape (V, D), float32. They are
            changed in place.
        rate: The learning rate.

    Source:
        Kingma and Ba 2015, Algorithm 1.
    """

    def __init__(self, values: Floats, rate: float) -> None:
        self.values, self.rate = values, rate
        self.first_moment, self.second_moment = np.zeros_like(values), np.zeros_like(values)

    def update(self, rows: NDArray[Any], gradient: Floats, step: int, rate_factor: float) -> None:
        """Change some rows of the parameters so that the loss becomes smaller.

        Args:
            rows: The row numbers of the R rows to update, shape (R,).
            gradient: The gradient of the loss with respect to these rows, shape (R,), or (R, D) for vectors of D
                dimensions.
            step: The training step, counted from 1.
            rate_factor: The factor by which the learning rate is multiplied, 0 to 1, from :func:`rate_factor`.
        """
        first = self.first_moment[rows] * np.float32(_BETA_FIRST) + gradient * np.float32(1 - _BETA_FIRST)
        second = self.second_moment[rows] * np.float32(_BETA_SECOND) + gradient**2 * np.float32(1 - _BETA_SECOND)
        self.first_moment[rows], self.second_moment[rows] = first, second
        spread = np.sqrt(second / np.float32(1 - _BETA_SECOND**step)) + np.float32(_EPSILON)
        self.values[rows] -= np.float32(self.rate * rate_factor / (1 - _BETA_FIRST**step)) * first / spread
