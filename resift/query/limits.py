"""Limits that a search body must keep, so that it cannot end a node.

OpenSearch parses queries, query strings, regular expressions, shapes and scripts with recursive functions. A value that
is nested too deep overflows the stack of a thread, which ends the whole node.
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
class Contents:
    """All objects and texts in a JSON value, however deep they are nested.

    Attributes:
        objects: All objects, upper levels first.
        texts: All values that are strings. Keys are not included.
        value_count: The number of values in all lists and objects.
    """

    objects: list[Mapping[str, Any]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    value_count: int = 0


def contents_of(name: str, value: Any) -> Contents:
    """Return the objects and texts in a JSON value.

    Args:
        name: The name of the value in error messages.
        value: The JSON value.

    Raises:
        BadInput: The value is nested too deep, or contains too many values.
    """
    contents = Contents()
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


def _next_level(level: list[Any], contents: Contents) -> list[Any]:
    """Add the values in the given objects and lists to ``contents``, and return the objects and lists among them.

    Args:
        level: The objects and lists at the same depth.
        contents: The contents found so far, which are extended.
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


def check_limits(name: str, value: Any, max_text: int) -> Contents:
    """Check the size of a query, a filter or a search body, and return its contents.

    Args:
        name: The name of the value in error messages.
        value: The JSON object.
        max_text: The largest number of characters of a text in the value.

    Raises:
        BadInput: The value or the brackets in a text are nested too deep, or the value contains too many values.
        TextTooLong: A text or an expression in the value is too long.
    """
    contents = contents_of(name, value)
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
    """Check that the brackets in a text are not nested too deep.

    Args:
        name: The name of the value in error messages.
        text: A text in a query, for example a regular expression.

    Raises:
        BadInput: More than :data:`MAX_DEPTH` brackets are open at the same place.
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
    """Raise ``TextTooLong`` if the settings of a completion suggester or a script contain a long expression."""
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
