"""Settings and mappings of the indices that Resift creates, and the fields of existing mappings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from resift.contracts.documents import (
    COMPOUND_JOINTS,
    ELISIONS,
    LANGUAGES,
    TOKEN_NUMBERS,
    IndexInfo,
    ModelDescription,
    VectorField,
)
from resift.plugin.opensearch.stored_fields import has_source
from resift.query.dsl import GUARD_FIELD, VECTOR_FIELD, is_resift_field

# Analyzers of the indices that Resift creates. They equal OpenSearch's analyzers english and standard, except that
# compound names (os.path, read_csv) are split into words, as the encoders do. Indices in other languages have an
# additional analyzer.
ANALYSIS: dict[str, Any] = {
    "char_filter": {"resift_compounds": {"type": "pattern_replace", "pattern": COMPOUND_JOINTS, "replacement": " "}},
    "filter": {"resift_possessive": {"type": "stemmer", "language": "possessive_english"}},
    "analyzer": {
        "resift_english": {
            "type": "custom",
            "char_filter": ["resift_compounds"],
            "tokenizer": "standard",
            "filter": ["resift_possessive", "lowercase", "stop", "porter_stem"],
        },
        "resift_standard": {
            "type": "custom",
            "char_filter": ["resift_compounds"],
            "tokenizer": "standard",
            "filter": ["lowercase"],
        },
    },
}
SETTINGS: dict[str, Any] = {"index.knn": True, "analysis": ANALYSIS}
_EXACT = ("keyword", "boolean", "byte", "short", "integer", "long")
TEXT_TYPES = ("text", "match_only_text")
# The text of a ``semantic`` field is indexed as vectors or tokens. Like other texts, it consists of sentences.
_LEARNED_TYPES = (*TEXT_TYPES, "annotated_text", "search_as_you_type", "semantic")
_EXACT_STRINGS = ("keyword", "constant_keyword", "wildcard")
_TOKENS = {"rank_features": "tokens", "sparse_vector": TOKEN_NUMBERS}
# The mapping of a field that accepts any JSON value, stores it, and does not index it.
STORED_ONLY = {"type": "object", "enabled": False}
# The key in ``_meta`` for settings of searches. It is separate from the key "resift" because attaching and detaching
# rewrite the key "resift".
TUNING_KEY = "resift_tuning"
# The mapping of a field with compact vectors (see :mod:`resift.vectors.compact`).
COMPACT_MAPPING: dict[str, Any] = {"type": "binary", "doc_values": True}


def index_settings(analyzer: str) -> dict[str, Any]:
    """Return the settings of a new index, as a JSON object for OpenSearch.

    Args:
        analyzer: The analyzer of the text fields, a member of :data:`resift.contracts.documents.ANALYZERS`.
    """
    if analyzer not in LANGUAGES:
        return SETTINGS
    name, filters = f"resift_{analyzer}", dict[str, Any]()
    if analyzer in ELISIONS:
        filters[f"{name}_elision"] = {"type": "elision", "articles": ELISIONS[analyzer]}
    if analyzer == "german":  # Snowball's rules for German differ between versions of Lucene
        filters[name] = {"type": "stemmer", "language": "light_german"}
    else:
        filters[name] = {"type": "snowball", "language": analyzer.capitalize()}
    language = {**ANALYSIS["analyzer"]["resift_standard"], "filter": ["lowercase", *filters]}
    analysis = {
        **ANALYSIS,
        "filter": {**ANALYSIS["filter"], **filters},
        "analyzer": {**ANALYSIS["analyzer"], name: language},
    }
    return {**SETTINGS, "analysis": analysis}


def vector_mapping(model: ModelDescription) -> dict[str, Any]:
    """Return the mapping of a ``knn_vector`` field that stores the vectors of a model in an HNSW index."""
    # The engine is lucene, not faiss. The k-NN plugin from Maven lacks the native libraries of faiss, and a node
    # without them crashes on the first write to a faiss field.
    method = {"name": "hnsw", "engine": "lucene", "space_type": model.space_type}
    return {"type": "knn_vector", "dimension": model.dim, "method": method}


def mappings(fields: Sequence[str], model: ModelDescription, analyzer: str = "english") -> dict[str, Any]:
    """Return the mappings of a new index, as a JSON object for OpenSearch.

    The mappings define the text fields and the vector field. A field with bags of vectors is stored, but not indexed.
    All other strings become keyword fields. The ``_meta`` of the mappings contains the description of the index.

    Args:
        fields: The names of the text fields. A name with dots refers to a field of an inner object.
        model: The model that encodes the documents.
        analyzer: The analyzer of the text fields. Create the index with the settings that :func:`index_settings`
            returns for the same analyzer.
    """
    texts: dict[str, Any] = {"properties": {}}
    for name in fields:
        level: dict[str, Any] = texts
        *path, last = name.split(".")
        for part in path:
            level = level.setdefault("properties", {}).setdefault(part, {})
        level.setdefault("properties", {})[last] = {"type": "text", "analyzer": f"resift_{analyzer}"}
    texts["properties"][VECTOR_FIELD] = vector_mapping(model)
    texts["properties"][GUARD_FIELD] = STORED_ONLY
    if model.bags is not None:
        texts["properties"][model.bags] = STORED_ONLY
    # Lucene refuses a document with a term of more than 32,766 bytes. 8,191 characters in UTF-8 never exceed that.
    keyword = {"match_mapping_type": "string", "mapping": {"type": "keyword", "ignore_above": 8191}}
    return {
        **texts,
        "_meta": {"resift": IndexInfo.from_model(model, fields).to_meta()},
        "dynamic_templates": [{"strings": keyword}],
    }


def mapped_fields(
    mapping: dict[str, Any], path: str = "", nested: str | None = None
) -> Iterator[tuple[str, dict[str, Any], str | None]]:
    """Yield all fields of a mapping, including fields of inner objects and multi-fields.

    Args:
        mapping: A mapping, or the part of a mapping that describes an object.
        path: The prefix of all names, which ends with a dot.
        nested: The path of the ``nested`` object that contains ``mapping``, if any.

    Yields:
        The full name of the field, its mapping, and the path of the innermost ``nested`` object that contains the
        field. The path is None if the field is not inside a nested object.

    >>> [name for name, *_ in mapped_fields({"properties": {"a": {"type": "text", "fields": {"raw": {}}}}})]
    ['a', 'a.raw']
    """
    for name, field in {**mapping.get("properties", {}), **mapping.get("fields", {})}.items():
        nested_path = f"{path}{name}" if field.get("type") == "nested" else nested
        yield f"{path}{name}", field, nested_path
        yield from mapped_fields(field, f"{path}{name}.", nested_path)


def exact_field_names(mapping: dict[str, Any]) -> list[str]:
    """Return the names of the fields in a mapping that can be filtered by exact values.

    These fields support ``term`` queries and ``terms`` aggregations. Fields inside nested objects are left out, because
    they can only be searched by ``nested`` queries. Resift's own fields are left out, too.
    """
    return [
        name
        for name, field, nested in mapped_fields(mapping)
        if nested is None
        and field.get("type") in _EXACT
        and field.get("doc_values", True)
        and not is_resift_field(name)
    ]


def field_types(mapping: dict[str, Any]) -> dict[str, str]:
    """Return the type of each field of a mapping by the full name of the field. Objects are left out.

    >>> field_types({"properties": {"a": {"type": "text", "fields": {"raw": {"type": "keyword"}}}, "b": {}}})
    {'a': 'text', 'a.raw': 'keyword'}
    """
    types = ((name, field.get("type")) for name, field, _ in mapped_fields(mapping))
    return {name: type for name, type in types if type not in (None, "object", "nested")}


def text_sources(mapping: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return the fields in the ``_source`` of documents that fill the text fields of a mapping.

    Text fields can be inside objects and nested objects. A text field that is a multi-field, such as ``name.english``,
    is filled by its parent, such as ``name``. A field can also be copied to text fields (``copy_to``). Fields that
    cannot be searched (``index: false``) are left out, and so are Resift's own fields.

    If no other fields exist, the result contains fields of other types that are copied to text fields. If the mapping
    has no text fields, it contains the keyword fields.

    Args:
        mapping: The mapping of an index.

    Returns:
        For the path of each field in ``_source``, the names by which queries search its text: the field or its
        multi-fields, the targets of ``copy_to``, and field aliases.

    >>> name = {"type": "keyword", "copy_to": "all", "fields": {"english": {"type": "text"}}}
    >>> text_sources({"properties": {"name": name, "all": {"type": "text"}, "kind": {"type": "keyword"}}})
    {'name': ('name.english', 'all'), 'all': ('all',)}
    """
    fields = dict(_source_fields(mapping))
    if not has_source(mapping):
        # The names of stored fields and term vectors are those of the fields, also of multi-fields.
        fields = {
            name: {**field, "fields": {}} for name, field, _ in mapped_fields(mapping) if not is_resift_field(name)
        }
    searchable = {path: _searchable_names(path, field, _LEARNED_TYPES) for path, field in fields.items()}
    aliases: dict[str, list[str]] = {}
    for path, field in fields.items():
        if field.get("type") == "alias":
            aliases.setdefault(str(field.get("path")), []).append(path)
    targets = {path: _copy_targets(field) for path, field in fields.items()}
    sources = {}
    for path, own_names in searchable.items():
        copies = [copy for target in targets[path] for copy in searchable.get(target, ())]
        names = list(dict.fromkeys([*own_names, *copies]))
        sources[path] = (*names, *(alias for name in names for alias in aliases.get(name, ())))
    all_targets = {target for copied in targets.values() for target in copied}
    texts = {path: sources[path] for path, names in searchable.items() if names}
    if texts.keys() <= all_targets:
        texts = {path: names for path, names in sources.items() if names}
    if texts:
        return texts
    exact = {path: _searchable_names(path, field, _EXACT_STRINGS) for path, field in fields.items()}
    return {path: tuple(names) for path, names in exact.items() if names}


