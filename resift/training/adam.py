"""Adam on some rows of an array at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats

if TYPE_CHECKING:
    pass

_DECAY, _FLOOR = (0.9, 0.999), 0.02


class Adam:
    """Adam (Kingma and Ba 2015) on some rows of an array at a time, moments of the others at rest."""

    def __init__(self, values: Floats, rate: float) -> None:
        self.values, self.rate = values, rate
        self.mean, self.square = np.zeros_like(values), np.zeros_like(values)

    def move(self, rows: NDArray[Any], slope: Floats, step: int, decay: float) -> None:
        first, second = _DECAY
        mean = self.mean[rows] * np.float32(first) + slope * np.float32(1 - first)
        square = self.square[rows] * np.float32(second) + slope**2 * np.float32(1 - second)
        self.mean[rows], self.square[rows] = mean, square
        spread = np.sqrt(square / np.float32(1 - second**step)) + np.float32(1e-8)
        self.values[rows] -= np.float32(self.rate * decay / (1 - first**step)) * mean / spread
