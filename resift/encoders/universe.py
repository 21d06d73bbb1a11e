"""Universes of the static fuzzy bag of words: what a word's membership is measured against.

A word x is a member of each row u of the universe U to the degree u·x (Muffo et al. 2021, eq. 5). The identity takes
the dimensions themselves (eq. 10); the others turn them (``pca``, eq. 12) or take the centroids of clusters of words
(eq. 9). Clusters are found among the most frequent words.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from resift.arrays import Floats
from resift.encoders.kmeans import FREQUENT_WORDS, kmeans
from resift.errors import BadInput, needs_extra
from resift.vectors.similarity import unit_rows

_DENSITY_WORDS = 5_000
_NAME = re.compile(r"(identity|signed|pca|kmeans|spherical|dbscan|hdbscan)(\d+(?:\.\d+)?)?")


def build_universe(name: str, rows: Floats, seed: int = 0) -> Floats:
    """The universe (u, D) for word vectors ``rows`` (V, D), most frequent first.

    ``identity``; ``signed``: every dimension and its opposite, so that no dimension's sign matters (u = 2D); ``pca`` or
    ``pcaK``; ``kmeansK``; ``sphericalK``; ``dbscanE``: E is the radius, a cosine distance; ``hdbscanM``: M is the
    smallest cluster. Raises BadInput for another name, a size that does not fit, or where no cluster is found, and
    MissingExtra without scikit-learn where it is needed.
    """
    match = _NAME.fullmatch(name)
    number = float(match[2]) if match and match[2] else None
    if match is None or not _fits(match[1], number, rows):
        known = "identity | signed | pca[K] | kmeansK | sphericalK | dbscanE | hdbscanM"
        raise BadInput(f"unknown universe {name!r}", value=name, expected=f"{known}, K at most the words or dimensions")
    kind = match[1]
    if kind in ("identity", "signed"):
        axes = np.eye(rows.shape[1], dtype=np.float32)
        return axes if kind == "identity" else np.concatenate([axes, -axes])
    if kind == "pca":
        return principal_axes(rows, int(number or rows.shape[1]))
    frequent = np.asarray(rows[:FREQUENT_WORDS], np.float32)
    if kind == "kmeans":
        return kmeans(frequent, int(number or 0), seed)
    if kind == "spherical":
        return spherical_kmeans(unit_rows(frequent), int(number or 0), np.random.default_rng(seed))
    return _density_clusters(kind, number or 0, unit_rows(rows[:_DENSITY_WORDS]))


def _fits(kind: str, number: float | None, rows: Floats) -> bool:
    """Whether a universe of this kind can have this number behind its name, or none."""
    if kind in ("identity", "signed"):
        return number is None
    if kind == "dbscan":
        return number is not None and 0 < number < 2
    if number is None:
        return kind == "pca"
    largest = {"pca": rows.shape[1], "hdbscan": _DENSITY_WORDS}.get(kind, min(FREQUENT_WORDS, len(rows)))
    smallest = 2 if kind == "hdbscan" else 1
    return number.is_integer() and smallest <= number <= largest


def principal_axes(rows: Floats, size: int) -> Floats:
    """The ``size`` eigenvectors of WᵀW with the largest eigenvalues, as rows (size, D) (Muffo et al. 2021, eq. 12).

    Of each, the sign is the one that makes the mean of the words' coordinates positive.
    """
    _, vectors = np.linalg.eigh(rows.T.astype(np.float64) @ rows)
    axes = vectors[:, ::-1][:, :size].T
    return np.asarray(axes * np.where(axes @ rows.mean(axis=0) < 0, -1, 1)[:, None], np.float32)


def spherical_kmeans(units: Floats, size: int, rng: np.random.Generator, iterations: int = 30) -> Floats:
    """Centroids (size, D) of length 1 that maximise the words' cosines with their nearest one (Dhillon and Modha 2001).

    ``units`` (n, D) are words of length 1. A centroid that loses all its words becomes the word farthest from its own.
    """
    centroids = units[rng.choice(len(units), size, replace=False)]
    for _ in range(iterations):
        cosines = units @ centroids.T
        nearest = cosines.argmax(axis=1)
        sums = np.zeros_like(centroids)
        np.add.at(sums, nearest, units)
        empty = np.flatnonzero(np.bincount(nearest, minlength=size) == 0)
        sums[empty] = units[np.argsort(cosines.max(axis=1))[: len(empty)]]
        centroids = unit_rows(sums)
    return centroids


def _density_clusters(kind: str, number: float, units: Floats) -> Floats:
    with needs_extra("lab", kind):
        from sklearn.cluster import DBSCAN, HDBSCAN
    by_name: dict[str, Callable[[], object]] = {
        "dbscan": lambda: DBSCAN(eps=number, min_samples=5, metric="cosine"),
        "hdbscan": lambda: HDBSCAN(min_cluster_size=int(number), copy=True),
    }
    # words that belong to no cluster have the label -1
    labels = by_name[kind]().fit_predict(units)  # type: ignore[attr-defined]
    if labels.max(initial=-1) < 0:
        raise BadInput(
            f"{kind}{number:g} finds no cluster", value=number, expected="another radius or smallest cluster"
        )
    return np.stack([units[labels == label].mean(axis=0) for label in range(labels.max() + 1)])
