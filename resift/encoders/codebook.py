"""Codebooks: codewords among the word vectors, and words' memberships in them (Passalis and Tefas 2018)."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np

from resift.arrays import Floats
from resift.vectors.similarity import unit_rows
from resift.vectors.table import WordVectors

if TYPE_CHECKING:
    pass

_FREQUENT = 20_000


def learn_codebook(vectors: WordVectors, size: int, seed: int = 0) -> Floats:
    """Codewords (size, D): k-means (k-means++ start) of the most frequent 20,000 words' vectors at length 1.

    A codeword that no word is nearest to stays where it started.
    """
    words, chance = unit_rows(vectors.rows()[: max(_FREQUENT, size)]), np.random.default_rng(seed)
    lengths = (words**2).sum(1)
    start, nearest = [int(chance.integers(len(words)))], np.full(len(words), np.inf)
    while len(start) < size:
        last = words[start[-1]]
        nearest = np.minimum(nearest, np.maximum(lengths + last @ last - 2 * words @ last, 0))
        reached = nearest.cumsum()
        start.append(min(int(np.searchsorted(reached, chance.random() * reached[-1], "right")), len(words) - 1))
    from scipy.cluster.vq import kmeans2

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        codebook, _ = kmeans2(words, words[start], iter=30, minit="matrix", missing="warn")
    return np.asarray(codebook, np.float32)


def membership(words: Floats, codebook: Floats, sigma: float) -> Floats:
    """u = softmax over codewords of -‖x - v_k‖ / σ² (Passalis and Tefas 2018, eqs. 1 and 2).

    ``words`` (V, D), ``codebook`` (K, D); gives (V, K), rows summing to 1.
    """
    squares = (words**2).sum(1)[:, None] + (codebook**2).sum(1) - 2 * words @ codebook.T
    exponent = -np.sqrt(np.maximum(squares, 0)) / np.float32(sigma) ** 2
    d = np.exp(exponent - exponent.max(axis=1, keepdims=True))
    return np.asarray(d / d.sum(axis=1, keepdims=True), np.float32)
