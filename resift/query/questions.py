"""Query clauses for a text that a person typed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from resift.query.dsl import MAX_OWN_CLAUSES, Body, text_clause
from resift.text import FUNCTION_WORDS, tokenize, word_spans

FUNCTION_WORD_BOOST = 0.1
# Weight of the scores in all fields but the best field. A document with "fire" in its title and in its text is more
# about fire than a document with "fire" in either.
TIE_BREAKER = 0.3
# The number of words that replace a text with more words than OpenSearch accepts. For a pasted document, a few
# distinctive words find more than many words: 50 to 200 do better than 400, and 400 better than as many as possible.
_DISTINCTIVE_WORDS = 100
# A text is shortened only if its number of clauses exceeds MAX_OWN_CLAUSES by more than this. OpenSearch allows 1,024.
_TOLERANCE = 20
_PUNCTUATION = ".,;:?!\"'()"


def question_clause(text: str, fields: Sequence[str]) -> Body:
    """Build the OpenSearch query clause for a text that a person typed, which may be a question.

    Function words ("what", "about", "is") get a tenth of the weight of other words. Otherwise the form of a question
    would outweigh its subject. An upper-case function word within lower-case text is a name ("US", "IT") and keeps its
    weight. If several fields are searched, the score is that of the best field plus :data:`TIE_BREAKER` times the
    scores of the other fields.

    Args:
        text: The text to search for.
        fields: The names of the searched fields. If empty, all fields are searched.
    """
    settings: dict[str, Any] = {"tie_breaker": TIE_BREAKER} if len(fields) > 1 else {}
    words = text.split()
    weak_words: list[str] = []
    strong_words: list[str] = []
    for word in words:
        is_weak = _is_function_word(word, may_be_name=not text.isupper())
        (weak_words if is_weak else strong_words).append(word)
    if not weak_words or not strong_words:
        return text_clause(text, fields, **settings)
    strong = text_clause(" ".join(strong_words), fields, **settings)
    weak = text_clause(" ".join(weak_words), fields, **settings, boost=FUNCTION_WORD_BOOST)
    return {"bool": {"should": [strong, weak]}}


def _is_function_word(word: str, may_be_name: bool) -> bool:
    """Return whether a word of a question is a function word, such as "what" or "is".

    Args:
        word: The word, possibly with punctuation.
        may_be_name: Whether an upper-case word such as "US" is a name. False if the whole question is in upper case.
    """
    bare = word.strip(_PUNCTUATION)
    return bare.lower() in FUNCTION_WORDS and not (may_be_name and bare.isupper() and len(bare) > 1)


def shorten_to_distinctive_words(text: str, field_count: int, rarity: Callable[[str], float]) -> str:
    """Shorten a query text to its most distinctive words if OpenSearch would reject the whole text as too long.

    The most distinctive words are frequent in the text and rare elsewhere. For each word, the square root of its count
    in the text is multiplied by its rarity. The words with the largest products remain, usually up to 100. In scripts
    without spaces, everything between two punctuation marks counts as a single word.

    Args:
        text: The query text, which may be a whole pasted document.
        field_count: The number of searched fields. OpenSearch limits the number of words times the number of fields.
        rarity: A function that returns how rare a word is, for example its inverse document frequency.

    Returns:
        The whole text if it is short enough, otherwise the distinctive words in the order of the text.

    >>> shorten_to_distinctive_words("bush fire", 2, len)
    'bush fire'
    """
    if (len(tokenize(text)) + 1) * field_count <= MAX_OWN_CLAUSES + _TOLERANCE:  # each field counts as a clause itself
        return text
    counts = _word_counts(text.lower())
    words = [word for word in counts if word not in FUNCTION_WORDS]
    room = min(_DISTINCTIVE_WORDS, max(1, MAX_OWN_CLAUSES // (2 * field_count)))
    chosen: dict[str, str] = {}
    for word in sorted(words, key=lambda word: -(counts[word] ** 0.5) * rarity(word)):
        size = len(tokenize(word))
        chosen[word] = word if size <= room else word[:room]
        room -= size
        if room <= 0:
            break
    return " ".join(chosen[word] for word in counts if word in chosen)


def _word_counts(text: str) -> Mapping[str, int]:
    """Count how often each word occurs in a text.

    Neighbouring words with nothing between them, as in Chinese or Japanese text, count as a single word.
    """
    spans: list[list[int]] = []
    for start, end in word_spans(text):
        if spans and spans[-1][1] == start:
            spans[-1][1] = end
        else:
            spans.append([start, end])
    return Counter(text[start:end] for start, end in spans)
