"""Names, limits and helpers for OpenSearch's query language and for the ``_source`` of documents."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from resift.errors import BadInput
from resift.field_names import has_title_name
from resift.query.patterns import NamePatterns

Body = dict[str, Any]
"""A search body, or a clause of a query."""
VECTOR_FIELD = "resift_vector"
"""The default name of the field in which Resift stores the vector of each document."""
COMPACT_FIELD = f"{VECTOR_FIELD}_int8"
"""The default name of this field if the vectors are stored as bytes. See :mod:`resift.vectors.compact`."""
GUARD_FIELD = "resift_needs_mapping"
"""A field that the ingest pipeline adds to each document with a vector, as a test of the mapping.

Its value mixes a number and an object. Only Resift's mappings accept this value, so OpenSearch refuses the document in
any other index. Without this field, such an index would store the vector as a plain list of numbers, which no search
uses.
"""
HIDDEN = [f"{VECTOR_FIELD}*", GUARD_FIELD]
"""Patterns of the fields that hits show only if a search names them."""
PLAIN = {"search_pipeline": "_none"}
"""The part of a search body that skips the search pipeline of the index."""
PIPELINE_PREFIX = "resift-"
"""The prefix of the names of Resift's pipelines for an index. The name of the index follows."""
REWRITTEN_NAME = "resift"
"""The ``_name`` of the clause that marks a query as rewritten. Hits show the name in ``matched_queries``."""
MAX_OWN_CLAUSES = 1000
"""The maximum number of clauses (words times fields) in a query by Resift. OpenSearch refuses more than 1024."""
MAX_WINDOW = 1000
"""The maximum rescore window of a search, and the maximum number of documents that a k-NN search finds."""
MAX_RESULTS = 10_000
"""The largest ``from`` + ``size``: OpenSearch's default of ``index.max_result_window``."""
_OWN_VECTOR_FIELD = re.compile(rf"{VECTOR_FIELD}(_\w+)?")
_SEVERAL_STARS = re.compile(r"\*{2,}")


class NestedField(str):
    """The name of a field inside nested objects, with the path that a ``nested`` query needs to reach the field.

    Attributes:
        path: The path of the nested objects, for example ``comments`` for the field ``comments.text``.
    """

    path: str

    def __new__(cls, name: str, path: str) -> NestedField:
        """Create a field name that carries the path of its nested objects.

        Args:
            name: The full name of the field, for example ``comments.text``.
            path: The path of the nested objects, for example ``comments``.
        """
        field = super().__new__(cls, name)
        field.path = path
        return field


def without_boost(field: str) -> str:
    """Return the name of a field without its boost. The name of a nested field keeps its path.

    >>> without_boost("title^2"), without_boost(NestedField("parts.name^2", "parts")).path
    ('title', 'parts')
    """
    name = field.partition("^")[0]
    return NestedField(name, field.path) if isinstance(field, NestedField) else name


def document_text(source: Mapping[str, Any], fields: Sequence[str]) -> str:
    r"""Return the text of a document that the embedding model encodes, with one value per line.

    Lists are flattened. Values that are objects are skipped.

    Args:
        source: The document's ``_source``.
        fields: The text fields, in order. A dotted name such as ``meta.tags`` refers to a field inside an object. If
            the list is empty, all strings at the top level of the document are used. Fields such as ``title`` then come
            first, because the first line of the text represents the document in messages.

    >>> document_text({"title": "A", "meta": {"tags": ["b", "c"]}, "n": 1}, ["title", "meta.tags", "none"])
    'A\nb\nc'
    >>> document_text({"colour": "Clear", "title": "Vase"}, [])
    'Vase\nClear'
    """
    if fields:
        values = [value for name in fields for value in values_of(source, name)]
    else:
        names = sorted(source, key=lambda name: not has_title_name(name))
        values = [source[name] for name in names if isinstance(source[name], str)]
    return "\n".join(str(value) for value in values if value is not None and not isinstance(value, Mapping))


