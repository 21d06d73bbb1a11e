"""Word counts of a corpus: frequencies, document frequencies and inverse document frequencies (idf).

The idf functions, for N documents of which n contain a word:

==========================  ==================================  =====================================================
:func:`smoothed_idf`        log((N + 1) / (n + 0.5))            Spärck Jones 1972, smoothed: finite for n = 0 and
                                                                above 0 for n = N
:func:`probabilistic_idf`   max(0, log((N - n + 0.5) /          Robertson and Spärck Jones 1976, without judgements;
                            (n + 0.5)))                         cut at 0 as in DrQA (Chen et al. 2017)
:func:`lucene_idf`          log(1 + (N - n + 0.5) / (n + 0.5))  Lucene's BM25 (Robertson and Zaragoza 2009, eq. 3.15,
                                                                with 1 added so that it stays above 0)
:func:`tfidf_idf`           log((N + 1) / (n + 1)) + 1          scikit-learn's idf, which Passalis and Tefas 2018 used
==========================  ==================================  =====================================================

Each function takes n as an array (V,) of any numeric dtype and returns float64 (V,).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.errors import BadInput, needs_extra
from resift.text import tokenize

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

# Smallest word weight, so that a word that occurs in every document still counts a little.
MIN_IDF = 0.05


def count_documents(texts: Iterable[str]) -> tuple[int, Counter[str]]:
    """Count the texts, and count in how many texts each word occurs.

    Args:
        texts: The texts, which are read only once.

    Returns:
        The number of texts, and the number of texts that contain each word.
    """
    frequency: Counter[str] = Counter()
    documents = 0
    for text in texts:
        # A dict keeps the order of the words. The order of a set differs from process to process, and with it the
        # order of words that have the same frequency.
        frequency.update(dict.fromkeys(tokenize(text)).keys())
        documents += 1
    return documents, frequency


def sparse_counts(ids: NDArray[Any], offsets: NDArray[Any], width: int) -> csr_matrix:
    """Count how often each id occurs in each of n texts.

    Args:
        ids: The ids of all texts, joined end to end; integers below ``width``.
        offsets: Start positions of shape (n + 1,). The ids of text i are ``ids[offsets[i]:offsets[i + 1]]``.
        width: The number of different ids, which is the number of columns.

    Returns:
        A sparse float32 matrix of shape (n, ``width``). The column numbers of each row are sorted.

    Raises:
        MissingExtra: If SciPy is not installed.
    """
    with needs_extra("adapt", "Counting words in a sparse matrix"):
        from scipy.sparse import csr_matrix

    # sum_duplicates sorts the ids in place, so the matrix needs its own copy.
    counts = csr_matrix((np.ones(len(ids), np.float32), ids, offsets), shape=(len(offsets) - 1, width), copy=True)
    counts.sum_duplicates()
    return counts


def document_frequency(counts: csr_matrix) -> NDArray[np.float64]:
    """Count in how many documents each word occurs.

    Args:
        counts: The count of each of V words in each of n documents, shape (n, V).

    Returns:
        Document frequencies of shape (V,).
    """
    return np.bincount(counts.indices, minlength=counts.shape[1]).astype(np.float64)


def smoothed_idf(frequency: NDArray[Any], documents: int, minimum: float = 0.0) -> NDArray[np.float64]:
    """Return the smoothed inverse document frequency of words.

    For a word that occurs in n of N documents, it is log((N + 1) / (n + 0.5)).

    Args:
        frequency: The number n of documents that contain each of V words, shape (V,).
        documents: The number N of documents.
        minimum: The smallest value to return. Smaller values are raised to ``minimum``.

    Returns:
        Values of shape (V,).

    Source:
        Spärck Jones 1972, smoothed.
    """
    return np.maximum(np.log((documents + 1) / (frequency + 0.5)), minimum)


def probabilistic_idf(frequency: NDArray[Any], documents: int) -> NDArray[np.float64]:
    """Return the probabilistic inverse document frequency of words.

    For a word that occurs in n of N documents, it is max(0, log((N - n + 0.5) / (n + 0.5))). This is 0 for a word that
    occurs in half of the documents or more.

    Args:
        frequency: The number n of documents that contain each of V words, shape (V,).
        documents: The number N of documents.

    Returns:
        Values of shape (V,).

    Source:
        Robertson and Spärck Jones 1976; the cut at 0 is from DrQA (Chen et al. 2017).
    """
    return np.maximum(np.log((documents - frequency + 0.5) / (frequency + 0.5)), 0)


def lucene_idf(frequency: NDArray[Any], documents: int) -> NDArray[np.float64]:
    """Return the inverse document frequency of words as Lucene's BM25 defines it.

    For a word that occurs in n of N documents, it is log(1 + (N - n + 0.5) / (n + 0.5)).

    Args:
        frequency: The number n of documents that contain each of V words, shape (V,).
        documents: The number N of documents.

    Returns:
        Values of shape (V,).

    Source:
        Robertson and Zaragoza 2009, equation 3.15; Lucene adds 1 inside the logarithm.
    """
    return np.asarray(np.log1p((documents - frequency + 0.5) / (frequency + 0.5)), np.float64)


def tfidf_idf(frequency: NDArray[Any], documents: int) -> NDArray[np.float64]:
    """Return the inverse document frequency of words as scikit-learn's tf-idf defines it.

    For a word that occurs in n of N documents, it is log((N + 1) / (n + 1)) + 1.

    Args:
        frequency: The number n of documents that contain each of V words, shape (V,).
        documents: The number N of documents.

    Returns:
        Values of shape (V,).
    """
    return np.asarray(np.log((1 + documents) / (1 + frequency)) + 1, np.float64)


@dataclass(frozen=True)
class DocumentFrequencies:
    """The document frequencies of a corpus: in how many texts each word occurs.

    Attributes:
        documents: The number of texts in the corpus.
        frequency: For each word, the number of texts that contain it.
    """

    documents: int
    frequency: Counter[str]

    @classmethod
    def from_texts(cls, texts: Iterable[str]) -> DocumentFrequencies:
        """Count in how many texts each word occurs.

        Args:
            texts: The texts of the corpus.

        Raises:
            BadInput: If the texts contain no word.
        """
        documents, frequency = count_documents(texts)
        if not frequency:
            raise BadInput("the corpus contains no word", expected="texts with words")
        return cls(documents, frequency)

    def of_words(self, words: Sequence[str]) -> NDArray[np.float64]:
        """Return the document frequency of each of V words.

        Args:
            words: The V words.

        Returns:
            Numbers of texts, shape (V,), float64. 0 for a word that no text contains.
        """
        return np.array([self.frequency[word] for word in words], np.float64)

    def weights(self, words: Sequence[str]) -> Floats:
        """Return the smoothed inverse document frequency of words.

        For a word that occurs in n of N texts, it is log((N + 1) / (n + 0.5)).

        Args:
            words: The V words.

        Returns:
            Weights of shape (V,), float32, at least ``MIN_IDF``. Words that no text contains have the largest weight.
        """
        return smoothed_idf(self.of_words(words), self.documents, MIN_IDF).astype(np.float32)
