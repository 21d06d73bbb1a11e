"""What Resift says in OpenSearch's query language, and how it reads the text of documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from resift.arrays import Floats

Body = dict[str, Any]  # a search body, or a clause of one
VECTOR_FIELD, CODE_FIELD = "resift_vector", "resift_code"
MAX_RESULTS = 10_000  # from + size at most: OpenSearch's default of index.max_result_window


def knn_body(vector: Floats, size: int, filter: Body | None = None, source: Any = True) -> Body:
    """A search body for the documents whose vectors are nearest to a query's.

    ``vector`` is the query's vector (K,), ``size`` how many documents are wanted. Only documents that match the query
    clause ``filter`` count, and ``source`` is the body's ``_source``.
    """
    clause: Body = {"vector": np.asarray(vector, np.float32).tolist(), "k": size}
    if filter:
        clause["filter"] = filter
    return {"query": {"knn": {VECTOR_FIELD: clause}}, "size": size, "_source": source}


def document_text(source: Mapping[str, Any], fields: Sequence[str]) -> str:
    """The text of a document that is encoded: the values of its ``fields`` in order, one to a line.

    Lists are flattened and objects are left out. A name with dots stands for an inner field. If ``fields`` is empty,
    all top-level strings of the document are taken.

    >>> document_text({"title": "A", "meta": {"tags": ["b", "c"]}, "n": 1}, ["title", "meta.tags", "none"])
    'A\\nb\\nc'
    """
    if fields:
        values = [field_value(source, name) for name in fields]
    else:
        values = [value for value in source.values() if isinstance(value, str)]
    return "\n".join(part for value in values for part in _texts(value))


def field_value(source: Any, name: str) -> Any:
    """The value of a field, or None. A name with dots stands for an inner field, unless a field has just that name.

    >>> field_value({"meta": {"title": "A"}}, "meta.title")
    'A'
    """
    for key in [name] if isinstance(source, Mapping) and name in source else name.split("."):
        source = source.get(key) if isinstance(source, Mapping) else None
    return source


def _texts(value: Any) -> list[str]:
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    return [] if value is None or isinstance(value, Mapping) else [str(value)]


def filter_source(source: Body, spec: Any) -> Body | None:
    """The fields of a document that a search body's ``_source`` asks for; None if it asks for none at all.

    ``spec`` is a boolean, a pattern, a list of patterns, or an object with ``includes`` and ``excludes``.

    >>> filter_source({"title": "A", "text": "B"}, {"excludes": "te*"})
    {'title': 'A'}
    """
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
    """The ``includes`` or ``excludes`` of a ``_source`` object, as a list."""
    value = spec.get(kind) or []
    return [value] if isinstance(value, str) else list(value)


def without_vector(spec: Any) -> Any:
    """A ``_source`` that leaves out the vector and its code, unless ``spec`` names the vector field."""
    if spec is False or names_vector(spec):
        return spec
    if not isinstance(spec, Mapping):
        spec = {"includes": [] if spec in (None, True) else spec}
    return {
        "includes": patterns(spec, "includes"),
        "excludes": [*patterns(spec, "excludes"), VECTOR_FIELD, CODE_FIELD],
    }


def names_vector(spec: Any) -> bool:
    """Whether a ``_source`` names the vector field; a pattern that matches it does not count."""
    if spec is None or isinstance(spec, bool):
        return False
    return VECTOR_FIELD in patterns(spec if isinstance(spec, Mapping) else {"includes": spec}, "includes")
