"""Learn codebooks of word vectors, and compute the memberships of words in them.

Source: Passalis and Tefas 2018, section 3.1.
"""

from __future__ import annotations

import numpy as np

from resift.arrays import Floats
from resift.encoders.kmeans import CLUSTERED_WORDS, kmeans
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
    return kmeans(unit_rows(vectors.rows()[: max(CLUSTERED_WORDS, size)]), size, seed)


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
    return softmax_of_distances(words, codebook, np.float32(sigma) ** 2)


def softmax_of_distances(vectors: Floats, codewords: Floats, widths: Floats | np.float32) -> Floats:
    """Return the softmax of -‖x - v_k‖ / w_k over the codewords v_k, for each vector x.

    Args:
        vectors: The vectors x, of shape (n_vectors, n_dimensions).
        codewords: The codewords v_k, of shape (n_codewords, n_dimensions).
        widths: The widths w_k, of shape (n_codewords,), or the same width for all codewords.

    Returns:
        Float32 array of shape (n_vectors, n_codewords), with rows that sum to 1.
    """
    squares = (vectors**2).sum(1)[:, None] + (codewords**2).sum(1) - 2 * vectors @ codewords.T
    exponents = -np.sqrt(np.maximum(squares, 0)) / widths
    memberships = np.exp(exponents - exponents.max(axis=1, keepdims=True))
    return np.asarray(memberships / memberships.sum(axis=1, keepdims=True), np.float32)
