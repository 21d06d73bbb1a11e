"""The interface between Resift and a search engine. SqliteEngine and OpenSearchEngine implement it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

from resift.arrays import Floats
from resift.contracts.documents import Document, IndexInfo, ModelDescription, Rejection, SearchResult
from resift.contracts.tuning import Tuning
from resift.errors import AmbiguousDocument, EngineError, IndexNotFound
from resift.query.dsl import PLAIN, VECTOR_FIELD, Body, is_resift_field, text_clause, values_of

# HTTP headers of the caller, such as credentials. None stands for the service's own credentials.
Headers = Mapping[str, str] | None
# Whether a search may be sent to another node if a node fails during the search. Requests that Resift builds itself
# may. A caller's request may have crashed the first node, so it is only repeated if it passed the allow-list.
RETRYABLE: ContextVar[bool] = ContextVar("resift_repeatable", default=True)
# The id of the request that is being answered.
REQUEST_ID: ContextVar[str | None] = ContextVar("resift_request_id", default=None)
# OpenSearch writes this header into its slow logs, its task list and its deprecation log.
OPAQUE_ID_HEADER = "X-Opaque-Id"
# The value of OPAQUE_ID_HEADER that the caller sent. Resift forwards only this value and never generates its own:
# OpenSearch logs a deprecation warning once for each X-Opaque-Id, so a new id for each request would fill the log.
OPAQUE_ID: ContextVar[str | None] = ContextVar("resift_opaque_id", default=None)


@contextmanager
def failover_allowed(allowed: bool) -> Iterator[None]:
    """Return a context manager that sets whether a search may be sent to another node if its node fails.

    Args:
        allowed: Whether searches in the ``with`` block may be sent again.
    """
    token = RETRYABLE.set(allowed)
    try:
        yield
    finally:
        RETRYABLE.reset(token)


class Engine(ABC):
    """The interface of search engines: an OpenSearch cluster or the embedded engine.

    Every method can raise these errors:

    - IndexNotFound, if an index does not exist.
    - EngineError, with the engine's HTTP status, if the engine refuses the request.
    - EngineUnavailable, if the engine does not answer.

    The argument ``headers`` of several methods contains the HTTP headers of the caller, such as credentials. The
    argument ``vector_field`` is the name of the field with the document vectors, as in :class:`IndexInfo`. The embedded
    engine only supports ``resift_vector``.

    Attributes:
        writers: The number of concurrent bulk requests that maximises indexing throughput.
        uses_headers: Whether the results can depend on the caller's headers. Otherwise, all callers share cached data.
    """

    writers = 1
    uses_headers = True

    @abstractmethod
    def ping(self) -> str:
        """Check that the engine answers, and return its name and version.

        Raises:
            EngineUnavailable: If the engine does not answer.
        """

    @abstractmethod
    def create(self, index: str, fields: Sequence[str], model: ModelDescription, analyzer: str = "english") -> None:
        """Create an index for documents and their vectors.

        If the index already exists with the same fields and model, nothing is changed. Therefore two indexers can start
        at the same time.

        Args:
            index: The name of the new index.
            fields: The text fields, which are searched and encoded.
            model: The embedding model that encodes the documents.
            analyzer: The analyzer of the text fields, one of :data:`resift.contracts.documents.ANALYZERS`.

        Raises:
            BadInput: If the index name, a field name or the analyzer is invalid.
            EngineError: If an index of this name exists, but its fields or its model are different (status 400).
        """

    @abstractmethod
    def info(self, index: str, headers: Headers = None) -> IndexInfo:
        """Return a description of an index: its text fields, its vector fields and the models of the vectors.

        Args:
            index: The name of the index, alias, pattern or list.
            headers: The caller's HTTP headers, which are passed on to the engine.
        """

    @abstractmethod
    def tune(self, index: str, tuning: Tuning | None) -> None:
        """Store search settings with an index, such as the weight of vector similarity.

        Searches of the index use these settings instead of the defaults.

        Args:
            index: The name of the index, or an alias or pattern for several indices.
            tuning: The settings, or None to delete the stored settings.
        """

    @abstractmethod
    def resolve(self, index: str, headers: Headers = None) -> list[str]:
        """Return the names of the indices to which an alias, a pattern or a list refers.

        Args:
            index: An index name, alias, pattern or comma-separated list.
            headers: The caller's HTTP headers, which are passed on to the engine.

        Returns:
            At least one name.
        """

    @abstractmethod
    def indices(self, patterns: Sequence[str] = ("*",), headers: Headers = None) -> list[IndexInfo]:
        """Return the descriptions of all indices whose names match any of the patterns, sorted by name.

        Hidden indices are left out. The embedded engine ignores the patterns and returns all indices.

        Args:
            patterns: Names of indices, in which ``*`` matches any characters.
            headers: The caller's HTTP headers, which are passed on to the engine.
        """

    @abstractmethod
    def exact_fields(self, index: str, headers: Headers = None) -> list[str]:
        """Return the names of the fields that ``term`` queries can match exactly, such as keyword fields.

        Integer and boolean fields are included. The embedded engine has no mapping, so it inspects a sample of
        documents.

        Args:
            index: The name of the index.
            headers: The caller's HTTP headers, which are passed on to the engine.
        """

    @abstractmethod
    def field_names(self, index: str) -> list[str]:
        """Return the names of all fields except those of Resift, including fields inside objects.

        The embedded engine has no mapping, so it inspects the text fields and a sample of documents.

        Args:
            index: The name of the index.
        """

    @abstractmethod
    def value_counts(
        self, index: str, query: Body, fields: Sequence[str], size: int, headers: Headers = None
    ) -> dict[str, list[tuple[Any, int]]]:
        """Count the most frequent values of some fields among the documents that match a query.

        Args:
            index: The name of the index.
            query: The query clause that the counted documents match.
            fields: The names of the fields.
            size: The maximum number of values for each field.
            headers: The caller's HTTP headers, which are passed on to the engine.

        Returns:
            For each field, pairs of a value and the number of documents with this value, most frequent values first.
        """

    @abstractmethod
    def drop(self, index: str) -> None:
        """Delete an index with all its documents."""

    @abstractmethod
    def bulk(self, index: str, documents: Sequence[Document], vector_field: str = VECTOR_FIELD) -> list[Rejection]:
        """Index documents in a single request. They replace existing documents with the same ids.

        Args:
            index: The name of the index.
            documents: The documents, with or without vectors.
            vector_field: The name of the field for the vectors.

        Returns:
            The documents that the engine refused to index, in the order of ``documents``. All other documents are
            stored durably.
        """

    @abstractmethod
    def search(self, index: str, body: Body, vectors: str | None = None, headers: Headers = None) -> SearchResult:
        """Run a search body in OpenSearch's query language.

        Resift's vector fields are excluded from ``_source`` unless the body names them.

        Args:
            index: The name of the index, alias, pattern or list to search.
            body: The search body. It is not modified.
            vectors: The vector field to fetch for each hit. The fetched vectors may be rounded, which changes their
                cosine with any vector by less than 1e-4. They are exact if ``_source`` names the vector field.
            headers: The HTTP headers of the caller.

        Raises:
            ResiftError: If the body is malformed (status 400). The error is ``BadInput``, ``EngineError``, or, for a
                feature that the embedded engine lacks, ``UnsupportedQuery``.
        """

    @abstractmethod
    def get(self, index: str, id: str) -> tuple[dict[str, Any], Any]:
        """Read a document by its id, together with its version.

        Args:
            index: The name of the index.
            id: The id of the document.

        Returns:
            The fields of the document without its vector, and the version, which :meth:`put_vectors` needs.

        Raises:
            NotFound: If the document does not exist.
        """

    @abstractmethod
    def put_vectors(
        self, index: str, vectors: Sequence[tuple[str, Any, Floats]], vector_field: str = VECTOR_FIELD
    ) -> list[Rejection]:
        """Replace the vectors of documents, unless the documents have changed since they were read.

        The other fields of the documents stay the same.

        Args:
            index: The name of the index.
            vectors: For each document, its id, the version that was read, and the new vector of shape (n_dimensions,).
            vector_field: The name of the field for the vectors.

        Returns:
            The documents that were not updated, with the status 409 for a document that has changed and 404 for a
            deleted document. All other vectors are stored durably.
        """

    @abstractmethod
    def delete(self, index: str, ids: Sequence[str]) -> int:
        """Delete documents by id, and return the number of documents that existed.

        Args:
            index: The name of the index.
            ids: The ids of the documents.
        """

    @abstractmethod
    def scan(
        self,
        index: str,
        vector_field: str = VECTOR_FIELD,
        fields: Sequence[str] | None = None,
        missing: bool = False,
        ids: Sequence[str] | None = None,
        query: Body | None = None,
    ) -> Iterator[Document]:
        """Yield all documents of a consistent snapshot of the index, in no particular order.

        Args:
            index: The name of the index.
            vector_field: The field that stores the vectors.
            fields: The fields to include in the sources; None includes all fields. With ``fields``, vectors may be
                rounded as in :meth:`search`.
            missing: Whether to yield only documents without a vector.
            ids: If set, yield only the documents with these ids.
            query: If set, yield only the documents that match this query clause, best matches first and without
                vectors. The number of documents is not limited.
        """

    @abstractmethod
    def refresh(self, index: str) -> None:
        """Make all writes visible to searches."""

    @abstractmethod
    def close(self) -> None:
        """Close the connections."""

    def embed(self, model: str, text: str, headers: Headers = None) -> Floats | None:
        """Encode a query text with an embedding model that runs in the engine.

        Args:
            model: The id of the model in the engine.
            text: The query text.
            headers: The caller's HTTP headers, which are passed on to the engine.

        Returns:
            A vector of shape (n_dimensions,), or None if the engine cannot run models.

        Raises:
            EngineError: If the engine refuses the request, for example because the model was deleted.
            EngineUnavailable: If the request times out. The timeout is short, because a search waits for the vector.
        """
        return None

    def query_tokens(
        self, text: str, model: str | None = None, analyzer: str | None = None, headers: Headers = None
    ) -> dict[str, float] | None:
        """Encode a query text as weighted tokens, with a sparse model or an analyzer of the engine.

        Args:
            text: The query text.
            model: The id of the sparse model in the engine.
            analyzer: The name of an analyzer, which is used if ``model`` is None.
            headers: The caller's HTTP headers, which are passed on to the engine.

        Returns:
            A mapping from tokens to weights, or None if the engine cannot run models.

        Raises:
            EngineError: If the engine refuses the request, for example because the model was deleted.
            EngineUnavailable: If the request times out. The timeout is short, because a search waits for the tokens.
        """
        return None

    def field_vectors(self, index: str, ids: Sequence[str], field: str, headers: Headers = None) -> dict[str, Floats]:
        """Return the vectors that documents have in a field.

        Args:
            index: The name of the index.
            ids: The ids of the documents.
            field: The vector field. It is read even if ``_source`` excludes it.
            headers: The caller's HTTP headers, which are passed on to the engine.

        Returns:
            A mapping from document ids to vectors of shape (n_dimensions,). Documents without a vector are left out.
            The values may be rounded, as in the vectors that :meth:`search` returns.
        """
        body = {"query": {"ids": {"values": list(ids)}}, "size": len(ids), "_source": False}
        result = self.search(index, {**body, **PLAIN}, field, headers)
        pairs = zip(result.hits, result.vectors, strict=True)
        return {hit["_id"]: vector for hit, vector in pairs if vector is not None}

    def field_values(self, index: str, ids: Sequence[str], field: str, headers: Headers = None) -> dict[str, list[Any]]:
        """Return the values that documents have in a field.

        Args:
            index: The name of the index.
            ids: The ids of the documents.
            field: The name of the field.
            headers: The caller's HTTP headers, which are passed on to the engine.

        Returns:
            A mapping from document ids to the values in the field. Documents that do not exist are left out.
        """
        body = {"query": {"ids": {"values": list(ids)}}, "size": len(ids), "_source": [field]}
        hits = self.search(index, {**body, **PLAIN}, headers=headers).hits
        return {hit["_id"]: list(values_of(hit.get("_source", {}), field)) for hit in hits}

    def max_rescore_window(self, index: str, window: int, headers: Headers = None) -> int:
        """Return the largest rescore window that an index allows, but at most ``window``.

        Args:
            index: The name of the index, alias, pattern or list.
            window: The rescore window that a search needs.
            headers: The caller's HTTP headers, which are passed on to the engine.
        """
        return window

    def terms_per_word(self, info: IndexInfo, fields: Sequence[str], headers: Headers = None) -> int:
        """Return an upper estimate of the number of terms that the analyzers of some fields make of a word.

        The number decides how many words fit into a query.

        Args:
            info: The description of the index.
            fields: The names or patterns of the searched fields. Empty for all fields.
            headers: The caller's HTTP headers, which are passed on to the engine.
        """
        return 1

    def drop_if_exists(self, index: str) -> None:
        """Delete an index with all its documents if it exists."""
        with suppress(IndexNotFound):
            self.drop(index)

    def search_all(
        self, index: str, bodies: Sequence[Body], vectors: str | None = None, headers: Headers = None
    ) -> list[SearchResult]:
        """Run several searches on the same index, in a single request if the engine supports it.

        Args:
            index: The name of the index, alias, pattern or list to search.
            bodies: The search bodies, one for each search.
            vectors: The field of the vectors to return with the hits of the first search, or None for no vectors.
            headers: The caller's HTTP headers, which are passed on to the engine.

        Returns:
            The results, in the order of ``bodies``.
        """
        return [self.search(index, body, None if number else vectors, headers) for number, body in enumerate(bodies)]

    def document_counts(
        self, index: str, clauses: Sequence[Body], headers: Headers = None, skip_pipeline: bool = False
    ) -> list[int]:
        """Return the number of matching documents for each query clause, in a single request if the engine supports it.

        Args:
            index: The name of the index, alias, pattern or list to search.
            clauses: The query clauses, one for each count.
            headers: The caller's HTTP headers, which are passed on to the engine.
            skip_pipeline: Whether to skip the default search pipeline of the index. It may add a filter to searches, so
                that searches do not reach all documents.
        """
        body = {"size": 0, **(PLAIN if skip_pipeline else {})}
        bodies = [{"query": clause, **body} for clause in clauses]
        results = self.search_all(index, bodies, headers=headers) if bodies else []
        return [result.response["hits"]["total"]["value"] for result in results]

    def word_counts(
        self, info: IndexInfo, fields: Sequence[str], words: Sequence[str], headers: Headers = None
    ) -> tuple[int, list[int]]:
        """Return the number of documents in an index, and the number of documents that contain each of some words.

        The default search pipeline of the index has no effect on the numbers.

        Args:
            info: The description of the index.
            fields: The names or patterns of the fields in which words are searched. Empty for all fields.
            words: The words. The analyzers of the index normalise them.
            headers: The caller's HTTP headers, which are passed on to the engine.
        """
        clauses = [text_clause(word, fields) for word in words]
        total, *counts = self.document_counts(info.name, [{"match_all": {}}, *clauses], headers, skip_pipeline=True)
        return total, counts

    @abstractmethod
    def sample(
        self,
        index: str,
        size: int,
        source: Any = True,
        vectors: str | None = None,
        headers: Headers = None,
    ) -> SearchResult:
        """Return random documents of an index.

        The sample is reproducible: the same arguments return the same documents as long as the index does not change.

        Args:
            index: The name of the index.
            size: The number of documents. If the index has fewer documents, all are returned.
            source: The ``_source`` option of the search body.
            vectors: The field of the vectors to return, or None for no vectors.
            headers: The caller's HTTP headers, which are passed on to the engine.
        """

    @abstractmethod
    def sample_matches(self, index: str, query: Body, size: int, source: Any = True, seed: int = 7) -> SearchResult:
        """Return random documents that match a query.

        Args:
            index: The name of the index.
            query: The query clause that the returned documents match.
            size: The number of documents. If fewer documents match, all of them are returned.
            source: The ``_source`` option of the search body.
            seed: The seed of the random selection.
        """

    def documents(
        self, index: str, ids: Sequence[str], headers: Headers = None, vectors: str = VECTOR_FIELD
    ) -> dict[str, tuple[dict[str, Any], Floats | None]]:
        """Return the fields and vectors of documents by id.

        Args:
            index: The name of the index, alias, pattern or list.
            ids: The ids of the documents.
            headers: The caller's HTTP headers, which are passed on to the engine.
            vectors: The name of the vector field.

        Returns:
            A mapping from document ids to pairs of the document's fields and its vector of shape (n_dimensions,), or
            None for a document without a vector. Documents that do not exist are left out.

        Raises:
            AmbiguousDocument: If several of the indices contain a document with the same id.
            EngineError: If some shards do not answer (status 503).
        """
        return self._documents_of(index, {"ids": {"values": list(ids)}}, len(ids), headers, vectors)

    def _documents_of(
        self, index: str, query: Body, count: int, headers: Headers, vectors: str
    ) -> dict[str, tuple[dict[str, Any], Floats | None]]:
        """Return the documents that match a query for certain ids, like :meth:`documents`.

        Args:
            index: The name of the index, alias, pattern or list.
            query: The query clause.
            count: The number of ids in the query.
            headers: The caller's HTTP headers, which are passed on to the engine.
            vectors: The name of the vector field.
        """
        # Vectors are exact if _source names their field, and may be rounded otherwise.
        source = ["*", vectors]
        # Request one hit more than there are ids. If an id exists in two indices, at least one id then occurs twice.
        body = {"query": query, "size": count + 1, "_source": source}
        result = self.search(index, {**body, **PLAIN}, vectors, headers)
        shards = result.response.get("_shards", {"total": 0, "successful": 0})
        # Documents on shards that do not answer must not be reported as missing. OpenSearch does not count unassigned
        # shards as failed, so compare the totals.
        if silent := shards["total"] - shards["successful"]:
            raise EngineError(f"{silent} shards of {index!r} did not answer", status=503, value=index)
        for id, count in Counter(hit["_id"] for hit in result.hits).items():
            if count > 1:
                names = ", ".join(sorted(hit["_index"] for hit in result.hits if hit["_id"] == id))
                message = f"document {id!r} is in several indices of {index!r}: {names}"
                raise AmbiguousDocument(message, value=id, expected="the index in the hit's _index field")
        return {
            hit["_id"]: ({name: value for name, value in hit["_source"].items() if not is_resift_field(name)}, vector)
            for hit, vector in zip(result.hits, result.vectors, strict=True)
        }
