"""The initial vocabulary of supervised training: words of the corpus with their initial vectors."""

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
from resift_lab.evaluation.baselines.terms import porter_stemmer

# Scale of the random vector of a word without any vector.
_LENGTH_OF_UNKNOWN = 0.01


def initial_vocabulary(
    texts: Sequence[str], vectors: WordVectors, min_count: int, seed: int, published: bool = False
) -> WordVectors:
    """Return a table of the frequent words of a corpus, with initial vectors and weights.

    A word that is not in ``vectors`` gets the vector of the first word in ``vectors`` with the same Porter stem. If
    there is no such word, it gets a small random vector and the largest weight. The words of the corpus may already be
    stems, so a word itself is compared with the stems as well.

    With ``published``, vectors are initialised as in the paper: they are not scaled to unit length, and all words that
    are not in ``vectors`` get random vectors.

    Args:
        texts: The texts of the corpus.
        vectors: The word vectors to start from.
        min_count: The minimum document frequency of a word in the table.
        seed: The seed of the random vectors.
        published: Whether to initialise the vectors as in the paper. The numbers of random vectors are then normally
            distributed with mean 1 and standard deviation 1.

    Returns:
        A table of the words, most frequent first. Unless ``published`` is true, vectors that were taken from
        ``vectors`` have unit length.

    Raises:
        BadInput: If no word is frequent enough, or no frequent word has a vector.
        MissingExtra: If a word must be stemmed and gensim is not installed.

    Source:
        Passalis and Tefas 2018, section 3.3, for ``published``.
    """
    words = _frequent_words(texts, min_count)
    rows = np.array([vectors.index[word] for word in words], np.int64)
    if not (rows >= 0).any():
        raise BadInput(
            f"none of the {len(words)} words that occur in {min_count} texts or more has a word vector",
            expected="texts in the language of the word vectors",
        )
    if (rows < 0).any() and not published:
        _fill_by_stem(rows, words, vectors)
    known = rows >= 0
    noise = np.random.default_rng(seed).normal(size=(len(words), vectors.dim))
    start = (noise + 1 if published else _LENGTH_OF_UNKNOWN * noise).astype(np.float32)
    known_vectors = vectors.rows(rows[known])
    start[known] = known_vectors if published else unit_rows(known_vectors)
    return WordVectors(words, start, np.where(known, vectors.weights[rows], vectors.weights.max()))


def _frequent_words(texts: Sequence[str], min_count: int) -> list[str]:
    """Return the words that occur in many texts, most frequent first.

    Args:
        texts: The texts to count words in.
        min_count: The minimum number of texts that contain a word.
    """
    tokens = [tokenize(text) for text in texts]
    texts_with = Counter(word for words in tokens for word in set(words))
    by_count = Counter(chain.from_iterable(tokens)).most_common()
    return [word for word, _ in by_count if texts_with[word] >= min_count]


def _fill_by_stem(rows: NDArray[np.int64], words: Sequence[str], vectors: WordVectors) -> None:
    """Give each word that has no word vector the vector of a word with the same stem, if there is one.

    Args:
        rows: For each of the V words, its row in ``vectors``, or -1 if it has no vector, shape (V,). Each -1 is
            replaced in place with the row of the first word in ``vectors`` that has the same stem. If there is none, -1
            remains.
        words: The V words.
        vectors: The word vectors.
    """
    stem = porter_stemmer()
    row_of_stem: dict[str, int] = {}
    for row, word in enumerate(vectors.words):
        row_of_stem.setdefault(stem(word), row)
    for position in np.flatnonzero(rows < 0).tolist():
        word = words[position]
        # A corpus may consist of stems, and the stem of a stem can differ: the stem of "univers" is "univ".
        rows[position] = row_of_stem.get(word, row_of_stem.get(stem(word), -1))
