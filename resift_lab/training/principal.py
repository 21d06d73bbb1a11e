"""Principal axes with signs that do not depend on the linear algebra library."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats


def principal_axes(rows: NDArray[np.float64], size: int, drop: int = 0) -> NDArray[np.float64]:
    """Eigenvectors of rowsᵀ · rows by falling eigenvalue, as columns (D, ``size``), after the first ``drop``.

    ``rows`` (n, D) are centred by the caller, if they are to be. Of each axis the sign is the one that makes its
    largest component positive; :func:`resift.encoders.universe.principal_axes` takes the sign from the words.
    """
    _, axes = np.linalg.eigh(rows.T @ rows)
    axes = axes[:, ::-1][:, drop : drop + size]
    largest = axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])]
    return np.asarray(axes * np.where(largest < 0, -1, 1))


def principal_components(rows: NDArray[Any], dim: int, drop: int = 0) -> Floats:
    """Centred ``rows`` (n, D) on ``dim`` principal axes after the first ``drop``: (n, dim) float32.

    Components come by falling variance.
    """
    centred = rows - rows.mean(axis=0, dtype=np.float64)
    return np.asarray(centred @ principal_axes(centred, dim, drop), np.float32)
