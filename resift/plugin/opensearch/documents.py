"""Documents as OpenSearch stores them and hits bring them: their fields, and our vectors, which few ask for.

The vectors of hits are asked for in the same request whatever fields it asks for, packed by a script of ours.
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
from resift.query.dsl import Body, is_compact, is_ours, replace_objects, source_parts, without_vector
from resift.rewriting.similarity import script_source
from resift.vectors.compact import decode_vector, encode_vector

_NAME = "_resift_vector"  # the scripted field
_MORE_HITS = ("inner_hits", "top_hits")  # parts of a body that ask for hits of their own


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
        return f'{fields}{json.dumps(vector_field)}: "{encode_vector(document.vector)}"}}'
    # Written by hand since orjson, from a 32-bit array, takes the fewest digits that tell 32-bit floats apart: half
    # of those that json writes for the same numbers as Python's 64-bit floats.
    numbers = orjson.dumps(np.ascontiguousarray(document.vector, np.float32), option=orjson.OPT_SERIALIZE_NUMPY)
    return f"{fields}{json.dumps(vector_field)}: {numbers.decode()}}}"


def without_stored_vector(source: dict[str, Any]) -> dict[str, Any]:
    """Fields as they were given: without what belongs to our vectors."""
    return {name: value for name, value in source.items() if not is_ours(name)}


def sent_body(body: Body, vectors: str | None) -> Body:
    """The body as OpenSearch is sent it: our vector fields left out unless it names them, the ``vectors`` packed.

    They are left out of collapsed hits, of parents and children and of ``top_hits`` too. They are asked for by a
    scripted field, since ``_source`` is the caller's, and is slow to read. Raises BadInput for a malformed ``_source``,
    and for a body that is too deep.
    """
    try:
        inner = replace_objects(body, _MORE_HITS, _without_vectors) if _may_have_more_hits(body) else body
        sent = dict(_without_vectors(inner))
    except RecursionError:
        raise BadInput("queries are nested too deep", expected="at most 100 of them") from None
    named, _ = source_parts(body.get("_source"))
    scripted = body.get("script_fields") or {}
    # Of what is no object OpenSearch says itself what is wrong.
    if vectors and vectors not in named and body.get("size") != 0 and isinstance(scripted, Mapping):
        packed = {"script": {"source": script_source("packed_vector"), "params": {"field": vectors}}}
        sent = {**sent, "script_fields": {**scripted, _NAME: packed}}
    return sent


def _may_have_more_hits(body: Body) -> bool:
    # soon seen in its text; to go through all of a body took a sixth of our share of a search in a session
    try:
        text = orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY)
    except TypeError:  # of what orjson refuses, and opensearch-py may take
        return True
    return any(name.encode() in text for name in _MORE_HITS)


def _without_vectors(part: Mapping[str, Any]) -> Mapping[str, Any]:
    """A body, or a part of one that asks for hits, with a ``_source`` that leaves out our vector fields."""
    # With stored or scripted fields of the caller's there is no _source unless it is asked for; that of ours must not
    # switch it off.
    if "_source" not in part and ("stored_fields" in part or part.get("script_fields")):
        return part
    return {**part, "_source": without_vector(part.get("_source"))}


def take_vectors(hits: Sequence[dict[str, Any]], field: str) -> list[Floats | None]:
    """Return the vector (K,) of each hit, and take the packed ones out of the hits; None for a hit without a vector."""
    taken = [_take(hit, field) for hit in hits]
    vectors = iter(unpacked([one for one in taken if isinstance(one, str)]))
    return [next(vectors) if isinstance(one, str) else one for one in taken]


def unpacked(packed: Sequence[str]) -> list[Floats]:
    """The vectors (K,) that ``packed_vector.painless`` packs, each of them base64 of 4 + 2 K bytes."""
    raw = [a2b_base64(one) for one in packed]
    if len({len(one) for one in raw}) != 1:  # none, or of several indices, one of which is not ours
        return [vector for one in packed for vector in unpacked([one])]
    # all at a time: one by one, a hundred of them took as long as half of their search
    rows = np.frombuffer(b"".join(raw), "<i2").reshape(len(raw), -1)
    return list(rows[:, 2:] * np.ascontiguousarray(rows[:, :2]).view("<f4"))


def _take(hit: dict[str, Any], field: str) -> Floats | str | None:
    """A hit's packed vector, which is taken out of it, or the one in its fields."""
    fields = hit.get("fields", {})
    if _NAME not in fields:
        stored = hit.get("_source", {}).get(field)
        if isinstance(stored, str):
            return decode_vector(stored)
        return None if stored is None else np.asarray(stored, np.float32)
    packed: str | None
    (packed,) = fields.pop(_NAME)
    if not fields:
        del hit["fields"]
    return packed
