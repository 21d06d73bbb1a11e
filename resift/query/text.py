"""The text that a query searches for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from resift.query.kinds import MODEL_KINDS, TEXT_KINDS, Role
from resift.query.tree import Clause
from resift.text import tokenize

# Parts of a clause that describe documents which nobody looks for.
_EXCLUDING_PARTS = frozenset({"must_not", "negative"})
# Parts of a clause that are conditions beside its text.
_CONDITIONS = frozenset({"filter", "functions"})
_QUERY_STRING_KINDS = frozenset({"query_string", "simple_query_string"})
# The syntax of query strings. A value can be quoted, in brackets, or a word, with a boost or a fuzziness behind it.
_NAME = r"[\w.*-]+:"
_FIELD = rf"(?<![\w.*\\-]){_NAME}"
_VALUE = r"""(?:"[^"]*"|\([^()]*\)|[^\s()]+)(?:[~^][\d.]*)?"""
# Values that documents must not contain.
_NEGATED = re.compile(rf"(?<![^\s(])[-!](?:{_NAME})?{_VALUE}")
# Ranges, tests whether a field exists, and negations by NOT.
_NO_WORDS = re.compile(rf"_exists_:\S+|{_FIELD}(?:[\[{{][^][{{}}]*[\]}}]|[<>]=?\S*)|\bNOT\s+(?:{_NAME})?{_VALUE}")
# Values that are searched in a named field.
_IN_FIELD = re.compile(rf"{_FIELD}{_VALUE}")
# Names of fields, operators, boosts and fuzziness.
_SYNTAX = re.compile(rf"{_FIELD}|\b(?:AND|OR|NOT)\b|[~^][\d.]+")


def text_of(clause: Clause, in_condition: bool = False) -> str:
    """Return the first text that a clause searches for, depth first, or "" if it searches for none.

    The text of a filter is returned only if there is no other text. The text of a clause that excludes documents is
    never returned. Both rules hold for any order of the parts of a clause, because OpenSearch may change their order.

    Args:
        clause: The clause.
        in_condition: Whether the clause is a condition, or inside a condition. What a query string in a condition
            searches in named fields is not the text of the query.

    >>> from resift.query.tree import parse_clause
    >>> query = {"bool": {"filter": [{"match": {"tag": "new"}}], "should": [{"match": {"title": "bush fire"}}]}}
    >>> text_of(parse_clause(query))
    'bush fire'
    >>> text_of(parse_clause({"query_string": {"query": "title:(bush fire)^2 AND NOT state:NSW -sale"}}))
    '(bush fire)'
    """
    if clause.role is Role.OPAQUE or clause.kind is None:
        return _text_inside(clause.raw, in_condition)
    if clause.kind in TEXT_KINDS or clause.kind in MODEL_KINDS:
        return _own_text(clause.kind, clause.settings, in_condition)
    for name, value in _conditions_last(clause.settings):
        is_condition = in_condition or name in _CONDITIONS
        if name in clause.parts:
            text = next(filter(None, (text_of(inner, is_condition) for inner in clause.parts[name])), "")
        else:
            text = _text_inside_entry(name, value, is_condition)
        if text:
            return text
    return ""


def _text_inside(value: Any, in_condition: bool) -> str:
    """Return the first text that a clause anywhere inside a JSON value searches for, or "" if there is none.

    This function reads unknown and malformed clauses, which the parser does not divide into their parts.

    Args:
        value: The JSON value.
        in_condition: Whether the value is part of a condition, such as a filter.
    """
    if isinstance(value, Mapping):
        for name, inner in _conditions_last(value):
            text = _text_inside_entry(name, inner, in_condition or name in _CONDITIONS)
            if text:
                return text
    elif isinstance(value, list):
        for item in value:
            text = _text_inside(item, in_condition) if isinstance(item, (Mapping, list)) else ""
            if text:
                return text
    return ""


def _text_inside_entry(name: str, value: Any, in_condition: bool) -> str:
    """Return the first searched text in an entry of a JSON object, or "" if there is none.

    Args:
        name: The key of the entry. If the key is the name of a text clause, such as ``match``, the value is read as the
            settings of this clause.
        value: The value of the entry.
        in_condition: Whether the entry is part of a condition, such as a filter.
    """
    if isinstance(value, Mapping) and (name in TEXT_KINDS or name in MODEL_KINDS):
        return _own_text(name, value, in_condition)
    return _text_inside(value, in_condition)


def _conditions_last(settings: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    """Yield the keys and values of a clause's settings, with conditions such as ``filter`` at the end.

    Keys that exclude documents, such as ``must_not``, are skipped.
    """
    conditions = []
    for name, value in settings.items():
        if name in _CONDITIONS:
            conditions.append((name, value))
        elif name not in _EXCLUDING_PARTS:
            yield name, value
    yield from conditions


def _own_text(kind: str, settings: Mapping[str, Any], in_condition: bool) -> str:
    """Return the text that a text clause searches for, or "" if the clause has no text or is malformed.

    Args:
        kind: The type of the clause, for example ``match``.
        settings: The settings of the clause.
        in_condition: Whether the clause is part of a condition, such as a filter. See :func:`_without_syntax` for its
            effect on query strings.
    """
    if kind in MODEL_KINDS:
        options = next(iter(settings.values()), None)
        text = options.get("query_text") if isinstance(options, Mapping) else None
    else:  # {"multi_match": {"query": text}}, {"match": {field: text}} or {"match": {field: {"query": text}}}
        text = settings.get("query", next(iter(settings.values()), ""))
        text = text.get("query", "") if isinstance(text, Mapping) else text
    if not isinstance(text, str):
        return ""
    return _without_syntax(kind, text, in_condition) if kind in _QUERY_STRING_KINDS else text


def _without_syntax(kind: str, text: str, in_condition: bool) -> str:
    """Return only the words that a Lucene query string searches for.

    Operators, field names, boosts and excluded words (``-word`` or ``NOT word``) are removed.

    Args:
        kind: ``query_string`` or ``simple_query_string``.
        text: The query string.
        in_condition: Whether the query string is part of a condition, such as a filter. Words that a condition searches
            in a named field, as in ``state:NSW``, are removed as well.
    """
    patterns = [_NEGATED]
    if kind == "query_string":
        patterns += [_NO_WORDS, _IN_FIELD, _SYNTAX] if in_condition else [_NO_WORDS, _SYNTAX]
    for pattern in patterns:
        text = pattern.sub(" ", text)
    return " ".join(text.split()) if tokenize(text) else ""
