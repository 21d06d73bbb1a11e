"""Words: what one is, for training, encoding and queries alike, and the words of a text as feedback counts them.

A text is lower-cased by Unicode's full mapping, which is the case folding here ("Straße" is "straße", "ΣΟΦΟΣ" is
"σοφος" with its final "ς", "İ" is "i" and a combining dot). A word is a maximal run of letters, digits and combining
marks (Unicode categories L* and N*, and M* below U+1F000); every other character separates words, apostrophes,
underscores, NULs and lone surrogates too ("don't" gives "don" and "t"). Each character of the scripts that write no
spaces between words (Han, Hiragana, Katakana) is a word of its own. Nothing is normalised: "é" in one code point and
in two are different words.

:func:`tokenize` is the definition, :func:`lowercase_table` the same as a table, for the compiled look-up of
:mod:`resift.vectors.kernels`.
"""

from __future__ import annotations

import html
import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

# kana, without the signs between them: "゛", "゜", "゠", "・"
_KANA = ((0x3040, 0x309A), (0x309D, 0x309F), (0x30A1, 0x30FA), (0x30FC, 0x30FF))
UNSPACED_SCRIPTS = (*_KANA, (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x3FFFF))
SINGLE_CHARACTER_WORD = 1 << 31
_END = 0x40000
_ASCII = "".join(chr(point).lower() if chr(point).isalnum() else " " for point in range(128))
_TYPED = re.compile("[\xa0‘’“”–—…]")  # all that most English texts have beyond ASCII, which takes ten times as long
# Up to how many content words a question takes over what it can, and from how many on it stands by itself; and how many
# fewer it counts as if it refers to something: "which others are there", "what about them".
CONTEXT_DEPENDENT_WORDS, _REFERRING_WORDS = (1, 3), 2
_ENDINGS = re.compile(r"(?<=\w)(?:['’](?:s|t|d|m|ll|re|ve)\b|\(e?s\))", re.IGNORECASE)
_REFERRING = re.compile(
    r"^(?:and|or|but|so|then|ok|yes|no|any|what about|how about|why not)\b"
    r"|\b(?:its?|itself|they|them|theirs?|he|him|his|she|hers?|this|that|these|those|there|here|ones?|such|same|others?"
    r"|another|else|also|too|both|either|more)\b",
    re.IGNORECASE,
)

# as resift/reranker/static/dom.js has it: what else is between < and > is a text's own
_TAG = re.compile(
    r"<(script|style)\b.*?(?:</\1>|$)|<!--.*?(?:-->|$)|</?(?:[abipqsu]|[bh]r|blockquote|center|code|d[dlt]|div|em|font|h\d"
    r"|i?frame|img|li|[ou]l|section|small|span|strong|su[bp]|t[dhr]|table|tbody|thead)(?:[\s/][^<>]*)?(?:>|$)",
    re.IGNORECASE | re.DOTALL,
)
_WITHIN = re.compile(r"</?(?:[abiqsu]|em|font|small|span|strong|su[bp])\b", re.IGNORECASE)


def _stop_words() -> Iterator[frozenset[str]]:
    """The lists of stop words in ``data/stop_words.txt``, each below a line that says what it is."""
    for part in Path(__file__).with_name("data").joinpath("stop_words.txt").read_text("utf-8").split("#")[1:]:
        yield frozenset(part.partition("\n")[2].split())


STOP_WORDS, _CONTENT_WORDS, ANALYZER_STOP_WORDS = _stop_words()
FUNCTION_WORDS = STOP_WORDS - _CONTENT_WORDS


def tokenize(text: str) -> list[str]:
    """The words of ``text``, in order.

    >>> tokenize("Don't panic: 42 naïve_users")
    ['don', 't', 'panic', '42', 'naïve', 'users']
    >>> tokenize("東京 tower")
    ['東', '京', 'tower']
    """
    spaced = text if text.isascii() else _TYPED.sub(" ", text)
    return spaced.translate(_ASCII).split() if spaced.isascii() else _word().findall(text.lower())


