"""Choose the fields of an index that the search page shows in cards, facets and facts.

The page shows each hit as a card, with title, text and facts (fields with short values), and offers facets as filters.
A card replaces a document's ``_source`` in a hit. The setting ``RESIFT_PAGE_FIELDS`` names the fields. Other fields are
guessed from a sample of documents.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from resift.errors import BadInput
from resift.feedback.explain import title_of
from resift.field_names import TITLE_NAMES, words_of_name
from resift.query.dsl import document_text, is_resift_field, values_of

Bound = float | str
"""A bound of a facet's range: a number, or a date in ISO 8601 format."""

Facets = tuple[tuple[str, ...], dict[str, tuple[Bound, ...]]]
"""Names of the facet fields, most useful first, and the lower bounds of the ranges of numeric and date fields."""

ROLES = ("title", "text", "link", "image", "facet", "fact", "example")
_LIST_ROLES = ("facet", "fact", "example")
"""Roles that the setting may assign more than once."""

# Lengths at which values on a card are cut, in characters.
_MAX_TITLE_LENGTH = 500
_MAX_TEXT_LENGTH = 400
_MAX_FACT_LENGTH = 80
_MAX_URL_LENGTH = 2000
"""Longer links and images are left out, not cut."""

_MAX_FACETS = 6
_MAX_FACTS = 4

# Criteria for guessing the role of a field from sampled values.
_MAX_VALUE_READ = 2000
"""Characters of each value that are read."""
_MAX_MEAN_TITLE = 150
"""Mean length, in characters, up to which a text field may serve as the title."""
_MAX_MEAN_VALUE = 40
"""Mean length, in characters, of values that are short enough for a facet or a fact."""
_MIN_COVERAGE = 0.3
"""Share of the documents that must have a value."""
_MAX_DISTINCT_SHARE = 0.5
"""Maximum number of distinct values divided by the number of values. Above it, the values identify documents."""
_MAX_LISTED_VALUES = 20
"""Maximum number of distinct values of a facet without ranges, unless its name is a preferred fact (``brand``)."""
_MAX_VALUES_OF_DOCUMENT = 16
"""Mean number of values of a document. A field with more, such as a sparse vector, is neither a facet nor a fact."""
_MIN_DIMENSIONS = 3
"""Number of values of a document from which on numbers with decimals may be a vector."""
_MAX_RANGES = 5
"""Ranges into which a numeric or date field is divided."""

_NAMES_BY_ROLE = {
    "title": TITLE_NAMES,
    "link": ("url", "link", "href", "uri", "permalink"),
    "image": ("image", "img", "thumbnail", "thumb", "picture", "photo", "cover", "poster"),
}
_IDENTIFIER_NAME = re.compile(
    r"(^|[._-])(id|uid|uuid|guid|key|sku|ean|gtin|isbn|code|number|hash|checksum|url|link)s?$"
)
_PREFERRED_FACTS = (
    "price",
    "cost",
    "brand",
    "author",
    "maker",
    "date",
    "published",
    "year",
    "type",
    "category",
    "rating",
)
"""Words in field names that make a field a preferred fact, most important first."""
_URL = re.compile(r"https?://\S+", re.IGNORECASE)
_DATE = re.compile(r"\d{4}-\d{2}(-\d{2}([T ][\d:.+Zz-]*)?)?")


