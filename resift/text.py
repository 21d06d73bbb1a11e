"""Tokenize texts, and count their words for feedback.

Training, encoding and queries all use the same definition of a word:

- The text is lower-cased by Unicode's full mapping: "Straße" becomes "straße", "ΣΟΦΟΣ" becomes "σοφος" with a final
  "ς", and "İ" becomes "i" and a combining dot.
- A word is a maximal run of letters, digits and combining marks (Unicode categories L* and N*, and M* below
  U+1F000). All other characters separate words, including apostrophes, underscores, NULs and lone surrogates:
  "don't" gives "don" and "t".
- Each character of Han, Hiragana and Katakana is a word, because these scripts write no spaces between words.
  :func:`searchable_words` finds longer words for searches.
- Texts are not normalised: "é" as one code point and "é" as two code points are different words.

:func:`tokenize` is the definition. :func:`lowercase_table` is the same definition as a table, for the compiled
look-up in :mod:`resift.vectors.kernels`.
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
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

# Kana without the punctuation between them: "゛", "゜", "゠", "・"
_HIRAGANA = ((0x3040, 0x309A), (0x309D, 0x309F))
_KATAKANA = ((0x30A1, 0x30FA), (0x30FC, 0x30FF))
_HAN = ((0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x3FFFF))

UNSPACED_SCRIPTS = (*_HIRAGANA, *_KATAKANA, *_HAN)
"""Code point ranges (first, last) of characters that are words by themselves."""

SINGLE_CHARACTER_WORD = 1 << 31
"""Flag in :func:`lowercase_table` of characters that are words by themselves."""

_TABLE_SIZE = 0x40000
_ASCII = "".join(chr(point).lower() if chr(point).isalnum() else " " for point in range(128))

# Most English texts have no other characters beyond ASCII. Replacing them lets tokenize use its ASCII path, which is
# about ten times as fast.
_TYPOGRAPHIC = re.compile("[\xa0‘’“”–—…]")

CONTEXT_DEPENDENT_WORDS = (1, 3)
"""A question of at most 1 content word depends on earlier questions fully, a question of 3 or more not at all."""

_REFERENCE_WORDS = 2  # subtracted from the number of content words if a question refers to something
_SUFFIXES = re.compile(r"(?<=\w)(?:['’](?:s|t|d|m|ll|re|ve)\b|\(e?s\))", re.IGNORECASE)
_REFERENCE = re.compile(
    r"^(?:and|or|but|so|then|ok|yes|no|any|what about|how about|why not)\b"
    r"|\b(?:its?|itself|they|them|theirs?|he|him|his|she|hers?|this|that|these|those|there|here|ones?|such|same|others?"
    r"|another|else|also|too|both|either|more)\b",
    re.IGNORECASE,
)

# The HTML tags that plain_text removes; resift/reranker/static/dom.js has the same list. Any other text between "<"
# and ">" belongs to the text itself.
_TAG = re.compile(
    r"<(script|style)\b.*?(?:</\1>|$)|<!--.*?(?:-->|$)|</?(?:[abipqsu]|[bh]r|blockquote|center|code|d[dlt]|div|em|font|h\d"
    r"|i?frame|img|li|[ou]l|section|small|span|strong|su[bp]|t[dhr]|table|tbody|thead)(?:[\s/][^<>]*)?(?:>|$)",
    re.IGNORECASE | re.DOTALL,
)
_INLINE_TAG = re.compile(r"</?(?:[abiqsu]|em|font|small|span|strong|su[bp])\b", re.IGNORECASE)


def _stop_words() -> Iterator[frozenset[str]]:
    """Read the lists of stop words in ``data/stop_words.txt``, and yield each list as a set."""
    for section in Path(__file__).with_name("data").joinpath("stop_words.txt").read_text("utf-8").split("#")[1:]:
        yield frozenset(section.partition("\n")[2].split())


STOP_WORDS, _CONTENT_WORDS, ANALYZER_STOP_WORDS = _stop_words()

FUNCTION_WORDS = STOP_WORDS - _CONTENT_WORDS
"""English stop words without those that can be the subject of a text, such as "fire" and "computer"."""


def tokenize(text: str) -> list[str]:
    """Split a text into lower-case words.

    >>> tokenize("Don't panic: 42 naïve_users")
    ['don', 't', 'panic', '42', 'naïve', 'users']
    >>> tokenize("東京 tower")
    ['東', '京', 'tower']
    """
    spaced = text if text.isascii() else _TYPOGRAPHIC.sub(" ", text)
    return spaced.translate(_ASCII).split() if spaced.isascii() else _word_pattern().findall(text.lower())


def plain_text(text: str) -> str:
    """Remove HTML tags and decode HTML entities in a text.

    Inline tags such as ``<b>`` are removed. Other known tags become a space.

    >>> plain_text("<h2>Soft <b>shoes</b></h2> &amp; a < b")
    ' Soft shoes  & a < b'
    """
    return html.unescape(_TAG.sub(lambda tag: "" if _INLINE_TAG.match(tag[0]) else " ", text))


def word_spans(text: str) -> list[tuple[int, int]]:
    """Return the start and end positions of each word in a text.

    >>> word_spans("Don't 東京")
    [(0, 3), (4, 5), (6, 7), (7, 8)]
    """
    return [match.span() for match in _word_pattern().finditer(text)]


def _character_class(ranges: Iterable[tuple[int, int]]) -> str:
    """Return ranges of code points in the notation of a regular expression's character class, such as ``a-z0-9``."""
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)


