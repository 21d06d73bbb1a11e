"""The values of documents' fields: which fields have values that are compared as a whole, and how often each occurs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from resift.contracts.query_dsl import is_ours, values_of

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

    Where documents have texts in a field, all its values are texts, as in one that is mapped as keywords: a number and
    what is written like it are one value, as they are to a ``term`` query.

    >>> count_values([{"year": 2001}, {"year": [2002, 2001]}, {}], ["year"], 5)
    {'year': [(2001, 2), (2002, 1)]}
    >>> count_values([{"year": 2001}, {"year": "2001"}], ["year"], 5)
    {'year': [('2001', 2)]}
    """
    counts: dict[str, Counter[str]] = {name: Counter() for name in fields}
    values: dict[str, dict[str, Any]] = {name: {} for name in fields}
    texts = set()
    for source in sources:
        for name, count in counts.items():
            every = values_of(source, name.removesuffix(".keyword"))
            kept = [value for value in every if isinstance(value, float) or _is_exact(value)]
            found = {_as_text(value): value for value in kept}
            count.update(found.keys())
            values[name].update(found)
            if any(isinstance(value, str) for value in kept):
                texts.add(name)
    return {name: _largest(counts[name], {} if name in texts else values[name], size) for name in fields}


def _as_text(value: Any) -> str:
    """A value as a text; 2001.0 is 2001, while true, which is 1 to Python, is another value to everybody else."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _largest(count: Counter[str], values: dict[str, Any], size: int) -> list[tuple[Any, int]]:
    found = [(values.get(text, text), number) for text, number in count.items()]
    return sorted(found, key=lambda item: (-item[1], item[0]))[:size]