@dataclass(frozen=True)
class CardFields:
    """Names of the fields that the search page shows for the documents of an index.

    The search page shows each hit as a card, and facets next to the hits.

    Attributes:
        title: The field with the title, or None if the documents have no title.
        text: The field with the text, or None if the documents have no text.
        link: The field with the document's URL, or None if the documents have no URL.
        image: The field with the URL of an image, or None if the documents have no image.
        facets: Fields by which hits can be filtered, most useful first.
        facts: Fields with short values that a card shows in addition to the title.
        ranges: Lower bounds of the ranges of numeric and date facets, by field. The first range has no lower bound.
        examples: Example queries.
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
        """Return the contents of the card by which the search page shows a document.

        Args:
            source: The document's ``_source``.
            fields: The index's text fields. If the document has no text in the field :attr:`text`, the card shows
                these fields, except the title, as its text.

        Returns:
            A dictionary with these keys:

            - ``title``: the beginning of the title. It is the first line of the text if the document has no title.
            - ``text``: the beginning of the text.
            - ``link`` and ``image``: http or https URLs, if the document has them.
            - ``facts``: field name → value, if any of the fields :attr:`facts` has a value.
        """
        text_fields = [name for name in fields if name != self.title] or fields
        text = _first_value(source, self.text) or document_text(source, text_fields)
        title = _first_value(source, self.title)[:_MAX_TITLE_LENGTH] or title_of(text)
        card: dict[str, Any] = {"title": title, "text": text[:_MAX_TEXT_LENGTH]}
        for role, name in (("link", self.link), ("image", self.image)):
            url = _first_value(source, name)
            if _URL.fullmatch(url) and len(url) <= _MAX_URL_LENGTH:
                card[role] = url
        values = {
            _without_keyword_suffix(name): _first_value(source, _without_keyword_suffix(name))[:_MAX_FACT_LENGTH]
            for name in self.facts
        }
        facts = {name: value for name, value in values.items() if value and value != title}
        if facts:
            card["facts"] = facts
        return card


def parse_page_fields(settings: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Parse the setting ``RESIFT_PAGE_FIELDS``, which assigns fields to the parts ("roles") of the search page.

    >>> parse_page_fields(["title=headline", "image=", "facet=year", "facet=section"])
    {'title': ('headline',), 'image': (), 'facet': ('year', 'section')}

    Args:
        settings: Items of the form ``ROLE=FIELD``, or ``ROLE=`` to leave a role empty.

    Returns:
        A mapping from roles to the names of their fields.

    Raises:
        BadInput: If an item is malformed, or assigns a second field to a role that allows only one field.
    """
    parsed: dict[str, tuple[str, ...]] = {}
    for setting in settings:
        role, sign, name = setting.partition("=")
        if role not in ROLES or not sign or (role in parsed and role not in _LIST_ROLES):
            expected = f"ROLE=FIELD, each role once except {', '.join(_LIST_ROLES)}: {' | '.join(ROLES)}"
            raise BadInput(f"page_fields contains {setting!r}", value=setting, expected=expected)
        parsed[role] = parsed.get(role, ()) + ((name,) if name else ())
    return parsed


def choose_card_fields(
    sources: Sequence[Mapping[str, Any]],
    fields: Sequence[str],
    keyword_fields: Sequence[str],
    settings: Sequence[str] = (),
) -> CardFields:
    """Choose the fields that the search page shows in cards (one for each hit) and facets.

    The settings assign fields to roles such as ``title`` or ``image``. The fields of other roles are guessed. The text
    is the text field with the longest values, except the title. For the other roles, the names and the values of the
    fields decide.

    Args:
        sources: ``_source`` of some of the index's documents.
        fields: The index's text fields.
        keyword_fields: Names of the keyword fields, whose values the engine compares as a whole.
        settings: Items of ``RESIFT_PAGE_FIELDS`` (see :func:`parse_page_fields`).
    """
    configured, values = parse_page_fields(settings), dict(_texts_by_field(sources, fields))
    texts = [name for name in fields or values if values.get(name)]
    # If the title is the only text field, it is also the text, however short its values are.
    title_name = _first_field_for_role("title", texts) if fields else None
    longest = max(texts, key=lambda name: (name != title_name, _mean_length(values[name])), default=None)
    text = _configured_or_guessed(configured, "text", longest)
    remaining = [name for name in values if name != text]
    title = _configured_or_guessed(configured, "title", _guess_title(remaining, fields, values))
    image = _configured_or_guessed(configured, "image", _first_field_for_role("image", remaining))
    remaining = [name for name in remaining if name not in (title, image)]
    link = _configured_or_guessed(configured, "link", _first_field_for_role("link", remaining))
    taken = {name for name in (text, title, image, link) if name}
    short = [
        candidate
        for candidate in short_fields(sources, keyword_fields, fields)
        if _without_keyword_suffix(candidate.name) not in taken
    ]
    guessed = choose_facets([] if "facet=" in settings else short)
    facets, ranges = _combine_facets(configured.get("facet", ()), guessed, short, keyword_fields)
    return CardFields(
        title=title,
        text=text,
        link=link,
        image=image,
        facets=facets,
        facts=configured.get("fact", choose_facts(short)),
        ranges=ranges,
        examples=configured.get("example", ()),
    )


