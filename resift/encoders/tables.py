"""Tables of word vectors made of words and rows, and in eight bits."""

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


def weights_by_rank(count: int, weighting: str) -> Floats:
    """Weights of ``count`` words ordered by frequency, most frequent first; shape (count,).

    ``zipf`` is log(rank + 2), which grows as words get rarer. ``sif`` is a / (a + p) with a = 1e-3 (Arora et al.
    2017, eq. 2), p being Zipf's estimate of the word's probability. ``none`` is 1 for all. Raises BadInput for another
    ``weighting``.
    """
    ranks = np.arange(count, dtype=np.float64)
    if weighting == "none":
        weights = np.ones(count)
    elif weighting == "zipf":
        weights = np.log(ranks + 2)
    elif weighting == "sif":
        probability = 1 / (ranks + 1)
        weights = 1e-3 / (1e-3 + probability / probability.sum())
    else:
        raise BadInput(f"unknown weighting {weighting!r}", value=weighting, expected=" | ".join(WEIGHTINGS))
    return weights.astype(np.float32)


def build_table(
    words: Iterable[str],
    matrix: NDArray[Any],
    weighting: str = "none",
    info: dict[str, Any] | None = None,
) -> WordVectors:
    """Keep what a text can ever ask for: words that the tokeniser yields whole, each once (the first spelling).

    ``words`` come most frequent first, and ``weighting`` follows their rank. Raises BadInput on NaN or infinite
    rows, and where nothing is left.
    """
    usable: dict[str, int] = {}
    for row, word in enumerate(words):
        tokens = tokenize(word)
        # of the same length: "(fire)" is one token too, but not all of the word
        if len(tokens) == 1 and len(tokens[0]) == len(word):
            usable.setdefault(tokens[0], row)
    if not usable:
        raise BadInput("no usable word in the vocabulary", expected="words of letters or digits")
    rows = np.asarray(matrix)[list(usable.values())]
    if not np.isfinite(rows).all():
        word = list(usable)[int(np.argmax(~np.isfinite(rows).all(axis=1)))]
        raise BadInput(f"the vector of {word!r} contains NaN or infinity", value=word, expected="finite numbers")
    return WordVectors(list(usable), rows, weights_by_rank(len(usable), weighting), info=info)


def replace_rows(
    table: WordVectors,
    matrix: NDArray[Any],
    weights: NDArray[Any] | None = None,
    scales: NDArray[Any] | None = None,
    info: dict[str, Any] | None = None,
) -> WordVectors:
    """The words of a table with other rows, and with their own weights and info where no others are given."""
    weights, info = table.weights if weights is None else weights, table.info if info is None else info
    return WordVectors(table.words, matrix, weights, scales, info)


def quantized(table: WordVectors) -> WordVectors:
    """The same table in int8 with one scale a row (largest absolute value = 127): a quarter of float32's size."""
    dense = table.rows()
    scales = np.maximum(np.abs(dense).max(axis=1), np.finfo(np.float32).tiny) / np.float32(127)
    small = np.rint(dense / scales[:, None]).astype(np.int8)
    return replace_rows(table, small, scales=scales.astype(np.float32))


def plain_mean_table(model: Model) -> WordVectors:
    """The table whose rows' weighted mean, at length 1, is a model's vector. Raises BadInput if that is more."""
    if not model.is_plain_mean or getattr(model, "centre", None) is not None:
        raise BadInput(f"{model.name} is no mean of word vectors", value=model.name, expected="a model of kind mean")
    return model.table
