"""Example queries: what somebody who does not know an index could ask it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

import regex

from resift.stop_words import ANALYZER_STOP_WORDS, FUNCTION_WORDS

_READ = 1500  # characters of a text
_PART = re.compile(r"[^.,;:!?()\[\]{}<>|/\\\"“”„«»…•\n\r\t–—]+")
_WORD = regex.compile(r"[\p{L}\p{M}]+(?:[-'’][\p{L}\p{M}]+)*")
_MIN_LETTERS, _LONG = 3, 20
_EACH = 5
_WEIGHTS = {2: 1.0, 3: 1.2}  # of phrases of so many words
_STOP = ANALYZER_STOP_WORDS | FUNCTION_WORDS


def example_queries(titles: Sequence[str], texts: Sequence[str]) -> list[str]:
    """Queries that should find something among documents with these titles and texts, the best ones first.

    First two or three words that stand side by side in several of the documents, those that are in many first, none of
    which has a word of one before it; then the beginnings of titles and texts, which also scripts without spaces have.
    At most five of each kind.
    """
    counts: Counter[str] = Counter()
    for text in [f"{title}\n{text}" for title, text in zip(titles, texts, strict=True)]:
        counts.update(set(_phrases(text[:_READ])))
    # three words say more than two of them, if they are in nearly as many documents
    ordered = sorted(counts, key=lambda one: (-counts[one] * _WEIGHTS[len(one.split())], -len(one), one))
    found, used = [], set[str]()
    for phrase in ordered:
        words = set(phrase.split())
        if counts[phrase] > 1 and not words & used:
            found.append(phrase)
            used |= words
    begun = [list(filter(None, map(_beginning, some)))[:_EACH] for some in (titles, texts)]
    return list(dict.fromkeys([*found[:_EACH], *begun[0], *begun[1]]))


def _phrases(text: str) -> Iterator[str]:
    """Two or three words that stand side by side, none of which is a stop word, nor comes twice."""
    for part in _PART.findall(text):
        words = part.lower().split()
        for length in _WEIGHTS:
            for start in range(len(words) - length + 1):
                phrase = words[start : start + length]
                if all(map(_tells, phrase)) and len(set(phrase)) == length:
                    yield " ".join(phrase)


def _tells(word: str) -> bool:
    return bool(_WORD.fullmatch(word)) and _MIN_LETTERS <= len(word) <= _LONG and word not in _STOP


def _beginning(text: str) -> str:
    """The first words of a text, at most three, or the first letters where there are no spaces.

    >>> _beginning("  The bush fires of Sydney")
    'bush fires Sydney'
    """
    words = [word for word in _WORD.findall(text[:200]) if word.lower() not in _STOP]
    return " ".join(words[:3])[:_LONG].strip() if words else ""
