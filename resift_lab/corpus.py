"""Counts over a corpus: how often words occur, in how many documents, and how much a rare one weighs.

The inverse document frequencies, with N documents of which n hold a word:

==========================  ==================================  =====================================================
:func:`smoothed_idf`        log((N + 1) / (n + ½))              Spärck Jones 1972, smoothed: finite for n = 0 and
                                                                above 0 for n = N
:func:`probabilistic_idf`   max(0, log((N - n + ½) / (n + ½)))  Robertson and Spärck Jones 1976, without judgements;
                                                                cut at 0 as by DrQA (Chen et al. 2017)
:func:`lucene_idf`          log(1 + (N - n + ½) / (n + ½))      Lucene's BM25 (Robertson and Zaragoza 2009, eq. 3.15,
                                                                kept above 0)
:func:`tfidf_idf`           log((N + 1) / (n + 1)) + 1          scikit-learn's, which Passalis and Tefas 2018 used
==========================  ==================================  =====================================================

All of them take n as an array (V,) of any numeric dtype, and give float64 (V,).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.errors import BadInput, needs_extra
from resift.text import tokenize

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

MIN_IDF = 0.05  # so that a word of every document still counts a little


def count_documents(texts: Iterable[str]) -> tuple[int, Counter[str]]:
    """How many texts there are, and how many of them hold each word."""
    frequency: Counter[str] = Counter()
    documents = 0
    for text in texts:
        # not a set, whose order, and so that of words of one frequency, differs from process to process
        frequency.update(dict.fromkeys(tokenize(text)).keys())
        documents += 1
    return documents, frequency


def char_ngrams(word: str, sizes: Iterable[int]) -> list[str]:
    """The character n-grams of "<word>" for each of ``sizes``; the whole of it where it is shorter than a size.

    The brackets tell the beginning and the end of a word from its middle (fastText, Bojanowski et al. 2017).

    >>> char_ngrams("fire", (3, 5))
    ['<fi', 'fir', 'ire', 're>', '<fire', 'fire>']
    """
    marked = f"<{word}>"
    return [marked[start : start + size] for size in sizes for start in range(max(1, len(marked) - size + 1))]


def hashed_ngrams(word: str, sizes: Iterable[int], buckets: int) -> list[int]:
    """The bucket, from 0 to ``buckets`` - 1, of each of :func:`char_ngrams` by the CRC-32 of its UTF-8 bytes."""
    return [crc32(ngram.encode("utf-8", "surrogatepass")) % buckets for ngram in char_ngrams(word, sizes)]


def sparse_counts(ids: NDArray[Any], offsets: NDArray[Any], width: int) -> csr_matrix:
    """How often each id occurs in each text: a sparse matrix (n, ``width``), float32, its columns sorted in each row.

    Text i holds ``ids[offsets[i]:offsets[i + 1]]``; ``ids`` are integers below ``width``, ``offsets`` (n + 1,).
    Raises MissingExtra without SciPy.
    """
    with needs_extra("lab", "Counting words in a sparse matrix"):
        from scipy.sparse import csr_matrix

    # a copy, because the next line sorts the ids in place
    counts = csr_matrix((np.ones(len(ids), np.float32), ids, offsets), shape=(len(offsets) - 1, width), copy=True)
    counts.sum_duplicates()
    return counts


def document_frequency(counts: csr_matrix) -> NDArray[np.float64]:
    """In how many rows of ``counts`` (n, V) each column occurs, (V,); ``counts`` as :func:`sparse_counts` gives it."""
    return np.bincount(counts.indices, minlength=counts.shape[1]).astype(np.float64)


def smoothed_idf(frequency: NDArray[Any], documents: int, minimum: float = 0.0) -> NDArray[np.float64]:
    """log((N + 1) / (n + ½)), ``minimum`` at least (Spärck Jones 1972, smoothed)."""
    return np.maximum(np.log((documents + 1) / (frequency + 0.5)), minimum)


def probabilistic_idf(frequency: NDArray[Any], documents: int) -> NDArray[np.float64]:
    """max(0, log((N - n + ½) / (n + ½))) (Robertson and Spärck Jones 1976): 0 for words of half the documents."""
    return np.maximum(np.log((documents - frequency + 0.5) / (frequency + 0.5)), 0)


def lucene_idf(frequency: NDArray[Any], documents: int) -> NDArray[np.float64]:
    """log(1 + (N - n + ½) / (n + ½)), Lucene's for BM25."""
    return np.asarray(np.log1p((documents - frequency + 0.5) / (frequency + 0.5)), np.float64)


def tfidf_idf(frequency: NDArray[Any], documents: int) -> NDArray[np.float64]:
    """log((N + 1) / (n + 1)) + 1, scikit-learn's for tf-idf."""
    return np.asarray(np.log((1 + documents) / (1 + frequency)) + 1, np.float64)


@dataclass(frozen=True)
class DocumentFrequencies:
    """In how many of ``documents`` texts each word occurs: ``frequency``, by word."""

    documents: int
    frequency: Counter[str]

    @classmethod
    def from_texts(cls, texts: Iterable[str]) -> DocumentFrequencies:
        """Count the words of texts. Raises BadInput if they hold none."""
        documents, frequency = count_documents(texts)
        if not frequency:
            raise BadInput("the corpus holds no word", expected="texts")
        return cls(documents, frequency)

    def of_words(self, words: Sequence[str]) -> NDArray[np.float64]:
        """The document frequency of each word, (V,); 0 for a word of no document."""
        return np.array([self.frequency[word] for word in words], np.float64)

    def weights(self, words: Sequence[str]) -> Floats:
        """:func:`smoothed_idf` of each word, MIN_IDF at least, (V,) float32; a word of no document weighs most."""
        return smoothed_idf(self.of_words(words), self.documents, MIN_IDF).astype(np.float32)
