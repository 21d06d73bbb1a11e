"""Build tables of word vectors, replace their rows, and quantize them to eight bits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.encoders.model import Model
from resift.errors import BadInput
from resift.text import tokenize
from resift.vectors.table import WordVectors

WEIGHTINGS = ("none", "zipf", "sif")
"""Names of the word weightings by frequency rank."""

_SIF_A = 1e-3


def weights_by_rank(count: int, weighting: str) -> Floats:
    """Return a weight for each word of a list that is ordered by frequency, most frequent words first.

    Args:
        count: The number of words.
        weighting: The name of the weighting:

            - ``none``: 1 for all words.
            - ``zipf``: log(rank + 2), with ranks from 0. Rare words have larger weights.
            - ``sif``: a / (a + p) with a = 0.001, where p is the probability of the word by Zipf's law.

    Returns:
        Float32 array of shape (count,).

    Raises:
        BadInput: If the weighting is unknown.

    Source:
        Arora et al. 2017 ("A simple but tough-to-beat baseline for sentence embeddings"), eq. 2, for ``sif``.
    """
    ranks = np.arange(count, dtype=np.float64)
    if weighting == "none":
        weights = np.ones(count)
    elif weighting == "zipf":
        weights = np.log(ranks + 2)
    elif weighting == "sif":
        probability = 1 / (ranks + 1)
        weights = _SIF_A / (_SIF_A + probability / probability.sum())
    else:
        raise BadInput(f"unknown weighting {weighting!r}", value=weighting, expected=" | ".join(WEIGHTINGS))
    return weights.astype(np.float32)


def build_table(
    words: Iterable[str],
    matrix: NDArray[Any],
    weighting: str = "none",
    info: dict[str, Any] | None = None,
) -> WordVectors:
    """Build a table of word vectors for use in a model.

    Words that the tokenizer cannot return are left out, for example words with spaces. If the tokenizer maps several
    spellings to the same word, the first spelling is used.

    Args:
        words: The words, most frequent first.
        matrix: The vectors of the words, of shape (n_words, n_dimensions).
        weighting: How words are weighted by their rank (see :func:`weights_by_rank`).
        info: Information about the origin of the vectors, which is saved with the table.

    Raises:
        BadInput: If a vector contains NaN or infinity, no word is left, or the weighting is unknown.
    """
    usable: dict[str, int] = {}
    for row, word in enumerate(words):
        tokens = tokenize(word)
        # Compare the lengths, because "(fire)" has a single token too, which is not the whole word.
        if len(tokens) == 1 and len(tokens[0]) == len(word):
            usable.setdefault(tokens[0], row)
    if not usable:
        raise BadInput("no usable word in the vocabulary", expected="words of letters or digits")
    rows = np.asarray(matrix)[list(usable.values())]
    is_finite = np.isfinite(rows).all(axis=1)
    if not is_finite.all():
        word = list(usable)[int(np.argmin(is_finite))]
        raise BadInput(f"the vector of {word!r} contains NaN or infinity", value=word, expected="finite numbers")
    return WordVectors(list(usable), rows, weights_by_rank(len(usable), weighting), info=info)


def replace_rows(
    table: WordVectors,
    matrix: NDArray[Any],
    weights: NDArray[Any] | None = None,
    scales: NDArray[Any] | None = None,
    info: dict[str, Any] | None = None,
) -> WordVectors:
    """Return a table with the same words but different word vectors.

    Args:
        table: The original table. It is not modified.
        matrix: The new vectors, of shape (n_words, n_dimensions).
        weights: New weights of the words, of shape (n_words,). By default, the weights of ``table``.
        scales: The scales of the new vectors, of shape (n_words,), if the vectors are int8.
        info: Information about the origin of the new vectors. By default, the information in ``table``.
    """
    weights, info = table.weights if weights is None else weights, table.info if info is None else info
    return WordVectors(table.words, matrix, weights, scales, info)


def quantize_table(table: WordVectors) -> WordVectors:
    """Return a copy of a table with word vectors in int8, which need a quarter of the memory of float32.

    Each vector is scaled so that its largest absolute value becomes 127, and then rounded.

    Args:
        table: The table of word vectors.
    """
    dense = table.rows()
    scales = np.maximum(np.abs(dense).max(axis=1), np.finfo(np.float32).tiny) / np.float32(127)
    units = np.rint(dense / scales[:, None]).astype(np.int8)
    return replace_rows(table, units, scales=scales.astype(np.float32))


def plain_mean_table(model: Model) -> WordVectors:
    """Return the word vectors of a model that encodes a text as the weighted mean of its word vectors.

    Args:
        model: The model, which must not have further layers.

    Raises:
        BadInput: If the model does not encode texts in this way.
    """
    if not model.is_plain_mean:
        message = f"the vectors of {model.name} are not means of word vectors"
        expected = "a model of kind mean"
        if model.blocks > 1:
            expected += " without mixed vectors, such as resift train self writes"
        raise BadInput(message, value=model.name, expected=expected)
    return model.table
