"""The hits of a page: fields, vectors, and highlights, which are the words of the query between tags."""

from __future__ import annotations

import html
import sqlite3
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from resift.arrays import Floats
from resift.contracts.query_dsl import VECTOR_FIELD, filter_source, source_parts, values_of
from resift.errors import BadInput, CorruptEngine
from resift.plugin.sqlite.analysis import Word, words_of
from resift.plugin.sqlite.clauses import Clause
from resift.plugin.sqlite.fields import only_value
from resift.plugin.sqlite.query import natural_number, parse_query, unsupported
from resift.plugin.sqlite.tables import IndexTables, stored_object, stored_vector

_FRAGMENTS, _FRAGMENT_WORDS = 5, 40
_LENGTH = 1_000_000  # characters: beyond as many OpenSearch refuses a search that does not say how far to look
_BLANKS = "".join(map(chr, range(33)))  # what Java trims


@dataclass(frozen=True)
class FieldHighlight:
    """How a field is highlighted: the ``terms`` between two tags, in at most ``fragments`` fragments (0: all text).

    Of a longer text only the first ``length`` characters are looked at.
    """

    terms: frozenset[str]
    before: str
    after: str
    escape: Callable[[str], str]
    fragments: int
    length: int

    def of(self, source: Mapping[str, Any], field: str, analyzer: str) -> list[str]:
        """The fragments of a document: of each text of the field that holds a term, one."""
        values = (value for value in values_of(source, field) if isinstance(value, (str, int, float)))
        texts = (str(value)[: self.length] for value in values)
        found = [fragment for text in texts if (fragment := self._fragment(text, list(words_of(text, analyzer))))]
        return [fragment.strip(_BLANKS) for fragment in found[: self.fragments or None]]

    def _fragment(self, text: str, words: Sequence[Word]) -> str | None:
        """The part of a text with the most different terms, or all of it; None if it holds none."""
        places = [place for place, word in enumerate(words) if word.term in self.terms]
        if not places:
            return None
        if not self.fragments or len(words) <= _FRAGMENT_WORDS:
            return self._tagged(text, 0, len(text), [words[place] for place in places])
        first = _densest(places, [words[place].term for place in places])
        last = min(first + _FRAGMENT_WORDS, len(words)) - 1
        start = 0 if first == 0 else words[first].start
        end = len(text) if last == len(words) - 1 else words[last].end
        tagged = self._tagged(text, start, end, [words[place] for place in places if first <= place <= last])
        return f"{'…' if start else ''}{tagged}{'…' if end < len(text) else ''}"

    def _tagged(self, text: str, start: int, end: int, words: Sequence[Word]) -> str:
        parts, at = [], start
        for word in words:
            parts += [
                self.escape(text[at : word.start]),
                self.before,
                self.escape(text[word.start : word.end]),
                self.after,
            ]
            at = word.end
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


def parse_highlight(body: Any, clause: Clause, tables: IndexTables) -> dict[str, FieldHighlight]:
    """What a body's ``highlight`` asks for: field → how, alike for all. Raises BadInput if it is malformed.

    The words are those of ``clause``, the search's query, or of a ``highlight_query``.
    """
    if not body:
        return {}
    fields = body.get("fields", {}) if isinstance(body, Mapping) else None
    if not isinstance(fields, Mapping):
        raise BadInput("malformed highlight", value=body, expected='{"fields": {"NAME": {}}}')
    if any(settings != {} for settings in fields.values()):
        unsupported("settings of a single field in highlight", "settings of the highlight as a whole")
    if "highlight_query" in body:
        clause = parse_query(body["highlight_query"], tables, whole=True).clause
    shown = FieldHighlight(
        frozenset(),
        _tag(body, "pre_tags", "<em>"),
        _tag(body, "post_tags", "</em>"),
        html.escape if body.get("encoder") == "html" else str,
        natural_number(body, "number_of_fragments", _FRAGMENTS),
        natural_number(body, "max_analyzer_offset", _LENGTH),
    )
    asked = [name for name in tables.fields if any(fnmatchcase(name, pattern) for pattern in fields)]
    return {name: replace(shown, terms=frozenset(clause.words(name))) for name in asked}


def _tag(settings: Mapping[str, Any], name: str, default: str) -> str:
    tags = settings.get(name, [default])
    if not isinstance(tags, list) or not tags or not isinstance(tags[0], str):
        raise BadInput(f"{name} is {tags!r}", value=tags, expected="a list with a text")
    return tags[0]


class Shown(NamedTuple):
    """What is shown of hits: the body's ``_source``, how each field that it highlights is, which named clauses a row
    matches, the field that hits are collapsed by, and whether the vectors are wanted."""

    source: Any
    highlights: Mapping[str, FieldHighlight]
    names: Mapping[int, list[str]]
    group: str | None
    vectors: bool


def page_hits(
    db: sqlite3.Connection, tables: IndexTables, page: Sequence[tuple[int, float]], shown: Shown
) -> tuple[list[dict[str, Any]], list[Floats | None]]:
    """The hits for the rows and scores of a ``page``, in its order, and their vectors (K,), None for none."""
    rows = ", ".join(str(row) for row, _ in page)
    # Ids alone are read alone: of a page of thousands the rest takes longer than the search.
    ids_alone = shown.source is False and not (shown.highlights or shown.group or shown.vectors)
    read = "'{}', NULL" if ids_alone else "source, vector"
    sql = f"SELECT row, id, {read} FROM {tables.documents} WHERE row IN ({rows})"
    stored = {row: rest for row, *rest in db.execute(sql)}
    hits, found_vectors = [], []
    for row, score in page:
        if row not in stored:
            raise CorruptEngine(f"{tables.name!r} is damaged: row {row} has no document", value=row)
        id, text, blob = stored[row]
        fields, vector = stored_object(text, f"document {id!r}"), stored_vector(blob, tables.dim, f"document {id!r}")
        hit: dict[str, Any] = {"_index": tables.name, "_id": id, "_score": score}
        fragments = {
            name: found for name, one in shown.highlights.items() if (found := one.of(fields, name, tables.analyzer))
        }
        if (wanted := _wanted(fields, vector, shown.source)) is not None:
            hit["_source"] = wanted
        if shown.group and (value := only_value(fields, shown.group)) is not None:
            hit["fields"] = {shown.group: [value]}
        if shown.names[row]:
            hit["matched_queries"] = shown.names[row]
        if fragments:
            hit["highlight"] = fragments
        hits.append(hit)
        found_vectors.append(vector)
    return hits, found_vectors


def _wanted(fields: dict[str, Any], vector: Floats | None, source: Any) -> dict[str, Any] | None:
    """The stored fields that a body's ``_source`` asks for, with the vector if it names it."""
    if VECTOR_FIELD in source_parts(source)[0] and vector is not None:
        fields = {**fields, VECTOR_FIELD: vector.tolist()}
    return filter_source(fields, source)
