"""What Resift asks of a search engine. Two implementations keep this contract: SqliteEngine and OpenSearchEngine."""

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
from resift.query.dsl import PLAIN, VECTOR_FIELD, Body, is_ours, values_of

Headers = Mapping[str, str] | None  # HTTP headers of the caller, such as credentials; None: the service's own rights
# Whether a search may be sent to another node after one failed with it, as what Resift itself asks may. What a caller
# wrote may be what felled the first, unless it was checked against a list of what may be asked.
RETRYABLE: ContextVar[bool] = ContextVar("resift_repeatable", default=True)
REQUEST_ID: ContextVar[str | None] = ContextVar("resift_request_id", default=None)  # of what is being answered
OPAQUE_ID_HEADER = "X-Opaque-Id"  # OpenSearch writes it into its slow logs, its list of tasks and its deprecation log
# What the caller itself gave as OPAQUE_ID_HEADER. Only that is handed on, and no id of ours: OpenSearch warns of each
# deprecated setting once for every X-Opaque-Id, so ids that are new with each request fill its logs.
OPAQUE_ID: ContextVar[str | None] = ContextVar("resift_opaque_id", default=None)


@contextmanager
def retryable(value: bool) -> Iterator[None]:
    """Have RETRYABLE this value for the searches of a block."""
    token = RETRYABLE.set(value)
    try:
        yield
    finally:
        RETRYABLE.reset(token)