def values_of(source: Any, name: str) -> Iterator[Any]:
    """Yield each value of a document's field.

    Lists are flattened. A dotted name such as ``a.b`` refers to the field ``b`` inside the object ``a``, or inside each
    object of a list ``a``.

    Args:
        source: The document, as JSON.
        name: The name of the field.

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
        if "." not in name:
            return
        for position, character in enumerate(name):  # {"a.b": 1} and {"a": {"b": 1}} are the same to OpenSearch
            if character == "." and name[:position] in source:
                yield from values_of(source[name[:position]], name[position + 1 :])


def text_clause(text: str, fields: Sequence[str], **settings: Any) -> Body:
    """Build an OpenSearch query clause that searches for a text in some fields.

    The clause is a ``multi_match`` query. Fields inside nested objects are searched with a ``nested`` query for each
    path. If a document has several nested objects at the same path, only the best-scoring object counts.

    Args:
        text: The text to search for.
        fields: The names of the searched fields. If empty, all fields are searched.
        **settings: Further settings of the ``multi_match`` query, for example ``boost``.
    """
    nested: dict[str, list[str]] = {}
    for field in fields:
        if isinstance(field, NestedField):
            nested.setdefault(field.path, []).append(field)
    flat = [field for field in fields if not isinstance(field, NestedField)]
    clauses = [_multi_match(text, flat or ["*"], settings)] if flat or not fields else []
    for path, inner in nested.items():
        query = _multi_match(text, inner, settings)
        # ignore_unmapped: some of the searched indices may lack these objects.
        clauses.append({"nested": {"path": path, "query": query, "score_mode": "max", "ignore_unmapped": True}})
    if len(clauses) == 1:
        return clauses[0]
    return {"dis_max": {"queries": clauses, "tie_breaker": settings.get("tie_breaker", 0.0)}}


def _multi_match(text: str, fields: Sequence[str], settings: Mapping[str, Any]) -> Body:
    """Build a ``multi_match`` clause that searches for a text in fields outside nested objects.

    Args:
        text: The text to search for.
        fields: The names of the fields, or ``["*"]`` for all fields.
        settings: Further settings of the clause, for example ``boost``.
    """
    # lenient: the field may be a number or a date in some of the searched indices, which would refuse words.
    return {"multi_match": {"query": text, "fields": list(fields), "lenient": True, **settings}}


def filter_source(source: Body, spec: Any) -> Body | None:
    """Return the part of a document that the ``_source`` option of a search body selects, as OpenSearch does.

    Args:
        source: The whole ``_source`` of the document. It is not modified.
        spec: The ``_source`` option: a boolean, a pattern, a list of patterns, or an object with ``includes`` and
            ``excludes``. Dotted patterns such as ``meta.*`` refer to fields inside objects. The name of an object
            selects all its fields.

    Returns:
        The selected fields, or None if ``spec`` is False.

    Raises:
        BadInput: If ``spec`` is malformed.

    >>> filter_source({"title": "A", "meta": {"tags": ["b"], "n": 1}}, {"includes": ["meta.*"], "excludes": "*.n"})
    {'meta': {'tags': ['b']}}
    """
    if spec is False:
        return None
    includes, excludes = split_source_option(spec)
    filtered: Body = _filter_value(source, "", _compile_patterns(tuple(includes)), _compile_patterns(tuple(excludes)))
    return filtered


@lru_cache(maxsize=8)  # the patterns are the same for all hits of a search
def _compile_patterns(patterns: tuple[str, ...]) -> NamePatterns:
    """Compile the included or excluded patterns of a ``_source`` option."""
    return NamePatterns(patterns)


def _filter_value(value: Any, path: str, includes: NamePatterns, excludes: NamePatterns) -> Any:
    """Return the part of a JSON value that the patterns of a ``_source`` option select, or {} if they select nothing.

    List items from which nothing is selected are dropped, unless they were empty before.

    Args:
        value: A document, or a value inside a document.
        path: The path of the value with a dot at the end, for example ``meta.``. Empty for the whole document.
        includes: Patterns of the selected fields. If empty, all fields are selected.
        excludes: Patterns of the fields to leave out, even if they are selected.
    """
    if not includes and not excludes:
        return value  # a vector has hundreds of items
    if isinstance(value, list):
        pairs = [(item, _filter_value(item, path, includes, excludes)) for item in value]
        return [part for item, part in pairs if part or part == item]
    if not isinstance(value, Mapping):
        return {} if includes else value
    included: Body = {}
    for key, inner in value.items():
        name = f"{path}{key}"
        if excludes.match(name):
            continue
        is_included = not includes or includes.match(name)
        # All fields of an included object are included.
        part = _filter_value(inner, f"{name}.", _compile_patterns(()) if is_included else includes, excludes)
        if is_included or part:
            included[key] = part
    return included


def split_source_option(spec: Any) -> tuple[list[str], list[str]]:
    """Split the ``_source`` option of a search body into its included and its excluded patterns.

    Repeated stars in a pattern are merged into a single star. OpenSearch builds an automaton for each pattern, and
    thousands of stars would exhaust its memory.

    Args:
        spec: The ``_source`` option of a search body.

    Returns:
        The list of included patterns and the list of excluded patterns. If the first list is empty, all fields are
        included.

    Raises:
        BadInput: If ``spec`` is malformed.
    """
    if spec is None or isinstance(spec, bool):
        return [], []
    if not isinstance(spec, Mapping):
        return _read_patterns("includes", spec), []
    return _read_patterns("includes", spec.get("includes") or []), _read_patterns(
        "excludes", spec.get("excludes") or []
    )


def _read_patterns(part: str, value: Any) -> list[str]:
    """Convert the ``includes`` or ``excludes`` of a ``_source`` option to a list of patterns.

    Args:
        part: ``includes`` or ``excludes``, for error messages.
        value: A pattern or a list of patterns.

    Raises:
        BadInput: If ``value`` is neither a pattern nor a list of patterns.
    """
    patterns = [value] if isinstance(value, str) else value
    if not isinstance(patterns, (list, tuple)) or not all(isinstance(pattern, str) for pattern in patterns):
        expected = "a field's name or pattern, or a list of them"
        raise BadInput(f"malformed _source {part}", value=value, expected=expected)
    return [_SEVERAL_STARS.sub("*", pattern) for pattern in patterns]


def exclude_resift_fields(spec: Any) -> Any:
    """Extend the ``_source`` option of a search body so that hits do not contain the fields that Resift writes.

    If the option itself names one of these fields, such as ``resift_vector``, nothing is excluded, because the user
    wants to see the field. A repeated ``*`` in a pattern is reduced to a single ``*``.

    Args:
        spec: The ``_source`` option of a search body. None if the body has no such option.

    Returns:
        The new ``_source`` option. False stays False, because hits without a source show no fields.

    Raises:
        BadInput: If ``spec`` is malformed.

    >>> exclude_resift_fields("t***")
    {'includes': ['t*'], 'excludes': ['resift_vector*', 'resift_needs_mapping']}
    """
    if spec is False:
        return spec
    includes, excludes = split_source_option(spec)
    # If the option selects only names without ``*``, Resift's fields need not be excluded: plain names do not match
    # them. OpenSearch refuses a pattern besides thousands of names as too complex.
    may_match = not includes or any("*" in name for name in includes)
    hidden = HIDDEN if may_match and not any(map(is_resift_field, includes)) else []
    parts = {"includes": includes, "excludes": [*excludes, *hidden]}
    return {name: patterns for name, patterns in parts.items() if patterns}  # OpenSearch 3.8 warns about empty lists


def is_resift_field(field: str) -> bool:
    """Return whether a field contains data that Resift wrote, such as document vectors, rather than the user's data.

    Args:
        field: The name of the field. The field ``resift_vector`` contains the vectors of the first model, and
            ``resift_vector_HASH`` the vectors of a further model.
    """
    return field in HIDDEN or bool(_OWN_VECTOR_FIELD.fullmatch(field))


def is_compact_vector_field(field: str) -> bool:
    """Return whether a field contains Resift's document vectors in compact form, with one byte per dimension.

    Args:
        field: The name of the field, ``resift_vector_int8`` or ``resift_vector_int8_HASH``.
    """
    return field == COMPACT_FIELD or field.startswith(f"{COMPACT_FIELD}_")


def leaf_values(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield a pair of dotted path and value for each string, number and boolean in a JSON value.

    List items have the path of their list. Nulls are skipped.

    Args:
        value: The JSON value, for example the ``_source`` of a document.
        path: The path of the JSON value itself. All yielded paths begin with this path.
    """
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from leaf_values(inner, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for inner in value:
            yield from leaf_values(inner, path)
    elif value is not None:
        yield path, value


def replace_objects(
    value: Any, names: Collection[str], change: Callable[[Mapping[str, Any]], Mapping[str, Any]]
) -> Any:
    """Replace all objects that occur under certain keys of a JSON value, at any depth.

    Args:
        value: The JSON value. It is not modified.
        names: The keys. If the value under a key is a list, all objects in the list are replaced.
        change: A function that takes an object and returns its replacement.

    Returns:
        The new JSON value. Parts without replacements are the same Python objects as before, not copies.

    >>> replace_objects({"a": {"top": {"n": 1}}, "b": [2]}, ["top"], lambda settings: {**settings, "m": 3})
    {'a': {'top': {'n': 1, 'm': 3}}, 'b': [2]}
    """
    if isinstance(value, list):
        if not value or not isinstance(value[0], (Mapping, list)):  # for example a vector
            return value
        items = [replace_objects(item, names, change) for item in value]
        return value if all(new is old for new, old in zip(items, value, strict=True)) else items
    if not isinstance(value, Mapping):
        return value
    replaced = {}
    for name, inner in value.items():
        new = replace_objects(inner, names, change)
        if name in names and isinstance(new, list):
            new = [change(item) if isinstance(item, Mapping) else item for item in new]
        elif name in names and isinstance(new, Mapping):
            new = change(new)
        if new is not inner:
            replaced[name] = new
    return {**value, **replaced} if replaced else value
