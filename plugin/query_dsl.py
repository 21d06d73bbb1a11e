"""What Resift says in OpenSearch's query language, and how it reads documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from resift.arrays import Floats

VECTOR_FIELD, CODE_FIELD = "resift_vector", "resift_code"


def knn_body(vector: Floats, size: int, filter: dict[str, Any] | None = None, source: Any = True) -> dict[str, Any]:
    """Search body for the ``size`` documents whose vectors are nearest to ``vector`` (K,) and that match ``filter``."""
    clause: dict[str, Any] = {"vector": np.asarray(vector, np.float32).tolist(), "k": size}
    if filter:
        clause["filter"] = filter
    return {"query": {"knn": {VECTOR_FIELD: clause}}, "size": size, "_source": source}


def document_text(source: Mapping[str, Any], fields: Sequence[str]) -> str:
    """The text that is encoded: the fields' values in order, a line each; lists are flattened, objects left out.

    ``fields`` may name inner fields by dots. Without any, all the document's strings are taken.

    >>> document_text({"title": "A", "meta": {"tags": ["b", "c"]}, "n": 1}, ["title", "meta.tags", "none"])
    'A\\nb\\nc'
    """
    values = [_at(source, name) for name in fields] if fields else [v for v in source.values() if isinstance(v, str)]
    return "\n".join(part for value in values for part in _texts(value))


def _at(source: Any, name: str) -> Any:
    for key in [name] if isinstance(source, Mapping) and name in source else name.split("."):
        source = source.get(key) if isinstance(source, Mapping) else None
    return source


def _texts(value: Any) -> list[str]:
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    return [] if value is None or isinstance(value, Mapping) else [str(value)]


def filter_source(source: dict[str, Any], spec: Any) -> dict[str, Any] | None:
    """``source`` as ``_source`` asks: a boolean, a pattern, a list of patterns, or ``includes`` and ``excludes``."""
    if spec is None or isinstance(spec, bool):
        return None if spec is False else source
    if not isinstance(spec, Mapping):
        spec = {"includes": spec}
    includes, excludes = (patterns(spec, kind) for kind in ("includes", "excludes"))
    return {
        name: value
        for name, value in source.items()
        if (not includes or any(fnmatchcase(name, pattern) for pattern in includes))
        and not any(fnmatchcase(name, pattern) for pattern in excludes)
    }


def patterns(spec: Mapping[str, Any], kind: str) -> list[str]:
    """A ``_source`` setting's ``includes`` or ``excludes``."""
    found = spec.get(kind) or []
    return [found] if isinstance(found, str) else list(found)


def without_vector(spec: Any) -> Any:
    """A ``_source`` setting that leaves the vector and its code out, unless it names the vector."""
    if spec is False or names_vector(spec):
        return spec
    if not isinstance(spec, Mapping):
        spec = {"includes": [] if spec in (None, True) else spec}
    return {
        "includes": patterns(spec, "includes"),
        "excludes": [*patterns(spec, "excludes"), VECTOR_FIELD, CODE_FIELD],
    }


def names_vector(spec: Any) -> bool:
    """Whether a ``_source`` setting asks for the vector field by its name."""
    if spec is None or isinstance(spec, bool):
        return False
    return VECTOR_FIELD in patterns(spec if isinstance(spec, Mapping) else {"includes": spec}, "includes")
