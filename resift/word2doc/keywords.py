"""Keywords of documents as stand-ins for queries: RAKE, and what a hurried person makes of them.

RAKE (Rose et al. 2010): candidates are the runs of words between stop words and signs; a word scores its degree (the
lengths of the candidates that hold it) over its frequency, a candidate the sum of its words' scores.
"""

from __future__ import annotations

import re
from collections import Counter

import numpy as np

from resift.stop_words import FUNCTION_WORDS

LONGEST = 3
NOISES = ("clean", "typo", "word left out", "joined", "ending")
_PART = re.compile(r"[^\W_]+|[^\w\s]|_|\n\s*\n")


def rake(text: str, most: int | None = None) -> list[str]:
    """A text's keywords of at most three words, best first, each once.

    >>> rake("Compatibility of systems of linear constraints over the set of natural numbers.")
    ['linear constraints', 'natural numbers', 'compatibility', 'systems', 'set']
    """
    candidates: list[tuple[str, ...]] = []
    run: list[str] = []
    for token in [*_PART.findall(text.lower()), "."]:
        if token[0].isalpha() and len(token) > 1 and token not in FUNCTION_WORDS:
            run.append(token)
        else:
            if 0 < len(run) <= LONGEST:
                candidates.append(tuple(run))
            run = []
    frequency, degree = Counter[str](), Counter[str]()
    for words in candidates:
        frequency.update(words)
        degree.update({word: len(words) for word in words})
    scores = {words: sum(degree[word] / frequency[word] for word in words) for words in dict.fromkeys(candidates)}
    return [" ".join(words) for words in sorted(scores, key=lambda words: -scores[words])][:most]


def noisy(query: str, kind: str, rng: np.random.Generator) -> str:
    """The query with a slip of a ``kind`` of NOISES in it; as it is where it cannot have that.

    ``typo``: two letters change places, one is left out, doubled or another, in every word of four letters or more;
    ``word left out``; ``joined``: the first two words without the blank; ``ending``: the words' ends cut or added.
    """
    words = query.split()
    if kind == "typo":
        return " ".join(_mistyped(word, rng) if len(word) > 3 else word for word in words)
    if kind == "word left out" and len(words) > 1:
        words.pop(int(rng.integers(len(words))))
    elif kind == "joined" and len(words) > 1:
        words[:2] = ["".join(words[:2])]
    elif kind == "ending":
        words = [_inflected(word, rng) if len(word) > 3 else word for word in words]
    return " ".join(words)


def _mistyped(word: str, rng: np.random.Generator) -> str:
    place, kind = int(rng.integers(1, len(word) - 1)), int(rng.integers(4))
    before, letter, after = word[:place], word[place], word[place + 1 :]
    if kind == 0:
        return before + after[0] + letter + after[1:]
    if kind == 1:
        return before + after
    other = letter if kind == 2 else "abcdefghijklmnopqrstuvwxyz"[int(rng.integers(26))]
    return before + letter + letter + after if kind == 2 else before + other + after


def _inflected(word: str, rng: np.random.Generator) -> str:
    for ending in ("ing", "ed", "es", "s", "ly"):
        if word.endswith(ending) and len(word) > len(ending) + 3:
            return word.removesuffix(ending)
    return word + ("s", "ed", "ing")[int(rng.integers(3))]
