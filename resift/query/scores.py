"""Decide whether a clause gives a score above 0 to each document that it matches.

A ``hybrid`` query leaves out documents whose score is 0 in all of its sub-queries. If Resift added a scoring clause to
such a sub-query, these documents could become hits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from resift.query.text import searched_text
from resift.query.tree import Clause, boost_of

# Negations in a query string: for simple_query_string anywhere, for query_string at the beginning of a group. They
# match all other documents with the score 0. Elsewhere in a query_string, they only exclude documents.
_NEGATIONS: Mapping[str, re.Pattern[str]] = {
    "simple_query_string": re.compile(r"(?<![^\s(|+])-"),
    "query_string": re.compile(r"\(\s*(?:[-!]|NOT\b)"),
}


def always_scores(clause: Clause) -> bool:
    """Return whether each document that a clause matches gets a score above 0.

    A ``hybrid`` query leaves out documents with the score 0. If expansion words (words learned from relevant documents)
    were added to a clause that matches such documents, these would become hits. The result is also False for clauses
    whose scores cannot be predicted, such as clauses with a function or a script.

    Args:
        clause: The parsed clause.

    In the first example, all hits match the scoring ``must`` clause. In the second example, the ``should`` clause is
    optional, and documents that match only the filter have the score 0:

    >>> from resift.query.tree import parse_clause
    >>> text, condition = {"match": {"title": "fire"}}, {"term": {"n": 1}}
    >>> always_scores(parse_clause({"bool": {"must": [text], "filter": [condition]}}))
    True
    >>> always_scores(parse_clause({"bool": {"should": [text], "filter": [condition]}}))
    False
    """
    settings = clause.settings
    options = next(iter(settings.values()), None) if len(settings) == 1 else None
    if boost_of(settings) == 0 or (isinstance(options, Mapping) and boost_of(options) == 0):
        return False
    check = _CHECKS.get(clause.kind or "")
    return clause.kind is not None if check is None else check(clause)


def _bool_always_scores(clause: Clause) -> bool:
    """Return whether each document that a ``bool`` clause matches gets a score above 0."""
    parts = clause.parts
    if any(map(always_scores, parts.get("must", ()))):
        return True
    may_match_without_should = parts.get("must") or parts.get("filter") or "minimum_should_match" in clause.settings
    return not may_match_without_should and _all_always_score(clause, "should")


def _all_always_score(clause: Clause, part: str) -> bool:
    """Return whether each clause in a part of a compound clause gives a score above 0 to all its documents.

    Args:
        clause: The compound clause, for example ``dis_max``.
        part: The name of the part, for example ``queries``. The result is False if the clause does not have this part.
    """
    inner = clause.parts.get(part, ())
    return bool(inner) and all(map(always_scores, inner))


def _query_string_always_scores(clause: Clause) -> bool:
    """Return whether each document that a query string matches gets a score above 0.

    Boosts of 0 and negations match documents with the score 0.
    """
    text: Any = clause.settings.get("query")
    if not isinstance(text, str) or "^0" in text:
        return False
    return bool(searched_text(clause)) and not _NEGATIONS[clause.kind or ""].search(text)


_CHECKS: Mapping[str, Callable[[Clause], bool]] = {
    "bool": _bool_always_scores,
    "dis_max": lambda clause: _all_always_score(clause, "queries"),
    "boosting": lambda clause: _all_always_score(clause, "positive"),
    "nested": lambda clause: clause.settings.get("score_mode") != "none" and _all_always_score(clause, "query"),
    "has_child": lambda clause: (
        clause.settings.get("score_mode", "none") != "none" and _all_always_score(clause, "query")
    ),
    "has_parent": lambda clause: clause.settings.get("score") is True and _all_always_score(clause, "query"),
    "function_score": lambda _: False,
    "script_score": lambda _: False,
    "query_string": _query_string_always_scores,
    "simple_query_string": _query_string_always_scores,
}
