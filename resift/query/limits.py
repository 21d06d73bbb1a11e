"""Limits on the size and depth of a search body, which protect the nodes of OpenSearch.

OpenSearch parses queries, query strings, regular expressions, shapes and scripts with recursive functions. A value that
is nested too deeply overflows the stack of a thread, which crashes the whole node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from resift.errors import BadInput, TextTooLong

MAX_DEPTH = 100  # levels of lists and objects, and of brackets in a text
MAX_QUERY_VALUES = 100_000  # values in a query or filter
# Characters of the regular expression of a completion suggester, and of a script in the language ``expression``.
# OpenSearch limits the other regular expressions itself.
MAX_EXPRESSION = 1000
_OPENING_BRACKETS = "([{"
_CLOSING_BRACKETS = ")]}"
_NUMBERS = frozenset({int, float})


@dataclass
class JsonContents:
    """The objects and strings at all depths of a JSON value, collected in flat lists.

    Attributes:
        objects: All JSON objects, outer objects before inner objects.
        texts: All strings, except the keys of objects.
        value_count: The total number of values in all lists and objects.
    """

    objects: list[Mapping[str, Any]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    value_count: int = 0


def collect_contents(name: str, value: Any) -> JsonContents:
    """Collect all objects and strings in a JSON value, so that they can be checked without recursion.

    Args:
        name: The name of the value in error messages, for example ``query``.
        value: The JSON value to search, of any type.

    Raises:
        BadInput: If the value is nested more than :data:`MAX_DEPTH` levels deep, or contains more than
            :data:`MAX_QUERY_VALUES` values.
    """
    contents = JsonContents()
    level = [value] if isinstance(value, (dict, list)) else []
    for _ in range(MAX_DEPTH - 1):
        level = _next_level(level, contents)
        if contents.value_count > MAX_QUERY_VALUES:
            raise BadInput(
                f"the {name} has more than {MAX_QUERY_VALUES} values",
                value=contents.value_count,
                expected=f"at most {MAX_QUERY_VALUES} values",
            )
        if not level:
            return contents
    if any(level):
        raise _too_deep(name)
    return contents


def _next_level(level: list[Any], contents: JsonContents) -> list[Any]:
    """Add the values of some JSON objects and lists to ``contents``, and return the next level of nesting.

    Args:
        level: The objects and lists at a certain depth.
        contents: The contents of the upper levels. They are extended in place.

    Returns:
        The objects and lists that are direct values or items of ``level``.
    """
    inner: list[Any] = []
    for container in level:
        contents.value_count += len(container)
        if isinstance(container, dict):
            contents.objects.append(container)
            values: Iterable[Any] = container.values()
        elif _NUMBERS.issuperset(map(type, container)):
            continue  # a vector
        else:
            values = container
        for value in values:
            if isinstance(value, str):
                contents.texts.append(value)
            elif isinstance(value, (dict, list)):
                inner.append(value)
    return inner


def check_limits(name: str, value: Any, max_text: int) -> JsonContents:
    """Check the size and depth of a query, a filter or a search body.

    Args:
        name: The name of the value in error messages, for example ``query``.
        value: The JSON object to check.
        max_text: The maximum length of each string in the value, in characters.

    Returns:
        All objects and strings in the value.

    Raises:
        BadInput: If the value contains more than :data:`MAX_QUERY_VALUES` values, or its objects or the brackets in a
            string are nested more than :data:`MAX_DEPTH` levels deep.
        TextTooLong: If a string is longer than ``max_text``, or a script expression is longer than
            :data:`MAX_EXPRESSION`.
    """
    contents = collect_contents(name, value)
    for settings in contents.objects:
        _check_expressions(settings)
    longest = max(map(len, contents.texts), default=0)
    if longest > max_text:
        raise TextTooLong(
            f"a text of the {name} has {longest} characters", value=longest, expected=f"at most {max_text}"
        )
    for text in contents.texts:
        check_brackets(name, text)
    return contents


def check_brackets(name: str, text: str) -> None:
    """Check that the brackets in a text are not nested so deeply that OpenSearch's parsers would overflow their stack.

    Args:
        name: The name of the text in error messages, for example ``query``.
        text: A text in a query, for example a regular expression.

    Raises:
        BadInput: If the brackets are nested more than :data:`MAX_DEPTH` levels deep.
    """
    if len(text) <= MAX_DEPTH or sum(map(text.count, _OPENING_BRACKETS)) <= MAX_DEPTH:
        return
    characters = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    opening = np.isin(characters, [*map(ord, _OPENING_BRACKETS)])
    closing = np.isin(characters, [*map(ord, _CLOSING_BRACKETS)])
    levels = np.cumsum(opening.astype(np.int32) - closing)
    # A closing bracket without an opening bracket does not make up for a bracket that is opened later.
    if np.max(levels - np.minimum.accumulate(np.minimum(levels, 0))) > MAX_DEPTH:
        raise _too_deep(name)


def _check_expressions(settings: Mapping[str, Any]) -> None:
    """Check the length of the expression in a completion suggester or an ``expression`` script.

    Objects of other kinds are ignored.

    Args:
        settings: An object of a search body.

    Raises:
        TextTooLong: If the expression is longer than :data:`MAX_EXPRESSION` characters.
    """
    if "completion" in settings:
        _check_expression(settings.get("regex"))
    if settings.get("lang") == "expression":
        _check_expression(settings.get("source"))


def _check_expression(expression: Any) -> None:
    if isinstance(expression, str) and len(expression) > MAX_EXPRESSION:
        size = len(expression)
        raise TextTooLong(f"an expression has {size} characters", value=size, expected=f"at most {MAX_EXPRESSION}")


def _too_deep(name: str) -> BadInput:
    return BadInput(
        f"the {name} is nested more than {MAX_DEPTH} levels deep",
        value=name,
        expected=f"at most {MAX_DEPTH} levels of lists, objects and brackets",
    )
