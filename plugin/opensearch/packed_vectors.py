"""The vectors of hits, asked for in the same request whatever fields it asks for, and packed by a script of ours."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from typing import Any

import numpy as np

from resift.arrays import Floats
from resift.plugin.opensearch.documents import stored_vector
from resift.plugin.query_dsl import VECTOR_FIELD, Body, names_vector, without_vector
from resift.plugin.resource_files import read_resource

_NAME = "_resift_vector"  # of the scripted field


def sent_body(body: Body, vectors: bool) -> Body:
    """The body as OpenSearch is sent it: the vector field left out unless it names it, with ``vectors`` packed ones.

    They are asked for by a scripted field, since ``_source`` is the caller's, and is slow to read.
    """
    sent = body
    # With stored or scripted fields of the caller's there is no _source unless it is asked for; that of ours must not
    # switch it off.
    if "_source" in body or not ("stored_fields" in body or body.get("script_fields")):
        sent = {**sent, "_source": without_vector(body.get("_source"))}
    scripted = body.get("script_fields") or {}
    # Of what is no object OpenSearch says itself what is wrong.
    if vectors and body.get("size") != 0 and not names_vector(body.get("_source")) and isinstance(scripted, Mapping):
        script = {"source": read_resource("packed_vector.painless"), "params": {"field": VECTOR_FIELD}}
        sent = {**sent, "script_fields": {**scripted, _NAME: {"script": script}}}
    return sent


def take_vector(hit: dict[str, Any]) -> Floats | None:
    """The vector (K,) of a hit, out of which a packed one is taken; None if it brings none."""
    fields = hit.get("fields", {})
    if _NAME not in fields:
        return stored_vector(hit)
    (packed,) = fields.pop(_NAME)
    if not fields:
        del hit["fields"]
    return None if packed is None else unpacked(packed)


def unpacked(packed: str) -> Floats:
    """The vector (K,) that ``packed_vector.painless`` packed: base64 of 4 + 2 K bytes."""
    raw = b64decode(packed)
    numbers, unit = np.frombuffer(raw, "<i2", offset=4), np.frombuffer(raw, "<f4", 1)
    return np.asarray(numbers * unit, np.float32)
