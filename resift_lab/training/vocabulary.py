"""The words that supervised training starts from, each with a row of the given word vectors as far as it has one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from resift.errors import BadInput
from resift.text import tokenize
from resift.vectors.similarity import unit_rows
from resift.vectors.table import WordVectors
from resift_lab.evaluation.baselines.terms import stemmer

_LENGTH_OF_UNKNOWN = 0.01


def vocabulary(texts: Sequence[str], vectors: WordVectors, min_count: int, seed: int) -> WordVectors:
    """Words of at least ``min_count`` texts, most frequent first, with rows of length 1 (V, D) and weights to start.

    A word without a row in ``vectors`` takes that of the first word with the same Porter stem, which may be the word
    itself where a corpus holds stems; else a small random one and the largest weight.

    Raises BadInput if no word is frequent enough or none has a row, and MissingExtra without gensim, which stems.
    """
    words = _frequent_words(texts, min_count)
    rows = np.array([vectors.index[word] for word in words], np.int64)
    if not (rows >= 0).any():
        raise BadInput(
            f"{len(words)} words in {min_count} texts or more, none of them in the word vectors",
            expected="texts in the vectors' language",
        )
    if (rows < 0).any():
        _fill_by_stem(rows, words, vectors)
    known = rows >= 0
    noise = np.random.default_rng(seed).normal(size=(len(words), vectors.dim))
    start = (_LENGTH_OF_UNKNOWN * noise).astype(np.float32)
    start[known] = unit_rows(vectors.rows()[rows[known]])
    return WordVectors(words, start, np.where(known, vectors.weights[rows], vectors.weights.max()))


def _frequent_words(texts: Sequence[str], min_count: int) -> list[str]:
    """Words of at least so many texts, by how often they occur in all."""
    tokens = [tokenize(text) for text in texts]
    texts_with = Counter(word for words in tokens for word in set(words))
    by_count = Counter(chain.from_iterable(tokens)).most_common()
    return [word for word, _ in by_count if texts_with[word] >= min_count]


def _fill_by_stem(rows: NDArray[np.int64], words: Sequence[str], vectors: WordVectors) -> None:
    """Replace each -1 of ``rows`` by the row of the first word of ``vectors`` with the same stem, if there is one."""
    stem = stemmer()
    row_of_stem: dict[str, int] = {}
    for row, word in enumerate(vectors.words):
        row_of_stem.setdefault(stem(word), row)
    for position in np.flatnonzero(rows < 0).tolist():
        word = words[position]
        # a corpus may hold stems, whose own stem is another one ("univers" gives "univ")
        rows[position] = row_of_stem.get(word, row_of_stem.get(stem(word), -1))
