"""What a word is: the one definition that training, encoding and queries share.

A text is lower-cased by Unicode's full mapping, which is the case folding here ("Straße" is "straße", "ΣΟΦΟΣ" is
"σοφος" with its final "ς", "İ" is "i" and a combining dot). A word is a maximal run of letters, digits and combining
marks (Unicode categories L* and N*, and M* below U+1F000); every other character separates words, apostrophes,
underscores, NULs and lone surrogates too ("don't" gives "don" and "t"). Each character of the scripts that write no
spaces between words (Han, Hiragana, Katakana) is a word of its own. Nothing is normalised: "é" in one code point and
in two are different words.

:func:`tokenize` is the definition. :func:`folding` and :func:`to_utf8` are the same as a table and as bytes, for the
compiled look-up of :mod:`resift.vectors.kernels`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import cache

import numpy as np
from numpy.typing import NDArray

# kana, without the signs between them: "゛", "゜", "゠", "・"
_KANA = ((0x3040, 0x309A), (0x309D, 0x309F), (0x30A1, 0x30FA), (0x30FC, 0x30FF))
UNSPACED = (*_KANA, (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x3FFFF))
LONE = 1 << 31
_END = 0x40000
_ASCII = "".join(chr(point).lower() if chr(point).isalnum() else " " for point in range(128))


def tokenize(text: str) -> list[str]:
    """The words of ``text``, in order.

    >>> tokenize("Don't panic: 42 naïve_users")
    ['don', 't', 'panic', '42', 'naïve', 'users']
    >>> tokenize("東京 tower")
    ['東', '京', 'tower']
    """
    return text.translate(_ASCII).split() if text.isascii() else _word().findall(text.lower())


def word_places(text: str) -> list[tuple[int, int]]:
    """Where the words of ``text`` begin and end in it.

    >>> word_places("Don't 東京")
    [(0, 3), (4, 5), (6, 7), (7, 8)]
    """
    return [found.span() for found in _word().finditer(text)]


def _class(ranges: Iterable[tuple[int, int]]) -> str:
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)


@cache
def _marks() -> list[int]:
    """The combining marks, which ``re``'s ``\\w`` and ``str.isalnum`` leave out."""
    return [point for point in range(0x300, 0x1F000) if unicodedata.category(chr(point))[0] == "M"]


@cache
def _word() -> re.Pattern[str]:
    """A word of a lower-cased text."""
    lone, marks = _class(UNSPACED), _class(zip(_marks(), _marks(), strict=True))
    return re.compile(rf"[{lone}]|(?:(?![{lone}])(?:[^\W_]|[{marks}]))+")


@cache
def folding() -> NDArray[np.uint32]:
    """What becomes of each character below U+40000: its lower-case code point, with LONE added where it is a word of
    its own, or 0 where it separates words. All above separate. Σ and İ need :func:`to_utf8` first.
    """
    lowered = "".join(chr(point).lower()[0] for point in range(_END))
    table: NDArray[np.uint32] = np.frombuffer(lowered.encode("utf-32-le", "surrogatepass"), np.uint32).copy()
    letters = np.fromiter(map(str.isalnum, lowered), bool, _END)
    letters[_marks()] = True
    table[~letters] = 0
    for first, last in UNSPACED:
        table[first : last + 1] = np.arange(first, last + 1) | LONE
    return table


def to_utf8(text: str) -> bytes:
    """The text in UTF-8, lower-cased if that takes more than one character at a time."""
    if not text.isascii() and ("Σ" in text or "İ" in text):
        text = text.lower()
    return text.encode("utf-8", "surrogatepass")
