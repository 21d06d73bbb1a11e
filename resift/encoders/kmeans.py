"""k-means clusters of words, for codebooks and universes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats

FREQUENT_WORDS = 20_000  # words that clusters are found among, and that explanations name
_BLOCK = 4096


def kmeans(points: Floats, size: int, seed: int = 0, iterations: int = 30) -> Floats:
    """Centroids (``size``, D), float32, of ``points`` (n, D): Lloyd's algorithm (1982) from :func:`spread_points`.

    A centroid that no point is nearest to stays where it is.
    """
    centroids = points[spread_points(points, size, np.random.default_rng(seed))]
    before = np.full(len(points), -1)
    for _ in range(iterations):
        nearest = _nearest(points, centroids)
        if (nearest == before).all():
            break
        before = nearest
        order = np.argsort(nearest, kind="stable")
        members, starts = np.unique(nearest[order], return_index=True)
        sums = np.add.reduceat(points[order], starts, axis=0)
        centroids[members] = sums / np.diff(np.append(starts, len(points))).astype(np.float32)[:, None]
    return np.asarray(centroids, np.float32)


def spread_points(points: Floats, size: int, rng: np.random.Generator) -> list[int]:
    """Rows of ``points`` (n, D) to start from: k-means++ (Arthur and Vassilvitskii 2007).

    The first is drawn evenly, each other with the square of its distance to the nearest one drawn before.
    """
    lengths = (points**2).sum(1)
    rows, distances = [int(rng.integers(len(points)))], np.full(len(points), np.inf)
    while len(rows) < size:
        last = points[rows[-1]]
        distances = np.minimum(distances, np.maximum(lengths + last @ last - 2 * points @ last, 0))
        reached = distances.cumsum()
        rows.append(min(int(np.searchsorted(reached, rng.random() * reached[-1], "right")), len(points) - 1))
    return rows


def _nearest(points: Floats, centroids: Floats) -> NDArray[np.intp]:
    """The nearest centroid of each point, (n,); in blocks, so that not all distances are held at once."""
    halves = (centroids**2).sum(1) / 2
    blocks = [points[start : start + _BLOCK] for start in range(0, len(points), _BLOCK)]
    return np.concatenate([(halves - block @ centroids.T).argmin(axis=1) for block in blocks])
