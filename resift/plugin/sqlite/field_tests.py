"""Tests of documents' fields: has it one of these values, is one between two, has it any?

A field has the type of what stands in the document: a number is compared as a number, a text as a whole, also where the
query writes the one as the other. A name with dots stands for an inner field, and a list for all its items.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from resift.contracts.query_dsl import values_of
from resift.errors import BadInput

Scalar = str | int | float | bool
_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}


def scalar(value: Any, what: str) -> Scalar:
    """A value that a query compares with. Raises BadInput if it is none, such as a list."""
    if isinstance(value, str) and value.encode("utf-8", "replace").decode() != value:
        raise BadInput(f"the value of {what!r} holds a lone surrogate", value=value, expected="Unicode text")
    too_large = isinstance(value, int) and not -(2**63) <= value < 2**63  # OpenSearch's whole numbers have 64 bits
    if not isinstance(value, (str, int, float)) or value != value or too_large:
        raise BadInput(f"malformed value of {what!r}", value=value, expected="a text, a number, true or false")
    return value


@dataclass(frozen=True)
class OneOf:
    """Whether a field has one of some values."""

    name: str
    texts: frozenset[str]
    numbers: frozenset[float]

    @classmethod
    def of(cls, name: str, values: Iterable[Scalar]) -> OneOf:
        """A test for these values."""
        both = [(_as_text(value), _as_number(value)) for value in values]
        return cls(
            _without_keyword(name),
            frozenset(text for text, _ in both),
            frozenset(number for _, number in both if number is not None),
        )

    def passes(self, source: Any) -> bool:
        """Whether a document passes."""
        return any(
            _as_text(value) in self.texts if isinstance(value, (str, bool)) else value in self.numbers
            for value in _scalars(source, self.name)
        )


@dataclass(frozen=True)
class Comparison:
    """Whether a field has a value within bounds: pairs of gt, gte, lt or lte, and the bound."""

    name: str
    bounds: tuple[tuple[str, Scalar], ...]

    def passes(self, source: Any) -> bool:
        """Whether a document passes."""
        return any(
            all(_compares(op, value, bound) for op, bound in self.bounds)
            for value in _scalars(source, _without_keyword(self.name))
        )


@dataclass(frozen=True)
class Exists:
    """Whether a field has any value; an object has one if a field in it does."""

    name: str

    def passes(self, source: Any) -> bool:
        """Whether a document passes."""
        return any(map(_is_something, values_of(source, _without_keyword(self.name))))


FieldTest = OneOf | Comparison | Exists


def _compares(name: str, value: Scalar, bound: Scalar) -> bool:
    if isinstance(value, (str, bool)):
        return _OPERATORS[name](_as_text(value), _as_text(bound))
    number = _as_number(bound)
    return number is not None and _OPERATORS[name](value, number)


def _scalars(source: Any, name: str) -> Iterator[Scalar]:
    return (value for value in values_of(source, name) if isinstance(value, (str, int, float)))


def _is_something(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_is_something(inner) for field in value for inner in values_of(value, field))
    return value is not None


def _as_text(value: Scalar) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _as_number(value: Scalar) -> int | float | None:
    """A value as a number; None if it is none. Whole numbers stay whole: beyond 2⁵³ floats are not exact."""
    if isinstance(value, bool):
        return None
    for kind in (int, float):
        try:
            return kind(value) if isinstance(value, str) else value
        except ValueError:
            continue
    return None


def _without_keyword(name: str) -> str:
    # Strings are whole values here already, which OpenSearch's default mapping has under NAME.keyword.
    return name.removesuffix(".keyword")
