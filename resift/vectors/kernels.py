"""Compiled loops of the look-up of words (numba, extra ``fast``): bytes to word ids.

Sixty-four bytes at a time give a mask of those that are in words; its edges are where words begin and end. A word of up
to sixteen bytes is its own key, since no word holds a NUL to pad with. A longer word's key is a 64-bit hash, and a hit
counts only where all its bytes agree. So ids are those of :func:`resift.text.tokenize` and a dictionary on every
input, whoever chose it. :mod:`resift.vectors.compiled` says when they are compiled and used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import int64, types, uint64
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from resift.text import LONE, folding, to_utf8
from resift.vectors.compiled import compiled

PAD = 80
_EDGES = 512
_HIGH = uint64(0x8080808080808080)
_MIX = uint64(0x9E3779B97F4A7C15)
_ODD = uint64(0xBF58476D1CE4E5B9)
_ONES = uint64(0xFFFFFFFFFFFFFFFF)


class Lookup(NamedTuple):
    """A vocabulary as arrays: all words' bytes and where they start, and two open hash tables: ``short`` for words of
    up to sixteen bytes, (first eight, other eight, row + 1, 0), and ``long`` for the longer, (key, row + 1)."""

    words: NDArray[np.uint8]
    starts: NDArray[np.int64]
    short: NDArray[np.uint64]
    long: NDArray[np.uint64]


def _place(context: Any, builder: Any, signature: Any, arguments: Any, kind: Any) -> Any:
    data = cgutils.create_struct_proxy(signature.args[0])(context, builder, arguments[0]).data
    return builder.load(builder.bitcast(builder.gep(data, [arguments[1]]), kind.as_pointer()), align=1)


@intrinsic
def _eight(typing: Any, array: Any, index: Any) -> Any:
    """The eight bytes of a uint8 array from ``index`` on, the first one lowest."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _place(context, builder, signature, arguments, ir.IntType(64))

    return types.uint64(array, types.int64), generate


@intrinsic
def _in_words(typing: Any, array: Any, index: Any) -> Any:
    """A bit for each of the 64 bytes from ``index`` on: is it an ASCII letter or digit, or not ASCII?"""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = ir.VectorType(ir.IntType(8), 64)
        all_of = {value: ir.Constant(vector, [value] * 64) for value in (10, 26, 32, 48, 97, 128)}
        byte = _place(context, builder, signature, arguments, vector)
        lower = builder.sub(builder.or_(byte, all_of[32]), all_of[97])
        letter = builder.icmp_unsigned("<", lower, all_of[26])
        digit = builder.icmp_unsigned("<", builder.sub(byte, all_of[48]), all_of[10])
        foreign = builder.icmp_unsigned(">=", byte, all_of[128])
        return builder.bitcast(builder.or_(builder.or_(letter, digit), foreign), ir.IntType(64))

    return types.uint64(array, types.int64), generate


