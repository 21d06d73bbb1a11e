"""Highlighting of query terms in the texts of a hit."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Annotated, Any

import msgspec

from resift.embedded.analysis import terms_with_spans
from resift.embedded.clauses import Clause
from resift.embedded.query import Natural, parse_query, raise_unsupported
from resift.embedded.tables import IndexTables
from resift.errors import BadInput
from resift.query.dsl import values_of
from resift.schema import convert

_FRAGMENTS = 5  # default maximum number of fragments
_FRAGMENT_WORDS = 40  # maximum number of words in a fragment
_LEADING_WORDS = 5  # number of words before the first highlighted term of a fragment
# OpenSearch refuses to highlight longer texts (in characters) unless max_analyzer_offset is set.
_LENGTH = 1_000_000
_BLANKS = "".join(map(chr, range(33)))  # the characters that Java's trim() removes


@dataclass(frozen=True)
class Highlight:
    """Settings for highlighting the query terms in the hits of a search.

    Attributes:
        terms: The terms to highlight in each field, by field name.
        opening_tag: The tag to insert before a highlighted word.
        closing_tag: The tag to insert after a highlighted word.
        escape: A function that escapes the text around the tags, for example for HTML.
        fragments: The maximum number of fragments for each field. 0 returns whole texts.
        length: The number of characters to which a text is truncated before its terms are highlighted.
    """

    terms: Mapping[str, frozenset[str]]
    opening_tag: str
    closing_tag: str
    escape: Callable[[str], str]
    fragments: int
    length: int

    def fragments_of(self, source: Mapping[str, Any], analyzer: str) -> dict[str, list[str]]:
        """Return fragments of a document with highlighted terms, by field name.

        If a field contains several texts, there is one fragment for each text that contains a term.

        Args:
            source: The fields of the document.
            analyzer: The name of the analyzer of the text fields.
        """
        highlights = {}
        for field, terms in self.terms.items():
            values = (value for value in values_of(source, field) if isinstance(value, (str, int, float)))
            texts = (str(value)[: self.length] for value in values)
            fragments = (self._fragment(text, analyzer, terms) for text in texts)
            stripped = [fragment.strip(_BLANKS) for fragment in fragments if fragment]
            if stripped:
                highlights[field] = stripped[: self.fragments or None]
        return highlights

    def _fragment(self, text: str, analyzer: str, terms: frozenset[str]) -> str | None:
        """Return the fragment of a text with the largest number of distinct terms, and highlight these terms.

        If the text is short or ``fragments`` is 0, the result is the whole text. If the text contains no term, the
        result is None.

        Args:
            text: The text of a field.
            analyzer: The name of the analyzer of the text.
            terms: The terms to highlight.
        """
        words, places = terms_with_spans(text, analyzer)
        if terms.isdisjoint(words):
            return None
        indexed = [position for position, term in enumerate(words) if term]  # positions of words, without stop words
        first, end = 0, len(indexed)
        if self.fragments and end > _FRAGMENT_WORDS:
            matches = [number for number, position in enumerate(indexed) if words[position] in terms]
            first = _best_fragment_start(matches, [words[indexed[number]] for number in matches])
            end = min(first + _FRAGMENT_WORDS, end)
        start = places[indexed[first]][0] if first else 0
        stop = places[indexed[end - 1]][1] if end < len(indexed) else len(text)
        highlighted = [places[position] for position in indexed[first:end] if words[position] in terms]
        tagged = self._tagged(text, start, stop, highlighted)
        return f"{'…' if start else ''}{tagged}{'…' if stop < len(text) else ''}"

    def _tagged(self, text: str, start: int, end: int, words: Sequence[tuple[int, int]]) -> str:
        """Return the part ``text[start:end]`` of a text, escaped, with tags around some words.

        Args:
            text: The whole text.
            start: The position at which the part starts.
            end: The position at which the part ends.
            words: The start and end of each word to tag, in ascending order.
        """
        parts, position = [], start
        for begin, stop in words:
            parts += [
                self.escape(text[position:begin]),
                self.opening_tag,
                self.escape(text[begin:stop]),
                self.closing_tag,
            ]
            position = stop
        return "".join([*parts, self.escape(text[position:end])])


def _best_fragment_start(positions: Sequence[int], terms: Sequence[str]) -> int:
    """Find the best fragment of a text, and return the position of its first word, counted in words.

    The best fragment contains the largest number of distinct query terms. If several fragments contain the same number
    of distinct terms, the fragment with the most occurrences is best. The fragment starts a few words before its first
    term.

    Args:
        positions: The positions of all query terms in the text, counted in words, in ascending order.
        terms: The query term at each of these positions.
    """
    # A sliding window, so that each position is added and removed once. A long text can have 100,000 of them.
    window = Counter[str]()
    best, first, end = (0, 0), 0, 0
    for start, position in enumerate(positions):
        while end < len(positions) and positions[end] < position + _FRAGMENT_WORDS - _LEADING_WORDS:
            window[terms[end]] += 1
            end += 1
        if (len(window), end - start) > best:
            best, first = (len(window), end - start), position
        window[terms[start]] -= 1
        if not window[terms[start]]:
            del window[terms[start]]
    return max(0, first - _LEADING_WORDS)


def parse_highlight(body: Any, clause: Clause, tables: IndexTables) -> Highlight | None:
    """Parse the ``highlight`` settings of a search body.

    Args:
        body: The value of ``highlight`` in the search body, or None.
        clause: The query of the search. Its terms are highlighted, unless ``body`` contains a ``highlight_query``.
        tables: The database tables of the index.

    Returns:
        The parsed settings, or None if highlighting is not requested.

    Raises:
        BadInput: If the settings are malformed.
        UnsupportedQuery: If settings are specific to a field, as in ``{"fields": {"title": {"pre_tags": "<b>"}}}``.
    """
    if not body:
        return None
    fields = body.get("fields", {}) if isinstance(body, Mapping) else None
    if not isinstance(fields, Mapping):
        raise BadInput("malformed highlight", value=body, expected='{"fields": {"NAME": {}}}')
    if any(settings != {} for settings in fields.values()):
        raise_unsupported("settings of a single field in highlight", "settings of the highlight as a whole")
    if "highlight_query" in body:
        clause = parse_query(body["highlight_query"], tables, whole=True).clause
    names = [name for name in tables.meta.fields if any(fnmatchcase(name, pattern) for pattern in fields)]
    return Highlight(
        terms={name: frozenset(clause.highlight_terms(name)) for name in names},
        opening_tag=_tag(body, "pre_tags", "<em>"),
        closing_tag=_tag(body, "post_tags", "</em>"),
        escape=html.escape if body.get("encoder") == "html" else str,
        fragments=convert("number_of_fragments", body.get("number_of_fragments", _FRAGMENTS), Natural),
        length=convert("max_analyzer_offset", body.get("max_analyzer_offset", _LENGTH), Natural),
    )


def _tag(settings: Mapping[str, Any], name: str, default: str) -> str:
    """Return the tag that is inserted before or after a highlighted word.

    Args:
        settings: The ``highlight`` settings of a search body.
        name: ``pre_tags`` or ``post_tags``. The setting is a list, of which only the first tag is used.
        default: The tag if the setting is missing.
    """
    tags: list[str] = convert(name, settings.get(name, [default]), Annotated[list[str], msgspec.Meta(min_length=1)])
    return tags[0]
