"""Documents and hits in OpenSearch's format: writing vectors into documents, and reading them from hits.

Search bodies are changed so that hits do not show Resift's vector fields. If Resift needs the vectors of the hits, a
script field returns them in the same request in a packed format (see :func:`unpack_vectors`).
"""

from __future__ import annotations

import json
from binascii import a2b_base64
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import orjson

from resift.arrays import Floats
from resift.contracts.documents import Document
from resift.errors import BadInput
from resift.query.dsl import (
    Body,
    exclude_resift_fields,
    is_compact_vector_field,
    is_resift_field,
    replace_objects,
    split_source_option,
)
from resift.rewriting.similarity import script_source
from resift.vectors.compact import decode_vector, encode_vector

# Name of the script field that returns the packed vectors.
_SCRIPT_FIELD = "_resift_vector"
# Keys of search bodies whose values request further hits.
_MORE_HITS = ("inner_hits", "top_hits")


def document_json(document: Document, vector_field: str) -> str:
    """Convert a document and its vector to the JSON text that is stored in OpenSearch.

    Args:
        document: The document, with its vector or None.
        vector_field: The name of the field for the vector.

    Raises:
        TypeError: If JSON cannot represent a value of the document.
        ValueError: If a number is NaN or infinite.
    """
    source = document.source
    if document.vector is None:
        return json.dumps(source, allow_nan=False)
    if vector_field in source:
        source = {name: value for name, value in source.items() if name != vector_field}
    fields = f"{json.dumps(source, allow_nan=False)[:-1]}, " if source else "{"
    if is_compact_vector_field(vector_field):
        return f'{fields}{json.dumps(vector_field)}: "{encode_vector(document.vector)}"}}'
    # The vector is written by orjson. From a 32-bit array, orjson writes the shortest digits that distinguish 32-bit
    # floats. These are half as many as json writes for the same numbers as 64-bit floats.
    numbers = orjson.dumps(np.ascontiguousarray(document.vector, np.float32), option=orjson.OPT_SERIALIZE_NUMPY)
    return f"{fields}{json.dumps(vector_field)}: {numbers.decode()}}}"


def without_stored_vector(source: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of a document's ``_source`` without Resift's own fields, such as the vector field."""
    return {name: value for name, value in source.items() if not is_resift_field(name)}


def prepare_body(body: Body, vector_field: str | None) -> Body:
    """Return a copy of a search body whose hits do not contain Resift's vector fields.

    The vector fields are also excluded from inner hits (collapsed hits, nested objects, parents and children) and from
    ``top_hits``. If the search body names a vector field explicitly, its hits still contain the field.

    Args:
        body: The search body of the caller.
        vector_field: If not None, also request the vectors in this field, so that :func:`take_vectors` can read them. A
            script field returns them, because ``_source`` belongs to the caller and is slow to read.

    Raises:
        BadInput: If ``_source`` is malformed, or if the body is nested too deeply.
    """
    try:
        inner = replace_objects(body, _MORE_HITS, _without_vectors) if _may_have_more_hits(body) else body
        prepared = dict(_without_vectors(inner))
    except RecursionError:
        raise BadInput("queries are nested too deeply", expected="at most 100 of them") from None
    named, _ = split_source_option(body.get("_source"))
    script_fields = body.get("script_fields") or {}
    # If script_fields is not an object, OpenSearch reports the error.
    is_valid = isinstance(script_fields, Mapping)
    if vector_field and vector_field not in named and body.get("size") != 0 and is_valid:
        script = {"script": {"source": script_source("packed_vector"), "params": {"field": vector_field}}}
        prepared["script_fields"] = {**script_fields, _SCRIPT_FIELD: script}
    return prepared


def _may_have_more_hits(body: Body) -> bool:
    """Return whether a search body may contain inner hits or ``top_hits``. The check is fast but approximate."""
    # Searching the JSON text is fast. Walking through each body took a sixth of the time that Resift needs for a search
    # in a session.
    try:
        text = orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY)
    except TypeError:  # orjson refuses some bodies that opensearch-py accepts
        return True
    return any(name.encode() in text for name in _MORE_HITS)


def _without_vectors(part: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a copy of a search body whose ``_source`` option excludes Resift's vector fields.

    If the search returns no ``_source`` anyway, the body itself is returned.

    Args:
        part: The search body, or an object in it that requests hits, such as ``inner_hits``.
    """
    # With stored_fields or script_fields, OpenSearch returns no _source unless the body asks for it. Adding _source
    # would change that.
    if "_source" not in part and ("stored_fields" in part or part.get("script_fields")):
        return part
    return {**part, "_source": exclude_resift_fields(part.get("_source"))}


def take_vectors(hits: Sequence[dict[str, Any]], vector_field: str) -> list[Floats | None]:
    """Return the vectors of search hits, and remove packed vectors from the hits.

    A packed vector is a text that a script field returned. Vectors in ``_source`` stay there.

    Args:
        hits: The hits of a search with a body from :func:`prepare_body`. They are changed in place.
        vector_field: The name of the vector field.

    Returns:
        The vector of each hit, of shape (n_dimensions,), or None for a hit without a vector.
    """
    vectors = [_take_vector(hit, vector_field) for hit in hits]
    unpacked = iter(unpack_vectors([vector for vector in vectors if isinstance(vector, str)]))
    return [next(unpacked) if isinstance(vector, str) else vector for vector in vectors]


def unpack_vectors(packed: Sequence[str]) -> list[Floats]:
    """Decode vectors in the packed format of the script ``packed_vector.painless``.

    Args:
        packed: The packed vectors. Each is the base64 text of 4 + 2 · n_dimensions bytes.

    Returns:
        The vectors, each of shape (n_dimensions,).
    """
    raw = [a2b_base64(text) for text in packed]
    if len({len(vector) for vector in raw}) != 1:
        # There are no vectors, or their lengths differ because the search also reaches an index with other vectors.
        return [vector for text in packed for vector in unpack_vectors([text])]
    # Unpack all vectors together: a loop over 100 vectors took half as long as their search.
    rows = np.frombuffer(b"".join(raw), "<i2").reshape(len(raw), -1)
    return list(rows[:, 2:] * np.ascontiguousarray(rows[:, :2]).view("<f4"))


def _take_vector(hit: dict[str, Any], vector_field: str) -> Floats | str | None:
    """Return the vector of a hit.

    If a script field of the search returned the vector as text (a packed vector), the vector is also removed from the
    hit.

    Args:
        hit: The hit as a JSON object. It is changed in place.
        vector_field: The name of the field in ``_source`` that contains the vector if it is not packed.

    Returns:
        A packed vector as text, any other vector as an array of shape (n_dimensions,), or None if there is no vector.
    """
    fields = hit.get("fields", {})
    if _SCRIPT_FIELD not in fields:
        stored = hit.get("_source", {}).get(vector_field)
        if isinstance(stored, str):
            return decode_vector(stored)
        return None if stored is None else np.asarray(stored, np.float32)
    packed: str | None
    (packed,) = fields.pop(_SCRIPT_FIELD)
    if not fields:
        del hit["fields"]
    return packed
