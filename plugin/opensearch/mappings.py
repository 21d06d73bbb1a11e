"""Mappings of the indices that Resift makes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from resift.encoders.model import Model
from resift.plugin.query_dsl import CODE_FIELD, VECTOR_FIELD


def vector_mapping(model: Model) -> dict[str, Any]:
    """Mapping of the field that holds ``model``'s vectors."""
    method = {"name": "hnsw", "engine": "lucene", "space_type": model.space_type}
    return {"type": "knn_vector", "dimension": model.dim, "method": method}


def index_meta(fields: Sequence[str], model: Model) -> dict[str, Any]:
    """What an index records of the model whose vectors it holds, under ``_meta.resift``."""
    return {"fields": list(fields), "model": model.hash, "model_name": model.name, "dim": model.dim}


def mappings(fields: Sequence[str], model: Model, analyzer: str = "english") -> dict[str, Any]:
    """Mappings of an index: searched text fields, other strings as keywords, the vector, and the model in ``_meta``."""
    texts: dict[str, Any] = {"properties": {}}
    for name in fields:
        place: dict[str, Any] = texts
        *path, last = name.split(".")
        for part in path:
            place = place.setdefault("properties", {}).setdefault(part, {})
        place.setdefault("properties", {})[last] = {"type": "text", "analyzer": analyzer}
    texts["properties"][VECTOR_FIELD] = vector_mapping(model)
    texts["properties"][CODE_FIELD] = {"type": "keyword", "index": False, "doc_values": False}
    keyword = {"match_mapping_type": "string", "mapping": {"type": "keyword", "ignore_above": 8191}}
    return {
        **texts,
        "_meta": {"resift": index_meta(fields, model)},
        "dynamic_templates": [{"strings": keyword}],
    }
