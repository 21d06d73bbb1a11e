"""Facets: the fields that hits are best narrowed down by, ranges of numbers and dates, and what cards show beside."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any

from resift.contracts.engine import Engine, Headers
from resift.contracts.query_dsl import Body, is_ours, values_of
from resift.reranker.search.bodies import filtered

MAX_VALUES_OF_FACET = 8
Bound = float | str  # of a range: a number, or a date as ISO 8601 writes it
_MOST_FACETS, _MOST_FACTS = 6, 4
_PARTS = 5  # ranges that a field is cut into, at most
_VALUE = 40  # characters of a value, on average, that is short enough for a facet or a card
_FEW = 0.5  # of the documents: a field with more values than that tells documents apart, instead of grouping them
_LIST = 20  # values that a list of checkboxes may have before it is no help
_COVERED = 0.3  # of the documents must have a field
_DATE = re.compile(r"\d{4}-\d{2}(-\d{2}([T ][\d:.+Zz-]*)?)?")
_URL = re.compile(r"https?://", re.IGNORECASE)
_NAMELESS = re.compile(r"(^|[._-])(id|uid|uuid|guid|key|sku|ean|gtin|isbn|code|number|hash|checksum|url|link)s?$")
# What people look at first, where documents have it.
_TELLING = ("price", "cost", "brand", "author", "maker", "date", "published", "year", "type", "category", "rating")


@dataclass(frozen=True)
class Field:
    """A field's values in some documents: how many of these have it, and how often each value comes."""

    name: str
    covered: float
    counts: Counter[Any]

    @property
    def is_number(self) -> bool:
        """Whether all values are numbers."""
        return all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in self.counts)

    @property
    def is_date(self) -> bool:
        """Whether all values are dates."""
        return all(isinstance(value, str) and _DATE.fullmatch(value) for value in self.counts)

    @property
    def is_short(self) -> bool:
        """Whether its values can be read at a glance: neither long nor addresses nor identifiers."""
        texts = [str(value) for value in self.counts]
        if any(map(_URL.match, texts)) or _NAMELESS.search(self.name.removesuffix(".keyword").lower()):
            return False
        return self.covered >= _COVERED and sum(map(len, texts)) <= _VALUE * len(texts)

    @property
    def usefulness(self) -> float:
        """How well a choice among its values narrows hits down, 0 to 1: coverage times how evenly the values come
        (their entropy against that of as many equal ones), less where a list of them is long."""
        total, many = self.counts.total(), len(self.counts)
        entropy = -sum(count / total * math.log(count / total) for count in self.counts.values())
        return self.covered * entropy / math.log(max(2, many)) * min(1.0, 8 / many)

    @property
    def bounds(self) -> list[Bound]:
        """Where the ranges of numbers or dates begin, at quantiles and round; none where there are too few values."""
        if len(self.counts) <= _PARTS or not (self.is_number or self.is_date):
            return []
        values = sorted(self.counts.elements())
        cuts = [values[len(values) * part // _PARTS] for part in range(1, _PARTS)]
        rounded: Iterator[Any] = _round_dates(values, cuts) if self.is_date else _round_numbers(values[0], cuts)
        return [bound for bound in dict.fromkeys(rounded) if values[0] < bound <= values[-1]]


def _round_dates(values: Sequence[str], cuts: Sequence[str]) -> Iterator[str]:
    """The first day of each cut's year, or of its month where all dates are within three years."""
    kept = 4 if int(values[-1][:4]) - int(values[0][:4]) >= 3 else 7
    # in the values' own form: a field may take no other
    return (cut[:kept] + "-01-01"[kept - 4 : len(cut) - 4] + re.sub(r"\d", "0", cut[10:]) for cut in cuts)


def _round_numbers(least: float, cuts: Sequence[float]) -> Iterator[float]:
    """Each cut, rounded to 1, 2 or 5 times a power of ten that is no more than its distance from the one before."""
    for cut in cuts:
        gap = cut - least
        if 0 < gap < 1e308 and abs(cut) < 1e308:  # of integers that no float holds there are no ranges
            power = 10.0 ** math.floor(math.log10(gap))
            step = max(factor * power for factor in (1, 2, 5) if factor * power <= gap or factor == 1)
            bound = round(round(cut / step) * step, 9)
            yield int(bound) if abs(bound) < 2**53 and float(bound).is_integer() else float(bound)
            least = cut


def fields_in(sources: Sequence[Mapping[str, Any]], exact: Sequence[str], texts: Iterable[str]) -> list[Field]:
    """The fields of documents that have short values: the ``exact`` ones, and those of numbers and dates among others.

    ``texts`` are searched by their words, and are none of them.
    """
    stems = {name.removesuffix(".keyword") for name in exact}
    outer = dict.fromkeys(name for source in sources for name in source if not is_ours(name))
    others = [name for name in outer if name not in stems and name not in set(texts)]
    found = filter(None, (_field(sources, name) for name in [*exact, *others]))
    return [one for one in found if one.is_short and (one.name in exact or one.is_number or one.is_date)]


def _field(sources: Sequence[Mapping[str, Any]], name: str) -> Field | None:
    """What documents have in a field; None where none of them has a value."""
    every = [list(values_of(source, name.removesuffix(".keyword"))) for source in sources]
    counts = Counter(one for values in every for one in values if isinstance(one, (str, int, float)))
    return Field(name, sum(map(bool, every)) / len(every), counts) if counts else None


def choose_facets(fields: Sequence[Field]) -> tuple[tuple[str, ...], dict[str, tuple[Bound, ...]]]:
    """The names of the most useful fields, best first, and where the ranges begin of those that are cut into some."""
    ranges = {field.name: tuple(field.bounds) for field in fields if len(field.counts) > _LIST // 2 and field.bounds}
    useful = [field for field in fields if field.name in ranges or _groups(field)]
    # ranges are even by the way they are cut
    weight = {field.name: field.covered * 0.8 if field.name in ranges else field.usefulness for field in useful}
    names = sorted(weight, key=lambda name: -weight[name])[:_MOST_FACETS]
    return tuple(names), {name: ranges[name] for name in names if name in ranges}


def _groups(field: Field) -> bool:
    return 2 <= len(field.counts) <= min(_LIST, _FEW * field.counts.total())


def choose_facts(fields: Sequence[Field]) -> tuple[str, ...]:
    """The fields whose values a card shows: of those that vary, what people look at first, then the most useful."""
    # "true" alone says nothing without its question
    vary = [one for one in fields if len(one.counts) > 1 and not any(isinstance(value, bool) for value in one.counts)]

    def order(field: Field) -> tuple[int, float]:
        words = re.split(r"[^a-z]+", re.sub(r"([a-z])([A-Z])", r"\1_\2", field.name).lower())
        telling = (at for at, name in enumerate(_TELLING) if name in words)
        return next(telling, len(_TELLING)), -field.usefulness

    return tuple(field.name for field in sorted(vary, key=order)[:_MOST_FACTS])


def range_clauses(name: str, bounds: Sequence[Bound]) -> list[tuple[dict[str, Bound | None], Body]]:
    """Each range of a field, from one bound up to but not with the next, and the clause that finds what is in it."""
    edges: list[Bound | None] = [None, *bounds, None]
    found: list[tuple[dict[str, Bound | None], Body]] = []
    for start, end in pairwise(edges):
        limits = {key: limit for key, limit in (("gte", start), ("lt", end)) if limit is not None}
        found.append(({"from": start, "to": end}, {"range": {name: limits}}))
    return found


def count_facets(
    engine: Engine,
    index: str,
    query: Body,
    names: Sequence[str],
    ranges: Mapping[str, Sequence[Bound]],
    headers: Headers = None,
) -> dict[str, list[dict[str, Any]]]:
    """Of each field the most frequent values, or its ``ranges``, with how many documents of a ``query`` have
    them."""
    parts = [part for name in names if name in ranges for part in range_clauses(name, ranges[name])]
    counts = engine.document_counts(index, [filtered(query, clause) for _, clause in parts], headers)
    counted = ({**limits, "count": count} for (limits, _), count in zip(parts, counts, strict=True))
    plain = [name for name in names if name not in ranges]
    values = engine.value_counts(index, query, plain, MAX_VALUES_OF_FACET, headers) if plain else {}
    listed = {name: [{"value": value, "count": count} for value, count in found] for name, found in values.items()}
    return {name: listed[name] if name in listed else list(islice(counted, len(ranges[name]) + 1)) for name in names}
