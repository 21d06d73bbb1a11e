"""Test the values of document fields against conditions of a query, and count the values.

The type of a field is the type of its value in each document. Numbers are compared as numbers and strings as a whole,
even if the query writes a number as a string or vice versa. A name with dots refers to an inner field, and a list to
all its items.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from operator import ge, gt, le, lt
from typing import Any

from resift.errors import BadInput
from resift.query.dsl import is_resift_field, leaf_values, values_of

_MAX_VALUE = 256  # longer strings (in characters) are texts rather than exact values
Scalar = str | int | float | bool
FieldTest = Callable[[Any], bool]  # returns whether a document's source passes
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {"gt": gt, "gte": ge, "lt": lt, "lte": le}


def checked_scalar(value: Any, what: str) -> Scalar:
    """Check that a value in a query is a string, a number or a boolean, and return it.

    Args:
        value: The value to check.
        what: The name of the field or setting that contains the value, for error messages.

    Raises:
        BadInput: If the value has another type, such as a list, or is too large.
    """
    if isinstance(value, str) and value.encode("utf-8", "replace").decode() != value:
        raise BadInput(f"the value of {what!r} contains a lone surrogate", value=value, expected="Unicode text")
    too_large = isinstance(value, int) and not -(2**63) <= value < 2**63  # integers of OpenSearch have 64 bits
    if not isinstance(value, (str, int, float)) or value != value or too_large:
        raise BadInput(f"malformed value of {what!r}", value=value, expected="a text, a number, true or false")
    return value


def has_any_value(name: str, values: Iterable[Scalar]) -> FieldTest:
    """Return a function that tests whether a field of a document contains at least one of some values.

    Args:
        name: The name of the field.
        values: The values to look for.
    """
    values = list(values)
    texts = {value_text(value) for value in values}
    numbers = {number for value in values if (number := _as_number(value)) is not None}
    return lambda source: any(
        value_text(value) in texts if isinstance(value, (str, bool)) else value in numbers
        for value in _scalars(source, name)
    )


def in_range(name: str, bounds: Sequence[tuple[str, Scalar]]) -> FieldTest:
    """Return a function that tests whether a field of a document contains a value in a range.

    Args:
        name: The name of the field.
        bounds: The limits of the range, as pairs of an operator ("gt", "gte", "lt" or "lte") and a value.
    """
    return lambda source: any(all(_satisfies(*bound, value) for bound in bounds) for value in _scalars(source, name))


def exists(name: str) -> FieldTest:
    """Return a function that tests whether a document has a value in a field.

    If the field contains an object, at least one inner field must have a value.

    Args:
        name: The name of the field.
    """
    return lambda source: any(map(_has_value, _values(source, name)))


def _satisfies(operator: str, bound: Scalar, value: Scalar) -> bool:
    """Return whether a value of a document satisfies a limit of a range query.

    Args:
        operator: The operator of the limit: "gt", "gte", "lt" or "lte".
        bound: The limit in the query.
        value: The value in the document. Its type decides whether numbers or strings are compared.
    """
    if isinstance(value, (str, bool)):
        return COMPARISONS[operator](value_text(value), value_text(bound))
    number = _as_number(bound)
    return number is not None and COMPARISONS[operator](value, number)


def _scalars(source: Any, name: str) -> Iterator[Scalar]:
    return (value for value in _values(source, name) if isinstance(value, (str, int, float)))


def _has_value(value: Any) -> bool:
    """Return whether a value is not null. For an object, at least one of its inner values must not be null."""
    if isinstance(value, dict):
        return any(_has_value(inner) for field in value for inner in values_of(value, field))
    return value is not None


def _as_number(value: Scalar) -> int | float | None:
    """Convert a value to a number, or return None if the value is not numeric.

    The result is an int if possible, because floats cannot represent all integers above 2⁵³.
    """
    if isinstance(value, bool):
        return None
    for kind in (int, float):
        try:
            return kind(value) if isinstance(value, str) else value
        except ValueError:
            continue
    return None


def _values(source: Any, name: str) -> Iterator[Any]:
    # Strings are compared as a whole here, as OpenSearch's default mapping does for the field NAME.keyword.
    return values_of(source, name.removesuffix(".keyword"))


def exact_field_names(sources: Iterable[Mapping[str, Any]], texts: Collection[str]) -> list[str]:
    """Return the names of the fields that can be filtered by exact values, in the order of their first occurrence.

    These are fields whose values are integers, booleans or short strings in all documents.

    Args:
        sources: The fields of each document (``_source``).
        texts: The names of the text fields of the index, which are not returned.

    >>> exact_field_names([{"text": "a fire", "year": 2001, "at": {"place": "Sydney"}, "score": 0.5}], ["text"])
    ['year', 'at.place']
    """
    kinds: dict[str, bool] = {}
    for source in sources:
        for name, value in leaf_values(source):
            kinds[name] = kinds.get(name, True) and _is_exact(value)
    return [name for name, exact in kinds.items() if exact and name not in texts and not is_resift_field(name)]


def _is_exact(value: Any) -> bool:
    """Return whether a value can be filtered exactly: an integer, a boolean or a short string."""
    return isinstance(value, int) or (isinstance(value, str) and len(value) <= _MAX_VALUE)


def count_values(
    sources: Iterable[Mapping[str, Any]], fields: Sequence[str], size: int
) -> dict[str, list[tuple[Any, int]]]:
    """Find the most frequent values of each field, and count the documents that contain them.

    If a field contains a string in any document, all its values are converted to strings, as in a ``keyword`` field of
    OpenSearch. Then the number 2001 and the string "2001" are the same value.

    Args:
        sources: The fields of each document (``_source``).
        fields: The names of the fields to count.
        size: The maximum number of values to return for each field.

    Returns:
        For each field, pairs of a value and its number of documents, most frequent first. Values with the same number
        of documents are in ascending order.

    >>> count_values([{"year": 2001}, {"year": [2002, 2001]}, {}], ["year"], 5)
    {'year': [(2001, 2), (2002, 1)]}
    >>> count_values([{"year": 2001}, {"year": "2001"}], ["year"], 5)
    {'year': [('2001', 2)]}
    """
    counts: dict[str, Counter[str]] = {name: Counter() for name in fields}
    values: dict[str, set[tuple[str, Any]]] = {name: set() for name in fields}
    for source in sources:
        for name, count in counts.items():
            exact = [value for value in _values(source, name) if isinstance(value, float) or _is_exact(value)]
            count.update({value_text(value) for value in exact})
            values[name] |= {(value_text(value), value) for value in exact}
    return {name: _most_frequent(counts[name], values[name], size) for name in fields}


def only_value(source: Mapping[str, Any], name: str) -> Any:
    """Return the single value of a field, or None if the field has no value.

    Args:
        source: The fields of a document.
        name: The name of the field.

    Raises:
        BadInput: If the field has several values, or a value that is not a string or number.
    """
    values = [value for value in _values(source, name) if value is not None]
    single = [value for value in values if isinstance(value, (str, int, float)) and not isinstance(value, bool)]
    if len(values) > 1 or len(single) < len(values):
        message = f"field {name!r} of a document has the values {values[:5]}"
        raise BadInput(message, value=values[:5], expected="a single text or number in each document")
    return values[0] if values else None


def value_text(value: Any) -> str:
    """Convert a value to a string, as OpenSearch does for a ``keyword`` field.

    The float 2001.0 becomes "2001", and True becomes "true".
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _most_frequent(count: Counter[str], values: set[tuple[str, Any]], size: int) -> list[tuple[Any, int]]:
    """Return the most frequent values of a field. See :func:`count_values`.

    Args:
        count: The number of documents with each value, by the text of the value.
        values: Pairs of the text of a value and the value itself.
        size: The maximum number of values.
    """
    have_texts = any(isinstance(value, str) for _, value in values)
    shown = {text: text if have_texts else value for text, value in values}
    pairs = [(shown[text], number) for text, number in count.items()]
    return sorted(pairs, key=lambda pair: (-pair[1], pair[0]))[:size]