class Engine(ABC):
    """Indices of documents with BM25, filters and one vector a document.

    Every method raises IndexNotFound for an index that does not exist, EngineError with the engine's HTTP status for
    a request that the engine refuses, and EngineUnavailable if the engine does not answer. ``writers`` is the number
    of bulk requests at a time that the engine gains from. ``vector_field`` is everywhere the field of the vectors that
    are meant, as :class:`IndexInfo` names it; the embedded engine has ``resift_vector`` alone.
    """

    writers = 1

    @abstractmethod
    def ping(self) -> str:
        """Return the engine's name and version. Raises EngineUnavailable if it does not answer."""

    @abstractmethod
    def create(self, index: str, fields: Sequence[str], model: ModelDescription, analyzer: str = "english") -> None:
        """Create an index whose text ``fields`` are searched, and encoded by ``model``.

        ``analyzer`` is one of :data:`resift.contracts.documents.ANALYZERS`. Raises BadInput for a name, field list or
        analyzer that cannot be, and EngineError with status 400 if there is another index of that name. One that is
        made of the same fields and model already is left as it is: two indexers may begin at the same time.
        """

    @abstractmethod
    def info(self, index: str, headers: Headers = None) -> IndexInfo:
        """Return the fields and the model of an index."""

    @abstractmethod
    def tune(self, index: str, tuning: Tuning | None) -> None:
        """Have an index, or all that a name stands for, keep what was chosen for its searches; None: forget it."""

    @abstractmethod
    def resolve(self, index: str, headers: Headers = None) -> list[str]:
        """Return the own names of all indices, one at least, that a name, an alias, a pattern or a list stands for."""

    @abstractmethod
    def indices(self, patterns: Sequence[str] = ("*",), headers: Headers = None) -> list[IndexInfo]:
        """Return what each index that one of the ``patterns`` matches records about itself, by name.

        Hidden ones are left out. The embedded engine gives all that it has, whatever the patterns.
        """

    @abstractmethod
    def exact_fields(self, index: str, headers: Headers = None) -> list[str]:
        """Return the names of the fields whose values are compared as a whole: keywords, whole numbers, true or false.

        A ``term`` query takes them. The embedded engine has no mapping, and looks at some of its documents.
        """

    @abstractmethod
    def value_counts(
        self, index: str, query: Body, fields: Sequence[str], size: int, headers: Headers = None
    ) -> dict[str, list[tuple[Any, int]]]:
        """Return of each of the ``fields`` its ``size`` most frequent values among the documents that match ``query``.

        Each value comes with the number of its documents, most frequent first.
        """

    @abstractmethod
    def drop(self, index: str) -> None:
        """Delete an index with all its documents."""

    @abstractmethod
    def bulk(self, index: str, documents: Sequence[Document], vector_field: str = VECTOR_FIELD) -> list[Rejection]:
        """Index documents, replacing those that have the same id.

        Every document is either indexed for good when this returns, or one of the rejections, which are in the order
        of the documents.
        """

    @abstractmethod
    def search(self, index: str, body: Body, vectors: str | None = None, headers: Headers = None) -> SearchResult:
        """Run a search body of OpenSearch's query language; fetch its hits' ``vectors`` from the field of that name.

        They may be rounded, so that their cosine with any vector is off by less than 1e-4; exact where ``_source``
        names the vector field.

        Vector fields of ours are left out of ``_source`` unless the body names them. A malformed body raises an error
        with status 400: BadInput, EngineError, or UnsupportedQuery for what the embedded engine does not know.
        """

    @abstractmethod
    def get(self, index: str, id: str) -> tuple[dict[str, Any], Any]:
        """Return the fields of a document, without its vector, and its version, which :meth:`put_vectors` takes.

        Raises NotFound if there is no such document.
        """

    @abstractmethod
    def put_vectors(
        self, index: str, vectors: Sequence[tuple[str, Any, Floats]], vector_field: str = VECTOR_FIELD
    ) -> list[Rejection]:
        """Give documents other vectors, in one request, where they still have their versions; their fields stay.

        ``vectors`` are ids, versions and vectors (K,). What is not among the rejections has its vector for good; those
        of documents that were changed or deleted since, which stay as they are, have status 409 or 404.
        """

    @abstractmethod
    def delete(self, index: str, ids: Sequence[str]) -> int:
        """Delete the documents with these ids; return how many of them existed."""

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
        """Yield every document, in no particular order, as all of them were at one time.

        With ``fields``, their sources have these alone, and their vectors may be rounded as those of :meth:`search`.
        With ``missing``, only documents without a vector are given; with ``ids``, only these. With a ``query`` clause,
        those that it finds, however many, best first, and no vectors.
        """

    @abstractmethod
    def refresh(self, index: str) -> None:
        """Make everything that has been written visible to searches."""

    @abstractmethod
    def close(self) -> None:
        """Close the connections."""

    def embed(self, model: str, text: str, headers: Headers = None) -> Floats | None:
        """The vector (K,) that the engine's own ``model``, by its id, makes of a query text; None without models.

        Raises EngineError or EngineUnavailable where the model is gone, or takes longer than a search can wait.
        """
        return None

    def query_tokens(
        self, text: str, model: str | None = None, analyzer: str | None = None, headers: Headers = None
    ) -> dict[str, float] | None:
        """The tokens and weights that the engine's own sparse ``model``, or else an ``analyzer``, makes of a text.

        None without models. Raises what :meth:`embed` raises.
        """
        return None

    def field_vectors(self, index: str, ids: Sequence[str], field: str, headers: Headers = None) -> dict[str, Floats]:
        """The vector (K,) in a ``field`` of each document with one of these ids that has one.

        It may be rounded as those of :meth:`search`, and is there for fields that ``_source`` leaves out too.
        """
        body = {"query": {"ids": {"values": list(ids)}}, "size": len(ids), "_source": False}
        result = self.search(index, {**body, **PLAIN}, field, headers)
        held = zip(result.hits, result.vectors, strict=True)
        return {hit["_id"]: vector for hit, vector in held if vector is not None}

    def field_values(self, index: str, ids: Sequence[str], field: str, headers: Headers = None) -> dict[str, list[Any]]:
        """The values of a ``field`` in the source of each document with one of these ids."""
        body = {"query": {"ids": {"values": list(ids)}}, "size": len(ids), "_source": [field]}
        hits = self.search(index, {**body, **PLAIN}, headers=headers).hits
        return {hit["_id"]: list(values_of(hit.get("_source", {}), field)) for hit in hits}

    def drop_if_exists(self, index: str) -> None:
        """Delete an index with all its documents if it exists."""
        with suppress(IndexNotFound):
            self.drop(index)

    def search_all(
        self, index: str, bodies: Sequence[Body], vectors: str | None = None, headers: Headers = None
    ) -> list[SearchResult]:
        """Run several search bodies on one index as :meth:`search` does, in one round trip if the engine can.

        ``vectors`` are read for the hits of the first one only.
        """
        return [self.search(index, body, None if at else vectors, headers) for at, body in enumerate(bodies)]

    def document_counts(self, index: str, clauses: Sequence[Body], headers: Headers = None) -> list[int]:
        """How many documents each of the clauses matches, in one round trip if the engine can."""
        bodies = [{"query": clause, "size": 0} for clause in clauses]
        answers = self.search_all(index, bodies, headers=headers) if bodies else []
        return [answer.response["hits"]["total"]["value"] for answer in answers]

    @abstractmethod
    def sample(
        self,
        index: str,
        size: int,
        source: Any = True,
        vectors: str | None = None,
        headers: Headers = None,
        query: Body | None = None,
        seed: int = 7,
    ) -> SearchResult:
        """Return ``size`` documents at random, the same ones while the index stays the same; all, if there are fewer.

        ``source`` is a body's ``_source``, and ``vectors`` is that of :meth:`search`. Of those that a ``query`` clause
        finds, others for another ``seed``.
        """

    def documents(
        self, index: str, ids: Sequence[str], headers: Headers = None, vectors: str = VECTOR_FIELD
    ) -> dict[str, tuple[dict[str, Any], Floats | None]]:
        """The fields and the vector (K,) of each document with one of these ids; ids that do not exist are left out.

        Raises AmbiguousDocument if ``index`` stands for several indices and more than one of them has such a document,
        and EngineError with status 503 where a part of the index does not answer.
        """
        # By name the vectors are exact, which others of a search need not be.
        source = ["*", vectors]
        # One hit more than there are ids: if any id is in two indices, an id comes twice among so many.
        body = {"query": {"ids": {"values": list(ids)}}, "size": len(ids) + 1, "_source": source}
        result = self.search(index, {**body, **PLAIN}, vectors, headers)
        shards = result.response.get("_shards", {"total": 0, "successful": 0})
        # What is there is not to be taken for documents that do not exist. Shards that are nowhere count as no failure.
        if silent := shards["total"] - shards["successful"]:
            raise EngineError(f"{silent} shards of {index!r} did not answer", status=503, value=index)
        for id, times in Counter(hit["_id"] for hit in result.hits).items():
            if times > 1:
                names = ", ".join(sorted(hit["_index"] for hit in result.hits if hit["_id"] == id))
                message = f"document {id!r} is in several indices that {index!r} stands for: {names}"
                raise AmbiguousDocument(message, value=id, expected="the index that the hit itself names, as _index")
        return {
            hit["_id"]: ({name: value for name, value in hit["_source"].items() if not is_ours(name)}, vector)
            for hit, vector in zip(result.hits, result.vectors, strict=True)
        }
