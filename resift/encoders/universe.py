"""Universes of the static fuzzy bag of words: the vectors that define the dimensions of word memberships.

The membership of a word vector x in row u of a universe is u·x. The rows can be the dimensions of the word vectors
themselves (the identity, eq. 10), their principal axes (eq. 12), or centroids of clusters of frequent words (eq. 9).

Source: Muffo et al. 2021, section 2.2 (eq. 5), section 3.2 (eqs. 9 and 10) and section 4.2 (eq. 12).
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from resift.arrays import Floats
from resift.encoders.kmeans import CLUSTERED_WORDS, kmeans
from resift.errors import BadInput, needs_extra
from resift.vectors.similarity import unit_rows

_DENSITY_WORDS = 5_000  # frequent words that the density-based algorithms cluster
_NAME = re.compile(r"(identity|signed|pca|kmeans|spherical|dbscan|hdbscan)(\d+(?:\.\d+)?)?")


def build_universe(name: str, rows: Floats, seed: int = 0) -> Floats:
    """Build a universe: the vectors with which word vectors are compared to get fuzzy memberships.

    Args:
        name: Name of the universe:

            - ``identity``: the D dimensions of the word vectors.
            - ``signed``: the dimensions and their opposites, so that negative values count too.
            - ``pca`` or ``pcaK``: all or the first K principal axes.
            - ``kmeansK``: the centroids of K clusters by k-means.
            - ``sphericalK``: the centroids of K clusters by spherical k-means.
            - ``dbscanE``: the means of clusters by DBSCAN, with the cosine distance E as its radius.
            - ``hdbscanM``: the means of clusters by HDBSCAN, with M words in the smallest cluster.
        rows: Word vectors of shape (V, D), most frequent words first.
        seed: Seed of the clustering.

    Returns:
        Array of shape (u, D), float32. A word then has u memberships, one for each vector of the universe.

    Raises:
        BadInput: If the name is unknown, its number is out of range, or no cluster is found.
        MissingExtra: If the universe needs scikit-learn, which is not installed.
    """
    match = _NAME.fullmatch(name)
    number = float(match[2]) if match and match[2] else None
    if match is None or not _is_valid_number(match[1], number, rows):
        known = "identity | signed | pca[K] | kmeansK | sphericalK | dbscanE | hdbscanM"
        raise BadInput(f"unknown universe {name!r}", value=name, expected=f"{known}, K at most the words or dimensions")
    kind = match[1]
    if kind in ("identity", "signed"):
        axes = np.eye(rows.shape[1], dtype=np.float32)
        return axes if kind == "identity" else np.concatenate([axes, -axes])
    if kind == "pca":
        return principal_axes(rows, int(number or rows.shape[1]))
    frequent = np.asarray(rows[:CLUSTERED_WORDS], np.float32)
    if kind == "kmeans":
        return kmeans(frequent, int(number or 0), seed)
    if kind == "spherical":
        return spherical_kmeans(unit_rows(frequent), int(number or 0), np.random.default_rng(seed))
    return _density_clusters(kind, number or 0, unit_rows(rows[:_DENSITY_WORDS]))


def _is_valid_number(kind: str, number: float | None, rows: Floats) -> bool:
    """Return whether the number in the name of a universe, such as 100 in ``pca100``, is valid.

    A universe is a set of vectors to which words are compared.

    Args:
        kind: The name of the universe without the number.
        number: The number, or None if the name has no number.
        rows: The word vectors, whose shape limits the number.
    """
    if kind in ("identity", "signed"):
        return number is None
    if kind == "dbscan":
        return number is not None and 0 < number < 2
    if number is None:
        return kind == "pca"
    largest = {"pca": rows.shape[1], "hdbscan": _DENSITY_WORDS}.get(kind, min(CLUSTERED_WORDS, len(rows)))
    smallest = 2 if kind == "hdbscan" else 1
    return number.is_integer() and smallest <= number <= largest


def principal_axes(rows: Floats, size: int) -> Floats:
    """Return the principal axes of word vectors: the eigenvectors of WᵀW with the largest eigenvalues.

    The sign of each axis is chosen so that the mean of the words' coordinates is not negative.

    Args:
        rows: The word vectors W, of shape (n_words, n_dimensions).
        size: The number of axes.

    Returns:
        Float32 array of shape (size, n_dimensions), with orthonormal rows.

    Source:
        Muffo et al. 2021, section 4.2, eq. 12.
    """
    _, vectors = np.linalg.eigh(rows.T.astype(np.float64) @ rows)
    axes = vectors[:, ::-1][:, :size].T
    return np.asarray(axes * np.where(axes @ rows.mean(axis=0) < 0, -1, 1)[:, None], np.float32)


def spherical_kmeans(units: Floats, size: int, rng: np.random.Generator, iterations: int = 30) -> Floats:
    """Cluster word vectors by spherical k-means, which compares vectors by cosine, and return the centroids.

    If a cluster becomes empty, the vector of the word that is farthest from its nearest centroid becomes the centroid
    of this cluster.

    Args:
        units: Word vectors of unit length, of shape (n_words, n_dimensions).
        size: The number of centroids.
        rng: A random number generator.
        iterations: The number of iterations.

    Returns:
        Float32 array of shape (size, n_dimensions), with rows of unit length.

    Source:
        Dhillon and Modha 2001, "Concept decompositions for large sparse text data using clustering".
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
    """Cluster words by density, and return the mean vector of each cluster.

    Args:
        kind: The name of the algorithm, ``dbscan`` or ``hdbscan``.
        number: The radius of DBSCAN as a cosine distance, or the minimum number of words in a cluster of HDBSCAN.
        units: Word vectors of unit length, of shape (n_words, n_dimensions).

    Returns:
        Float32 array of shape (n_clusters, n_dimensions).

    Raises:
        BadInput: If no cluster is found.
    """
    with needs_extra("lab", kind):
        from sklearn.cluster import DBSCAN, HDBSCAN
    algorithms: dict[str, Callable[[], object]] = {
        "dbscan": lambda: DBSCAN(eps=number, min_samples=5, metric="cosine"),
        "hdbscan": lambda: HDBSCAN(min_cluster_size=int(number), copy=True),
    }
    labels = algorithms[kind]().fit_predict(units)  # type: ignore[attr-defined]
    # The label of words outside of all clusters is -1.
    if labels.max(initial=-1) < 0:
        raise BadInput(
            f"{kind}{number:g} finds no cluster", value=number, expected="another radius or smallest cluster"
        )
    return np.stack([units[labels == label].mean(axis=0) for label in range(labels.max() + 1)])
