"""Highlights: the words of a query between tags, in the texts of a hit."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Annotated, Any

import msgspec

from resift.embedded.analysis import words_of
from resift.embedded.clauses import Clause
from resift.embedded.query import Natural, parse_query, unsupported
from resift.embedded.tables import IndexTables
from resift.errors import BadInput
from resift.query.dsl import values_of
from resift.schema import convert

_FRAGMENTS, _FRAGMENT_WORDS = 5, 40
_LENGTH = 1_000_000  # characters: beyond as many OpenSearch refuses a search that does not say how far to look
_BLANKS = "".join(map(chr, range(33)))  # what Java trims


@dataclass(frozen=True)
class Highlight:
    """How hits are highlighted: by field the ``terms`` that stand between two tags, in at most ``fragments`` fragments
    of it (0: all text).

    Of a longer text only the first ``length`` characters are looked at.
    """

    terms: Mapping[str, frozenset[str]]
    before: str
    after: str
    escape: Callable[[str], str]
    fragments: int
    length: int

    def of(self, source: Mapping[str, Any], analyzer: str) -> dict[str, list[str]]:
        """The fragments of a document: by field, of each text that holds a term, one."""
        found = {}
        for field, terms in self.terms.items():
            values = (value for value in values_of(source, field) if isinstance(value, (str, int, float)))
            texts = (str(value)[: self.length] for value in values)
            tried = (self._fragment(text, analyzer, terms) for text in texts)
            found[field] = [fragment.strip(_BLANKS) for fragment in tried if fragment][: self.fragments or None]
        return {field: fragments for field, fragments in found.items() if fragments}

    def _fragment(self, text: str, analyzer: str, terms: frozenset[str]) -> str | None:
        """The part of a text with the most different terms, or all of it; None if it holds none."""
        words, places = words_of(text, analyzer)
        if terms.isdisjoint(words):
            return None
        kept = [at for at, term in enumerate(words) if term]
        first, end = 0, len(kept)
        if self.fragments and end > _FRAGMENT_WORDS:
            found = [place for place, at in enumerate(kept) if words[at] in terms]
            first = _densest(found, [words[kept[place]] for place in found])
            end = min(first + _FRAGMENT_WORDS, end)
        start = places[kept[first]][0] if first else 0
        stop = places[kept[end - 1]][1] if end < len(kept) else len(text)
        tagged = self._tagged(text, start, stop, [places[at] for at in kept[first:end] if words[at] in terms])
        return f"{'…' if start else ''}{tagged}{'…' if stop < len(text) else ''}"

    def _tagged(self, text: str, start: int, end: int, words: Sequence[tuple[int, int]]) -> str:
        parts, at = [], start
        for begin, stop in words:
            parts += [self.escape(text[at:begin]), self.before, self.escape(text[begin:stop]), self.after]
            at = stop
        return "".join([*parts, self.escape(text[at:end])])


def _densest(places: Sequence[int], terms: Sequence[str]) -> int:
    """The first word of the window that holds most different ``terms``, and of these most often, a few words before the
    first of them; ``places`` are where they stand."""
    # each place comes into the window and leaves it once: a long text has 100,000 of them
    held, best, first, end = Counter[str](), (0, 0), 0, 0
    for start, place in enumerate(places):
        while end < len(places) and places[end] < place + _FRAGMENT_WORDS - 5:
            held[terms[end]] += 1
            end += 1
        if (len(held), end - start) > best:
            best, first = (len(held), end - start), place
        held[terms[start]] -= 1
        if not held[terms[start]]:
            del held[terms[start]]
    return max(0, first - 5)


def parse_highlight(body: Any, clause: Clause, tables: IndexTables) -> Highlight | None:
    """What a body's ``highlight`` asks for, alike for all fields. Raises BadInput if it is malformed.

    The words are those of ``clause``, the search's query, or of a ``highlight_query``.
    """
    if not body:
        return None
    fields = body.get("fields", {}) if isinstance(body, Mapping) else None
    if not isinstance(fields, Mapping):
        raise BadInput("malformed highlight", value=body, expected='{"fields": {"NAME": {}}}')
    if any(settings != {} for settings in fields.values()):
        unsupported("settings of a single field in highlight", "settings of the highlight as a whole")
    if "highlight_query" in body:
        clause = parse_query(body["highlight_query"], tables, whole=True).clause
    asked = [name for name in tables.meta.fields if any(fnmatchcase(name, pattern) for pattern in fields)]
    return Highlight(
        {name: frozenset(clause.words(name)) for name in asked},
        _tag(body, "pre_tags", "<em>"),
        _tag(body, "post_tags", "</em>"),
        html.escape if body.get("encoder") == "html" else str,
        convert("number_of_fragments", body.get("number_of_fragments", _FRAGMENTS), Natural),
        convert("max_analyzer_offset", body.get("max_analyzer_offset", _LENGTH), Natural),
    )


def _tag(settings: Mapping[str, Any], name: str, default: str) -> str:
    tags: list[str] = convert(name, settings.get(name, [default]), Annotated[list[str], msgspec.Meta(min_length=1)])
    return tags[0]
