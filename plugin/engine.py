"""What Resift asks of a search engine. Two implementations keep this contract: SqliteEngine and OpenSearchEngine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from resift.arrays import Floats
from resift.encoders.model import Model
from resift.errors import EngineError, IndexNotFound
from resift.plugin.documents import Document, IndexInfo, Rejection, SearchResult
from resift.plugin.query_dsl import document_text, knn_body

# candidates of a masked k-NN for each wanted: approximate k-NN misses fewer, the more it is asked for
OVERSAMPLING = 8


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
