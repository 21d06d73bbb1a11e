"""Universes of the fuzzy bag of words."""

from __future__ import annotations

import numpy as np
import pytest

from resift.encoders.universe import build_universe, principal_axes, spherical_kmeans
from resift.errors import BadInput
from resift.vectors.similarity import unit_rows


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    """120 words in three clear bundles of directions, in six dimensions."""
    rng = np.random.default_rng(3)
    centres = np.eye(6)[:3] * 4
    return (centres[rng.integers(0, 3, 120)] + 0.3 * rng.normal(size=(120, 6))).astype(np.float32)


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("identity", 6),
        ("signed", 12),
        ("pca", 6),
        ("pca2", 2),
        ("kmeans5", 5),
        ("spherical3", 3),
        ("dbscan0.1", 3),
        ("hdbscan10", 3),
    ],
)
def test_sizes_and_repeatability(rows: np.ndarray, name: str, size: int) -> None:
    universe = build_universe(name, rows, seed=4)
    assert universe.shape == (size, 6)
    assert universe.dtype == np.float32
    np.testing.assert_array_equal(universe, build_universe(name, rows, seed=4))


def test_signed_universe_makes_signs_meaningless(rows: np.ndarray) -> None:
    signed = build_universe("signed", rows)
    flipped = rows * np.array([1, -1, 1, -1, 1, -1])
    a, b = np.maximum(rows @ signed.T, 0), np.maximum(flipped @ signed.T, 0)
    np.testing.assert_array_equal(np.sort(a, axis=1), np.sort(b, axis=1))


def test_pca_is_a_rotation_by_falling_energy(rows: np.ndarray) -> None:
    axes = principal_axes(rows, 6)
    np.testing.assert_allclose(axes @ axes.T, np.eye(6), atol=1e-5)
    energy = ((rows @ axes.T) ** 2).sum(axis=0)
    assert (np.diff(energy) <= 1e-3).all()
    assert (rows.mean(axis=0) @ axes.T >= -1e-6).all()


def test_spherical_centroids_find_the_bundles(rows: np.ndarray) -> None:
    units = unit_rows(rows)
    centroids = spherical_kmeans(units, 3, np.random.default_rng(1))
    np.testing.assert_allclose(np.linalg.norm(centroids, axis=1), 1, rtol=1e-5)
    assert (units @ centroids.T).max(axis=1).min() > 0.85
    assert len(np.unique((centroids @ np.eye(6)[:3].T).argmax(axis=1))) == 3


def test_spherical_kmeans_keeps_all_its_centroids() -> None:
    units = unit_rows(np.repeat(np.eye(3, dtype=np.float32), 5, axis=0))
    centroids = spherical_kmeans(units, 9, np.random.default_rng(0))
    assert np.isfinite(centroids).all()
    np.testing.assert_allclose(np.linalg.norm(centroids, axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "pca0",
        "pca7",
        "kmeans",
        "kmeans0",
        "kmeans999",
        "kmeans2.5",
        "dbscan",
        "dbscan3",
        "hdbscan1",
        "signed2",
        "tree",
    ],
)
def test_unknown_universes(rows: np.ndarray, name: str) -> None:
    with pytest.raises(BadInput, match="unknown universe"):
        build_universe(name, rows)


def test_a_universe_without_clusters_is_refused() -> None:
    scattered = np.random.default_rng(0).normal(size=(40, 30)).astype(np.float32)
    with pytest.raises(BadInput, match="finds no cluster"):
        build_universe("dbscan0.01", scattered)
