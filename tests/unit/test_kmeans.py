"""Tests of k-means clustering."""

from __future__ import annotations

import numpy as np

from resift.encoders.kmeans import choose_initial_centroids, kmeans


def points(count: int = 300) -> np.ndarray:
    """Return random points around four centres."""
    rng = np.random.default_rng(0)
    return (rng.normal(size=(count, 5)) + 4 * rng.integers(2, size=(count, 2)) @ rng.normal(size=(2, 5))).astype("f4")


def test_centroids_are_the_means_of_their_points() -> None:
    cloud = points()
    centroids = kmeans(cloud, 6, seed=1, iterations=200)
    nearest = np.linalg.norm(cloud[:, None] - centroids, axis=2).argmin(axis=1)
    means = np.stack([cloud[nearest == row].mean(axis=0) for row in range(6)])
    np.testing.assert_allclose(centroids, means, atol=1e-5)
    assert centroids.dtype == np.float32


def test_initial_centroids_lie_far_apart() -> None:
    far = np.repeat(np.array([[0.0, 0], [0, 90], [90, 0]], np.float32), 50, axis=0)
    assert {row // 50 for row in choose_initial_centroids(far, 3, np.random.default_rng(0))} == {0, 1, 2}


def test_a_centroid_without_points_does_not_move() -> None:
    same = np.ones((5, 2), np.float32)
    np.testing.assert_array_equal(kmeans(same, 3), np.ones((3, 2)))
    assert len(kmeans(points(4), 4)) == 4
