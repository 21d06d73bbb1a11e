"""Documents' fields: has one of them a value that is asked for, which values has it, and how often does each occur?

A field has the type of what stands in the document: a number is compared as a number, a text as a whole, also where the
query writes the one as the other. A name with dots stands for an inner field, and a list for all its items.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from operator import ge, gt, le, lt
from typing import Any

from resift.errors import BadInput
from resift.query.dsl import is_ours, leaves, values_of

_MAX_VALUE = 256  # characters of a text that is taken for one value, and not for words
Scalar = str | int | float | bool
FieldTest = Callable[[Any], bool]  # whether a document passes
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {"gt": gt, "gte": ge, "lt": lt, "lte": le}


def scalar(value: Any, what: str) -> Scalar:
    """A value that a query compares with. Raises BadInput if it is none, such as a list."""
    if isinstance(value, str) and value.encode("utf-8", "replace").decode() != value:
        raise BadInput(f"the value of {what!r} holds a lone surrogate", value=value, expected="Unicode text")
    too_large = isinstance(value, int) and not -(2**63) <= value < 2**63  # OpenSearch's whole numbers have 64 bits
    if not isinstance(value, (str, int, float)) or value != value or too_large:
        raise BadInput(f"malformed value of {what!r}", value=value, expected="a text, a number, true or false")
    return value


def one_of(name: str, values: Iterable[Scalar]) -> FieldTest:
    """Whether a field has one of some values."""
    both = [(value_text(value), _as_number(value)) for value in values]
    texts, numbers = {text for text, _ in both}, {number for _, number in both if number is not None}
    return lambda source: any(
        value_text(value) in texts if isinstance(value, (str, bool)) else value in numbers
        for value in _scalars(source, name)
    )


def in_range(name: str, bounds: Sequence[tuple[str, Scalar]]) -> FieldTest:
    """Whether a field has a value within bounds: pairs of gt, gte, lt or lte, and the bound."""
    return lambda source: any(all(_compares(*bound, value) for bound in bounds) for value in _scalars(source, name))


def exists(name: str) -> FieldTest:
    """Whether a field has any value; an object has one if a field in it does."""
    return lambda source: any(map(_is_something, _values(source, name)))


def _compares(name: str, bound: Scalar, value: Scalar) -> bool:
    if isinstance(value, (str, bool)):
        return COMPARISONS[name](value_text(value), value_text(bound))
    number = _as_number(bound)
    return number is not None and COMPARISONS[name](value, number)


def _scalars(source: Any, name: str) -> Iterator[Scalar]:
    return (value for value in _values(source, name) if isinstance(value, (str, int, float)))


def _is_something(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_is_something(inner) for field in value for inner in values_of(value, field))
    return value is not None


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


def _values(source: Any, name: str) -> Iterator[Any]:
    # Strings are whole values here already, which OpenSearch's default mapping has under NAME.keyword.
    return values_of(source, name.removesuffix(".keyword"))


def exact_names(sources: Iterable[Mapping[str, Any]], texts: Collection[str]) -> list[str]:
    """The names of the fields with values that are compared as a whole, in the order in which documents have them.

    ``texts`` are the index's text fields, whose words are compared. A name with dots stands for an inner field.

    >>> exact_names([{"text": "a fire", "year": 2001, "at": {"place": "Sydney"}, "score": 0.5}], ["text"])
    ['year', 'at.place']
    """
    kinds: dict[str, bool] = {}
    for source in sources:
        for name, value in leaves(source):
            kinds[name] = kinds.get(name, True) and _is_exact(value)
    return [name for name, exact in kinds.items() if exact and name not in texts and not is_ours(name)]


def _is_exact(value: Any) -> bool:
    return isinstance(value, int) or (isinstance(value, str) and len(value) <= _MAX_VALUE)


def count_values(
    sources: Iterable[Mapping[str, Any]], fields: Sequence[str], size: int
) -> dict[str, list[tuple[Any, int]]]:
    """Of each field its ``size`` most frequent values with the number of documents that have them; of equally frequent
    ones the smaller first.

    Where documents have texts in a field, all its values are texts, as in one that is mapped as keywords: a number and
    what is written like it are one value, as they are to a ``term`` query.

    >>> count_values([{"year": 2001}, {"year": [2002, 2001]}, {}], ["year"], 5)
    {'year': [(2001, 2), (2002, 1)]}
    >>> count_values([{"year": 2001}, {"year": "2001"}], ["year"], 5)
    {'year': [('2001', 2)]}
    """
    counts: dict[str, Counter[str]] = {name: Counter() for name in fields}
    values: dict[str, set[tuple[str, Any]]] = {name: set() for name in fields}
    for source in sources:
        for name, count in counts.items():
            every = _values(source, name)
            found = {(value_text(value), value) for value in every if isinstance(value, float) or _is_exact(value)}
            count.update({text for text, _ in found})
            values[name] |= found
    return {name: _largest(counts[name], values[name], size) for name in fields}


def only_value(source: Mapping[str, Any], name: str) -> Any:
    """The text or number of a field that has at most one; None if it has none. Raises BadInput for anything else."""
    values = [value for value in _values(source, name) if value is not None]
    single = [value for value in values if isinstance(value, (str, int, float)) and not isinstance(value, bool)]
    if len(values) > 1 or len(single) < len(values):
        raise BadInput(f"a document has {values[:5]} in {name!r}", value=values[:5], expected="one text or number")
    return values[0] if values else None


def value_text(value: Any) -> str:
    """A value as a text; 2001.0 is 2001, while true, which is 1 to Python, is another value to everybody else."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _largest(count: Counter[str], values: set[tuple[str, Any]], size: int) -> list[tuple[Any, int]]:
    have_texts = any(isinstance(value, str) for _, value in values)
    shown = {text: text if have_texts else value for text, value in values}
    return sorted(((shown[text], number) for text, number in count.items()), key=lambda one: (-one[1], one[0]))[:size]
