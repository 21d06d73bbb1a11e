"""Preparation of documents for training without labels: sampling, vocabulary and word counts."""

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

# Word ids of a text, in the order of its words.
Ids = NDArray[np.int32]

_EPSILON = 1e-9


def sample_words(texts: Iterable[Any], limit: int, seed: int) -> list[list[str]]:
    """Draw a random sample of texts, and split them into words.

    Each text has the same chance of being drawn (reservoir sampling). The sample keeps the order of the texts.

    Args:
        texts: The texts, which are read only once.
        limit: The maximum number of texts in the sample.
        seed: The seed of the sample.

    Returns:
        The words of each text in the sample.

    Raises:
        BadInput: If an item of ``texts`` is not a string.
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
        # Words repeat. Interning stores each only once.
        words_at[position] = list(map(sys.intern, tokenize(text)))
    return [words_at[position] for position in sorted(words_at)]


class Documents:
    """N documents as word ids, with their vocabulary and word counts.

    Args:
        texts: The words of each document.
        min_count: The minimum frequency of a word in the vocabulary, counted over all documents.

    Attributes:
        words: The V words of the vocabulary, most frequent first.
        index: The id of each word.
        ids: The word ids of each document, in the order of its words, without unknown words.
        frequency: The frequency of each word in all documents, shape (V,).
        counts: The frequency of each word in each document, sparse, shape (N, V).
        idf: The inverse document frequency of each word, at least 0.05; shape (V,), float32. See
            :func:`resift_lab.corpus.smoothed_idf`.

    Raises:
        BadInput: If the vocabulary is empty.
        MissingExtra: If SciPy is not installed.
    """

    def __init__(self, texts: Iterable[Sequence[str]], min_count: int = 2) -> None:
        texts = list(texts)
        frequency = Counter(chain.from_iterable(texts))
        if not frequency:
            raise BadInput("the corpus contains no word", expected="texts with words")
        self.words = [word for word, count in frequency.most_common() if count >= min_count]
        if not self.words:
            raise BadInput(
                f"no word occurs {min_count} times",
                value=min_count,
                expected="a larger corpus, or a smaller min_count",
            )
        self.index = {word: row for row, word in enumerate(self.words)}
        self.ids: list[Ids] = [
            np.array([self.index[word] for word in text if word in self.index], np.int32) for text in texts
        ]
        self.frequency = np.array([frequency[word] for word in self.words], np.float64)
        self.counts = word_counts(self.ids, len(self.words))
        self.idf = smoothed_idf(document_frequency(self.counts), len(texts), MIN_IDF).astype(np.float32)

    def mean_vectors(self, rows: Floats, weights: Floats) -> Floats:
        """Return the weighted mean of the word vectors of each document.

        Args:
            rows: The vectors of the V words of the vocabulary with D dimensions, shape (V, D).
            weights: The weights of these words, shape (V,).

        Returns:
            The means of the N documents, shape (N, D), float32. The mean of a document without words of the vocabulary
            is a zero vector.
        """
        total = np.maximum(self.counts @ weights, _EPSILON)[:, None]
        return np.asarray((self.counts @ (rows * weights[:, None])) / total, np.float32)


def word_counts(documents: Sequence[Ids], width: int) -> csr_matrix:
    """Count how often each word occurs in each document.

    Args:
        documents: The word ids of each of the n documents.
        width: The number of words in the vocabulary.

    Returns:
        A sparse float32 matrix of shape (n, ``width``).

    Raises:
        MissingExtra: If SciPy is not installed.
    """
    offsets = np.cumsum([0, *map(len, documents)])
    ids = np.concatenate(documents) if len(documents) else np.zeros(0, np.int32)
    return sparse_counts(ids, offsets, width)


def segment_counts(model: Model, texts: Sequence[str]) -> csr_matrix:
    """Count how often each word of a model occurs in each segment of each text.

    Args:
        model: A model that knows V words and divides each text into S consecutive segments.
        texts: The n texts.

    Returns:
        A sparse float32 matrix of shape (n · S, V). The S segments of a text are adjacent rows.
    """
    ids, offsets = model.table.ids(texts)
    return sparse_counts(ids, model.segment_starts(offsets), len(model.table))


def used_columns(counts: csr_matrix) -> tuple[Ids, csr_matrix]:
    """Remove the empty columns of a count matrix.

    A training step then updates only the words that occur in its batch.

    Args:
        counts: The frequency of each of V words in each of n texts, shape (n, V).

    Returns:
        The numbers of the U columns that are not empty, shape (U,), and the matrix of these columns, shape (n, U).
    """
    from scipy.sparse import csr_matrix

    words, columns = np.unique(counts.indices, return_inverse=True)
    return words, csr_matrix((counts.data, columns, counts.indptr), shape=(counts.shape[0], len(words)))
