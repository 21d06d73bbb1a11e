"""Ranking of document sets that are too large for memory.

The engine retrieves the documents that are most likely to be relevant, and the classifier ranks them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice

import numpy as np

from resift.contracts.engine import Headers
from resift.feedback.feedback import Feedback
from resift.query.dsl import MAX_RESULTS, Body, text_clause
from resift.reviews.documents import ReviewDocuments
from resift.reviews.ranking import DOCUMENT_OVERHEAD, DocumentSet
from resift.reviews.stored import StoredSet, displayed_text

# Maximum size of a set in memory: its characters, and DOCUMENT_OVERHEAD more for each document.
MAX_SET_SIZE = 100_000_000
MAX_LOADED = 100_000  # number of documents of a larger set that are loaded, in addition to the judged documents
_BACKGROUND = 1000  # number of random documents with which relevant documents are compared, to find typical words
_TERMS = 60  # maximum number of words in a search for documents that are likely to be relevant
_GROWTH = 1.5  # documents are retrieved again when the number of relevant documents has grown by this factor
_VECTORS = 300  # number of the latest judged documents from which the query vector is learned


class LargeSet(ReviewDocuments):
    """A set of documents that is too large for memory. Only part of it is loaded at a time.

    The set consists of the documents of an index that a query matches. The engine retrieves up to MAX_LOADED documents
    that are likely to be relevant. It searches for the words with the largest weights in the classifier. If the vectors
    have an HNSW index, it also searches with a query vector that is learned from the judged documents.

    Documents are retrieved again after the number of relevant documents has grown by half, and after half of the loaded
    documents have been read.

    Args:
        stored: The documents in the engine.
        topic: The query clause for the subject of the review. It retrieves the first documents, before any document is
            judged.
    """

    def __init__(self, stored: StoredSet, topic: Body) -> None:
        self._stored = stored
        self._topic = topic
        self._loaded = DocumentSet((), ())
        self._relevant = -1  # number of relevant documents when the documents were loaded

    @property
    def total(self) -> int:
        """The number of documents in the set, including documents that are not loaded."""
        return self._stored.total

    @property
    def memory_in_bytes(self) -> int:
        """The estimated number of bytes of memory that the loaded documents occupy."""
        return self._loaded.memory_in_bytes

    def existing_ids(self, ids: Collection[str]) -> set[str]:
        """Return the ids in ``ids`` that belong to documents of this set. Other ids are left out."""
        return self._stored.existing_ids(ids)

    def draw(self, count: int, excluded: Collection[str]) -> tuple[list[str], int]:
        """Draw random documents from the whole set, including documents that are not loaded.

        Args:
            count: The number of documents to draw. Fewer are drawn if fewer are available.
            excluded: The ids of the documents that must not be drawn.

        Returns:
            The ids of the drawn documents, and the number of documents that could be drawn.
        """
        return self._stored.draw(count, excluded)

    def text(self, id: str) -> str:
        """Return the text of a document, or "" if it does not exist. Texts that are not loaded come from the engine."""
        return self._loaded.text(id) if id in self._loaded.places else dict(self._stored.scan(ids=[id])).get(id, "")

    def texts(self, ids: Sequence[str], headers: Headers = None) -> dict[str, str]:
        """Return the current texts of documents in the engine, by id.

        Documents that do not exist any more, or that the caller may not read, are left out.
        """
        return self._stored.texts(ids, headers)

    def ranked(self, labels: Mapping[str, bool], read: Collection[str] = ()) -> list[str]:
        """Return the ids of the loaded documents that nobody has read yet, most likely relevant first.

        The loaded documents are first replaced with other documents if too few of them are unread, if a relevant
        document is not loaded, or if the number of relevant documents has grown much since they were loaded.

        Args:
            labels: The judgements to learn from, with True for relevant documents.
            read: The ids of the documents to leave out because they have been read.
        """
        unread = sum(id not in read for id in self._loaded.ids)
        relevant = {id for id, label in labels.items() if label}
        if (
            len(relevant) > _GROWTH * self._relevant
            or not relevant <= self._loaded.places.keys()
            or unread < min(MAX_LOADED / 2, self.total - len(self.existing_ids(read)))
        ):
            self._loaded, self._relevant = self._retrieve(labels), len(relevant)
        return self._loaded.ranked(labels, read)

    def reasons(self, id: str, labels: Mapping[str, bool], count: int) -> list[str]:
        """Return the words and pairs of words that contribute most to the score of a loaded document.

        Args:
            id: The id of the document.
            labels: The judged documents, with True for relevant documents.
            count: The maximum number of words and pairs of words.
        """
        return self._loaded.reasons(id, labels, count)

    def _retrieve(self, labels: Mapping[str, bool]) -> DocumentSet:
        """Load the judged documents from the engine, and unjudged documents that are likely to be relevant.

        Args:
            labels: The judged documents, with True for relevant documents.

        Returns:
            The loaded documents with their texts.
        """
        texts = {id: self._loaded.text(id) for id in labels if id in self._loaded.places}
        texts |= self._stored.scan(ids=[id for id in labels if id not in texts])
        engine, index, fields = self._stored.engine, self._stored.index, self._stored.fields
        sample = engine.sample(index, _BACKGROUND, list(fields) or True).hits
        background = {hit["_id"]: displayed_text(hit["_source"], fields) for hit in sample}
        words = DocumentSet(*zip(*{**background, **texts}.items(), strict=True)).strongest_words(labels, _TERMS)
        should = [self._topic, *(text_clause(word, fields, boost=weight) for word, weight in words.items())]
        unjudged = {"must_not": [{"ids": {"values": list(labels)}}]}
        if knn := self._knn_clause(labels):
            texts |= self._best_hits(MAX_LOADED // 10, {**unjudged, "must": [knn]})
        texts |= self._best_hits(MAX_LOADED, {**unjudged, "should": should})
        return DocumentSet(list(texts), list(texts.values()))

    def _knn_clause(self, labels: Mapping[str, bool]) -> Body | None:
        """Return a k-NN query clause that searches for documents similar to the relevant documents.

        The query vector is learned from the latest judged documents.

        Args:
            labels: The judged documents, with True for relevant documents.

        Returns:
            The clause, or None if the index has no HNSW index, or if none of the latest judged documents is relevant.
        """
        engine, index = self._stored.engine, self._stored.index
        info, judged = engine.info(index), list(labels)[-_VECTORS:]
        if info.dim is None or not info.has_hnsw or not any(labels[id] for id in judged):
            return None
        vectors = engine.field_vectors(index, judged, info.vector_field)
        sides = [[vector for id, vector in vectors.items() if labels[id] == side] for side in (True, False)]
        relevant, irrelevant = (np.array(side, np.float32).reshape(-1, info.dim) for side in sides)
        query_vector = Feedback.learn(relevant, irrelevant).shift
        if not query_vector.any():
            return None
        k = min(MAX_RESULTS, MAX_LOADED // 10)
        return {
            "knn": {
                info.vector_field: {"vector": query_vector.tolist(), "k": k, "filter": self._stored.restricted_query()}
            }
        }

    def _best_hits(self, most: int, clauses: Mapping[str, Sequence[Body]]) -> Iterator[tuple[str, str]]:
        """Search for documents of the set, and yield the id and the text of the best hits.

        The iterator stops after ``most`` documents, or when the total length of the texts exceeds MAX_SET_SIZE.

        Args:
            most: The maximum number of documents.
            clauses: The parts of a ``bool`` query, such as "should" or "must_not", with their clauses.
        """
        remaining = MAX_SET_SIZE
        for id, text in islice(self._stored.scan(query=self._stored.restricted_query(**clauses)), most):
            remaining -= len(text) + DOCUMENT_OVERHEAD
            if remaining < 0:
                return
            yield id, text
