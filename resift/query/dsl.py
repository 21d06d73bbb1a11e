"""What Resift says in OpenSearch's query language, and how it reads the text of documents."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from resift.errors import BadInput

Body = dict[str, Any]  # a search body, or a clause of one
VECTOR_FIELD = "resift_vector"  # where nothing says otherwise
COMPACT_FIELD = f"{VECTOR_FIELD}_int8"  # where attaching puts one (resift.vectors.compact)
# The ingest pipeline writes a value here that OpenSearch refuses in an index that does not map the field: there the
# vector would become a plain list of numbers, which no search finds.
GUARD_FIELD = "resift_needs_mapping"
PLAIN = {"search_pipeline": "_none"}  # of a body that Resift asks for itself, by no search pipeline
PIPELINE_PREFIX = "resift-"  # of the names of an index's pipelines, before its own name
# Patterns of what documents show nobody who does not ask; an earlier version of Resift wrote resift_code.
HIDDEN = [f"{VECTOR_FIELD}*", "resift_code", GUARD_FIELD]
_VECTOR = re.compile(rf"{VECTOR_FIELD}(_\w+)?")
_STARS, _OTHER_SIGNS = re.compile(r"\*{2,}"), re.compile(r"[\[?]")
MAX_WINDOW = 1000  # candidates of a search: of the window, and nearest documents
MAX_RESULTS = 10_000  # from + size at most: OpenSearch's default of index.max_result_window


class NestedField(str):
    """The name of a field of nested objects, which a query reaches only by the ``path`` of these objects."""

    path: str

    def __new__(cls, name: str, path: str) -> NestedField:
        """The field of a ``name`` in the objects at a ``path``."""
        field = super().__new__(cls, name)
        field.path = path
        return field


def document_text(source: Mapping[str, Any], fields: Sequence[str]) -> str:
    """The text of a document that is encoded: the values of its ``fields`` in order, one to a line.

    Lists are flattened and objects are left out. A name with dots stands for an inner field. If ``fields`` is empty,
    all top-level strings of the document are taken.

    >>> document_text({"title": "A", "meta": {"tags": ["b", "c"]}, "n": 1}, ["title", "meta.tags", "none"])
    'A\\nb\\nc'
    """
    if fields:
        values = [value for name in fields for value in values_of(source, name)]
    else:
        values = [value for value in source.values() if isinstance(value, str)]
    return "\n".join(str(value) for value in values if value is not None and not isinstance(value, Mapping))


def values_of(source: Any, name: str) -> Iterator[Any]:
    """Each value of a field, lists flattened; a name with dots stands for an inner field, in each item of a list.

    >>> list(values_of({"a": [{"b": 1}, {"b": [2, None]}], "a.b": {"c": 3}}, "a.b"))
    [{'c': 3}, 1, 2, None]
    """
    if isinstance(source, list):
        for item in source:
            yield from values_of(item, name)
    elif not name:
        yield source
    elif isinstance(source, Mapping):
        if name in source:
            yield from values_of(source[name], "")
        for at, sign in enumerate(name):  # {"a.b": 1} and {"a": {"b": 1}} are the same to OpenSearch
            if sign == "." and name[:at] in source:
                yield from values_of(source[name[:at]], name[at + 1 :])


def text_clause(text: str, fields: Sequence[str], **settings: Any) -> Body:
    """The query clause that asks for a text in an index's ``fields``, in all of them if it names none.

    Nested objects are documents of their own to the engine: of those at one path the best one counts.
    """
    nested: dict[str, list[str]] = {}
    for field in fields:
        if isinstance(field, NestedField):
            nested.setdefault(field.path, []).append(field)
    flat = [field for field in fields if not isinstance(field, NestedField)]
    clauses = [_multi_match(text, flat or ["*"], settings)] if flat or not fields else []
    for path, inner in nested.items():
        query = _multi_match(text, inner, settings)
        # of several indices one may have no such objects
        clauses.append({"nested": {"path": path, "query": query, "score_mode": "max", "ignore_unmapped": True}})
    if len(clauses) == 1:
        return clauses[0]
    return {"dis_max": {"queries": clauses, "tie_breaker": settings.get("tie_breaker", 0.0)}}


def _multi_match(text: str, fields: Sequence[str], settings: Mapping[str, Any]) -> Body:
    # lenient: of several indices one may have a number or a date where others have a text, and would refuse words
    return {"multi_match": {"query": text, "fields": list(fields), "lenient": True, **settings}}


def filter_source(source: Body, spec: Any) -> Body | None:
    """The fields of a document that a search body's ``_source`` asks for; None if it asks for none at all.

    ``spec`` is a boolean, a pattern, a list of patterns, or an object with ``includes`` and ``excludes``. A pattern
    with dots stands for inner fields, and the name of an object for all that is in it.

    >>> filter_source({"title": "A", "meta": {"tags": ["b"], "n": 1}}, {"includes": ["meta.*"], "excludes": "*.n"})
    {'meta': {'tags': ['b']}}
    """
    if spec is False:
        return None
    includes, excludes = source_parts(spec)
    filtered: Body = _filtered(source, "", includes, excludes)
    return filtered


def _filtered(value: Any, path: str, includes: Sequence[str], excludes: Sequence[str]) -> Any:
    """What is left of a value at a ``path`` ("" or ending in a dot); without ``includes`` all that is not excluded.

    Items of lists of which nothing is left are left out, unless there was nothing in them.
    """
    if isinstance(value, list):
        items = [(one, _filtered(one, path, includes, excludes)) for one in value]
        return [left for one, left in items if left or left == one]
    if not isinstance(value, Mapping):
        return {} if includes else value  # {}: nothing
    kept: Body = {}
    for key, inner in value.items():
        name = f"{path}{key}"
        if _matches(name, excludes):
            continue
        whole = not includes or _matches(name, includes)
        # what is inside an included object is included, whatever the patterns say of its name
        left = _filtered(inner, f"{name}.", () if whole else includes, excludes)
        if whole or left:
            kept[key] = left
    return kept


def _matches(name: str, patterns: Sequence[str]) -> bool:
    # of fnmatch's signs OpenSearch knows the star alone
    return any(
        name == pattern or ("*" in pattern and fnmatchcase(name, _OTHER_SIGNS.sub(r"[\g<0>]", pattern)))
        for pattern in patterns
    )


def source_parts(spec: Any) -> tuple[list[str], list[str]]:
    """The names and patterns of fields that a ``_source`` includes and excludes; none includes all.

    Raises BadInput for a malformed one. Several stars in a row are one: OpenSearch builds an automaton of them all, and
    of some thousand runs out of memory.
    """
    if spec is None or isinstance(spec, bool):
        return [], []
    parts = []
    for kind in ("includes", "excludes"):
        value = spec.get(kind) or [] if isinstance(spec, Mapping) else spec if kind == "includes" else []
        found = [value] if isinstance(value, str) else value
        if not isinstance(found, (list, tuple)) or not all(isinstance(pattern, str) for pattern in found):
            expected = "a field's name or pattern, or a list of them"
            raise BadInput(f"malformed _source {kind}", value=value, expected=expected)
        parts.append([_STARS.sub("*", pattern) for pattern in found])
    includes, excludes = parts
    return includes, excludes


def without_vector(spec: Any) -> Any:
    """A ``_source`` that leaves out the vector and what belongs to it, unless ``spec`` names the vector field.

    >>> without_vector("t***")
    {'includes': ['t*'], 'excludes': ['resift_vector*', 'resift_code', 'resift_needs_mapping']}
    """
    if spec is False:
        return spec
    includes, excludes = source_parts(spec)
    # Only what is no plain name can match it: beside thousands of names OpenSearch finds another pattern too complex.
    matchable = not includes or any("*" in name for name in includes)
    hidden = HIDDEN if matchable and not any(map(is_ours, includes)) else []
    return {"includes": includes, "excludes": [*excludes, *hidden]}


def is_ours(field: str) -> bool:
    """Whether a field holds what belongs to a vector of ours: other models' vectors are in ``resift_vector_HASH``."""
    return field in HIDDEN or bool(_VECTOR.fullmatch(field))


def is_compact(field: str) -> bool:
    """Whether a field is one of vectors in a byte a number: each model has one, as it has of other vectors."""
    return field == COMPACT_FIELD or field.startswith(f"{COMPACT_FIELD}_")


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The values of a body by their full names, however they are nested; those of a list have its name."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from leaves(inner, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for inner in value:
            yield from leaves(inner, path)
    elif value is not None:
        yield path, value
