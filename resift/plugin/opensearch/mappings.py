"""Mappings of the indices that Resift creates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from resift.contracts.documents import COMPOUND_JOINTS, ELISIONS, LANGUAGES, IndexInfo, ModelDescription, VectorField
from resift.query.dsl import GUARD_FIELD, VECTOR_FIELD, is_ours

# How texts become words in the indices that Resift creates: as OpenSearch's analysers english and standard make them,
# except that compound names (os.path, read_csv) are several words, as they are for the encoders. Indices of other
# languages have one more.
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
_TOKENS = ("rank_features", "sparse_vector")
GUARD_MAPPING = {"type": "object", "enabled": False}  # takes anything, and does nothing with it


def index_settings(analyzer: str) -> dict[str, Any]:
    """The settings of an index whose texts are cut by ``analyzer``, one of ``resift.contracts.documents.ANALYZERS``."""
    if analyzer not in LANGUAGES:
        return SETTINGS
    name, filters = f"resift_{analyzer}", dict[str, Any]()
    if analyzer in ELISIONS:
        filters[f"{name}_elision"] = {"type": "elision", "articles": ELISIONS[analyzer]}
    if analyzer == "german":  # Snowball's rules are other ones from version to version
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
    """The mapping of the field that holds the vectors of ``model``."""
    # Not faiss: its native libraries are missing from the k-NN plugin that Maven has, and a node without them ends
    # on the first write to such a field.
    method = {"name": "hnsw", "engine": "lucene", "space_type": model.space_type}
    return {"type": "knn_vector", "dimension": model.dim, "method": method}


TUNING = "resift_tuning"  # in _meta: beside our record, which attaching and detaching write anew
COMPACT_MAPPING: dict[str, Any] = {"type": "binary", "doc_values": True}


def mappings(fields: Sequence[str], model: ModelDescription, analyzer: str = "english") -> dict[str, Any]:
    """The mappings of an index with its :func:`index_settings`: its text ``fields``, other strings as keywords, the
    vector, and ``_meta``.

    A field's name with dots stands for an inner field.
    """
    texts: dict[str, Any] = {"properties": {}}
    for name in fields:
        level: dict[str, Any] = texts
        *path, last = name.split(".")
        for part in path:
            level = level.setdefault("properties", {}).setdefault(part, {})
        level.setdefault("properties", {})[last] = {"type": "text", "analyzer": f"resift_{analyzer}"}
    texts["properties"][VECTOR_FIELD] = vector_mapping(model)
    texts["properties"][GUARD_FIELD] = GUARD_MAPPING
    # Lucene refuses a document with a term of more than 32766 bytes; 8191 characters in UTF-8 never take that many.
    keyword = {"match_mapping_type": "string", "mapping": {"type": "keyword", "ignore_above": 8191}}
    return {
        **texts,
        "_meta": {"resift": IndexInfo.from_model(model, fields).to_meta()},
        "dynamic_templates": [{"strings": keyword}],
    }


def mapped_fields(
    mapping: dict[str, Any], path: str = "", nested: str | None = None
) -> Iterator[tuple[str, dict[str, Any], str | None]]:
    """Each field of a mapping by its whole name, those inside of others too: the name, what is mapped there, and the
    path of the innermost nested objects that it is in, None of a field of the document itself.

    >>> [name for name, *_ in mapped_fields({"properties": {"a": {"type": "text", "fields": {"raw": {}}}}})]
    ['a', 'a.raw']
    """
    for name, field in {**mapping.get("properties", {}), **mapping.get("fields", {})}.items():
        inside = f"{path}{name}" if field.get("type") == "nested" else nested
        yield f"{path}{name}", field, inside
        yield from mapped_fields(field, f"{path}{name}.", inside)


def exact_names(mapping: dict[str, Any]) -> list[str]:
    """The names of the fields of a mapping whose values are compared as a whole.

    What is in nested objects is found by queries of its own kind only, and left out.
    """
    return [
        name
        for name, field, nested in mapped_fields(mapping)
        if nested is None and field.get("type") in _EXACT and field.get("doc_values", True) and not is_ours(name)
    ]


def vector_fields(mapping: dict[str, Any], path: str = "", nested: bool = False) -> Iterator[tuple[str, VectorField]]:
    """The fields of vectors and of tokens in a mapping, by the names that queries have for them.

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
            yield name, VectorField(name, "tokens", nested=nested)
        elif kind == "semantic":
            inner = field.get("semantic_info_field_name", f"{key}_semantic_info")
            model = field.get("search_model_id", field.get("model_id"))
            # of chunks each has a vector of its own, in nested objects
            found = dict(vector_fields(fields.get(inner, {}), f"{path}{inner}.", nested))
            for one in found.values():
                yield name, replace(one, model=model)
        else:
            yield from vector_fields(field, f"{name}.", nested or kind == "nested")
