"""Compiled loops (numba, extra ``fast``): look up the rows of words, and pool these rows.

Texts are read as UTF-32, one character at a time. A table gives the lower case of each character, and which characters
separate words (:func:`resift.text.lowercase_table`). Words are identified by a 64-bit hash of their characters. The
results agree with :func:`resift.text.tokenize` and a dictionary of words. The only exception is that about one unknown
word in 10¹⁴ has the hash of a known word.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import float32, int64, uint32, uint64
from numpy.typing import NDArray

from resift.text import SINGLE_CHARACTER_WORD, lowercase_table
from resift.vectors.compiled import compiled

# Hash function FNV-1a
_SEED = uint64(0xCBF29CE484222325)
_PRIME = uint64(0x100000001B3)

_CODE_POINT = uint32(SINGLE_CHARACTER_WORD - 1)  # mask of the code point in the lower-case table
_PARTIAL_SUM = 64  # number of rows that pool_mean adds up in a separate sum


@compiled
def _find_slot(key: Any, table: Any) -> Any:
    """Return the array position of a key in a hash table, or the free position where the key would be inserted.

    Args:
        key: The hash of a word.
        table: The hash table, an array of shape (2 · n_slots,) in which keys and values alternate. The value after a
            key is the row number of the word plus 1. A value of 0 marks a free slot.
    """
    slot = (key ^ (key >> uint64(29))) * uint64(2) & uint64(len(table) - 1)
    while table[slot + uint64(1)] and table[slot] != key:
        slot = (slot + uint64(2)) & uint64(len(table) - 1)
    return slot


@compiled
def _insert_words(characters: Any, starts: Any, table: Any) -> None:
    """Insert words into an empty hash table.

    The value of each word is its number in the list of words, counted from 1.

    Args:
        characters: The characters of all words, one word after the other.
        starts: The positions in ``characters`` at which the words start and end.
        table: The hash table, which is filled in place.
    """
    for row in range(len(starts) - 1):
        key = _SEED
        for k in range(starts[row], starts[row + 1]):
            key = (key ^ uint64(characters[k])) * _PRIME
        slot = _find_slot(key, table)
        table[slot], table[slot + uint64(1)] = key, uint64(row + 1)


@compiled
def _look_up_words(characters: Any, starts: Any, lowercase: Any, table: Any, rows: Any, offsets: Any) -> None:
    """Split texts into words, and look up the row number of each word in a vocabulary.

    Args:
        characters: The characters of all texts, one text after the other.
        starts: The positions in ``characters`` at which the texts start and end.
        lowercase: A table that maps characters to lower case (see :func:`resift.text.lowercase_table`).
        table: The hash table of the vocabulary.
        rows: The output array for the row numbers. Unknown words are skipped.
        offsets: The output array for the positions in ``rows`` at which the texts end.
    """
    count = 0
    for i in range(len(starts) - 1):
        key = _SEED
        for k in range(starts[i], starts[i + 1] + 1):
            # The end of a text counts as a separator.
            point = lowercase[characters[k]] if k < starts[i + 1] and characters[k] < len(lowercase) else uint32(0)
            if point != 0 and point <= _CODE_POINT:
                key = (key ^ uint64(point)) * _PRIME
                continue
            if key != _SEED:
                rows[count] = int64(table[_find_slot(key, table) + uint64(1)]) - 1
                count += rows[count] >= 0
                key = _SEED
            if point != 0:  # a character that is a word by itself
                key = (_SEED ^ uint64(point & _CODE_POINT)) * _PRIME
                rows[count] = int64(table[_find_slot(key, table) + uint64(1)]) - 1
                count += rows[count] >= 0
                key = _SEED
        offsets[i + 1] = count


def _characters(texts: Sequence[str]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Concatenate texts into an array of characters.

    Args:
        texts: The texts to concatenate.

    Returns:
        The code points of all characters, and the positions at which the texts start and end, of shape (n_texts + 1,).
    """
    starts = np.zeros(len(texts) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)), out=starts[1:])
    return np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), np.uint32), starts


def build_lookup(words: Sequence[str]) -> NDArray[np.uint64]:
    """Build a hash table of a vocabulary, in which :func:`word_ids` looks up words.

    Args:
        words: The words of the vocabulary.

    Returns:
        An array in which keys and values alternate. The value of a word is its row number plus 1.
    """
    table = np.zeros(4 << len(words).bit_length(), np.uint64)
    _insert_words(*_characters(words), table)
    return table


def word_ids(lookup: NDArray[np.uint64], texts: Sequence[str]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Split texts into words, and return the row numbers of the known words.

    Args:
        lookup: The hash table of the vocabulary, as returned by :func:`build_lookup`.
        texts: The texts to split.

    Returns:
        The row numbers for all texts in a single array, and the positions at which the texts start and end in this
        array, of shape (n_texts + 1,).
    """
    # The lower case of "Σ" and "İ" is not a single, context-free character, so these texts are lower-cased here.
    characters, starts = _characters([text.lower() if "Σ" in text or "İ" in text else text for text in texts])
    # Room for one row per character, and for the row that is being looked up
    rows, offsets = np.empty(len(characters) + 1, np.int32), np.zeros(len(starts), np.int64)
    _look_up_words(characters, starts, lowercase_table(), lookup, rows, offsets)
    return rows[: offsets[-1]], offsets


@compiled
def pool_mean(ids: Any, offsets: Any, matrix: Any, factors: Any, divisors: Any, out: Any) -> None:
    """Compute the weighted mean of the word vectors of each text.

    The mean is Σ factor · vector / Σ divisor over the words of a text, or 0 if the sum of the divisors is 0.

    Args:
        ids: The row numbers of the words of all texts. Text i has the words ``ids[offsets[i]:offsets[i + 1]]``.
        offsets: The positions at which the texts start and end in ``ids``, of shape (n_texts + 1,).
        matrix: The word vectors, of shape (n_words, n_dimensions), int8 or float32.
        factors: The factor of each word vector, of shape (n_words,), float32.
        divisors: The divisor of each word, of shape (n_words,), float32.
        out: The output array, of shape (n_texts, n_dimensions), float32.
    """
    partial = np.empty(matrix.shape[1], np.float32)
    for i in range(len(offsets) - 1):
        row, total = out[i], 0.0
        row[:] = 0
        # Partial sums keep the precision of long sums in 32 bits.
        for start in range(offsets[i], offsets[i + 1], _PARTIAL_SUM):
            partial[:] = 0
            for k in range(start, min(start + _PARTIAL_SUM, offsets[i + 1])):
                factor, values = factors[ids[k]], matrix[ids[k]]
                for j in range(len(partial)):
                    partial[j] += factor * float32(values[j])
                total += divisors[ids[k]]
            for j in range(len(row)):
                row[j] += partial[j]
        if total > 0:
            share = float32(1 / total)
            for j in range(len(row)):
                row[j] *= share