_UNSPACED_RUN = re.compile(
    f"(?P<han>[{_character_class(_HAN)}]+)"
    f"|(?P<katakana>[{_character_class(_KATAKANA)}]+)"
    f"|(?P<hiragana>[{_character_class(_HIRAGANA)}]+)"
)


def searchable_words(text: str) -> list[str]:
    """Split a text into lower-case words that can be searched, once for each occurrence.

    The words are those of :func:`tokenize`, except in scripts without spaces, where a single character says little.
    There, the words are pairs of Han characters, which most analyzers for Chinese and Japanese know, too, and runs of
    Katakana. Hiragana mostly writes particles and endings. It is left out, unless the text has no other words.

    >>> searchable_words("Tokyo の画像処理"), searchable_words("ゲームを作る"), searchable_words("さくら")
    (['tokyo', '画像', '像処', '処理'], ['ゲーム', '作'], ['さくら'])
    """
    words, hiragana = list[str](), list[str]()

    def cut(run: re.Match[str]) -> str:
        if run["han"] and len(run[0]) > 1:
            words.extend(run[0][start : start + 2] for start in range(len(run[0]) - 1))
        else:
            (hiragana if run["hiragana"] else words).append(run[0])
        return " "

    spaced = text if text.isascii() else _UNSPACED_RUN.sub(cut, text)
    return [*tokenize(spaced), *words] or hiragana


def bag_of_words(text: str, idf: Callable[[str], float] = lambda word: 1.0) -> dict[str, float]:
    """Return the words of a text with their weights, which are scaled to a Euclidean length of 1.

    The weight of a word is the square root of its count in the text, times its inverse document frequency.

    Function words ("the", "you") are left out, because they describe the style of a text and not its subject. The
    suffixes of "court's", "don't" and "fee(s)" are left out too. Other single letters are words ("vitamin D"). Chinese
    and Japanese texts are split into pairs of Han characters and runs of Katakana.

    Args:
        text: The text to split into words.
        idf: Function that returns the inverse document frequency of a word. The default is 1 for all words.

    Returns:
        The weight of each word. Empty for a text without words.

    >>> bag_of_words("the fire's " * 8 + "fire(s) " * 8 + "bush " * 9)
    {'fire': 0.8, 'bush': 0.6}
    """
    counts = Counter(word for word in searchable_words(_SUFFIXES.sub("", text)) if word not in FUNCTION_WORDS)
    # An emoji can leave a combining mark without a letter. Nobody searches for that, so it is not counted.
    weights = {word: count**0.5 * idf(word) for word, count in counts.items() if any(map(str.isalnum, word))}
    length = sum(weight**2 for weight in weights.values()) ** 0.5 or 1.0
    # Interned strings save memory: caches contain the bags of many documents, which share most of their words.
    return {sys.intern(word): weight / length for word, weight in weights.items()}