def _combine_facets(
    configured: Sequence[str], guessed: Facets, short: Sequence[SampledField], keyword_fields: Sequence[str]
) -> Facets:
    """Combine the facets from the settings with automatically chosen facets.

    Args:
        configured: The names of the facet fields in the settings.
        guessed: The automatically chosen facets.
        short: Fields with short values. They are used to calculate the value ranges of configured facets.
        keyword_fields: The names of the keyword fields. If a configured text field has a keyword subfield, the subfield
            is used.

    Returns:
        The names of the facet fields, configured fields first, and a mapping from numeric and date fields to the lower
        bounds of their value ranges. Automatic facets are only added up to a total of six facets.
    """
    first = [_keyword_subfield(name, keyword_fields) for name in configured]
    guessed_names, ranges = guessed
    names = tuple(dict.fromkeys([*first, *guessed_names]))[: max(len(first), _MAX_FACETS)]
    ranges = ranges | {field.name: tuple(field.bounds) for field in short if field.name in first and field.bounds}
    return names, {name: ranges[name] for name in names if name in ranges}


def _keyword_subfield(name: str, keyword_fields: Sequence[str]) -> str:
    """Return the keyword subfield of a text field, such as ``title.keyword``, or the field itself if it has none.

    OpenSearch can count the values of keyword fields, but not of text fields.

    Args:
        name: The name of the field.
        keyword_fields: The names of all keyword fields.
    """
    return next(
        (
            keyword_field
            for keyword_field in keyword_fields
            if _without_keyword_suffix(keyword_field) == name and name not in keyword_fields
        ),
        name,
    )


def _configured_or_guessed(configured: Mapping[str, tuple[str, ...]], role: str, guess: str | None) -> str | None:
    """Return the field that the settings assign to a role, or the guess if the settings do not mention the role.

    Args:
        configured: The fields in the settings, by role.
        role: The role, for example ``title``.
        guess: The field that was guessed for the role, or None.

    Returns:
        The name of the field. None if the settings leave the role empty, or there is no guess.
    """
    return next(iter(configured[role]), None) if role in configured else guess


