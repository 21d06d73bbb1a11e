"""Words counted: the sparse matrices that the lexical baselines share."""

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


def without_stop_words(text: str) -> list[str]:
    """The words of ``text`` that are not English stop words.

    >>> without_stop_words("The cost of flying")
    ['cost', 'flying']
    """
    return [word for word in tokenize(text) if word not in STOP_WORDS]


def english_terms(text: str) -> list[str]:
    """The Porter stems of the words of ``text`` that are not stop words. Raises MissingExtra without gensim.

    >>> english_terms("The cost of flying")
    ['cost', 'fly']
    """
    stem = stemmer()
    return [stem(word) for word in without_stop_words(text)]


@cache
def stemmer() -> Callable[[str], str]:
    """The function that gives a word's stem (Porter 1980). Raises MissingExtra without gensim."""
    with needs_extra("lab", "Stemming"):
        from gensim.parsing.porter import PorterStemmer
    # a stem costs more than everything else that BM25 does with a word, and most words come again
    return lru_cache(maxsize=500_000)(PorterStemmer().stem)


class Terms:
    """A vocabulary learnt from texts: the terms that occur in ``min_df`` of them or more, sorted."""

    def __init__(self, texts: Sequence[str], analyze: Analyzer, min_df: int = 1) -> None:
        self.analyze = analyze
        frequency = Counter(chain.from_iterable(set(analyze(text)) for text in texts))
        # sorted, because the order of a set's words differs from process to process
        terms = sorted(term for term, count in frequency.items() if count >= min_df)
        self.index = {term: column for column, term in enumerate(terms)}

    def counts(self, texts: Sequence[str]) -> csr_matrix:
        """How often each term occurs, (n, V) float32; other words are left out."""
        columns = [[self.index[term] for term in self.analyze(text) if term in self.index] for text in texts]
        offsets = np.cumsum([0, *map(len, columns)])
        return sparse_counts(np.fromiter(chain.from_iterable(columns), np.int32), offsets, len(self.index))
