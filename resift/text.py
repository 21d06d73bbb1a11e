"""What a word is: the one definition that training, encoding and queries share.

A text is lower-cased. A word is a maximal run of letters, digits and combining marks (Unicode categories L*, N* and
M*); every other character separates words, apostrophes and underscores too ("don't" gives "don" and "t"). Each
character of the scripts that write no spaces between words (Han, Hiragana, Katakana) is a word of its own.
"""

from __future__ import annotations

import re
import sys
import unicodedata

UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"


def _marks() -> str:
    """Character class of the combining marks, as ranges (``re``'s ``\\w`` leaves them out)."""
    ranges: list[list[int]] = []
    for point in range(0x300, min(sys.maxunicode, 0x1F000)):
        if unicodedata.category(chr(point))[0] == "M":
            if ranges and ranges[-1][1] == point - 1:
                ranges[-1][1] = point
            else:
                ranges.append([point, point])
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)


_WORD = re.compile(rf"[{UNSPACED}]|(?:(?![{UNSPACED}])[^\W_]|[{_marks()}])+")
_ASCII_WORD = re.compile(r"[a-z0-9]+")


def tokenize(text: str) -> list[str]:
    """The words of ``text``, in order.

    >>> tokenize("Don't panic: 42 naïve_users")
    ['don', 't', 'panic', '42', 'naïve', 'users']
    >>> tokenize("東京 tower")
    ['東', '京', 'tower']
    """
    lowered = text.lower()
    return _ASCII_WORD.findall(lowered) if lowered.isascii() else _WORD.findall(lowered)
