"""Codebooks: codewords among the word vectors, and words' memberships in them (Passalis and Tefas 2018)."""

from __future__ import annotations

import numpy as np

from resift.arrays import Floats
from resift.encoders.kmeans import FREQUENT_WORDS, kmeans
from resift.vectors.similarity import unit_rows
from resift.vectors.table import WordVectors


def learn_codebook(vectors: WordVectors, size: int, seed: int = 0) -> Floats:
    """Codewords (size, D): k-means of the most frequent 20,000 words' vectors at length 1.

    See :func:`resift.encoders.kmeans.kmeans`; the same ``seed`` gives the same codewords.
    """
    return kmeans(unit_rows(vectors.rows()[: max(FREQUENT_WORDS, size)]), size, seed)


def membership(words: Floats, codebook: Floats, sigma: float) -> Floats:
    """u = softmax over codewords of -‖x - v_k‖ / σ² (Passalis and Tefas 2018, eqs. 1 and 2).

    ``words`` (V, D), ``codebook`` (K, D); gives (V, K), rows summing to 1.
    """
    squares = (words**2).sum(1)[:, None] + (codebook**2).sum(1) - 2 * words @ codebook.T
    exponent = -np.sqrt(np.maximum(squares, 0)) / np.float32(sigma) ** 2
    d = np.exp(exponent - exponent.max(axis=1, keepdims=True))
    return np.asarray(d / d.sum(axis=1, keepdims=True), np.float32)
