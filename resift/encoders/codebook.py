"""Learn codebooks of word vectors, and compute the memberships of words in them.

Source: Passalis and Tefas 2018, section 3.1.
"""

from __future__ import annotations

import numpy as np

from resift.arrays import Floats
from resift.encoders.kmeans import FREQUENT_WORDS, kmeans
from resift.vectors.similarity import unit_rows
from resift.vectors.table import WordVectors


def learn_codebook(vectors: WordVectors, size: int, seed: int = 0) -> Floats:
    """Learn a codebook: representative vectors ("codewords") of clusters of words.

    The vectors of the 20,000 most frequent words are scaled to length 1 and clustered by k-means.

    Args:
        vectors: Word vectors with D dimensions.
        size: Number of codewords.
        seed: Seed of the clustering.

    Returns:
        The codewords, shape (size, D), float32.
    """
    return kmeans(unit_rows(vectors.rows()[: max(FREQUENT_WORDS, size)]), size, seed)


def membership(words: Floats, codebook: Floats, sigma: float) -> Floats:
    """Return the degrees to which words belong to codewords.

    The memberships of a word x are the softmax of -‖x - v_k‖ / σ² over the K codewords v_k.

    Args:
        words: Vectors x of V words, shape (V, D) for D dimensions.
        codebook: Codewords v_k, shape (K, D).
        sigma: Width σ of the codewords. With a large width, a word belongs to many codewords.

    Returns:
        Array of shape (V, K), float32, with rows that sum to 1.

    Source:
        Passalis and Tefas 2018, section 3.1, eqs. 1 and 2.
    """
    squares = (words**2).sum(1)[:, None] + (codebook**2).sum(1) - 2 * words @ codebook.T
    exponent = -np.sqrt(np.maximum(squares, 0)) / np.float32(sigma) ** 2
    d = np.exp(exponent - exponent.max(axis=1, keepdims=True))
    return np.asarray(d / d.sum(axis=1, keepdims=True), np.float32)
