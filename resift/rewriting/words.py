"""Clauses for words that a session, or the nearest words of an index, add to a query."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice

from resift.query.dsl import MAX_CLAUSES, Body, NestedField, text_clause
from resift.text import ANALYZER_STOP_WORDS, tokenize

# The number of fields that a search of all fields is assumed to search.
_UNKNOWN_FIELDS = 50


def query_length(text: str) -> float:
    """Return the length (l2 norm) of the word counts of a text, at least 1.

    The stop words of the analyzer ``english`` are not counted. Most words of a long question are stop words, and
    would give too much weight to the expansion words.
    """
    counts = Counter(word for word in tokenize(text) if word not in ANALYZER_STOP_WORDS)
    return float(sum(count**2 for count in counts.values()) ** 0.5) or 1.0


def word_room(text: str, fields: Sequence[str]) -> int:
    """Return how many further words may be added to a query before OpenSearch refuses it as too large.

    Args:
        text: The text that the query already searches for.
        fields: The fields that are searched. All fields if empty.
    """
    return max(0, MAX_CLAUSES // (len(fields) or _UNKNOWN_FIELDS) - len(tokenize(text)))


def word_clauses(weights: Mapping[str, float], fields: Sequence[str], length: float = 1.0) -> list[Body]:
    """Return a clause for each word, with a boost of its weight times the length of the query.

    Args:
        weights: The words and their weights.
        fields: The fields that are searched. All fields if empty.
        length: The length of the query, as :func:`query_length` returns it.
    """
    boosts = {word: round(weight * length, 4) for word, weight in weights.items()}
    if len(fields) == 1 and not isinstance(fields[0], NestedField) and {"*", "^"}.isdisjoint(fields[0]):
        # In a single field, ``match`` does the same as ``multi_match``, and OpenSearch parses it faster.
        return [
            {"match": {fields[0]: {"query": word, "lenient": True, "boost": boost}}} for word, boost in boosts.items()
        ]
    ((kind, settings),) = text_clause("", fields).items()
    if kind == "multi_match":  # the settings for all words are the same, and made once
        return [{kind: {**settings, "query": word, "boost": boost}} for word, boost in boosts.items()]
    return [text_clause(word, fields, boost=boost) for word, boost in boosts.items()]


def related_word_clauses(nearest: Mapping[str, Mapping[str, float]], fields: Sequence[str], room: int) -> list[Body]:
    """Return a clause for each word of a query for which the index has words of similar meaning.

    The clause matches documents that contain one of the similar words, but not the word itself. Only the similar word
    with the highest score counts.

    Args:
        nearest: For words of the query, the nearest words of the index and their weights.
        fields: The fields that are searched. All fields if empty.
        room: The number of words that may be added to the query. If it is too small, no clauses are returned.
    """
    most = room // len(nearest) - 1 if nearest else 0
    if most < 1:
        return []
    clauses: list[Body] = []
    for word, weights in nearest.items():
        best = dict(islice(weights.items(), most))
        alternatives = {"dis_max": {"queries": word_clauses(best, fields)}}
        clauses.append({"bool": {"must": [alternatives], "must_not": word_clauses({word: 1.0}, fields)}})
    return clauses
