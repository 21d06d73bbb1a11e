"""Word stemmers: the Snowball stemmers, and Porter's stemmer as Lucene implements it.

Source: M. F. Porter, "An algorithm for suffix stripping", Program 14 (1980), which is Snowball's ``porter``.
Lucene's version differs in three rules:

- It contains the two rules that Porter added later, ``bli`` → ``ble`` and ``logi`` → ``log``. Without them
  "possibly" and "possible" have different stems.
- It reduces any double consonant before ``ed`` and ``ing`` to a single consonant.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, lru_cache
from importlib import import_module

# A vowel and a consonant before the suffixes of "bli" and "logi". A "y" after a consonant is a vowel.
_ADDED_RULES = re.compile(r"(?:[aeiou]|(?<=[^aeiou])y)[^aeiou].*(?=(?:bl|log)(?:ys?|is?|ies)$)")
_DOUBLE_CONSONANT = re.compile(r"([^abdefgilmnoprstuyz])\1$")
_DOUBLE_CONSONANT_BEFORE_SUFFIX = re.compile(r"([^abdefgilmnoprstuyz])\1(?:ed|ing)$")


@lru_cache(1 << 15)
def stem(word: str) -> str:
    """Return the stem of a lower-case word by Porter's algorithm, with the same results as Lucene's PorterStemFilter.

    >>> [stem(word) for word in ("running", "relational", "possibly", "trekking", "unaccented", "skies", "is")]
    ['run', 'relat', 'possibl', 'trek', 'unacc', 'ski', 'is']
    """
    if len(word) < 3:
        return word
    if word.endswith(("y", "ys", "i", "is", "ies")) and (match := _ADDED_RULES.search(word)):
        word = word[: match.end()] + ("ble" if word.startswith("bl", match.end()) else "log")
    stemmed = snowball("porter")(word)
    return _DOUBLE_CONSONANT.sub(r"\1", stemmed) if _DOUBLE_CONSONANT_BEFORE_SUFFIX.search(word) else stemmed


@cache
def snowball(language: str) -> Callable[[str], str]:
    """Return a function that stems words with a Snowball stemmer.

    Args:
        language: The name of the stemmer. This is a language such as ``english``, or ``porter`` for the original Porter
            stemmer of English.
    """
    # Not snowballstemmer.stemmer(): it uses PyStemmer if that is installed, whose rules can be different.
    stemmer = getattr(import_module(f"snowballstemmer.{language}_stemmer"), f"{language.capitalize()}Stemmer")
    # A stemmer object stores the current word, so threads cannot share it. Create a new object for each word.
    return lambda word: str(stemmer().stemWord(word))
