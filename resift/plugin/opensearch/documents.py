"""Documents as OpenSearch stores them: their fields, and the vector."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import orjson

from resift.arrays import Floats
from resift.contracts.documents import Document
from resift.contracts.query_dsl import is_compact, is_ours
from resift.vectors.compact import compact, expanded


def stored_json(document: Document, vector_field: str) -> str:
    """The fields that OpenSearch stores of a document, with its vector if it has one, as JSON.

    Raises TypeError or ValueError for what JSON cannot hold, such as NaN.
    """
    source = document.source
    if document.vector is None:
        return json.dumps(source, allow_nan=False)
    if vector_field in source:
        source = {name: value for name, value in source.items() if name != vector_field}
    fields = f"{json.dumps(source, allow_nan=False)[:-1]}, " if source else "{"
    if is_compact(vector_field):
        return f'{fields}{json.dumps(vector_field)}: "{compact(document.vector)}"}}'
    # Written by hand since orjson, from a 32-bit array, takes the fewest digits that tell 32-bit floats apart: half
    # of those that json writes for the same numbers as Python's 64-bit floats.
    numbers = orjson.dumps(np.ascontiguousarray(document.vector, np.float32), option=orjson.OPT_SERIALIZE_NUMPY)
    return f"{fields}{json.dumps(vector_field)}: {numbers.decode()}}}"


def stored_vector(hit: Mapping[str, Any], vector_field: str) -> Floats | None:
    """The vector (K,) of a hit that was fetched with the vector field; None if its document has none."""
    values = hit.get("_source", {}).get(vector_field)
    if isinstance(values, str):
        return expanded(values)
    return None if values is None else np.asarray(values, np.float32)


def without_stored_vector(source: dict[str, Any]) -> dict[str, Any]:
    """Fields as they were given: without what belongs to our vectors."""
    return {name: value for name, value in source.items() if not is_ours(name)}
