"""A set of more documents than memory holds: the engine finds the likeliest, and the classifier ranks these."""

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

# Characters of a set that is held in memory, each document as EACH more; the features take some fifteen times as much.
MAX_TEXT, DOCUMENT_OVERHEAD = 200_000_000, 100
MAX_LOADED = 100_000  # documents of a larger set that are ranked by the classifier, beside those that were judged
_BACKGROUND = 1000  # documents drawn at random, which words of relevant ones are told apart from
_TERMS = 60
_GROWTH = 1.5  # how many times as many relevant ones there are when the engine is asked again
_AT_ONCE = 1000  # ids that the engine is asked for in one request
_VECTORS = 300  # of documents judged last, by which the vector moves


class LargeSet(DocumentSet):
    """The documents of an ``index`` that a ``query`` finds, of which ``MAX_LOADED`` at a time are in memory.

    Those are what the engine finds by the classifier's strongest words and, where the index has a graph of vectors, by
    the direction that tells relevant documents from others. It is asked again when half as many more are relevant, and
    when half of what it found is read. ``fields`` are searched, and ``topic`` is a clause that finds the first ones.
    """

    def __init__(self, engine: Engine, index: str, fields: Sequence[str], query: Body | None, topic: Body) -> None:
        super().__init__((), ())
        self._engine, self._index, self._fields, self._topic = engine, index, fields, topic
        self._query: Body = query or {"match_all": {}}
        self._held, self._relevant, self._there = DocumentSet((), ()), -1, set[str]()
        (self.total,) = engine.document_counts(index, [self._query])

    def text(self, id: str) -> str:
        return self._held.text(id) if id in self._held.places else dict(self._stored(ids=[id])).get(id, "")

    def ranked(self, labels: Mapping[str, bool], read: Collection[str] = ()) -> list[str]:
        unread = sum(id not in read for id in self._held.ids)
        relevant = {id for id, label in labels.items() if label}
        if (
            len(relevant) > _GROWTH * self._relevant
            or not relevant <= self._held.places.keys()
            or unread < min(MAX_LOADED / 2, self.total - len(self.existing(read)))
        ):
            self._held, self._relevant = self._likeliest(labels), len(relevant)
        return self._held.ranked(labels, read)

    def reasons(self, id: str, labels: Mapping[str, bool], count: int) -> list[str]:
        return self._held.reasons(id, labels, count)

    def existing(self, ids: Collection[str]) -> set[str]:
        for some in batched([id for id in ids if id not in self._there], _AT_ONCE):
            body = {"query": self._those(filter=[{"ids": {"values": some}}]), "size": len(some), "_source": False}
            self._there |= {hit["_id"] for hit in self._engine.search(self._index, {**body, **PLAIN}).hits}
        return self._there.intersection(ids)

    def draw(self, count: int, read: Collection[str]) -> tuple[list[str], int]:
        query, seed = self._those(must_not=[{"ids": {"values": list(read)}}]), secrets.randbelow(2**31)
        drawn = self._engine.sample(self._index, count, False, query=query, seed=seed).hits
        return [hit["_id"] for hit in drawn], self.total - len(self.existing(read))

    def _likeliest(self, labels: Mapping[str, bool]) -> DocumentSet:
        """The judged documents, and those that the engine finds by them."""
        texts = {id: self._held.text(id) for id in labels if id in self._held.places}
        texts |= self._stored(ids=[id for id in labels if id not in texts])
        drawn = self._engine.sample(self._index, _BACKGROUND, list(self._fields) or True).hits
        others = {hit["_id"]: readable(hit["_source"], self._fields) for hit in drawn}
        words = DocumentSet(*zip(*{**others, **texts}.items(), strict=True)).strongest(labels, _TERMS)
        should = [self._topic, *(text_clause(word, self._fields, boost=weight) for word, weight in words.items())]
        unjudged = {"must_not": [{"ids": {"values": list(labels)}}]}
        if nearest := self._nearest(labels):
            texts |= self._best(MAX_LOADED // 10, {**unjudged, "must": [nearest]})
        texts |= self._best(MAX_LOADED, {**unjudged, "should": should})
        return DocumentSet(list(texts), list(texts.values()))

    def _nearest(self, labels: Mapping[str, bool]) -> Body | None:
        """The clause that finds documents by the vectors of those judged last; None where there are none."""
        info, judged = self._engine.info(self._index), list(labels)[-_VECTORS:]
        if info.dim is None or not info.has_hnsw or not any(labels[id] for id in judged):
            return None
        vectors = self._engine.field_vectors(self._index, judged, info.vector_field)
        sides = [[vector for id, vector in vectors.items() if labels[id] == side] for side in (True, False)]
        relevant, irrelevant = (np.array(side, np.float32).reshape(-1, info.dim) for side in sides)
        moved = Feedback.learn(relevant, irrelevant).shift
        found: dict[str, Any] = {
            "vector": moved.tolist(),
            "k": min(MAX_RESULTS, MAX_LOADED // 10),
            "filter": self._query,
        }
        return {"knn": {info.vector_field: found}} if moved.any() else None

    def _best(self, most: int, clauses: Mapping[str, Sequence[Body]]) -> Iterator[tuple[str, str]]:
        """The documents that clauses find, best first, as many as fit."""
        left = MAX_TEXT
        for id, text in islice(self._stored(query=self._those(**clauses)), most):
            left -= len(text) + DOCUMENT_OVERHEAD
            if left < 0:
                return
            yield id, text

    def _those(self, filter: Sequence[Body] = (), **more: Sequence[Body]) -> Body:
        return {"bool": {"filter": [self._query, *filter], **more}}

    def _stored(self, **which: Any) -> Iterator[tuple[str, str]]:
        scanned = self._engine.scan(self._index, fields=self._fields or None, **which)
        return ((one.id, readable(one.source, self._fields)) for one in scanned)


def readable(source: Mapping[str, Any], fields: Sequence[str]) -> str:
    """What people read of a document: the texts of its ``fields``, or of all, one field a line and without tags."""
    values = (plain_text(document_text(source, one)).strip() for one in [[name] for name in fields] or [[]])
    return "\n".join(filter(None, values))
