"""Pool the word rows of texts into vectors with NumPy.

:mod:`resift.vectors.kernels` has a compiled version of :func:`pool_mean`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats

_GATHERED_WORDS = 4096  # words of a text whose rows are gathered at a time, which limits the memory for long texts


def pool_mean(
    ids: NDArray[np.int32],
    offsets: NDArray[np.int64],
    matrix: NDArray[Any],
    factors: Floats,
    divisors: Floats,
    out: Floats,
) -> None:
    """Compute the weighted mean of the word vectors of each text, and write the means to ``out``.

    The mean is Σ factor · vector / Σ divisor over the words of a text, or 0 if the sum of the divisors is 0.

    Args:
        ids: The row numbers of the words of all texts. Text i has the words ``ids[offsets[i]:offsets[i + 1]]``.
        offsets: The positions at which the texts start and end in ``ids``, of shape (n_texts + 1,).
        matrix: The word vectors, of shape (n_words, n_dimensions), int8 or float32.
        factors: The factor of each word vector, of shape (n_words,), float32: the weight of the word, times the scale
            of its vector if the matrix is int8.
        divisors: The divisor of each word, of shape (n_words,), float32.
        out: The output array, of shape (n_texts, n_dimensions), float32.
    """
    out[:] = 0
    for row, (start, end) in enumerate(pairwise(offsets)):
        total = divisors[ids[start:end]].sum()
        if total > 0:
            for chunk in _chunks(ids[start:end]):
                out[row] += (factors[chunk] / total) @ matrix[chunk].astype(np.float32)


def pool_max(
    ids: NDArray[np.int32], offsets: NDArray[np.int64], matrix: NDArray[Any], factors: Floats, out: Floats
) -> None:
    """Compute the maximum of a text's weighted word vectors in each dimension, and write it to ``out``.

    Negative maxima become 0.

    Args:
        ids: The row numbers of the words of all texts, one text after the other, as in :func:`pool_mean`.
        offsets: The positions at which the texts start and end in ``ids``, of shape (n_texts + 1,).
        matrix: The word vectors, of shape (n_words, n_dimensions), int8 or float32.
        factors: The factor of each word vector, of shape (n_words,), float32.
        out: The output array, of shape (n_texts, n_dimensions), float32.
    """
    out[:] = 0
    for row, (start, end) in enumerate(pairwise(offsets)):
        for chunk in _chunks(ids[start:end]):
            np.maximum(out[row], (factors[chunk, None] * matrix[chunk]).max(axis=0), out=out[row])


def _chunks(ids: NDArray[np.int32]) -> Iterator[NDArray[np.int32]]:
    return (ids[start : start + _GATHERED_WORDS] for start in range(0, len(ids), _GATHERED_WORDS))
