"""Compiled loops (numba, extra ``fast``): characters to word ids, and the mean of words' rows.

A text is read once, a character (UTF-32) at a time. A table says what each one becomes in lower case and which separate
words, and a word is known by a 64-bit hash of its characters. So ids are those of :func:`resift.text.tokenize` and a
dictionary, but that one unknown word in 10¹⁴ is taken for a known one by chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import float32, int64, uint32, uint64
from numpy.typing import NDArray

from resift.text import SINGLE_CHARACTER_WORD, lowercase_table
from resift.vectors.compiled import compiled

_SEED, _PRIME = uint64(0xCBF29CE484222325), uint64(0x100000001B3)  # FNV-1a
_CHARACTER = uint32(SINGLE_CHARACTER_WORD - 1)
_SHORT_SUM = 64


@compiled
def _place(key: Any, table: Any) -> Any:
    """Where a key stands in the table, its row + 1 behind it; or, with a 0 behind it, where it would be put."""
    place = (key ^ (key >> uint64(29))) * uint64(2) & uint64(len(table) - 1)
    while table[place + uint64(1)] and table[place] != key:
        place = (place + uint64(2)) & uint64(len(table) - 1)
    return place


@compiled
def _fill(words: Any, starts: Any, table: Any) -> None:
    """Put each word into the table, at its place or the next free one."""
    for row in range(len(starts) - 1):
        key = _SEED
        for k in range(starts[row], starts[row + 1]):
            key = (key ^ uint64(words[k])) * _PRIME
        place = _place(key, table)
        table[place], table[place + uint64(1)] = key, uint64(row + 1)


@compiled
def _ids(text: Any, starts: Any, folded: Any, table: Any, out: Any, offsets: Any) -> None:
    """Append the rows of the known words of each text to ``out``, and note in ``offsets`` how many there are then."""
    found = 0
    for i in range(len(starts) - 1):
        key = _SEED
        for k in range(starts[i], starts[i + 1] + 1):
            # a text ends with a separator of words
            point = folded[text[k]] if k < starts[i + 1] and text[k] < len(folded) else uint32(0)
            if point != 0 and point <= _CHARACTER:
                key = (key ^ uint64(point)) * _PRIME
                continue
            if key != _SEED:
                out[found] = int64(table[_place(key, table) + uint64(1)]) - 1
                found += out[found] >= 0
                key = _SEED
            if point != 0:  # a character that is a word
                key = (_SEED ^ uint64(point & _CHARACTER)) * _PRIME
                out[found] = int64(table[_place(key, table) + uint64(1)]) - 1
                found += out[found] >= 0
                key = _SEED
        offsets[i + 1] = found


def _characters(texts: Sequence[str]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """The characters of all texts, end to end, and the n + 1 places where each text's begin."""
    starts = np.zeros(len(texts) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)), out=starts[1:])
    return np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), np.uint32), starts


def build_lookup(words: Sequence[str]) -> NDArray[np.uint64]:
    """The hash table of a vocabulary: keys, each with its row + 1 behind it."""
    table = np.zeros(4 << len(words).bit_length(), np.uint64)
    _fill(*_characters(words), table)
    return table


def word_ids(lookup: NDArray[np.uint64], texts: Sequence[str]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Rows of the known words of all texts, end to end, and the n + 1 offsets at which each text's words start."""
    # what "Σ" and "İ" become is not one character each
    text, starts = _characters([text.lower() if "Σ" in text or "İ" in text else text for text in texts])
    # a row for each word, and room for the one that is looked up
    out, offsets = np.empty(len(text) + 1, np.int32), np.zeros(len(starts), np.int64)
    _ids(text, starts, lowercase_table(), lookup, out, offsets)
    return out[: offsets[-1]], offsets


@compiled
def pool_mean(ids: Any, offsets: Any, matrix: Any, factors: Any, divisors: Any, out: Any) -> None:
    """Σ factor · row / Σ divisor of each part's words, written to ``out`` (n, K), float32; 0 where the divisors are.

    The n parts are ``ids[offsets[i]:offsets[i + 1]]``; ``factors`` and ``divisors`` (V,), float32; ``matrix`` (V, K).
    Long sums are made of short ones, so that they lose no digits.
    """
    some = np.empty(matrix.shape[1], np.float32)
    for i in range(len(offsets) - 1):
        row, total = out[i], 0.0
        row[:] = 0
        for start in range(offsets[i], offsets[i + 1], _SHORT_SUM):
            some[:] = 0
            for k in range(start, min(start + _SHORT_SUM, offsets[i + 1])):
                factor, values = factors[ids[k]], matrix[ids[k]]
                for j in range(len(some)):
                    some[j] += factor * float32(values[j])
                total += divisors[ids[k]]
            for j in range(len(row)):
                row[j] += some[j]
        if total > 0:
            share = float32(1 / total)
            for j in range(len(row)):
                row[j] *= share
