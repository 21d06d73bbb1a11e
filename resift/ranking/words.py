"""The words of a text as feedback counts them, and what a question says without those asked before."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable

from resift.stop_words import FUNCTION_WORDS
from resift.text import tokenize

# Up to how many content words a question takes over what it can, and from how many on it stands by itself; and how many
# fewer it counts as if it refers to something: "which others are there", "what about them".
LEANING_WORDS, _REFERRING_WORDS = (1, 3), 2
_ENDINGS = re.compile(r"(?<=\w)(?:['’](?:s|t|d|m|ll|re|ve)\b|\(e?s\))", re.IGNORECASE)
_REFERRING = re.compile(
    r"^(?:and|or|but|so|then|ok|yes|no|any|what about|how about|why not)\b"
    r"|\b(?:its?|itself|they|them|theirs?|he|him|his|she|hers?|this|that|these|those|there|here|ones?|such|same|others?"
    r"|another|else|also|too|both|either|more)\b",
    re.IGNORECASE,
)


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


def leaning(text: str) -> float:
    """How much a question's text leans on what was asked before, from 1 to 0 for one that stands by itself.

    Content words say what it is about: with n of them it is clip((3 - n) / 2, 0, 1), LEANING_WORDS. They count as two
    fewer where it refers to something. Other languages than English have no function words here, and lean less.

    >>> [leaning(text) for text in ("What about them?", "guinea pigs", "How long do guinea pigs live?")]
    [1.0, 0.5, 0.0]
    """
    low, high = LEANING_WORDS
    words = len(bag_of_words(text)) - _REFERRING_WORDS * bool(_REFERRING.search(text.strip()))
    return min(1.0, max(0.0, (high - words) / (high - low)))
