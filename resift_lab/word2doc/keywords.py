"""Keywords of documents as stand-ins for queries: RAKE, and what a hurried person makes of them.

RAKE (Rose et al. 2010): candidates are the runs of words between stop words and signs; a word scores its degree (the
lengths of the candidates that hold it) over its frequency, a candidate the sum of its words' scores.
"""

from __future__ import annotations

import re
from collections import Counter

import numpy as np

from resift.text import FUNCTION_WORDS

MAX_WORDS = 3
NOISES = ("clean", "typo", "word left out", "joined", "ending")
_PART = re.compile(r"[^\W_]+|[^\w\s]|_|\n\s*\n")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def rake(text: str, count: int | None = None) -> list[str]:
    """A text's keywords of at most three words, best first, each once; at most ``count``.

    >>> rake("Compatibility of systems of linear constraints over the set of natural numbers.")
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
    """The runs of at most three words between stop words, numbers, single letters and signs."""
    candidates: list[tuple[str, ...]] = []
    run: list[str] = []
    for token in [*_PART.findall(text.lower()), "."]:  # the full stop ends the last run
        if token[0].isalpha() and len(token) > 1 and token not in FUNCTION_WORDS:
            run.append(token)
        else:
            if 0 < len(run) <= MAX_WORDS:
                candidates.append(tuple(run))
            run = []
    return candidates


def with_noise(query: str, kind: str, rng: np.random.Generator) -> str:
    """The query as a hurried person writes it; unchanged where it cannot have a noise of this kind.

    ``kind`` is one of NOISES. ``clean``: nothing; ``typo``: in every word of four letters or more two letters change
    places, or one is left out, doubled or another; ``word left out``; ``joined``: the first two words without the blank
    between them; ``ending``: the words' ends cut or added to.
    """
    words = query.split()
    if kind == "typo":
        return " ".join(_with_typo(word, rng) if len(word) > 3 else word for word in words)
    if kind == "word left out" and len(words) > 1:
        words.pop(int(rng.integers(len(words))))
    elif kind == "joined" and len(words) > 1:
        words[:2] = ["".join(words[:2])]
    elif kind == "ending":
        words = [_inflected(word, rng) if len(word) > 3 else word for word in words]
    return " ".join(words)


def _with_typo(word: str, rng: np.random.Generator) -> str:
    position, kind = int(rng.integers(1, len(word) - 1)), int(rng.integers(4))
    before, letter, after = word[:position], word[position], word[position + 1 :]
    if kind == 0:
        return before + after[0] + letter + after[1:]
    if kind == 1:
        return before + after
    if kind == 2:
        return before + letter + letter + after
    return before + _LETTERS[int(rng.integers(len(_LETTERS)))] + after


def _inflected(word: str, rng: np.random.Generator) -> str:
    for ending in ("ing", "ed", "es", "s", "ly"):
        if word.endswith(ending) and len(word) > len(ending) + 3:
            return word.removesuffix(ending)
    return word + ("s", "ed", "ing")[int(rng.integers(3))]
