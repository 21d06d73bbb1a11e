"""k-means clustering of word vectors, for codebooks and universes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats

CLUSTERED_WORDS = 20_000
"""Number of most frequent words that are clustered."""

_BLOCK = 4096  # points that are compared with the centroids at a time, to limit the memory for distances


def kmeans(points: Floats, size: int, seed: int = 0, iterations: int = 30) -> Floats:
    """Cluster points by k-means (Lloyd's algorithm), and return the centroids.

    :func:`choose_initial_centroids` chooses the initial centroids. If a cluster becomes empty, its centroid is not
    moved.

    Args:
        points: The points, of shape (n_points, n_dimensions).
        size: The number of centroids.
        seed: The seed of the random start.
        iterations: The maximum number of iterations.

    Returns:
        Float32 array of shape (size, n_dimensions).

    Source:
        Lloyd 1982, "Least squares quantization in PCM".
    """
    centroids = points[choose_initial_centroids(points, size, np.random.default_rng(seed))]
    previous = np.full(len(points), -1)
    for _ in range(iterations):
        nearest = _nearest_centroids(points, centroids)
        if (nearest == previous).all():
            break
        previous = nearest
        order = np.argsort(nearest, kind="stable")
        members, starts = np.unique(nearest[order], return_index=True)
        sums = np.add.reduceat(points[order], starts, axis=0)
        centroids[members] = sums / np.diff(np.append(starts, len(points))).astype(np.float32)[:, None]
    return np.asarray(centroids, np.float32)


def choose_initial_centroids(points: Floats, size: int, rng: np.random.Generator) -> list[int]:
    """Choose initial centroids for k-means by the k-means++ method.

    The first point is drawn uniformly. Each further point is drawn with a probability proportional to its squared
    distance from the nearest point that was already chosen.

    Args:
        points: The points, of shape (n_points, n_dimensions).
        size: The number of points to choose.
        rng: A random number generator.

    Returns:
        The row numbers of the chosen points, which are the initial centroids.

    Source:
        Arthur and Vassilvitskii 2007, "k-means++: the advantages of careful seeding".
    """
    lengths = (points**2).sum(1)
    rows, distances = [int(rng.integers(len(points)))], np.full(len(points), np.inf)
    while len(rows) < size:
        last = points[rows[-1]]
        distances = np.minimum(distances, np.maximum(lengths + last @ last - 2 * points @ last, 0))
        cumulative = distances.cumsum()
        rows.append(min(int(np.searchsorted(cumulative, rng.random() * cumulative[-1], "right")), len(points) - 1))
    return rows


def _nearest_centroids(points: Floats, centroids: Floats) -> NDArray[np.intp]:
    """Find the nearest centroid of each point.

    Args:
        points: The points, of shape (n_points, n_dimensions).
        centroids: The centroids, of shape (n_centroids, n_dimensions).

    Returns:
        The row number of the nearest centroid for each point, of shape (n_points,).
    """
    half_squares = (centroids**2).sum(1) / 2
    blocks = [points[start : start + _BLOCK] for start in range(0, len(points), _BLOCK)]
    return np.concatenate([(half_squares - block @ centroids.T).argmin(axis=1) for block in blocks])
