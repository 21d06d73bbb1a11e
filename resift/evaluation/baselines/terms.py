"""Words counted: the sparse matrices that the lexical baselines share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import chain

import numpy as np
from gensim.parsing.porter import PorterStemmer
from gensim.parsing.preprocessing import STOPWORDS
from scipy.sparse import csr_matrix

from resift.text import tokenize

Analyzer = Callable[[str], list[str]]
_stem = lru_cache(maxsize=500_000)(PorterStemmer().stem)


def without_stop_words(text: str) -> list[str]:
    """The words of ``text`` that are not among gensim's 337 English stop words.

    >>> without_stop_words("The cost of flying")
    ['cost', 'flying']
    """
    return [word for word in tokenize(text) if word not in STOPWORDS]


def english_terms(text: str) -> list[str]:
    """The same, each word by its Porter stem.

    >>> english_terms("The cost of flying")
    ['cost', 'fly']
    """
    return [_stem(word) for word in without_stop_words(text)]


class Terms:
    """A vocabulary learnt from texts: terms that occur in ``least`` of them or more."""

    def __init__(self, texts: Sequence[str], analyze: Analyzer, least: int = 1) -> None:
        self.analyze = analyze
        frequency = Counter(chain.from_iterable(set(analyze(text)) for text in texts))
        self.index = {term: row for row, term in enumerate(sorted(t for t, n in frequency.items() if n >= least))}

    def counts(self, texts: Sequence[str]) -> csr_matrix:
        """How often each term occurs, (n, V) float32; other terms are left out."""
        rows = [[self.index[term] for term in self.analyze(text) if term in self.index] for text in texts]
        ends = np.cumsum([0, *map(len, rows)])
        flat = np.fromiter(chain.from_iterable(rows), np.int32)
        found = csr_matrix((np.ones(len(flat), np.float32), flat, ends), shape=(len(rows), len(self.index)))
        found.sum_duplicates()
        return found


def document_frequency(counts: csr_matrix) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """In how many rows of ``counts`` (n, V) each term occurs, (V,)."""
    return np.bincount(counts.indices, minlength=counts.shape[1]).astype(np.float64)
