"""Stemmers: Snowball's, and Porter's as Lucene has it.

M. F. Porter, "An algorithm for suffix stripping", Program 14 (1980), is Snowball's ``porter``. Lucene's has the two
rules besides that its author added later, ``bli`` → ``ble`` and ``logi`` → ``log``, without which "possibly" does not
find "possible", and makes any double consonant single before ``ed`` and ``ing``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, lru_cache
from importlib import import_module

# a vowel and a consonant before it; y is a vowel after a consonant
_ADDED = re.compile(r"(?:[aeiou]|(?<=[^aeiou])y)[^aeiou].*(?=(?:bl|log)(?:ys?|is?|ies)$)")
_DOUBLE = re.compile(r"([^abdefgilmnoprstuyz])\1$")


@lru_cache(1 << 15)
def stem(word: str) -> str:
    """The stem of a word in lower case, by Porter's rules.

    >>> [stem(word) for word in ("running", "relational", "possibly", "trekking", "skies", "is")]
    ['run', 'relat', 'possibl', 'trek', 'ski', 'is']
    """
    if len(word) < 3:
        return word
    if word.endswith(("y", "ys", "i", "is", "ies")) and (added := _ADDED.search(word)):
        word = word[: added.end()] + ("ble" if word.startswith("bl", added.end()) else "log")
    stemmed = snowball("porter")(word)
    return _DOUBLE.sub(r"\1", stemmed) if word.endswith(("ed", "ing")) else stemmed


@cache
def snowball(language: str) -> Callable[[str], str]:
    """Snowball's stemmer of a language, or its ``porter``; it is loaded only where it is asked for."""
    # Not by the package's factory, which takes PyStemmer, perhaps of other rules, where that is installed.
    stemmer = getattr(import_module(f"snowballstemmer.{language}_stemmer"), f"{language.capitalize()}Stemmer")
    # a new one for each word: they keep it while they stem it, and several threads may
    return lambda word: str(stemmer().stemWord(word))