@intrinsic
def _zeros(typing: Any, value: Any) -> Any:
    """How many zero bits are below the lowest set one."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), generate


@compiled
def _word(text: Any, start: Any, size: Any, case: Any) -> Any:
    """The first ``size`` bytes, at most eight, from ``start``; in lower case if ``case`` is _HIGH (as is if 0)."""
    eight = _eight(text, start)
    return (eight | ((~eight & case) >> uint64(2))) & (_ONES >> uint64(64 - 8 * size))


@compiled
def _hash(text: Any, start: Any, end: Any, case: Any) -> Any:
    key = _MIX * uint64(end - start)
    while start + 8 < end:
        key = (key ^ _word(text, start, 8, case)) * _MIX
        key ^= key >> uint64(29)
        start += 8
    key = (key ^ _word(text, start, end - start, case)) * _MIX
    return key ^ (key >> uint64(32))


@compiled
def _slot(key: Any, table: Any) -> Any:
    """Where a key is looked for first: the key is at ``2 * slot``, its row + 1 behind it, 0 where there is none."""
    return ((key * _MIX) >> uint64(20)) & uint64(len(table) // 2 - 1)


@compiled
def _find_short(text: Any, start: Any, size: Any, case: Any, short: Any) -> Any:
    """A word of at most sixteen bytes in two halves, and its place, its own or the free one where it would be put."""
    first = _word(text, start, min(size, 8), case)
    other = _word(text, start + 8, size - 8, case) if size > 8 else uint64(0)
    place = ((first + other * _ODD) * _MIX >> uint64(20)) & uint64(len(short) // 4 - 1)
    while (short[4 * place] ^ first) | (short[4 * place + uint64(1)] ^ other) and short[4 * place + uint64(2)]:
        place = (place + uint64(1)) & uint64(len(short) // 4 - 1)
    return first, other, 4 * place


@compiled
def _find_long(key: Any, text: Any, start: Any, end: Any, case: Any, words: Any, starts: Any, long: Any) -> Any:
    """The same for a longer word, with all its bytes compared."""
    slot = _slot(key, long)
    while long[2 * slot + uint64(1)] != uint64(0):
        if long[2 * slot] == key:
            place = starts[int64(long[2 * slot + uint64(1)]) - 1]
            same = starts[int64(long[2 * slot + uint64(1)])] - place == end - start
            done = 0
            while same and done < end - start:
                size = min(8, end - start - done)
                same = _word(text, start + done, size, case) == _word(words, place + done, size, uint64(0))
                done += 8
            if same:
                break
        slot = (slot + uint64(1)) & uint64(len(long) // 2 - 1)
    return slot


@compiled
def _fill(words: Any, starts: Any, short: Any, long: Any) -> None:
    """Put words into the tables, empty ones left out; of equal ones the last counts."""
    for row in range(len(starts) - 1):
        start, end = starts[row], starts[row + 1]
        if end - start > 16:
            key = _hash(words, start, end, uint64(0))
            slot = _find_long(key, words, start, end, uint64(0), words, starts, long)
            long[2 * slot] = key
            long[2 * slot + uint64(1)] = uint64(row + 1)
        elif end > start:
            first, other, place = _find_short(words, start, end - start, uint64(0), short)
            short[place] = first
            short[place + uint64(1)] = other
            short[place + uint64(2)] = uint64(row + 1)


@compiled
def _fold(text: Any, start: Any, end: Any, table: Any, out: Any) -> Any:
    """UTF-8 with its other than ASCII letters in lower case, and with NULs for what separates words and around the
    characters that are words; its length in bytes."""
    size, i = 0, start
    while i < end:
        lead = text[i]
        if lead < 0x80:
            out[size] = lead
            size, i = size + 1, i + 1
            continue
        length = 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
        point = int64(lead) & (0xFF >> (length + 1))
        for j in range(1, length):
            point = (point << 6) | (int64(text[i + j]) & 0x3F)
        folded = int64(table[point]) if point < len(table) else 0
        lone = folded >= LONE
        if lone or folded == 0:
            out[size] = 0
            size += 1
        if folded:
            size += _put(out, size, folded & ~LONE)
        if lone:
            out[size] = 0
            size += 1
        i += length
    return size


@compiled
def _put(out: Any, place: Any, point: Any) -> Any:
    """Write a character in UTF-8; its length in bytes."""
    if point < 0x80:
        out[place] = point
        return 1
    length = 2 if point < 0x800 else 3 if point < 0x10000 else 4
    for j in range(length - 1, 0, -1):
        out[place + j] = 0x80 | (point & 0x3F)
        point >>= 6
    out[place] = ((0xF00 >> length) & 0xFF) | point
    return length


@compiled
def _look_up(text: Any, edges: Any, count: Any, lookup: Any, out: Any, found: Any) -> Any:
    """Rows of the words between pairs of edges, appended to the ``found`` ones in ``out``; how many there are then."""
    words, starts, short, long = lookup
    for i in range(0, count - 1, 2):
        start, end = edges[i], edges[i + 1]
        if end - start <= 16:
            _, _, place = _find_short(text, start, end - start, _HIGH, short)
            row = int64(short[place + uint64(2)]) - 1
        else:
            slot = _find_long(_hash(text, start, end, _HIGH), text, start, end, _HIGH, words, starts, long)
            row = int64(long[2 * slot + uint64(1)]) - 1
        out[found] = row
        found += row >= 0
    return found


@compiled
def _scan(text: Any, start: Any, end: Any, lookup: Any, edges: Any, out: Any, found: Any) -> Any:
    count, inside = 0, uint64(0)
    for block in range(start, end, 64):
        bits = _in_words(text, block)
        if end - block < 64:
            bits &= (uint64(1) << uint64(end - block)) - uint64(1)
        changes = bits ^ ((bits << uint64(1)) | inside)
        inside = bits >> uint64(63)
        while changes != uint64(0):
            edges[count] = block + _zeros(changes)
            changes &= changes - uint64(1)
            count += 1
        if count > len(edges) - 66:
            found = _look_up(text, edges, count, lookup, out, found)
            edges[0] = edges[count - 1]
            count &= 1
    if inside:
        edges[count] = end
        count += 1
    return _look_up(text, edges, count, lookup, out, found)


@compiled
def _ids(
    text: Any, starts: Any, foreign: Any, table: Any, folded: Any, lookup: Any, edges: Any, out: Any, offsets: Any
) -> None:
    found = 0
    for i in range(len(foreign)):
        if foreign[i]:
            size = _fold(text, starts[i], starts[i + 1], table, folded)
            found = _scan(folded, 0, size, lookup, edges, out, found)
        else:
            found = _scan(text, starts[i], starts[i + 1], lookup, edges, out, found)
        offsets[i + 1] = found


def build_lookup(words: Sequence[str]) -> Lookup:
    """The tables of a vocabulary. Words that no text can hold are never found, as in a dictionary."""
    encoded = [b"" if "\0" in word else word.encode("utf-8", "surrogatepass") for word in words]
    lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
    starts = np.concatenate(([0], lengths.cumsum()))
    buffer = np.frombuffer(bytearray().join([*encoded, bytes(PAD)]), np.uint8)
    long_words = int((lengths > 16).sum())
    short = np.zeros(8 << (len(words) - long_words).bit_length(), np.uint64)
    long = np.zeros(4 << long_words.bit_length(), np.uint64)
    lookup = Lookup(buffer, starts, short, long)
    _fill(*lookup)
    return lookup


def word_ids(lookup: Lookup, texts: Sequence[str]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Rows of the known words of all texts, end to end, and the n + 1 offsets at which each text's words start."""
    encoded = [to_utf8(text) for text in texts]
    lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
    starts = np.concatenate(([0], lengths.cumsum()))
    foreign = lengths != np.fromiter(map(len, texts), np.int64, len(encoded))
    buffer = np.frombuffer(bytearray().join([*encoded, bytes(PAD)]), np.uint8)
    table, longest = (folding(), int(lengths[foreign].max())) if foreign.any() else (np.zeros(0, np.uint32), 0)
    out = np.empty((len(buffer) + len(encoded)) // 2, np.int32)
    offsets = np.zeros(len(encoded) + 1, np.int64)
    folded = np.empty(2 * longest + PAD, np.uint8)
    _ids(buffer, starts, foreign, table, folded, lookup, np.empty(_EDGES, np.int64), out, offsets)
    return out[: offsets[-1]], offsets


def compile_all() -> None:
    """Compile every loop for the types that this module's callers use."""
    word_ids(build_lookup(["fire"]), ["fire"])
