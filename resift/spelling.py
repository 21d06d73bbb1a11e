"""Correct misspelt query words with the words of a corpus.

An unknown word is replaced in two steps:

1. Candidates are the 20 corpus words whose character n-grams have the largest cosine with the n-grams of the unknown
   word. The n-grams have two to four characters of "<word>" and are weighted by their idf.
2. The candidate with the smallest edit distance is used, if it needs at most one edit for every four letters. An edit
   omits, adds or changes a letter, or swaps two adjacent letters (Damerau 1964).

An unknown word that consists of two known words without a space between them is split, unless a candidate is only one
edit away.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from resift.text import tokenize

_NGRAM_SIZES = (2, 3, 4)
_MAX_CANDIDATES = 20
_LETTERS_PER_EDIT = 4
_MIN_LENGTH = 4  # shorter words are not corrected
_MAX_LENGTH = 64  # longer words are not corrected: the time to compare two words is the product of their lengths
_MIN_HALF = 3  # shortest part of a word that is split
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # an odd number with random-looking bits, for hashing n-grams


class Speller:
    """A spelling corrector for queries, which replaces misspelt words with words that occur in a set of documents.

    Args:
        frequency: The number of documents that contain each word, by word.
    """

    def __init__(self, frequency: Mapping[str, int]) -> None:
        self.frequency = frequency
        self._index = NgramIndex([word for word in frequency if _MIN_LENGTH <= len(word) <= _MAX_LENGTH])

    def correct(self, query: str) -> list[str]:
        """Split a query into words, and correct the misspelt words.

        A word is misspelt if it occurs in no document. It stays unchanged if no word of the documents is similar, or if
        it has fewer than four or more than 64 letters.

        Args:
            query: The text of the query.

        Returns:
            The corrected words of the query, in order.

        >>> Speller({"settlement": 2, "fire": 1}).correct("a setlemnet fire")
        ['a', 'settlement', 'fire']
        """
        corrected: list[str] = []
        for word in tokenize(query):
            if word in self.frequency or not _MIN_LENGTH <= len(word) <= _MAX_LENGTH:
                corrected.append(word)
            else:
                corrected += self._corrections(word)
        return corrected

    def _corrections(self, word: str) -> list[str]:
        """Return the correction of a word that occurs in no document.

        Args:
            word: A word that occurs in no document.

        Returns:
            The most similar known word, or two known words if a space is missing, or the word itself if there is no
            correction.
        """
        ranked = [
            (edit_distance(word, candidate), -self.frequency[candidate], candidate)
            for candidate in self._candidates(word)
        ]
        distance, _, nearest = min(ranked, default=(len(word), 0, word))
        if distance > 1 and (halves := self._split(word)):
            return list(halves)
        return [nearest] if distance <= max(1, len(word) // _LETTERS_PER_EDIT) else [word]

    def _split(self, word: str) -> tuple[str, str] | None:
        """Split a word into two known words, or return None if this is not possible.

        If there are several ways to split the word, the frequencies of the two halves are compared: the split whose
        less frequent half occurs most often is returned.

        Args:
            word: A word in which a space may be missing.
        """
        splits = [(word[:middle], word[middle:]) for middle in range(_MIN_HALF, len(word) - _MIN_HALF + 1)]
        known = [(first, second) for first, second in splits if first in self.frequency and second in self.frequency]
        return max(known, key=lambda pair: min(self.frequency[half] for half in pair), default=None)

    def _candidates(self, word: str) -> list[str]:
        """Return the 20 known words that are most similar to a word, most similar first.

        Words are compared by the cosine similarity of their character n-grams.
        """
        scores = self._index.similarities(word)
        best = np.argsort(-scores, kind="stable")[:_MAX_CANDIDATES]
        return [self._index.words[row] for row in best if scores[row] > 0]


class NgramIndex:
    """An inverted index that finds words with similar spelling, by their character n-grams.

    N-grams are weighted by their inverse document frequency. The weight vector of each word is scaled to unit length.

    Args:
        words: The words of the index.
    """

    def __init__(self, words: list[str]) -> None:
        self.words = words
        ngrams, rows = _hash_ngrams(words)
        # Arrays, because the n-grams of an index's words as Python objects would need about 50 MB.
        order = np.argsort(ngrams, kind="stable")
        self._ngrams, starts, counts = np.unique(ngrams[order], return_index=True, return_counts=True)
        self._rows, self._offsets = rows[order], np.append(starts, len(rows))
        self._weights = np.log((len(words) + 1) / counts) ** 2
        squares = np.bincount(self._rows, np.repeat(self._weights, counts), len(words))
        self._lengths = np.maximum(np.sqrt(squares), 1e-9)

    def similarities(self, word: str) -> NDArray[np.float64]:
        """Compute how similar the spelling of a word is to the spelling of each word in the index.

        The similarity is the inner product of the words' n-gram weights.

        Args:
            word: The word, which need not be in the index.

        Returns:
            The similarities, an array of shape (n_words,), in the order of the indexed words.
        """
        scores = np.zeros(len(self.words))
        ngrams, _ = _hash_ngrams([word])
        for ngram, position in zip(ngrams, np.searchsorted(self._ngrams, ngrams), strict=True):
            if position < len(self._ngrams) and self._ngrams[position] == ngram:
                rows = self._rows[slice(*self._offsets[position : position + 2])]
                np.add.at(scores, rows, self._weights[position] / self._lengths[rows])
        return scores


def _hash_ngrams(words: Sequence[str]) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
    """Hash the n-grams of two to four characters in words. Each word is enclosed in ``<`` and ``>`` first.

    Args:
        words: The words to split into n-grams.

    Returns:
        The hash of each n-gram, and the position in ``words`` of the word that contains it. Both arrays have the shape
        (n_ngrams,).
    """
    marked = [f"<{word}>" for word in words]
    letters = np.frombuffer("".join(marked).encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.uint64)
    owners = np.repeat(np.arange(len(words), dtype=np.int32), [len(word) for word in marked])
    hashes, rows = [], []
    for size in _NGRAM_SIZES:
        count = max(0, len(letters) - size + 1)
        numbers = np.full(count, size, np.uint64)
        for offset in range(size):
            numbers = numbers * _MULTIPLIER + letters[offset : offset + count]  # modulo 2 ** 64
        within_word = owners[:count] == owners[size - 1 : size - 1 + count]
        hashes.append(numbers[within_word])
        rows.append(owners[:count][within_word])
    return np.concatenate(hashes), np.concatenate(rows)


def edit_distance(first: str, second: str) -> int:
    """Return the number of edits that turn one word into another word.

    An edit deletes, inserts or replaces a letter, or swaps two adjacent letters. No letter is edited twice. This is the
    restricted Damerau-Levenshtein distance, also called "optimal string alignment".

    Source: F. J. Damerau, "A technique for computer detection and correction of spelling errors", CACM 7 (1964).

    >>> edit_distance("settlement", "setlemnet")
    2
    """
    previous, row = list[int](), list(range(len(second) + 1))
    for i, letter in enumerate(first, 1):
        before_previous, previous, row = previous, row, [i]
        for j, other_letter in enumerate(second, 1):
            distance = min(previous[j] + 1, row[-1] + 1, previous[j - 1] + (letter != other_letter))
            if i > 1 and j > 1 and letter == second[j - 2] and first[i - 2] == other_letter:
                distance = min(distance, before_previous[j - 2] + 1)
            row.append(distance)
    return row[-1]