def _source_fields(mapping: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the path and the mapping of each field that documents can contain, without multi-fields.

    Resift's own fields, and the chunks and vectors that OpenSearch adds beside a ``semantic`` field, are left out.

    Args:
        mapping: A mapping, or the part of a mapping that describes an object.
        path: The prefix of all paths, which ends with a dot.
    """
    fields = mapping.get("properties", {})
    added = {
        field.get("semantic_info_field_name", f"{name}_semantic_info")
        for name, field in fields.items()
        if field.get("type") == "semantic"
    }
    for name, field in fields.items():
        if name not in added and not is_resift_field(f"{path}{name}"):
            yield f"{path}{name}", field
            yield from _source_fields(field, f"{path}{name}.")


def _searchable_names(path: str, field: dict[str, Any], types: Sequence[str]) -> list[str]:
    """Return the names of a field and its multi-fields that have one of some types and can be searched.

    Args:
        path: The path of the field.
        field: The mapping of the field.
        types: The names of the types.
    """
    candidates = {path: field, **{f"{path}.{name}": inner for name, inner in field.get("fields", {}).items()}}
    return [name for name, inner in candidates.items() if inner.get("type") in types and inner.get("index", True)]


def _copy_targets(field: dict[str, Any]) -> list[str]:
    """Return the names of the fields to which a field is copied (``copy_to``)."""
    targets = field.get("copy_to", [])
    return [targets] if isinstance(targets, str) else targets


def vector_fields(mapping: dict[str, Any], path: str = "", nested: bool = False) -> Iterator[tuple[str, VectorField]]:
    """Yield all fields of a mapping that contain vectors, or weighted tokens for sparse retrieval.

    Args:
        mapping: A mapping, or the part of a mapping that describes an object.
        path: The prefix of all names, which ends with a dot.
        nested: Whether ``mapping`` is part of a ``nested`` object.

    Yields:
        The name that queries use for the field, and a description of the field. The description of a ``semantic`` field
        has another name, because its vectors are in an inner field.

    >>> dict(vector_fields({"properties": {"v": {"type": "knn_vector", "dimension": 3, "data_type": "BYTE"}}}))
    {'v': VectorField(name='v', kind='byte', dim=3, nested=False, model=None, space='l2')}
    """
    fields = mapping.get("properties", {})
    for key, field in fields.items():
        name, kind = f"{path}{key}", field.get("type")
        if kind == "knn_vector":
            space = field.get("space_type") or field.get("method", {}).get("space_type") or "l2"
            numbers = field.get("data_type", "float").lower()
            yield name, VectorField(name, numbers, field.get("dimension"), nested, space=space)
        elif kind in _TOKENS:
            yield name, VectorField(name, _TOKENS[kind], nested=nested)
        elif kind == "semantic":
            inner = field.get("semantic_info_field_name", f"{key}_semantic_info")
            # With ``model_selection``, OpenSearch chooses a model for each text.
            named_model = field.get("search_model_id", field.get("model_id"))
            model = None if "model_selection" in field else named_model
            # If the text is chunked, every chunk has a vector, in a nested object.
            for _, vector_field in vector_fields(fields.get(inner, {}), f"{path}{inner}.", nested):
                yield name, replace(vector_field, model=model)
        else:
            yield from vector_fields(field, f"{name}.", nested or kind == "nested")
