"""Keywords that serve as queries in training and evaluation, and typing errors in them.

The keywords of a document come from RAKE (Rose et al. 2010). RAKE's candidates are the runs of words between stop words
and punctuation. The score of a word is its degree (the total length of the candidates that contain it) divided by its
frequency. The score of a candidate is the sum of its words' scores.
"""

from __future__ import annotations

import re
from collections import Counter

import numpy as np

from resift.text import FUNCTION_WORDS

# Largest number of words in a keyword.
MAX_WORDS = 3
# Kinds of noise that with_typing_error can add to a query.
NOISES = ("clean", "typo", "word left out", "joined", "ending")
# A word, a punctuation character, or a blank line.
_TOKEN = re.compile(r"[^\W_]+|[^\w\s]|_|\n\s*\n")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def rake_keywords(text: str, count: int | None = None) -> list[str]:
    """Extract the keywords of a text by RAKE, best first. A keyword has at most three words.

    Args:
        text: The text to search for keywords.
        count: The maximum number of keywords. None returns all keywords.

    Source:
        Rose et al. 2010, "Automatic keyword extraction from individual documents".

    >>> rake_keywords("Compatibility of systems of linear constraints over the set of natural numbers.")
    ['linear constraints', 'natural numbers', 'compatibility', 'systems', 'set']
    """
    candidates = _candidates(text)
    frequency, degree = Counter[str](), Counter[str]()
    for words in candidates:
        frequency.update(words)
        degree.update({word: len(words) for word in words})
    scores = {words: sum(degree[word] / frequency[word] for word in words) for words in dict.fromkeys(candidates)}
    return [" ".join(words) for words in sorted(scores, key=lambda words: -scores[words])][:count]


def _candidates(text: str) -> list[tuple[str, ...]]:
    """Split a text into candidates for keywords: runs of at most three words.

    Runs end at stop words, numbers, single letters and punctuation. Longer runs are left out.

    Args:
        text: The text to search for keywords.

    Returns:
        The words of each run, in lower case.
    """
    candidates: list[tuple[str, ...]] = []
    run: list[str] = []
    for token in [*_TOKEN.findall(text.lower()), "."]:  # the full stop ends the last run
        if token[0].isalpha() and len(token) > 1 and token not in FUNCTION_WORDS:
            run.append(token)
        else:
            if 0 < len(run) <= MAX_WORDS:
                candidates.append(tuple(run))
            run = []
    return candidates


def with_typing_error(query: str, kind: str, rng: np.random.Generator) -> str:
    """Return a query with typing errors of one kind, to train and test word2doc.

    Args:
        query: The text of the query.
        kind: One of ``NOISES``:

            - ``clean``: No change.
            - ``typo``: Swap two letters, or drop, double or replace a letter, in each word of four letters or more.
            - ``word left out``: Remove a random word.
            - ``joined``: Remove the space between the first two words.
            - ``ending``: Cut or add an ending such as "ing" in each word of four letters or more.
        rng: The source of random numbers.

    Returns:
        The changed query, or the unchanged query if it is too short for this kind of error.
    """
    words = query.split()
    if kind == "typo":
        return " ".join(_with_typo(word, rng) if len(word) > 3 else word for word in words)
    if kind == "word left out" and len(words) > 1:
        words.pop(int(rng.integers(len(words))))
    elif kind == "joined" and len(words) > 1:
        words[:2] = ["".join(words[:2])]
    elif kind == "ending":
        words = [_with_other_ending(word, rng) if len(word) > 3 else word for word in words]
    return " ".join(words)


def _with_typo(word: str, rng: np.random.Generator) -> str:
    """Make a random typing error in a word.

    A letter that is neither first nor last is dropped, doubled, replaced, or swapped with the next letter.

    Args:
        word: The word to change.
        rng: The source of random numbers.
    """
    position, kind = int(rng.integers(1, len(word) - 1)), int(rng.integers(4))
    before, letter, after = word[:position], word[position], word[position + 1 :]
    if kind == 0:
        return before + after[0] + letter + after[1:]
    if kind == 1:
        return before + after
    if kind == 2:
        return before + letter + letter + after
    return before + _LETTERS[int(rng.integers(len(_LETTERS)))] + after


def _with_other_ending(word: str, rng: np.random.Generator) -> str:
    """Change the ending of an English word: cut off a common ending, or add a random ending if there is none.

    Args:
        word: The word to change.
        rng: The source of random numbers.
    """
    for ending in ("ing", "ed", "es", "s", "ly"):
        if word.endswith(ending) and len(word) > len(ending) + 3:
            return word.removesuffix(ending)
    return word + ("s", "ed", "ing")[int(rng.integers(3))]
