"""Principal component analysis with signs that do not depend on the linear algebra library."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats


def principal_axes(rows: NDArray[np.float64], size: int, drop: int = 0) -> NDArray[np.float64]:
    """Return the principal axes of vectors: the eigenvectors of rowsᵀ · rows, by descending eigenvalue.

    The sign of each axis is chosen so that its component with the largest absolute value is positive. This differs from
    :func:`resift.encoders.universe.principal_axes`, where the mean coordinate of the vectors on each axis is not
    negative.

    Args:
        rows: n vectors of D dimensions, shape (n, D). Centre them first if the axes should ignore their mean.
        size: The number of axes to return.
        drop: The number of axes with the largest eigenvalues to skip.

    Returns:
        The axes as columns, shape (D, ``size``).
    """
    _, axes = np.linalg.eigh(rows.T @ rows)
    axes = axes[:, ::-1][:, drop : drop + size]
    largest = axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])]
    return np.asarray(axes * np.where(largest < 0, -1, 1))


def principal_components(rows: NDArray[Any], dim: int, drop: int = 0) -> Floats:
    """Centre vectors and project them onto their principal axes.

    Args:
        rows: n vectors of D dimensions, shape (n, D).
        dim: The number of components to return.
        drop: The number of components with the largest variance to skip.

    Returns:
        The components of each vector by descending variance, shape (n, ``dim``), float32.
    """
    centred = rows - rows.mean(axis=0, dtype=np.float64)
    return np.asarray(centred @ principal_axes(centred, dim, drop), np.float32)
