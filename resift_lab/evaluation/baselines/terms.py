"""Analyzers and term counts that the lexical baselines share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from resift.errors import needs_extra
from resift.text import STOP_WORDS, tokenize
from resift_lab.corpus import sparse_counts

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

Analyzer = Callable[[str], list[str]]
"""A function that splits a text into terms."""


def without_stop_words(text: str) -> list[str]:
    """Return the words of ``text`` that are not English stop words.

    >>> without_stop_words("The cost of flying")
    ['cost', 'flying']
    """
    return [word for word in tokenize(text) if word not in STOP_WORDS]


def english_terms(text: str) -> list[str]:
    """Return the Porter stems of the words of ``text`` that are not stop words.

    Raises:
        MissingExtra: If gensim is not installed.

    >>> english_terms("The cost of flying")
    ['cost', 'fly']
    """
    stem = porter_stemmer()
    return [stem(word) for word in without_stop_words(text)]


@cache
def porter_stemmer() -> Callable[[str], str]:
    """Return a function that stems an English word by Porter's algorithm (1980).

    Raises:
        MissingExtra: If gensim is not installed.
    """
    with needs_extra("lab", "Stemming"):
        from gensim.parsing.porter import PorterStemmer
    # cached, because stemming is the most expensive step of BM25 and most words occur repeatedly
    return lru_cache(maxsize=500_000)(PorterStemmer().stem)


class TermCounter:
    """A sorted vocabulary of terms, in which each term has a column number.

    Args:
        texts: Texts from which the terms are collected.
        analyze: Function that splits a text into terms.
        min_df: Minimum number of texts that contain a term. Terms in fewer texts are ignored.

    Attributes:
        index: Column number of each term.
    """

    def __init__(self, texts: Sequence[str], analyze: Analyzer, min_df: int = 1) -> None:
        self.analyze = analyze
        frequency = Counter(chain.from_iterable(set(analyze(text)) for text in texts))
        # sorted, because the iteration order of a set of strings differs between processes
        terms = sorted(term for term, count in frequency.items() if count >= min_df)
        self.index = {term: column for column, term in enumerate(terms)}

    def counts(self, texts: Sequence[str]) -> csr_matrix:
        """Count the terms of the vocabulary in each text. Other words are ignored.

        Args:
            texts: The n texts.

        Returns:
            The count of each of the V terms in each text, a sparse matrix of shape (n, V), float32.
        """
        columns = [[self.index[term] for term in self.analyze(text) if term in self.index] for text in texts]
        offsets = np.cumsum([0, *map(len, columns)])
        return sparse_counts(np.fromiter(chain.from_iterable(columns), np.int32), offsets, len(self.index))