def char_ngrams(word: str, sizes: Iterable[int]) -> list[str]:
    """Return the character n-grams of ``"<word>"`` for each size.

    The brackets mark the beginning and the end of the word. For a size larger than the marked word, the only n-gram is
    the marked word itself.

    Source:
        Bojanowski et al. 2017 (fastText).

    >>> char_ngrams("fire", (3, 5))
    ['<fi', 'fir', 'ire', 're>', '<fire', 'fire>']
    """
    marked = f"<{word}>"
    return [marked[start : start + size] for size in sizes for start in range(max(1, len(marked) - size + 1))]


def hashed_ngrams(word: str, sizes: Iterable[int], buckets: int) -> list[int]:
    """Return the hash buckets of a word's character n-grams.

    Args:
        word: The word to split into n-grams.
        sizes: The sizes of the n-grams, in characters.
        buckets: The number of buckets.

    Returns:
        A bucket number from 0 to ``buckets`` - 1 for each n-gram that :func:`char_ngrams` returns: the CRC-32 of the
        n-gram's UTF-8 bytes, modulo ``buckets``.
    """
    return [crc32(ngram.encode("utf-8", "surrogatepass")) % buckets for ngram in char_ngrams(word, sizes)]


def context_dependence(text: str) -> float:
    """Return how much a question depends on the previous questions, from 0 (self-contained) to 1 (fully dependent).

    The value is 1 for questions with at most one content word, 0.5 for two content words, and 0 for more (see
    :data:`CONTEXT_DEPENDENT_WORDS`). A content word is any word except function words such as "the". If the question
    refers to previous questions ("them", "what about"), two is subtracted from the number of content words. Only
    English function words are known. Questions in other languages thus appear to have more content words, and to
    depend less on previous questions.

    Args:
        text: The text of the question.

    >>> [context_dependence(text) for text in ("What about them?", "guinea pigs", "How long do guinea pigs live?")]
    [1.0, 0.5, 0.0]
    """
    low, high = CONTEXT_DEPENDENT_WORDS
    words = len(bag_of_words(text))
    if _REFERENCE.search(text.strip()):
        words -= _REFERENCE_WORDS
    return min(1.0, max(0.0, (high - words) / (high - low)))


@cache
def _combining_marks() -> list[int]:
    """Return the code points of all combining marks, such as accents that follow their letter.

    Regular expressions and ``str.isalnum`` do not count these characters as letters.
    """
    return [point for point in range(0x300, 0x1F000) if unicodedata.category(chr(point))[0] == "M"]


@cache
def _word_pattern() -> re.Pattern[str]:
    """Return a regular expression that matches a word in a lower-case text."""
    marks = _character_class((point, point) for point in _combining_marks())
    unspaced = _character_class(UNSPACED_SCRIPTS)
    return re.compile(rf"[{unspaced}]|(?:(?![{unspaced}])(?:[^\W_]|[{marks}]))+")


@cache
def lowercase_table() -> NDArray[np.uint32]:
    """Return a table for splitting texts into lower-case words in compiled code.

    The table covers the characters below U+40000. All other characters separate words. Texts that contain Σ or İ must
    be converted to lower case first, because the lower case of Σ depends on its context, and the lower case of İ has
    two characters.

    Returns:
        Array of shape (0x40000,). It contains 0 for characters that separate words, and the lower-case code point for
        other characters, plus :data:`SINGLE_CHARACTER_WORD` if the character is a word by itself.
    """
    lowered = "".join(chr(point).lower()[0] for point in range(_TABLE_SIZE))
    table: NDArray[np.uint32] = np.frombuffer(lowered.encode("utf-32-le", "surrogatepass"), np.uint32).copy()
    in_words = np.fromiter(map(str.isalnum, lowered), bool, _TABLE_SIZE)
    in_words[_combining_marks()] = True
    table[~in_words] = 0
    for first, last in UNSPACED_SCRIPTS:
        table[first : last + 1] = np.arange(first, last + 1) | SINGLE_CHARACTER_WORD
    return table
