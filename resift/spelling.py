"""Words as they were meant: a query's unknown words are read as words of the corpus that are spelt nearly so.

Candidates share character n-grams with the unknown word (two to four letters of "<word>", weighed by their idf); of the
twenty with the largest cosine the one at the smallest edit distance counts: letters left out, added, changed, or two
that changed places (Damerau 1964), one edit for every four letters at most. A word that is two known words without the
blank between them is read as both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from resift.text import tokenize

_NGRAM_SIZES = (2, 3, 4)
_MAX_CANDIDATES = 20
_LETTERS_PER_EDIT = 4
_MIN_LENGTH = 4
_MIN_HALF = 3
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # an odd one, whose bits look random: different n-grams, different numbers


class Speller:
    """Corrects queries by the words of a corpus; ``frequency``: in how many documents each of them occurs."""

    def __init__(self, frequency: Mapping[str, int]) -> None:
        self.frequency = frequency
        self._index = NgramIndex([word for word in frequency if len(word) >= _MIN_LENGTH])

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


class NgramIndex:
    """Postings of ``words`` by their character n-grams, weighed by idf, each word's weights at length 1."""

    def __init__(self, words: list[str]) -> None:
        self.words = words
        ngrams, rows = _ngrams(words)
        # in arrays: as objects, the n-grams of an index's words would take 50 MB
        order = np.argsort(ngrams, kind="stable")
        self._ngrams, starts, counts = np.unique(ngrams[order], return_index=True, return_counts=True)
        self._rows, self._offsets = rows[order], np.append(starts, len(rows))
        self._weights = np.log((len(words) + 1) / counts) ** 2
        squares = np.bincount(self._rows, np.repeat(self._weights, counts), len(words))
        self._lengths = np.maximum(np.sqrt(squares), 1e-9)

    def scores(self, word: str) -> NDArray[np.float64]:
        """The inner product of the word's n-grams with those of each of ``words``, (V,)."""
        found, asked = np.zeros(len(self.words)), _ngrams([word])[0]
        for ngram, at in zip(asked, np.searchsorted(self._ngrams, asked), strict=True):
            if at < len(self._ngrams) and self._ngrams[at] == ngram:
                rows = self._rows[slice(*self._offsets[at : at + 2])]
                np.add.at(found, rows, self._weights[at] / self._lengths[rows])
        return found


def _ngrams(words: Sequence[str]) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
    """The n-grams of "<word>" for each of the ``words``, as numbers (N,), and whose they are, (N,)."""
    marked = [f"<{word}>" for word in words]
    letters = np.frombuffer("".join(marked).encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.uint64)
    owners = np.repeat(np.arange(len(words), dtype=np.int32), [len(one) for one in marked])
    found, whose = [], []
    for size in _NGRAM_SIZES:
        count = max(0, len(letters) - size + 1)
        numbers = np.full(count, size, np.uint64)
        for place in range(size):
            numbers = numbers * _MULTIPLIER + letters[place : place + count]  # modulo 2 ** 64
        inside = owners[:count] == owners[size - 1 : size - 1 + count]
        found.append(numbers[inside])
        whose.append(owners[:count][inside])
    return np.concatenate(found), np.concatenate(whose)


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
