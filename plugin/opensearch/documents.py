"""Documents as OpenSearch stores them: their fields, and the vector."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import orjson

from resift.arrays import Floats
from resift.plugin.documents import Document
from resift.plugin.query_dsl import CODE_FIELD, GUARD_FIELD, VECTOR_FIELD


def stored_source(document: Document) -> dict[str, Any]:
    """The fields that OpenSearch stores of a document."""
    if document.vector is None:
        return document.source
    return {**document.source, VECTOR_FIELD: np.asarray(document.vector, np.float32).tolist()}


def stored_json(document: Document) -> str:
    """:func:`stored_source` as JSON. Raises TypeError or ValueError for what JSON cannot hold, such as NaN."""
    fields = json.dumps(document.source, allow_nan=False)
    if document.vector is None:
        return fields
    if not document.source or VECTOR_FIELD in document.source:
        return json.dumps(stored_source(document), allow_nan=False)
    # Written by hand since orjson, from a 32-bit array, takes the fewest digits that tell 32-bit floats apart: half
    # of those that json writes for the same numbers as Python's 64-bit floats.
    numbers = orjson.dumps(np.ascontiguousarray(document.vector, np.float32), option=orjson.OPT_SERIALIZE_NUMPY)
    return f'{fields[:-1]}, "{VECTOR_FIELD}": {numbers.decode()}}}'


def stored_vector(hit: Mapping[str, Any]) -> Floats | None:
    """The vector (K,) of a hit that was fetched with the vector field; None if its document has none."""
    values = hit.get("_source", {}).get(VECTOR_FIELD)
    return None if values is None else np.asarray(values, np.float32)


def without_stored_vector(source: dict[str, Any]) -> dict[str, Any]:
    """Fields as they were given: what belongs to the vector is taken out of the stored ``source``, which is changed."""
    for name in (VECTOR_FIELD, CODE_FIELD, GUARD_FIELD):
        source.pop(name, None)
    return source