def _texts_by_field(sources: Sequence[Mapping[str, Any]], fields: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield the fields that contain only strings, with their values.

    Args:
        sources: The ``_source`` of some documents.
        fields: The text fields of the index. These fields, which may be nested, are examined in addition to all
            top-level fields of the documents.

    Yields:
        The name of a field and the list of its values. Values are truncated to 2,000 characters.
    """
    top_level = [name for source in sources for name in source if not is_resift_field(name)]
    for name in dict.fromkeys([*top_level, *fields]):
        values = [value for source in sources for value in values_of(source, name) if value is not None]
        texts = [value[:_MAX_VALUE_READ] for value in values if isinstance(value, str)]
        if texts and len(texts) == len(values):
            yield name, texts


def _mean_length(texts: Sequence[str]) -> float:
    return fmean(map(len, texts)) if texts else 0.0


def title_field(fields: Sequence[str]) -> str | None:
    """Return the first field whose name suggests a title, such as ``headline``, or None if there is no such field."""
    return _first_field_for_role("title", fields)


def _guess_title(names: Sequence[str], fields: Sequence[str], values: Mapping[str, Sequence[str]]) -> str | None:
    """Guess the field that contains the titles: by its name, or else the first text field with short values.

    Args:
        names: The fields to choose from.
        fields: The text fields of the index.
        values: The values of each field in a sample of documents.

    Returns:
        The name of the field, or None if no field is suitable.
    """
    short = (name for name in names if name in fields and _mean_length(values[name]) <= _MAX_MEAN_TITLE)
    return _first_field_for_role("title", names) or next(short, None)


def _first_field_for_role(role: str, names: Sequence[str]) -> str | None:
    """Return the first field whose name suggests that the search page can use it in a certain role.

    For example, ``image_url`` and ``coverImage`` suggest the role ``image``.

    Args:
        role: The role: ``title``, ``link`` or ``image``.
        names: The names of the fields.

    Returns:
        The name of the field, or None if no name suggests the role.
    """
    for word in _NAMES_BY_ROLE[role]:
        for name in names:
            if word in words_of_name(name):
                return name
    return None


def _without_keyword_suffix(name: str) -> str:
    """Return the name of the field to which a keyword subfield belongs: ``title`` for ``title.keyword``."""
    return name.removesuffix(".keyword")


def _first_value(source: Mapping[str, Any], name: str | None) -> str:
    """Return the first string or number in a field of a document, as a string, or "" if the field has no value.

    Args:
        source: The ``_source`` of the document.
        name: The name of the field, or None for no field.
    """
    values = values_of(source, name) if name else ()
    return next((str(value).strip() for value in values if isinstance(value, (str, int, float))), "")


@dataclass(frozen=True)
class SampledField:
    """A field of an index, with its values in a sample of documents.

    Attributes:
        name: The name of the field.
        coverage: The share of the documents that have a value, from 0 to 1.
        counts: How often each value occurs.
    """

    name: str
    coverage: float
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
    def can_be_facet(self) -> bool:
        """Whether the search page can offer the field's values as a facet, by which hits are filtered.

        At least 30 % of the documents must have a value. The values must be short on average, and neither URLs nor
        identifiers.
        """
        texts = [str(value) for value in self.counts]
        if any(map(_URL.match, texts)) or _IDENTIFIER_NAME.search(_without_keyword_suffix(self.name).lower()):
            return False
        return self.coverage >= _MIN_COVERAGE and sum(map(len, texts)) <= _MAX_MEAN_VALUE * len(texts)

    @property
    def usefulness(self) -> float:
        """Usefulness of the field as a facet (a list of values by which hits can be filtered), from 0 to 1.

        The result is the product of three numbers:

        - the coverage: the share of the documents that have a value,
        - the evenness: the entropy of the values, divided by the largest possible entropy of n distinct values,
        - a penalty for many distinct values: 8 / n if n > 8, otherwise 1.
        """
        total, distinct = self.counts.total(), len(self.counts)
        entropy = -sum(count / total * math.log(count / total) for count in self.counts.values())
        return self.coverage * entropy / math.log(max(2, distinct)) * min(1.0, 8 / distinct)

    @property
    def bounds(self) -> list[Bound]:
        """The bounds between the value ranges that the search page offers if the field is a facet.

        The field's numbers or dates are divided into a few ranges with about the same number of documents. The bounds
        are rounded to simple values, for example 1990, 2000 and 2010. The list is empty if the field has few distinct
        values, or contains neither numbers nor dates.
        """
        if len(self.counts) <= _MAX_RANGES or not (self.is_number or self.is_date):
            return []
        values = sorted(self.counts.elements())
        cuts = [values[len(values) * part // _MAX_RANGES] for part in range(1, _MAX_RANGES)]
        rounded: Iterator[Any] = _round_dates(values, cuts) if self.is_date else _round_numbers(values[0], cuts)
        return [bound for bound in dict.fromkeys(rounded) if values[0] < bound <= values[-1]]


def _round_dates(values: Sequence[str], cuts: Sequence[str]) -> Iterator[str]:
    """Round dates down to the first day of their year, or of their month if all dates are within three years.

    The rounded dates keep the date format of the field, since the index may reject other formats.

    Args:
        values: All dates of the field, in ascending order.
        cuts: The dates to round.
    """
    digits = 4 if int(values[-1][:4]) - int(values[0][:4]) >= 3 else 7
    return (cut[:digits] + "-01-01"[digits - 4 : len(cut) - 4] + re.sub(r"\d", "0", cut[10:]) for cut in cuts)


def _round_numbers(minimum: float, cuts: Sequence[float]) -> Iterator[float]:
    """Round numbers to simple values: multiples of 1, 2 or 5 times a power of ten.

    The larger the gap between a number and the previous number, the more coarsely the number is rounded. Integers that
    are too large for floats are left out.

    Args:
        minimum: The number before the first number in ``cuts``.
        cuts: The numbers to round, in ascending order.
    """
    previous = minimum
    for cut in cuts:
        gap = cut - previous
        if 0 < gap < 1e308 and abs(cut) < 1e308:
            power = 10.0 ** math.floor(math.log10(gap))
            step = max(factor * power for factor in (1, 2, 5) if factor * power <= gap or factor == 1)
            bound = round(round(cut / step) * step, 9)
            yield int(bound) if abs(bound) < 2**53 and float(bound).is_integer() else float(bound)
            previous = cut


def short_fields(
    sources: Sequence[Mapping[str, Any]], keyword_fields: Sequence[str], texts: Iterable[str]
) -> list[SampledField]:
    """Return the fields that have short values in a sample of documents.

    Args:
        sources: The ``_source`` of the sampled documents.
        keyword_fields: The names of the keyword fields. Fields of other types are returned only if they contain numbers
            or dates.
        texts: The names of the text fields, which are never returned.
    """
    stems = {_without_keyword_suffix(name) for name in keyword_fields}
    top_level = dict.fromkeys(name for source in sources for name in source if not is_resift_field(name))
    inexact = [name for name in top_level if name not in stems and name not in set(texts)]
    fields = filter(None, (_sampled_field(sources, name) for name in [*keyword_fields, *inexact]))
    return [
        field
        for field in fields
        if field.can_be_facet and (field.name in keyword_fields or field.is_number or field.is_date)
    ]


def _sampled_field(sources: Sequence[Mapping[str, Any]], name: str) -> SampledField | None:
    """Return a field with its values in a sample of documents.

    The result is None if no document has a value, if the values are vectors, or if the documents have more than 16
    values on average.

    Args:
        sources: The ``_source`` of the documents.
        name: The name of the field.
    """
    values = [list(values_of(source, _without_keyword_suffix(name))) for source in sources]
    if sum(map(len, values)) > _MAX_VALUES_OF_DOCUMENT * len(values) or _are_vectors(values):
        return None
    counts = Counter(value for listed in values for value in listed if isinstance(value, (str, int, float)))
    return SampledField(name, sum(map(bool, values)) / len(values), counts) if counts else None


def _are_vectors(values: Sequence[Sequence[Any]]) -> bool:
    """Return whether the values of a field look like vectors.

    Vectors have the same number of dimensions in all documents, at least three. Some of their numbers have decimals.

    Args:
        values: The values of the field in each document. Documents without a value are ignored.
    """
    numbers = [value for listed in values for value in listed]
    dimensions = {len(listed) for listed in values if listed}
    return (
        len(dimensions) == 1
        and min(dimensions) >= _MIN_DIMENSIONS
        and all(isinstance(value, (int, float)) for value in numbers)
        and any(isinstance(value, float) and not value.is_integer() for value in numbers)
    )


def choose_facets(fields: Sequence[SampledField]) -> Facets:
    """Choose the fields that are most useful for narrowing down hits.

    Fields with many different numbers or dates are divided into ranges.

    Args:
        fields: Fields with short values.

    Returns:
        The names of the chosen fields, most useful first, and a mapping from divided fields to the lower bounds of
        their ranges.
    """
    many = [field for field in fields if len(field.counts) > _MAX_LISTED_VALUES // 2]
    ranges = {field.name: tuple(field.bounds) for field in many if field.bounds}
    useful = [field for field in fields if field.name in ranges or _is_groupable(field)]
    # Ranges are equally frequent by construction, so their entropy would be meaningless.
    weight = {field.name: field.coverage * 0.8 if field.name in ranges else field.usefulness for field in useful}
    names = sorted(weight, key=lambda name: -weight[name])[:_MAX_FACETS]
    return tuple(names), {name: ranges[name] for name in names if name in ranges}


def _is_groupable(field: SampledField) -> bool:
    """Return whether a facet that lists the single values of a field would be useful.

    The field must have at least two distinct values, but not too many, and the values must repeat.
    """
    is_preferred = not field.is_number and any(word in _PREFERRED_FACTS for word in words_of_name(field.name))
    most = math.inf if is_preferred else _MAX_LISTED_VALUES  # the page lists the most frequent values only
    return 2 <= len(field.counts) <= min(most, _MAX_DISTINCT_SHARE * field.counts.total())


def choose_facts(fields: Sequence[SampledField]) -> tuple[str, ...]:
    """Choose the fields whose values the search page shows with each hit, in addition to title and text.

    Fields with a familiar name, such as ``price``, come first, followed by the most useful other fields. Fields with
    the same value in all documents are left out. Booleans are left out too, since "true" is meaningless without the
    field's name.

    Args:
        fields: Fields with short values.

    Returns:
        The names of the chosen fields.
    """

    def has_booleans(field: SampledField) -> bool:
        return any(isinstance(value, bool) for value in field.counts)

    def order(field: SampledField) -> tuple[int, float]:
        words = words_of_name(field.name)
        positions = (position for position, name in enumerate(_PREFERRED_FACTS) if name in words)
        return next(positions, len(_PREFERRED_FACTS)), -field.usefulness

    varying = [field for field in fields if len(field.counts) > 1 and not has_booleans(field)]
    return tuple(field.name for field in sorted(varying, key=order)[:_MAX_FACTS])
