"""Words as they were meant: a query's unknown words are read as words of the corpus that are spelt nearly so.

Candidates share character n-grams with the unknown word (two to four letters of "<word>", weighed by their idf); of the
twenty with the largest cosine the one at the smallest edit distance counts: letters left out, added, changed, or two
that changed places (Damerau 1964), one edit for every four letters at most. A word that is two known words without the
blank between them is read as both.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from resift.text import char_ngrams, tokenize

_NGRAM_SIZES = (2, 3, 4)
_MAX_CANDIDATES = 20
_LETTERS_PER_EDIT = 4
_MIN_LENGTH = 4
_MIN_HALF = 3


class Speller:
    """Corrects queries by the words of a corpus; ``frequency``: in how many documents each of them occurs."""

    def __init__(self, frequency: Mapping[str, int]) -> None:
        self.frequency = frequency

    def correct(self, query: str) -> list[str]:
        """The query's words, unknown ones as they were meant; those that nothing is similar to stay as they are.

        >>> Speller({"settlement": 2, "fire": 1}).correct("a setlemnet fire")
        ['a', 'settlement', 'fire']
        """
        corrected: list[str] = []
        for word in tokenize(query):
            known = word in self.frequency or len(word) < _MIN_LENGTH
            corrected += [word] if known else self._meant(word)
        return corrected

    def _meant(self, word: str) -> list[str]:
        """The word, or the two words, that an unknown one stands for; itself if there is none."""
        ranked = [(edit_distance(word, other), -self.frequency[other], other) for other in self._candidates(word)]
        distance, _, nearest = min(ranked, default=(len(word), 0, word))
        if distance > 1 and (halves := self._halves(word)):
            return list(halves)
        return [nearest] if distance <= max(1, len(word) // _LETTERS_PER_EDIT) else [word]

    def _halves(self, word: str) -> tuple[str, str] | None:
        """Two known words that make up this one, those of which the rarer one is most frequent; None if none do."""
        splits = [(word[:middle], word[middle:]) for middle in range(_MIN_HALF, len(word) - _MIN_HALF + 1)]
        known = [(first, second) for first, second in splits if first in self.frequency and second in self.frequency]
        return max(known, key=lambda pair: min(self.frequency[half] for half in pair), default=None)

    def _candidates(self, word: str) -> list[str]:
        """Known words by the cosine of their n-grams with the word's, largest first."""
        scores = self._index.scores(word)
        best = np.argsort(-scores, kind="stable")[:_MAX_CANDIDATES]
        return [self._index.words[row] for row in best if scores[row] > 0]

    @cached_property
    def _index(self) -> NgramIndex:
        return NgramIndex([word for word in self.frequency if len(word) >= _MIN_LENGTH])


class NgramIndex:
    """Postings of ``words`` by their character n-grams, weighed by idf, each word's weights at length 1."""

    def __init__(self, words: list[str]) -> None:
        self.words = words
        held = defaultdict[str, list[int]](list)
        for row, word in enumerate(words):
            for ngram in _ngrams(word):
                held[ngram].append(row)
        self._rows = {ngram: np.array(rows, np.int32) for ngram, rows in held.items()}
        self._idf = {ngram: math.log((len(words) + 1) / len(rows)) for ngram, rows in held.items()}
        squares = np.zeros(len(words))
        for ngram, rows in self._rows.items():
            np.add.at(squares, rows, self._idf[ngram] ** 2)
        self._lengths = np.maximum(np.sqrt(squares), 1e-9)

    def scores(self, word: str) -> NDArray[np.float64]:
        """The inner product of the word's n-grams with those of each of ``words``, (V,)."""
        found = np.zeros(len(self.words))
        for ngram in filter(self._rows.__contains__, _ngrams(word)):
            rows = self._rows[ngram]
            np.add.at(found, rows, self._idf[ngram] ** 2 / self._lengths[rows])
        return found


def _ngrams(word: str) -> list[str]:
    return char_ngrams(word, _NGRAM_SIZES)


def edit_distance(first: str, second: str) -> int:
    """Letters left out, added or changed, and neighbours swapped, that make one word of the other.

    No letter is edited twice (the restricted distance of Damerau 1964, "optimal string alignment").

    >>> edit_distance("settlement", "setlemnet")
    2
    """
    before, row = list[int](), list(range(len(second) + 1))
    for i, letter in enumerate(first, 1):
        older, before, row = before, row, [i]
        for j, other in enumerate(second, 1):
            distance = min(before[j] + 1, row[-1] + 1, before[j - 1] + (letter != other))
            if i > 1 and j > 1 and letter == second[j - 2] and first[i - 2] == other:
                distance = min(distance, older[j - 2] + 1)
            row.append(distance)
    return row[-1]
