"""Documents without labels, ready to train on: a sample of texts, the words that repeat in them, and their counts."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.encoders.model import Model
from resift.errors import BadInput
from resift.text import tokenize
from resift_lab.corpus import MIN_IDF, document_frequency, smoothed_idf, sparse_counts

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

Ids = NDArray[np.int32]

_EPSILON = 1e-9


def sample_words(texts: Iterable[Any], limit: int, seed: int) -> list[list[str]]:
    """Words of at most ``limit`` texts, drawn evenly from all (reservoir sampling) and left in their order.

    Raises BadInput if an item is not a string.
    """
    rng = np.random.default_rng(seed)
    words_at: dict[int, list[str]] = {}
    slots: list[int] = []
    for position, text in enumerate(texts):
        if not isinstance(text, str):
            raise BadInput(f"text {position} is a {type(text).__name__}", value=text, expected="a string")
        if len(slots) < limit:
            slots.append(position)
        elif (slot := int(rng.integers(position + 1))) < limit:
            del words_at[slots[slot]]
            slots[slot] = position
        else:
            continue
        # interned: a corpus repeats its words, and would otherwise hold a copy of each occurrence
        words_at[position] = list(map(sys.intern, tokenize(text)))
    return [words_at[position] for position in sorted(words_at)]


class Documents:
    """Documents as ids of a vocabulary: the words that occur at least ``min_count`` times in all, most frequent first.

    ``words`` (V,) and ``index``, word → id; ``ids``, an array of each text's word ids in their order; ``frequency``
    (V,), how often each word occurs in all; ``counts`` (N, V), how often in each text; ``idf`` (V,) float32, see
    :func:`resift_lab.corpus.smoothed_idf`, 0.05 at least.

    Raises BadInput if no word is left, and MissingExtra without SciPy.
    """

    def __init__(self, texts: Iterable[Sequence[str]], min_count: int = 2) -> None:
        texts = list(texts)
        frequency = Counter(chain.from_iterable(texts))
        if not frequency:
            raise BadInput("the corpus holds no word", expected="texts")
        self.words = [word for word, count in frequency.most_common() if count >= min_count]
        if not self.words:
            raise BadInput(
                f"no word occurs {min_count} times", value=min_count, expected="a larger corpus or smaller count"
            )
        self.index = {word: row for row, word in enumerate(self.words)}
        self.ids: list[Ids] = [
            np.array([self.index[word] for word in text if word in self.index], np.int32) for text in texts
        ]
        self.frequency = np.array([frequency[word] for word in self.words], np.float64)
        self.counts = word_counts(self.ids, len(self.words))
        self.idf = smoothed_idf(document_frequency(self.counts), len(texts), MIN_IDF).astype(np.float32)

    def means(self, rows: Floats, weights: Floats) -> Floats:
        """Weighted mean of ``rows`` (V, D) over each document's words, (N, D); zeros for an empty document."""
        total = np.maximum(self.counts @ weights, _EPSILON)[:, None]
        return np.asarray((self.counts @ (rows * weights[:, None])) / total, np.float32)


def word_counts(documents: Sequence[Ids], width: int) -> csr_matrix:
    """How often each word occurs in each document, (n, ``width``) float32. Raises MissingExtra without SciPy."""
    offsets = np.cumsum([0, *map(len, documents)])
    ids = np.concatenate(documents) if len(documents) else np.zeros(0, np.int32)
    return sparse_counts(ids, offsets, width)


def segment_counts(model: Model, texts: Sequence[str]) -> csr_matrix:
    """How often each known word is in each of the texts' segments: sparse (n · S, V) float32, parts in order."""
    ids, offsets = model.table.ids(texts)
    return sparse_counts(ids, model.segment_starts(offsets), len(model.table))


def occurring(counts: csr_matrix) -> tuple[Ids, csr_matrix]:
    """The words that occur, and their counts alone: a step must not touch the rest of a large table."""
    from scipy.sparse import csr_matrix

    words, columns = np.unique(counts.indices, return_inverse=True)
    return words, csr_matrix((counts.data, columns, counts.indptr), shape=(counts.shape[0], len(words)))
