"""What goes into an engine and comes out of it, and what is refused before it is sent."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from resift.arrays import Floats
from resift.encoders.model import Model
from resift.errors import BadInput, ModelMismatch
from resift.plugin.query_dsl import _at

ANALYZERS = ("english", "standard")
MAX_ID_BYTES = 512


@dataclass(frozen=True)
class IndexInfo:
    """What an index says of itself. ``model`` is the hash of the model that made its vectors, None if it has none."""

    name: str
    fields: tuple[str, ...]
    model: str | None
    model_name: str | None
    dim: int | None

    def require(self, model: Model) -> None:
        """Raise ModelMismatch unless ``model`` made this index's vectors."""
        if self.model != model.hash:
            raise ModelMismatch(
                f"index {self.name!r} holds vectors of model {self.model_name} ({self.model}), "
                f"and the model at work is {model.name} ({model.hash})",
                value=self.model,
                expected=f"{model.hash}: use the index's model, or index the documents again with this one",
            )


@dataclass(frozen=True)
class Document:
    """One document to index: its id, its fields, and its vector (K,), if it has one."""

    id: str
    source: dict[str, Any]
    vector: Floats | None = None


@dataclass(frozen=True)
class Rejection:
    """A document of a bulk request that was not indexed: its position, the HTTP status and the reason."""

    position: int
    id: str
    status: int
    reason: str


@dataclass
class SearchResult:
    """An OpenSearch-shaped response, and each hit's vector (K,), or None where it has none or none was asked for.

    ``cached``: how many of the vectors were known from before and not fetched.
    """

    response: dict[str, Any]
    vectors: list[Floats | None] = field(default_factory=list)
    cached: int = 0

    @property
    def hits(self) -> list[dict[str, Any]]:
        """The response's hits, best first."""
        hits: list[dict[str, Any]] = self.response["hits"]["hits"]
        return hits


def check_document(document: Document, fields: Sequence[str], dim: int | None) -> str | None:
    """Why a document cannot be indexed, or None: what :func:`check_parts` finds, or fields that are not JSON."""
    reason = check_parts(document, fields, dim)
    try:
        json.dumps(document.source, allow_nan=False)
    except (TypeError, ValueError) as error:
        return reason or f"not JSON: {error}"
    return reason


def check_parts(document: Document, fields: Sequence[str], dim: int | None) -> str | None:
    """What is wrong with a document's parts, or None: the id's length, the fields' types, the vector's size and
    numbers."""
    if not 0 < len(document.id.encode()) <= MAX_ID_BYTES:
        return f"id of {len(document.id.encode())} bytes, expected 1 to {MAX_ID_BYTES}"
    for name in fields:
        if isinstance(_at(document.source, name), Mapping):
            return f"field {name!r} is an object, expected text"
    vector = document.vector
    if vector is not None and (len(vector) != (dim or len(vector)) or not np.isfinite(vector).all()):
        return f"vector of {len(vector)} dimensions, expected {dim or len(vector)} finite numbers"
    return None


def check_name(index: str) -> str:
    """``index`` if it can name an index on every engine, else BadInput."""
    bad = set(index) & set('\\/*?"<>| ,#:')
    if not index or bad or index != index.lower() or index[0] in "_-+." or len(index.encode()) > 255:
        raise BadInput(f"{index!r} cannot name an index", value=index, expected="lower-case letters, digits, - and _")
    return index


def check_index(index: str, fields: Sequence[str], analyzer: str) -> None:
    """Raise BadInput unless an index can be made of these."""
    check_name(index)
    if analyzer not in ANALYZERS:
        raise BadInput(f"unknown analyzer {analyzer!r}", value=analyzer, expected=" | ".join(ANALYZERS))
    if not fields or isinstance(fields, str):
        raise BadInput("no text fields", value=fields, expected="a list of field names")
