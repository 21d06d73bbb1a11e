"""The documents of a review as the engine stores them."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from resift.arrays import batched
from resift.contracts.engine import Engine, Headers
from resift.query.dsl import PLAIN, Body, document_text
from resift.text import plain_text

ID_BATCH = 1000  # maximum number of ids in a request


class StoredSet:
    """The documents of an index that a query matches. They stay in the engine, which counts, finds and draws them.

    Args:
        engine: The search engine that contains the documents.
        index: The name of the index.
        query: The query clause that selects the documents, or None for all documents.
        fields: A function that returns the names of the text fields.
    """

    def __init__(
        self, engine: Engine, index: str, query: Body | None = None, fields: Callable[[], Sequence[str]] = list
    ) -> None:
        self.engine = engine
        self.index = index
        self.query = query
        self._fields = fields
        self._existing = set[str]()  # ids that are known to exist

    @cached_property
    def fields(self) -> Sequence[str]:
        """The names of the text fields."""
        return self._fields()

    @cached_property
    def total(self) -> int:
        """The number of documents in the set. The engine counts them when this attribute is first used."""
        (total,) = self.engine.document_counts(self.index, [self._clause], skip_pipeline=True)
        return total

    def existing_ids(self, ids: Collection[str]) -> set[str]:
        """Return the ids in ``ids`` that belong to documents of this set. Other ids are left out."""
        for batch in batched([id for id in ids if id not in self._existing], ID_BATCH):
            query = self.restricted_query(filter=[{"ids": {"values": batch}}])
            body = {"query": query, "size": len(batch), "_source": False}
            self._existing |= {hit["_id"] for hit in self.engine.search(self.index, {**body, **PLAIN}).hits}
        return self._existing.intersection(ids)

    def draw(self, count: int, excluded: Collection[str]) -> tuple[list[str], int]:
        """Draw random documents.

        Args:
            count: The number of documents to draw. Fewer are drawn if fewer are available.
            excluded: The ids of the documents that must not be drawn.

        Returns:
            The ids of the drawn documents, and the number of documents that could be drawn.
        """
        available = self.restricted_query(must_not=[{"ids": {"values": list(excluded)}}])
        seed = secrets.randbelow(2**31)
        drawn = self.engine.sample_matches(self.index, available, count, source=False, seed=seed).hits
        return [hit["_id"] for hit in drawn], self.total - len(self.existing_ids(excluded))

    def scan(self, **selection: Any) -> Iterator[tuple[str, str]]:
        """Yield the id and the text of documents that are read from the engine.

        Args:
            **selection: Either ``ids``, to yield only the documents with these ids, or ``query``, to yield only the
                documents that match a query clause, best first.
        """
        documents = self.engine.scan(self.index, fields=self.fields or None, **selection)
        return ((document.id, displayed_text(document.source, self.fields)) for document in documents)

    def texts(self, ids: Sequence[str], headers: Headers = None) -> dict[str, str]:
        """Return the current texts of documents by id. Documents that the caller may not read are left out.

        Args:
            ids: The ids of the documents.
            headers: The caller's HTTP headers, which are passed on to the engine.
        """
        texts: dict[str, str] = {}
        for batch in batched(ids, ID_BATCH):
            documents = self.engine.documents(self.index, batch, headers)
            texts |= {id: displayed_text(source, self.fields) for id, (source, _) in documents.items()}
        return texts

    def restricted_query(self, filter: Sequence[Body] = (), **clauses: Sequence[Body]) -> Body:
        """Combine query clauses in a ``bool`` query that matches only documents of this set.

        Args:
            filter: Query clauses that the documents must match.
            **clauses: Further clauses of the ``bool`` query by kind, such as ``should`` or ``must_not``.
        """
        return {"bool": {"filter": [self._clause, *filter], **clauses}}

    @property
    def _clause(self) -> Body:
        return self.query or {"match_all": {}}


def displayed_text(source: Mapping[str, Any], fields: Sequence[str]) -> str:
    """Return the text of a document for display, without HTML tags.

    Args:
        source: The fields of the document (its ``_source``).
        fields: The names of the fields to show, each on a line of its own. If empty, all fields are shown on a single
            line.
    """
    selections = [[name] for name in fields] or [[]]
    values = (plain_text(document_text(source, selection)).strip() for selection in selections)
    return "\n".join(filter(None, values))
