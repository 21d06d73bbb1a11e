"""The values of documents' fields: which fields have values that are compared as a whole, and how often each occurs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from resift.plugin.query_dsl import is_ours, values_of

_MAX_VALUE = 256  # characters of a text that is taken for one value, and not for words


def exact_names(sources: Iterable[Mapping[str, Any]], texts: Collection[str]) -> list[str]:
    """The names of the fields with values that are compared as a whole, in the order in which documents have them.

    ``texts`` are the index's text fields, whose words are compared. A name with dots stands for an inner field.

    >>> exact_names([{"text": "a fire", "year": 2001, "at": {"place": "Sydney"}, "score": 0.5}], ["text"])
    ['year', 'at.place']
    """
    kinds: dict[str, bool] = {}
    for source in sources:
        for name, value in _leaves(source, ""):
            kinds[name] = kinds.get(name, True) and _is_exact(value)
    return [name for name, exact in kinds.items() if exact and name not in texts and not is_ours(name)]


def _leaves(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(inner, f"{name}.{key}" if name else key)
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(item, name)
    elif value is not None:
        yield name, value


def _is_exact(value: Any) -> bool:
    return isinstance(value, int) or (isinstance(value, str) and len(value) <= _MAX_VALUE)


def count_values(
    sources: Iterable[Mapping[str, Any]], fields: Sequence[str], size: int
) -> dict[str, list[tuple[Any, int]]]:
    """Of each field its ``size`` most frequent values with the number of documents that have them; of equally frequent
    ones the smaller first.

    >>> count_values([{"year": 2001}, {"year": [2002, 2001]}, {}], ["year"], 5)
    {'year': [(2001, 2), (2002, 1)]}
    """
    counts: dict[str, Counter[tuple[bool, Any]]] = {name: Counter() for name in fields}
    for source in sources:
        for name, count in counts.items():
            every = values_of(source, name.removesuffix(".keyword"))
            values = (value for value in every if isinstance(value, float) or _is_exact(value))
            # true is 1 to Python, and another value to everybody else
            count.update({(isinstance(value, bool), value) for value in values})
    return {name: _largest(count, size) for name, count in counts.items()}


def _largest(count: Counter[tuple[bool, Any]], size: int) -> list[tuple[Any, int]]:
    ordered = sorted(count.items(), key=lambda item: (-item[1], isinstance(item[0][1], str), item[0][1]))
    return [(value, found) for (_, value), found in ordered[:size]]
