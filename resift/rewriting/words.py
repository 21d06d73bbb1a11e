"""Clauses for the words that are added to a query: a session's expansion words, and related words of the index."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, islice, takewhile

from resift.query.clause_count import term_count
from resift.query.dsl import MAX_OWN_CLAUSES, Body, NestedField, text_clause, without_boost
from resift.query.tree import field_boost
from resift.text import ANALYZER_STOP_WORDS, searchable_words


def query_word_norm(text: str) -> float:
    """Return the Euclidean norm of a query's word counts, or 1 if the query has no words.

    The boosts of expansion words (words that a session adds to the query) are proportional to this norm. Stop words are
    not counted. They would make the norm of a long question, and thereby the boosts, too large.

    Args:
        text: The text of the query.
    """
    counts = Counter(word for word in searchable_words(text) if word not in ANALYZER_STOP_WORDS)
    return float(sum(count**2 for count in counts.values()) ** 0.5) or 1.0


def addable_term_count(clause_count: int, clauses_per_term: int) -> int:
    """Return how many terms can be added to a query without exceeding OpenSearch's limit on the number of clauses.

    Args:
        clause_count: The number of clauses that the query has already.
        clauses_per_term: The number of clauses that each added term needs. See
            :meth:`resift.query.clause_count.ClauseCounter.clauses_per_term`.
    """
    return max(0, (MAX_OWN_CLAUSES - clause_count) // clauses_per_term)


def addable_word_count(words: Iterable[str], clause_count: int, clauses_per_term: int) -> int:
    """Return how many words, beginning with the first, can be added to a query within the limit on clauses.

    Args:
        words: The words. Analyzers split some of them into several terms
            (see :func:`resift.query.clause_count.term_count`).
        clause_count: The number of clauses that the query has already.
        clauses_per_term: The number of clauses that each added term needs.

    >>> words = ["fire", "画像", "bush"]
    >>> addable_word_count(words, 996, 1), addable_word_count(words, 997, 1), addable_word_count(words, 998, 1)
    (3, 2, 1)
    """
    max_terms = addable_term_count(clause_count, clauses_per_term)
    return sum(1 for _ in takewhile(lambda terms: terms <= max_terms, accumulate(map(term_count, words))))


def average_boosts(fields: Sequence[str]) -> tuple[Sequence[str], float]:
    """Replace different boosts of the searched fields by a single factor for the weights of expansion words.

    The words of a query that boosts titles mostly match titles, but expansion words mostly match longer texts. With the
    boosts of the fields, expansion words would therefore count less (see benchmarks/lexical_sessions.py --boost).

    Args:
        fields: The names of the fields, with boosts as in ``title^2``.

    Returns:
        The fields without boosts, and the mean boost. Fields with the boost 0 are left out. If all boosts are equal,
        the fields are returned unchanged, and the factor is 1.

    >>> average_boosts(["title^3", "text"]), average_boosts(["title^3", "text^3"]), average_boosts(["a^2", "b^0"])
    ((['title', 'text'], 2.0), (['title^3', 'text^3'], 1.0), (['a'], 2.0))
    """
    boosts = [field_boost(field) for field in fields]
    if len(set(boosts)) < 2:
        return fields, 1.0
    names = [without_boost(field) for field, boost in zip(fields, boosts, strict=True) if boost]
    return list(dict.fromkeys(names)), sum(boosts) / len(names)


def word_clauses(weights: Mapping[str, float], fields: Sequence[str], factor: float = 1.0) -> list[Body]:
    """Build a query clause for each word. Its boost is the weight of the word, multiplied by a common factor.

    Args:
        weights: The words and their weights.
        fields: The fields in which the words are searched. If empty, all fields are searched.
        factor: The common factor of all boosts, which is proportional to :func:`query_word_norm` for expansion words.
    """
    # Small factors need more decimal places.
    digits = 4 - math.floor(math.log10(factor)) if 0 < factor < 0.1 else 4
    boosts = {word: round(weight * factor, digits) for word, weight in weights.items()}
    if len(fields) == 1 and not isinstance(fields[0], NestedField) and {"*", "^"}.isdisjoint(fields[0]):
        # In a single field, ``match`` does the same as ``multi_match``, and OpenSearch parses it faster.
        return [
            {"match": {fields[0]: {"query": word, "lenient": True, "boost": boost}}} for word, boost in boosts.items()
        ]
    ((kind, settings),) = text_clause("", fields).items()
    if kind == "multi_match":  # the settings for all words are the same, and made once
        return [{kind: {**settings, "query": word, "boost": boost}} for word, boost in boosts.items()]
    return [text_clause(word, fields, boost=boost) for word, boost in boosts.items()]


def best_related_words(nearest: Mapping[str, Mapping[str, float]], max_words: int) -> dict[str, dict[str, float]]:
    """Return the best related words of each query word, as many as a query has room for.

    Related words are words of the index that are similar in meaning to a query word.

    Args:
        nearest: For each query word, its related words with their weights, best first.
        max_words: The maximum number of words in the result, including the query words.

    Returns:
        For each query word, its best related words with their weights. Empty if ``max_words`` does not allow a related
        word for every query word.

    >>> best_related_words({"billing": {"invoice": 0.5, "fee": 0.4}, "crash": {"error": 0.6}}, 5)
    {'billing': {'invoice': 0.5}, 'crash': {'error': 0.6}}
    """
    most = max_words // len(nearest) - 1 if nearest else 0
    if most < 1:
        return {}
    return {word: dict(islice(weights.items(), most)) for word, weights in nearest.items()}


def related_word_clauses(related: Mapping[str, Mapping[str, float]], fields: Sequence[str]) -> list[Body]:
    """Build query clauses that find documents by related words, which are similar in meaning to words of the query.

    There is a clause for each query word that has related words. It matches documents that contain a related word but
    not the query word itself. If a document contains several related words, only the word with the highest score
    counts.

    Args:
        related: For each query word, its related words with their weights.
        fields: The searched fields. If empty, all fields are searched.
    """
    clauses: list[Body] = []
    for word, weights in related.items():
        alternatives = {"dis_max": {"queries": word_clauses(weights, fields)}}
        clauses.append({"bool": {"must": [alternatives], "must_not": word_clauses({word: 1.0}, fields)}})
    return clauses