def plain_text(text: str) -> str:
    """What people read of a text that may hold HTML, as the search page shows it.

    >>> plain_text("<h2>Soft <b>shoes</b></h2> &amp; a < b")
    ' Soft shoes  & a < b'
    """
    return html.unescape(_TAG.sub(lambda tag: "" if _WITHIN.match(tag[0]) else " ", text))


def word_spans(text: str) -> list[tuple[int, int]]:
    """Where the words of ``text`` begin and end in it.

    >>> word_spans("Don't 東京")
    [(0, 3), (4, 5), (6, 7), (7, 8)]
    """
    return [found.span() for found in _word().finditer(text)]


def bag_of_words(text: str, idf: Callable[[str], float] = lambda word: 1.0) -> dict[str, float]:
    """A text's words, each weighing sqrt(count) · idf(word), scaled to length 1 (l2); empty for a text without words.

    Function words ("the", "you") are left out: they tell how a text is written, not what it is about. So are the
    ends of "court's", "don't" and "fee(s)"; elsewhere a letter is a word ("vitamin D").

    >>> bag_of_words("the fire's " * 8 + "fire(s) " * 8 + "bush " * 9)
    {'fire': 0.8, 'bush': 0.6}
    """
    counts = Counter(word for word in tokenize(_ENDINGS.sub("", text)) if word not in FUNCTION_WORDS)
    # what emoji leave, a mark without a letter, is no word that anybody looks for
    weights = {word: count**0.5 * idf(word) for word, count in counts.items() if any(map(str.isalnum, word))}
    length = sum(weight**2 for weight in weights.values()) ** 0.5 or 1.0
    # interned: the words of all documents are mostly the same, and those of many documents are kept
    return {sys.intern(word): weight / length for word, weight in weights.items()}


def context_dependence(text: str) -> float:
    """How much a question's text leans on what was asked before, from 1 to 0 for one that stands by itself.

    Content words say what it is about: with n of them it is clip((3 - n) / 2, 0, 1), LEANING_WORDS. They count as two
    fewer where it refers to something. Other languages than English have no function words here, and lean less.

    >>> [context_dependence(text) for text in ("What about them?", "guinea pigs", "How long do guinea pigs live?")]
    [1.0, 0.5, 0.0]
    """
    low, high = CONTEXT_DEPENDENT_WORDS
    words = len(bag_of_words(text)) - _REFERRING_WORDS * bool(_REFERRING.search(text.strip()))
    return min(1.0, max(0.0, (high - words) / (high - low)))


def _class(ranges: Iterable[tuple[int, int]]) -> str:
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)


@cache
def _marks() -> list[int]:
    """The combining marks, which ``re``'s ``\\w`` and ``str.isalnum`` leave out."""
    return [point for point in range(0x300, 0x1F000) if unicodedata.category(chr(point))[0] == "M"]


@cache
def _word() -> re.Pattern[str]:
    """A word of a lower-cased text."""
    lone, marks = _class(UNSPACED_SCRIPTS), _class(zip(_marks(), _marks(), strict=True))
    return re.compile(rf"[{lone}]|(?:(?![{lone}])(?:[^\W_]|[{marks}]))+")


@cache
def lowercase_table() -> NDArray[np.uint32]:
    """What becomes of each character below U+40000: its lower-case code point, with LONE added where it is a word of
    its own, or 0 where it separates words. All above separate. Texts with Σ or İ are to be lower-cased before.
    """
    lowered = "".join(chr(point).lower()[0] for point in range(_END))
    table: NDArray[np.uint32] = np.frombuffer(lowered.encode("utf-32-le", "surrogatepass"), np.uint32).copy()
    letters = np.fromiter(map(str.isalnum, lowered), bool, _END)
    letters[_marks()] = True
    table[~letters] = 0
    for first, last in UNSPACED_SCRIPTS:
        table[first : last + 1] = np.arange(first, last + 1) | SINGLE_CHARACTER_WORD
    return table
