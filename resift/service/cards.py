"""Cards: what is shown of a document, which of its fields that is, and by which of them hits are narrowed down."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from resift.errors import BadInput
from resift.feedback.explain import title as first_line
from resift.query.dsl import document_text, is_ours, values_of

Bound = float | str  # of a range: a number, or a date as ISO 8601 writes it
Facets = tuple[tuple[str, ...], dict[str, tuple[Bound, ...]]]  # fields, best first, and where their ranges begin
ROLES = ("title", "text", "link", "image", "facet", "fact", "example")
_SEVERAL = ("facet", "fact", "example")  # roles that may have more than one
_TITLE_LENGTH, _TEXT_LENGTH, _URL_LENGTH = 500, 400, 2000  # characters
_NAMES = {
    "title": ("title", "headline", "heading", "name", "subject"),
    "link": ("url", "link", "href", "uri", "permalink"),
    "image": ("image", "img", "thumbnail", "thumb", "picture", "photo", "cover", "poster"),
}
_URL = re.compile(r"https?://\S+", re.IGNORECASE)
_SHORT = 150  # characters of a text that may be a title
_FACT = 80  # characters of a fact
_READ = 2000  # characters of a value that are looked at
_MOST_FACETS, _MOST_FACTS = 6, 4
_PARTS = 5  # ranges that a field is cut into, at most
_VALUE = 40  # characters of a value, on average, that is short enough for a facet or a card
_FEW = 0.5  # of the documents: a field with more values than that tells documents apart, instead of grouping them
_LIST = 20  # values that a list of checkboxes may have before it is no help
_COVERED = 0.3  # of the documents must have a field
_DATE = re.compile(r"\d{4}-\d{2}(-\d{2}([T ][\d:.+Zz-]*)?)?")
_NAMELESS = re.compile(r"(^|[._-])(id|uid|uuid|guid|key|sku|ean|gtin|isbn|code|number|hash|checksum|url|link)s?$")
# What people look at first, where documents have it.
_TELLING = ("price", "cost", "brand", "author", "maker", "date", "published", "year", "type", "category", "rating")


@dataclass(frozen=True)
class CardFields:
    """The names of the fields that a card is made of; None for a part that there is none for.

    ``facets`` are the fields by which hits can be narrowed down, the most useful first, and ``ranges`` where the ranges
    of those begin that are numbers or dates; ``facts`` are short values beside the title. ``examples`` are queries that
    the settings name, or that find something.
    """

    title: str | None = None
    text: str | None = None
    link: str | None = None
    image: str | None = None
    facets: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()
    ranges: Mapping[str, tuple[Bound, ...]] = field(default_factory=dict)
    examples: tuple[str, ...] = ()

    def card(self, source: Mapping[str, Any], fields: Sequence[str]) -> dict[str, Any]:
        """What is shown of a document, cut short: its ``title`` and ``text``, and its ``link``, ``image`` and ``facts``
        (field → value) if it has some.

        A document without a title has the first line of its text for one. ``fields`` are the index's text fields, of
        which the others stand in for a text. Links and images are addresses of http and https and nothing else.
        """
        others = [name for name in fields if name != self.title]
        text = _first(source, self.text) or document_text(source, others or fields)
        found = {"title": _first(source, self.title)[:_TITLE_LENGTH] or first_line(text), "text": text[:_TEXT_LENGTH]}
        for part, name in (("link", self.link), ("image", self.image)):
            url = _first(source, name)
            if _URL.fullmatch(url) and len(url) <= _URL_LENGTH:
                found[part] = url
        facts = {name: _first(source, _stem(name))[:_FACT] for name in self.facts}
        shown = {_stem(name): value for name, value in facts.items() if value and value != found["title"]}
        return {**found, "facts": shown} if shown else found


def parse_page_fields(settings: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """What RESIFT_PAGE_FIELDS says: role → names of fields, none where the role is to stay empty.

    >>> parse_page_fields(["title=headline", "image=", "facet=year", "facet=section"])
    {'title': ('headline',), 'image': (), 'facet': ('year', 'section')}

    Raises BadInput for a setting that is not ROLE=FIELD, and for a second field of a role that has one.
    """
    found: dict[str, tuple[str, ...]] = {}
    for setting in settings:
        role, sign, name = setting.partition("=")
        if role not in ROLES or not sign or (role in found and role not in _SEVERAL):
            expected = f"ROLE=FIELD, each role once but {', '.join(_SEVERAL)}: {' | '.join(ROLES)}"
            raise BadInput(f"page_fields has {setting!r}", value=setting, expected=expected)
        found[role] = found.get(role, ()) + ((name,) if name else ())
    return found


def card_fields(
    sources: Sequence[Mapping[str, Any]], fields: Sequence[str], exact: Sequence[str], settings: Sequence[str] = ()
) -> CardFields:
    """The fields for the cards of an index, as the ``settings`` say or, where they say nothing, guessed.

    ``sources`` are some of its documents, ``fields`` its text fields, and ``exact`` those whose values are compared as
    a whole. The text is the text field with the longest values, but not the title; the others go by their names.
    """
    said, values = parse_page_fields(settings), dict(_values(sources, fields))
    texts = [name for name in fields or values if values.get(name)]
    titled = _by_name("title", texts) if fields else None  # which is the text where it is the only one, however short
    longest = max(texts, key=lambda name: (name != titled, _mean_length(values[name])), default=None)
    text = _said(said, "text", longest)
    others = [name for name in values if name != text]
    title = _said(said, "title", _title(others, fields, values))
    image = _said(said, "image", _by_name("image", others))
    left = [name for name in others if name not in (title, image)]
    link = _said(said, "link", _by_name("link", left))
    taken = {name for name in (text, title, image, link) if name}
    short = [one for one in fields_in(sources, exact, fields) if _stem(one.name) not in taken]
    facets, ranges = _facets(said.get("facet", ()), choose_facets([] if "facet=" in settings else short), short, exact)
    facts = said.get("fact", choose_facts(short))
    return CardFields(title, text, link, image, facets, facts, ranges, said.get("example", ()))


def _facets(said: Sequence[str], guessed: Facets, short: Sequence[Field], exact: Sequence[str]) -> Facets:
    """The facets that are said, behind them the guessed ones as far as there is room, and the ranges of both."""
    first = [_exact_name(name, exact) for name in said]
    names = tuple(dict.fromkeys([*first, *guessed[0]]))[: max(len(first), _MOST_FACETS)]
    ranges = guessed[1] | {one.name: tuple(one.bounds) for one in short if one.name in first and one.bounds}
    return names, {name: ranges[name] for name in names if name in ranges}


def _exact_name(name: str, exact: Sequence[str]) -> str:
    """A field, or where it is a text the part of it whose values are compared as a whole: no others can be counted."""
    return next((one for one in exact if _stem(one) == name and name not in exact), name)


def _said(said: Mapping[str, tuple[str, ...]], role: str, guess: str | None) -> str | None:
    return next(iter(said[role]), None) if role in said else guess


def _values(sources: Sequence[Mapping[str, Any]], fields: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Each outer field that holds texts and each of the text ``fields``, inner ones too, and the texts' beginnings."""
    outer = [name for source in sources for name in source if not is_ours(name)]
    names = dict.fromkeys([*outer, *fields])
    for name in names:
        found = [value for source in sources for value in values_of(source, name) if value is not None]
        texts = [value[:_READ] for value in found if isinstance(value, str)]
        if texts and len(texts) == len(found):
            yield name, texts


def _mean_length(texts: Sequence[str]) -> float:
    return fmean(map(len, texts)) if texts else 0.0


def title_field(fields: Sequence[str]) -> str | None:
    """The first of these fields that is called like one for titles."""
    return _by_name("title", fields)


def _title(others: Sequence[str], fields: Sequence[str], values: Mapping[str, Sequence[str]]) -> str | None:
    short = (name for name in others if name in fields and _mean_length(values[name]) <= _SHORT)
    return _by_name("title", others) or next(short, None)


def _by_name(role: str, names: Sequence[str]) -> str | None:
    """The field whose name says what it is for, in words of its own or with others (``image_url``)."""
    for wanted in _NAMES[role]:
        for name in names:
            if wanted in re.split(r"[^a-z]+", re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()):
                return name
    return None


def _stem(name: str) -> str:
    return name.removesuffix(".keyword")


def _first(source: Mapping[str, Any], name: str | None) -> str:
    """The first text or number of a field; "" if there is none."""
    values = values_of(source, name) if name else ()
    return next((str(value).strip() for value in values if isinstance(value, (str, int, float))), "")


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


def choose_facets(fields: Sequence[Field]) -> Facets:
    """The most useful fields, and the ranges of those that are cut into some."""
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
