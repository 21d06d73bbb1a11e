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
    """Learn a codebook, which is a set of representative vectors ("codewords"), by clustering word vectors.

    The vectors of the 20,000 most frequent words are scaled to unit length and clustered by k-means. The codewords are
    the centroids.

    Args:
        vectors: The word vectors, most frequent words first.
        size: The number of codewords.
        seed: The seed of the clustering.

    Returns:
        The codewords, a float32 array of shape (size, n_dimensions).
    """
    return kmeans(unit_rows(vectors.rows()[: max(FREQUENT_WORDS, size)]), size, seed)


def membership(words: Floats, codebook: Floats, sigma: float) -> Floats:
    """Return the degree to which each word belongs to each codeword.

    The degrees for a word x are the softmax of -‖x - v_k‖ / σ² over all codewords v_k.

    Args:
        words: The word vectors x, of shape (n_words, n_dimensions).
        codebook: The codewords v_k, of shape (n_codewords, n_dimensions).
        sigma: The width σ of the codewords. The larger the width, the more codewords a word belongs to.

    Returns:
        Float32 array of shape (n_words, n_codewords), with rows that sum to 1.

    Source:
        Passalis and Tefas 2018, section 3.1, eqs. 1 and 2.
    """
    squares = (words**2).sum(1)[:, None] + (codebook**2).sum(1) - 2 * words @ codebook.T
    exponent = -np.sqrt(np.maximum(squares, 0)) / np.float32(sigma) ** 2
    d = np.exp(exponent - exponent.max(axis=1, keepdims=True))
    return np.asarray(d / d.sum(axis=1, keepdims=True), np.float32)
