"""The text that a query searches for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from resift.query.kinds import MODEL_KINDS, TEXT_KINDS, Role
from resift.query.tree import Clause
from resift.text import tokenize

# Parts of a clause that do not contain what the query searches for: conditions, and clauses that exclude documents.
_UNSEARCHED_PARTS = frozenset({"filter", "functions", "must_not", "negative"})
# In this clause, unlike in all others, the part ``filter`` contains what the clause searches for.
_CONSTANT_KIND = "constant_score"
_QUERY_STRING_KINDS = frozenset({"query_string", "simple_query_string"})
# The syntax of query strings. A value can be quoted, in brackets, or a word, with a boost or a fuzziness behind it.
_NAME = r"[\w.*-]+:"
_FIELD = rf"(?<![\w.*\\-]){_NAME}"
_VALUE = r"""(?:"[^"]*"|\([^()]*\)|[^\s()]+)(?:[~^][\d.]*)?"""
# Values that documents must not contain.
_NEGATED = re.compile(rf"(?<![^\s(])[-!](?:{_NAME})?{_VALUE}")
# Ranges, tests whether a field exists, and negations by NOT.
_NO_WORDS = re.compile(rf"_exists_:\S+|{_FIELD}(?:[\[{{][^][{{}}]*[\]}}]|[<>]=?\S*)|\bNOT\s+(?:{_NAME})?{_VALUE}")
# Names of fields, operators, boosts and fuzziness.
_SYNTAX = re.compile(rf"{_FIELD}|\b(?:AND|OR|NOT)\b|[~^][\d.]+")


def searched_text(clause: Clause) -> str:
    """Return the first text that a clause or a clause inside it searches for, or "" if there is none.

    This text represents the query: it is encoded as the query vector, and judgements are stored with it. Clauses are
    visited depth first, in the order of :data:`resift.query.kinds.PARTS`. The order of the keys in the JSON has no
    effect, because OpenSearch changes it before it passes a body on. The text of a filter is never returned. Neither is
    the text of a clause that excludes documents.

    Args:
        clause: The parsed clause.

    >>> from resift.query.tree import parse_clause
    >>> query = {"bool": {"filter": [{"match": {"tag": "new"}}], "should": [{"match": {"title": "bush fire"}}]}}
    >>> searched_text(parse_clause(query))
    'bush fire'
    >>> searched_text(parse_clause({"query_string": {"query": "title:(bush fire)^2 AND NOT state:NSW -sale"}}))
    '(bush fire)'
    """
    if clause.role is Role.OPAQUE or clause.kind is None:
        return _text_inside(clause.raw)
    if clause.kind in TEXT_KINDS or clause.kind in MODEL_KINDS:
        return _own_text(clause.kind, clause.settings)
    is_constant = clause.kind == _CONSTANT_KIND
    for name, parts in clause.parts.items():
        text = next(filter(None, map(searched_text, parts)), "") if is_constant or name not in _UNSEARCHED_PARTS else ""
        if text:
            return text
    settings = {name: value for name, value in clause.settings.items() if name not in clause.parts}
    return _text_inside(settings)


def _text_inside(value: Any) -> str:
    """Find the first search text in a JSON value that contains clauses at any depth.

    This function reads unknown and malformed clauses, which the parser does not divide into their parts.

    Args:
        value: The JSON value: an unknown clause, or a part of it.

    Returns:
        The text, or "" if there is none.
    """
    if isinstance(value, Mapping):
        for name, inner in value.items():
            text = "" if name in _UNSEARCHED_PARTS else _text_inside_entry(name, inner)
            if text:
                return text
    elif isinstance(value, list):
        for item in value:
            text = _text_inside(item) if isinstance(item, (Mapping, list)) else ""
            if text:
                return text
    return ""


def _text_inside_entry(name: str, value: Any) -> str:
    """Return the first text that an entry of an unknown clause searches for, or "" if there is none.

    Args:
        name: The key of the entry. If the key is the name of a text clause, such as ``match``, the value is read as the
            settings of this clause.
        value: The value of the entry.
    """
    if isinstance(value, Mapping) and (name in TEXT_KINDS or name in MODEL_KINDS):
        return _own_text(name, value)
    return _text_inside(value)


def _own_text(kind: str, settings: Mapping[str, Any]) -> str:
    """Return the text that a text clause searches for, or "" if the clause has no text or is malformed.

    Args:
        kind: The type of the clause, for example ``match``.
        settings: The settings of the clause.
    """
    if kind in MODEL_KINDS:
        options = next(iter(settings.values()), None)
        text = options.get("query_text") if isinstance(options, Mapping) else None
    else:  # {"multi_match": {"query": text}}, {"match": {field: text}} or {"match": {field: {"query": text}}}
        text = settings.get("query", next(iter(settings.values()), ""))
        text = text.get("query", "") if isinstance(text, Mapping) else text
    if not isinstance(text, str):
        return ""
    return _without_syntax(kind, text) if kind in _QUERY_STRING_KINDS else text


def _without_syntax(kind: str, text: str) -> str:
    """Return only the words that a Lucene query string searches for.

    Operators, field names, boosts and excluded words (``-word`` or ``NOT word``) are removed.

    Args:
        kind: ``query_string`` or ``simple_query_string``.
        text: The query string, with its syntax.
    """
    patterns = [_NEGATED, _NO_WORDS, _SYNTAX] if kind == "query_string" else [_NEGATED]
    for pattern in patterns:
        text = pattern.sub(" ", text)
    return " ".join(text.split()) if tokenize(text) else ""
