"""Ranking of document sets that are too large for memory.

The engine retrieves the documents that are most likely to be relevant, and the classifier ranks them.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from resift.arrays import batched
from resift.contracts.engine import Engine
from resift.feedback.feedback import Feedback
from resift.query.dsl import MAX_RESULTS, PLAIN, Body, document_text, text_clause
from resift.reviews.ranking import DocumentSet
from resift.text import plain_text

# Maximum size of a set in memory: its characters, and DOCUMENT_OVERHEAD more for each document. The classifier's
# features take about fifteen times as much memory.
MAX_TEXT = 200_000_000
DOCUMENT_OVERHEAD = 100
MAX_LOADED = 100_000  # number of documents of a larger set that are loaded, in addition to the judged documents
_BACKGROUND = 1000  # number of random background documents, from which relevant documents are distinguished
_TERMS = 60  # number of words with which the engine is searched
_GROWTH = 1.5  # documents are retrieved again when the number of relevant documents has grown by this factor
_ID_BATCH = 1000  # number of ids in a request
_VECTORS = 300  # number of the latest judged documents from which the query vector is learned


class LargeSet(DocumentSet):
    """A set of documents that is too large for memory. Only part of it is loaded at a time.

    The set consists of the documents of an index that a query matches. The engine retrieves up to MAX_LOADED documents
    that are likely to be relevant. It searches for the words with the largest weights in the classifier. If the vectors
    have an HNSW index, it also searches with a query vector that is learned from the judged documents.

    Documents are retrieved again after the number of relevant documents has grown by half, and after half of the loaded
    documents have been read.

    Args:
        engine: The engine.
        index: The name of the index.
        fields: The text fields.
        query: The query clause that selects the documents, or None for all documents.
        topic: The query clause for the subject of the review. It retrieves the first documents, before any document is
            judged.
    """

    def __init__(self, engine: Engine, index: str, fields: Sequence[str], query: Body | None, topic: Body) -> None:
        super().__init__((), ())
        self._engine = engine
        self._index = index
        self._fields = fields
        self._topic = topic
        self._query: Body = query or {"match_all": {}}
        self._loaded = DocumentSet((), ())
        self._relevant = -1  # number of relevant documents when the documents were loaded
        self._existing = set[str]()  # ids that are known to exist
        (self.total,) = engine.document_counts(index, [self._query])

    def text(self, id: str) -> str:
        """Return the text of a document, or "" if it does not exist."""
        return self._loaded.text(id) if id in self._loaded.places else dict(self._stored(ids=[id])).get(id, "")

    def ranked(self, labels: Mapping[str, bool], read: Collection[str] = ()) -> list[str]:
        """Return the ids of the loaded documents that nobody has read yet, most likely relevant first.

        If the judgements have changed a lot, or too few unread documents are left, other documents are loaded first.

        Args:
            labels: The judged documents, with True for relevant documents.
            read: The ids of the documents that have been read.
        """
        unread = sum(id not in read for id in self._loaded.ids)
        relevant = {id for id, label in labels.items() if label}
        if (
            len(relevant) > _GROWTH * self._relevant
            or not relevant <= self._loaded.places.keys()
            or unread < min(MAX_LOADED / 2, self.total - len(self.existing(read)))
        ):
            self._loaded, self._relevant = self._retrieve(labels), len(relevant)
        return self._loaded.ranked(labels, read)

    def reasons(self, id: str, labels: Mapping[str, bool], count: int) -> list[str]:
        """Return the words that contribute most to the rank of a document, largest contribution first.

        Args:
            id: The id of the document.
            labels: The judged documents, with True for relevant documents.
            count: The maximum number of words.
        """
        return self._loaded.reasons(id, labels, count)

    def existing(self, ids: Collection[str]) -> set[str]:
        """Return the given ids whose documents belong to this set."""
        for batch in batched([id for id in ids if id not in self._existing], _ID_BATCH):
            query = self._within_set(filter=[{"ids": {"values": batch}}])
            body = {"query": query, "size": len(batch), "_source": False}
            self._existing |= {hit["_id"] for hit in self._engine.search(self._index, {**body, **PLAIN}).hits}
        return self._existing.intersection(ids)

    def draw(self, count: int, read: Collection[str]) -> tuple[list[str], int]:
        """Draw random documents that nobody has read yet.

        Args:
            count: The number of documents to draw. Fewer are drawn if fewer are unread.
            read: The ids of the documents that have been read.

        Returns:
            The ids of the drawn documents, and the number of all unread documents.
        """
        unread = self._within_set(must_not=[{"ids": {"values": list(read)}}])
        seed = secrets.randbelow(2**31)
        drawn = self._engine.sample_matches(self._index, unread, count, source=False, seed=seed).hits
        return [hit["_id"] for hit in drawn], self.total - len(self.existing(read))

    def _retrieve(self, labels: Mapping[str, bool]) -> DocumentSet:
        """Load the judged documents, and the documents that are most similar to the relevant documents.

        Args:
            labels: The judged documents, with True for relevant documents.
        """
        texts = {id: self._loaded.text(id) for id in labels if id in self._loaded.places}
        texts |= self._stored(ids=[id for id in labels if id not in texts])
        sample = self._engine.sample(self._index, _BACKGROUND, list(self._fields) or True).hits
        background = {hit["_id"]: readable(hit["_source"], self._fields) for hit in sample}
        words = DocumentSet(*zip(*{**background, **texts}.items(), strict=True)).strongest(labels, _TERMS)
        should = [self._topic, *(text_clause(word, self._fields, boost=weight) for word, weight in words.items())]
        unjudged = {"must_not": [{"ids": {"values": list(labels)}}]}
        if knn := self._knn_clause(labels):
            texts |= self._best(MAX_LOADED // 10, {**unjudged, "must": [knn]})
        texts |= self._best(MAX_LOADED, {**unjudged, "should": should})
        return DocumentSet(list(texts), list(texts.values()))

    def _knn_clause(self, labels: Mapping[str, bool]) -> Body | None:
        """Return a k-NN query clause that searches for documents similar to the relevant documents.

        The query vector is learned from the latest judged documents.

        Args:
            labels: The judged documents, with True for relevant documents.

        Returns:
            The clause, or None if the index has no HNSW index, or if none of the latest judged documents is relevant.
        """
        info, judged = self._engine.info(self._index), list(labels)[-_VECTORS:]
        if info.dim is None or not info.has_hnsw or not any(labels[id] for id in judged):
            return None
        vectors = self._engine.field_vectors(self._index, judged, info.vector_field)
        sides = [[vector for id, vector in vectors.items() if labels[id] == side] for side in (True, False)]
        relevant, irrelevant = (np.array(side, np.float32).reshape(-1, info.dim) for side in sides)
        query_vector = Feedback.learn(relevant, irrelevant).shift
        if not query_vector.any():
            return None
        k = min(MAX_RESULTS, MAX_LOADED // 10)
        return {"knn": {info.vector_field: {"vector": query_vector.tolist(), "k": k, "filter": self._query}}}

    def _best(self, most: int, clauses: Mapping[str, Sequence[Body]]) -> Iterator[tuple[str, str]]:
        """Yield the id and text of the best documents that match some query clauses.

        The iterator stops after ``most`` documents, or when the total length of the texts exceeds MAX_TEXT.

        Args:
            most: The maximum number of documents.
            clauses: The parts of a ``bool`` query, such as "should" or "must_not", with their clauses.
        """
        remaining = MAX_TEXT
        for id, text in islice(self._stored(query=self._within_set(**clauses)), most):
            remaining -= len(text) + DOCUMENT_OVERHEAD
            if remaining < 0:
                return
            yield id, text

    def _within_set(self, filter: Sequence[Body] = (), **more: Sequence[Body]) -> Body:
        return {"bool": {"filter": [self._query, *filter], **more}}

    def _stored(self, **selection: Any) -> Iterator[tuple[str, str]]:
        documents = self._engine.scan(self._index, fields=self._fields or None, **selection)
        return ((document.id, readable(document.source, self._fields)) for document in documents)


def readable(source: Mapping[str, Any], fields: Sequence[str]) -> str:
    """Return the text of a document for display, without HTML tags.

    Args:
        source: The ``_source`` of the document.
        fields: The names of the fields to show, each on a line of its own. If empty, all fields are shown on a single
            line.
    """
    selections = [[name] for name in fields] or [[]]
    values = (plain_text(document_text(source, selection)).strip() for selection in selections)
    return "\n".join(filter(None, values))
