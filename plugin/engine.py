"""What Resift asks of a search engine. Two implementations keep this contract: SqliteEngine and OpenSearchEngine."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from resift.errors import BadInput, EngineError, IndexNotFound, ModelMismatch
from resift.model import Model
from resift.vectors import Floats

VECTOR_FIELD, CODE_FIELD = "resift_vector", "resift_code"
ANALYZERS = ("english", "standard")
MAX_ID_BYTES = 512
# candidates of a masked k-NN for each wanted: approximate k-NN misses fewer, the more it is asked for
OVERSAMPLING = 8


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

    ``kept``: how many of the vectors were known from before and not fetched.
    """

    response: dict[str, Any]
    vectors: list[Floats | None] = field(default_factory=list)
    kept: int = 0

    @property
    def hits(self) -> list[dict[str, Any]]:
        """The response's hits, best first."""
        hits: list[dict[str, Any]] = self.response["hits"]["hits"]
        return hits


class Engine(ABC):
    """An index of documents with BM25, filters and one vector a document.

    Unknown indices raise IndexNotFound, refused requests EngineError with the engine's status, and an engine that
    does not answer EngineUnavailable. ``headers`` are the caller's own HTTP headers (credentials), where there are any.
    ``writers`` is how many bulk requests at a time it gains from.
    """

    writers = 1

    @abstractmethod
    def ping(self) -> str:
        """Name and version of the engine, or EngineUnavailable."""

    @abstractmethod
    def create(self, index: str, fields: Sequence[str], model: Model, analyzer: str = "english") -> None:
        """Make an index of documents whose ``fields`` are searched and encoded. EngineError 400 if it exists."""

    @abstractmethod
    def info(self, index: str, headers: Mapping[str, str] | None = None) -> IndexInfo:
        """Fields and model of an index."""

    @abstractmethod
    def drop(self, index: str) -> None:
        """Delete an index with all its documents."""

    @abstractmethod
    def bulk(self, index: str, documents: Sequence[Document]) -> list[Rejection]:
        """Index (or replace) documents. Every one is either acknowledged or in the answer, with its reason."""

    @abstractmethod
    def search(
        self,
        index: str,
        body: dict[str, Any],
        vectors: bool = False,
        headers: Mapping[str, str] | None = None,
    ) -> SearchResult:
        """Run an OpenSearch search body. The vector field is left out of ``_source`` unless the body names it."""

    @abstractmethod
    def get(self, index: str, id: str) -> tuple[dict[str, Any], Any]:
        """A document's fields without its vector, and the token of its version. Raises NotFound."""

    @abstractmethod
    def put(self, index: str, document: Document, version: Any) -> bool:
        """Replace a document if it still has that version; False if it has not."""

    @abstractmethod
    def delete(self, index: str, ids: Sequence[str]) -> int:
        """Delete documents; how many of them there were."""

    @abstractmethod
    def scan(self, index: str) -> Iterator[tuple[str, dict[str, Any], Floats | None]]:
        """Id, fields and vector of every document, in no particular order."""

    @abstractmethod
    def refresh(self, index: str) -> None:
        """Make everything written so far visible to searches."""

    @abstractmethod
    def close(self) -> None:
        """Let go of connections."""

    def drop_if_exists(self, index: str) -> None:
        """Delete an index, if there is one."""
        with suppress(IndexNotFound):
            self.drop(index)

    def search_all(
        self,
        index: str,
        bodies: Sequence[dict[str, Any]],
        vectors: bool = False,
        headers: Mapping[str, str] | None = None,
    ) -> list[SearchResult]:
        """Run several search bodies on one index, in one round trip where the engine has such a thing."""
        return [self.search(index, body, vectors, headers) for body in bodies]

    @abstractmethod
    def masked_body(
        self,
        vector: Floats,
        mask: Floats,
        similarity: str,
        size: int,
        filter: dict[str, Any] | None = None,
        source: Any = True,
    ) -> dict[str, Any]:
        """Search body for the ``size`` documents nearest to ``vector`` (K,) under ``mask`` (K,), best first.

        Nearest by ``similarity`` (cosine | jaccard) of mask ⊙ vector with mask ⊙ document. OVERSAMPLING times as many
        candidates are found by an unmasked vector, for cosine mask² ⊙ vector (Passalis and Tefas 2018, eq. 8: its
        product with a document is that of the masked ones), and are ordered by the similarity itself.
        """

    def knn(
        self,
        index: str,
        vector: Floats,
        size: int,
        filter: dict[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        source: Any = True,
    ) -> SearchResult:
        """The ``size`` documents whose vectors are nearest to ``vector`` (K,), among those that match ``filter``."""
        return self.search(index, knn_body(vector, size, filter, source), vectors=True, headers=headers)

    def documents(
        self, index: str, ids: Sequence[str], headers: Mapping[str, str] | None = None
    ) -> dict[str, tuple[dict[str, Any], Floats | None]]:
        """Fields and vectors of the documents with these ids; ids that do not exist are left out."""
        body = {"query": {"ids": {"values": list(ids)}}, "size": len(ids)}
        found = self.search(index, body, vectors=True, headers=headers)
        return {hit["_id"]: (hit["_source"], vector) for hit, vector in zip(found.hits, found.vectors, strict=True)}

    def update(self, index: str, id: str, changes: dict[str, Any], model: Model) -> None:
        """Change some fields of a document and encode its text again, so that its vector still belongs to it."""
        info = self.info(index)
        info.require(model)
        for _ in range(10):
            source, version = self.get(index, id)
            merged = {**source, **changes}
            vector = model.encode([document_text(merged, info.fields)])[0]
            if self.put(index, Document(id, merged, vector), version):
                return
        raise EngineError(f"document {id!r} was changed by others all the time", status=409, value=id)


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


def coded(vector: Floats) -> str:
    """A vector in a byte a number, for stock pipelines, which are slow at passing numbers on: base64 of its largest
    absolute value, a little-endian 32-bit float, and of 127ths of that, int8."""
    most = np.abs(vector).max(initial=0) or np.float32(1)
    small = np.rint(vector / most * 127).astype(np.int8)
    return b64encode(np.float32(most).astype("<f4").tobytes() + small.tobytes()).decode()


def decoded(codes: Sequence[str], dim: int) -> Floats:
    """The vectors (n, dim) of codes. Raises ValueError where one is none of ``dim`` numbers."""
    raw = [b64decode(code, validate=True) for code in codes]
    if any(len(one) != 4 + dim for one in raw):
        raise ValueError(f"codes of {sorted({len(one) for one in raw})} bytes")
    rows = np.frombuffer(b"".join(raw), np.int8).reshape(len(raw), 4 + dim)
    most = np.ascontiguousarray(rows[:, :4]).view("<f4")
    if not np.isfinite(most).all():
        raise ValueError("a code that is not finite")
    return np.asarray(rows[:, 4:] * np.asarray(most / 127, np.float32), np.float32)


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


def open_engine(url: str) -> Engine:
    """``http(s)://…`` is an OpenSearch cluster; anything else the path of an embedded engine's file."""
    if url.startswith(("http://", "https://")):
        from resift.plugin.opensearch import OpenSearchEngine

        return OpenSearchEngine(url)
    from resift.plugin.sqlite import SqliteEngine

    return SqliteEngine(url)
