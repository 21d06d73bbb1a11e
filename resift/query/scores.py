"""Predict the scores of a query: whether they are above 0, how they are scaled, and whether they depend on the text.

- :func:`always_scores`: A ``hybrid`` query leaves out documents whose score is 0 in all of its sub-queries. If Resift
  added a scoring clause to such a sub-query, these documents could become hits.
- :func:`text_score_factor`: Expansion words that are searched beside the whole query need the same factor as its text.
- :func:`replaces_scores`: A query can discard the scores of its text. Then only its functions decide the order of the
  hits.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from resift.query.kinds import MULTI_FIELD_TEXT_KINDS
from resift.query.text import searched_text
from resift.query.tree import Clause, TextClause, as_list, boost_of, field_boost

# Negations in a query string: for simple_query_string anywhere, for query_string at the beginning of a group. They
# match all other documents with the score 0. Elsewhere in a query_string, they only exclude documents.
_NEGATIONS: Mapping[str, re.Pattern[str]] = {
    "simple_query_string": re.compile(r"(?<![^\s(|+])-"),
    "query_string": re.compile(r"\(\s*(?:[-!]|NOT\b)"),
}

# The functions of a ``function_score`` clause. A single function can also be written directly in the clause.
_FUNCTION_KINDS = frozenset({"weight", "script_score", "random_score", "field_value_factor", "gauss", "exp", "linear"})


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


def text_score_factor(clause: Clause, with_field_boosts: bool = False) -> float:
    """Return the constant factor by which a query multiplies the scores of its text clauses.

    The factor of a text clause is the product of the boosts of the clause and of all clauses around it, and of the
    weight of a ``function_score`` clause whose only function is a weight without a filter. Other functions and scripts
    are not constant, so they count as 1. The boost of a single-field clause, such as ``match``, counts as the boost of
    its field. It is part of :attr:`Clause.searched_fields` and not of the factor.

    Text clauses can have different factors. For example, :func:`resift.query.questions.question_clause` searches for
    function words with a small boost, and many queries search for a phrase with a large boost. Such boosts do not
    scale the whole query. The factors of clauses that contain all text clauses always count. Of the remaining factors,
    one for each text clause, the factor closest to 1 on a logarithmic scale counts: 1 for the boosts 1 and 0.1.

    Args:
        clause: The parsed query, or a clause inside it.
        with_field_boosts: Whether the mean boost of the fields of a text clause is part of its factor. This is for
            expansion words that are searched in other fields than the text.

    Returns:
        The factor. It is 1 if there are no text clauses with a factor above 0.

    >>> from resift.query.tree import parse_clause
    >>> text = {"multi_match": {"query": "fire", "fields": ["title"], "boost": 2}}
    >>> text_score_factor(parse_clause({"function_score": {"query": text, "weight": 10, "boost": 3}}))
    60.0
    """
    common, relative = _text_factors(clause, with_field_boosts)
    return common * min(relative, key=lambda factor: abs(math.log(factor))) if relative else 1.0


def _text_factors(clause: Clause, with_field_boosts: bool) -> tuple[float, list[float]]:
    """Return the constant factors of the text clauses inside a clause.

    Args:
        clause: The parsed query, or a clause inside it.
        with_field_boosts: Whether the mean boost of the fields of a text clause is part of its factor.

    Returns:
        The common factor of all text clauses, and for each text clause its own factor relative to the common factor.
        Text clauses with the factor 0 are left out.
    """
    own = _own_factor(clause)
    if with_field_boosts and isinstance(clause, TextClause):
        own *= _mean_field_boost(clause)
    if not own > 0:
        return 1.0, []
    if isinstance(clause, TextClause):
        return own, [1.0]
    parts = (part for _, parts in clause.scoring_parts() for part in parts if part.searched_fields is not None)
    factors = (_text_factors(part, with_field_boosts) for part in parts)
    inner = [(common, relative) for common, relative in factors if relative]
    if len(inner) == 1:
        ((common, relative),) = inner
        return own * common, relative
    products = (common * factor for common, relative in inner for factor in relative)
    return own, [product for product in products if product > 0]


def _own_factor(clause: Clause) -> float:
    """Return the constant factor by which a clause multiplies scores, without the clauses around it and inside it."""
    if isinstance(clause, TextClause) and clause.kind not in MULTI_FIELD_TEXT_KINDS:
        return 1.0  # The boost of a single-field clause counts as the boost of its field.
    return boost_of(clause.settings) * (_constant_weight(clause) if clause.kind == "function_score" else 1.0)


def _mean_field_boost(clause: TextClause) -> float:
    """Return the mean boost of the fields that a text clause searches, without fields with the boost 0."""
    fields = clause.searched_fields
    if not fields:
        return 1.0
    counted = [boost for boost in map(field_boost, fields) if boost > 0]
    return sum(counted) / len(counted) if counted else 0.0


def _constant_weight(clause: Clause) -> float:
    """Return the weight by which a ``function_score`` clause multiplies all scores, or 1 if there is no such weight."""
    functions = _functions(clause)
    if len(functions) != 1 or _boost_mode(clause) != "multiply":
        return 1.0
    (function,) = functions
    # Before a search pipeline sees the clause, OpenSearch adds the filter ``match_all``.
    condition = function.get("filter", {"match_all": {}})
    if function.keys() - {"filter", "weight"} or not isinstance(condition, Mapping) or "match_all" not in condition:
        return 1.0
    weight = boost_of({"boost": function["weight"]}) if "weight" in function else 1.0
    limit = clause.settings.get("max_boost")
    return weight if limit is None else min(weight, boost_of({"boost": limit}))


def replaces_scores(clause: Clause) -> bool:
    """Return whether the scores of a query come from functions only, and not from what the query searches for.

    This is the case for a ``function_score`` clause with the ``boost_mode`` ``replace``, unless a script may read the
    score. Clauses around it have the same effect if they contain no other clause that ranks by words or vectors.

    Args:
        clause: The parsed query, or a clause inside it.

    >>> from resift.query.tree import parse_clause
    >>> newest = {"gauss": {"day": {"origin": "now", "scale": "7d"}}, "boost_mode": "replace"}
    >>> replaces_scores(parse_clause({"function_score": {"query": {"match": {"title": "fire"}}, **newest}}))
    True
    """
    if clause.kind == "function_score" and _boost_mode(clause) == "replace":
        functions = _functions(clause)
        return bool(functions) and not any(map(_may_read_score, functions))
    inner = [part for _, parts in clause.scoring_parts() for part in parts]
    replacing = [part for part in inner if replaces_scores(part)]
    remaining = (part for part in inner if part not in replacing)
    return bool(replacing) and all(part.searched_fields is None and not part.ranks_by_meaning for part in remaining)


def _boost_mode(clause: Clause) -> str:
    """Return how a ``function_score`` clause combines the score of its query with its functions."""
    return str(clause.settings.get("boost_mode") or "multiply").lower()


def _functions(clause: Clause) -> list[Mapping[str, Any]]:
    """Return the functions of a ``function_score`` clause. Malformed functions are left out."""
    own = {name: value for name, value in clause.settings.items() if name in _FUNCTION_KINDS}
    functions = [own] if own else as_list(clause.settings.get("functions"))
    return [function for function in functions if isinstance(function, Mapping)]


def _may_read_score(function: Mapping[str, Any]) -> bool:
    """Return whether a function of a ``function_score`` clause may depend on the score of the query.

    Only scripts can read the score, as ``_score``. The source of a stored script is unknown.
    """
    if "script_score" not in function:
        return not _FUNCTION_KINDS & function.keys()
    settings = function["script_score"]
    script = settings.get("script") if isinstance(settings, Mapping) else None
    source = script.get("source") if isinstance(script, Mapping) else script
    return not isinstance(source, str) or "_score" in source


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
