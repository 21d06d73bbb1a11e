"""Words as they were meant: a query's unknown words are read as words of the corpus that are spelt nearly so.

Candidates share character n-grams with the unknown word (two to four letters of "<word>", by rarity); among the nearest
the one with the fewest slips counts: a letter left out, added, changed, or two that changed places (Damerau 1964), one
slip for every four letters at most. A word that is two known words without the blank is read as both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.text import tokenize

_SIZES = (2, 3, 4)
_NEAREST, _LETTERS, _SHORTEST = 20, 4, 4


class Speller:
    """The words of a corpus and how many documents hold each."""

    def __init__(self, frequency: dict[str, int]) -> None:
        self.frequency = frequency

    @classmethod
    def from_texts(cls, texts: Iterable[str]) -> Speller:
        """Count the words of texts."""
        return cls(dict(Counter(chain.from_iterable(set(tokenize(text)) for text in texts)).most_common()))

    @cached_property
    def _index(self) -> tuple[list[str], dict[str, int], Any, NDArray[np.float32]]:
        from scipy.sparse import csc_matrix

        words = [word for word in self.frequency if len(word) >= _SHORTEST]
        numbers: dict[str, int] = {}
        rows = [[numbers.setdefault(gram, len(numbers)) for gram in _grams(word)] for word in words]
        places = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
        flat = np.fromiter(chain.from_iterable(rows), np.int64)
        holding = np.bincount(flat, minlength=max(1, len(numbers)))
        rarity = np.log((len(words) + 1) / np.maximum(holding, 1)).astype(np.float32)
        lengths = np.sqrt(np.bincount(places, rarity[flat] ** 2, max(1, len(words))))
        values = rarity[flat] / np.maximum(lengths[places], 1e-9)
        shape = (max(1, len(words)), max(1, len(numbers)))
        return words, numbers, csc_matrix((values, (places, flat)), shape=shape), rarity

    def correct(self, query: str) -> list[str]:
        """The query's words, unknown ones as they were meant; those that nothing comes near stay."""
        found: list[str] = []
        for word in tokenize(query):
            found += [word] if word in self.frequency or len(word) < _SHORTEST else self._meant(word)
        return found

    def _meant(self, word: str) -> list[str]:
        candidates = self._near(word)
        slips = [(edit_distance(word, other), -self.frequency[other], other) for other in candidates]
        best = min(slips, default=(len(word), 0, word))
        halves = [(word[:place], word[place:]) for place in range(3, len(word) - 2)]
        split = [pair for pair in halves if all(half in self.frequency for half in pair)]
        if split and best[0] > 1:
            return list(max(split, key=lambda pair: min(self.frequency[half] for half in pair)))
        return [best[2]] if best[0] <= max(1, len(word) // _LETTERS) else [word]

    def _near(self, word: str) -> list[str]:
        words, numbers, matrix, rarity = self._index
        grams = [numbers[gram] for gram in _grams(word) if gram in numbers]
        if not grams:
            return []
        scores = np.asarray(matrix[:, grams] @ rarity[grams]).ravel()
        best = np.argsort(-scores, kind="stable")[:_NEAREST]
        return [words[place] for place in best if scores[place] > 0]


def _grams(word: str) -> list[str]:
    marked = f"<{word}>"
    return [marked[start : start + size] for size in _SIZES for start in range(len(marked) - size + 1)]


def edit_distance(first: str, second: str) -> int:
    """Letters left out, added or changed, and neighbours swapped, that make one word of the other.

    >>> edit_distance("settlement", "setlemnet")
    2
    """
    before, row = list[int](), list(range(len(second) + 1))
    for i, letter in enumerate(first, 1):
        older, before, row = before, row, [i]
        for j, other in enumerate(second, 1):
            least = min(before[j] + 1, row[-1] + 1, before[j - 1] + (letter != other))
            if i > 1 and j > 1 and letter == second[j - 2] and first[i - 2] == other:
                least = min(least, older[j - 2] + 1)
            row.append(least)
    return row[-1]
