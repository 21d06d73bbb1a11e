"""The reviews of a store, each over documents that an engine holds."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from resift.contracts.engine import Engine
from resift.contracts.query_dsl import PLAIN, Body, document_text, text_clause
from resift.contracts.session_store import SessionStore
from resift.errors import AmbiguousDocument, BadInput, EngineError, NotFound
from resift.reviews.log import ReviewLog, check_review_id, review_ids
from resift.reviews.ranking import DocumentSet
from resift.reviews.review import Review
from resift.text import FUNCTION_WORDS, tokenize

MAX_FOUND = 10_000  # documents that a query's review holds at most: as many as a search can have hits
_OPEN = 4  # reviews whose documents are held in memory
_CLAUSES, _UNKNOWN_FIELDS = 1000, 50  # what engines take: a word in a field is one
_FIRST = 1000  # hits of the topic that are read before anything is relevant


class Reviews:
    """Reviews in a store, which ``opened`` opens where it is needed first, over indices of an ``engine``.

    May be used from several threads and processes.
    """

    def __init__(self, engine: Engine, opened: Callable[[], SessionStore]) -> None:
        self._engine, self._opened = engine, opened
        self._open: OrderedDict[str, Review] = OrderedDict()
        self._lock = threading.Lock()

    def begin(
        self,
        id: str,
        index: str,
        topic: str = "",
        query: Body | None = None,
        fields: Sequence[str] = (),
        by: str = "",
    ) -> Review:
        """Begin a review of an index, or of the documents that a ``query`` clause finds, at most 10,000.

        ``topic``: what is looked for, in words; its best hits are read first. ``fields``: what is read of a document;
        all texts by default. A review of that id and index that was begun already is opened as it is. Raises BadInput
        for one of another index, and if the query finds more or nothing, or two documents have the same id.
        """
        log = ReviewLog(self._store, check_review_id(id))
        if log.refresh() and log.events[0]["index"] == index:
            return self.open(id)
        self._documents(index, topic, query, fields)  # refused before anything is stored
        now, wanted = round(time.time(), 3), {"index": index, "topic": topic, "query": query, "fields": list(fields)}

        def decide() -> list[dict[str, Any]]:
            if log.events:
                message = f"review {id!r} is of index {log.events[0]['index']!r}"
                raise BadInput(message, value=index, expected="that index, or another review")
            return [{"kind": "begin", "by": by, "at": now, **wanted}]

        log.append(decide, index)
        return self.open(id)

    def open(self, id: str) -> Review:
        """A review that was begun, with its documents as they were when this process first opened it.

        Raises NotFound if there is none.
        """
        with self._lock:
            log = ReviewLog(self._store, id)
            begun, held = log.begun(), self._open.get(id)
            if begun is None:
                raise NotFound(f"no review {id!r}", value=id, expected="one that was begun")
            if held is None or held.begun != begun:
                found = self._documents(begun["index"], begun["topic"], begun["query"], begun["fields"])
                held = self._open[id] = Review(log, found, begun)
            self._open.move_to_end(id)
            while len(self._open) > _OPEN:
                self._open.popitem(last=False)
            return held

    def list(self) -> list[tuple[str, str]]:
        """The id and the index of each review."""
        return review_ids(self._store)

    def delete(self, id: str) -> None:
        """Delete a review with all its judgements. Raises NotFound if there is none."""
        ReviewLog(self._store, id).delete()
        with self._lock:
            self._open.pop(id, None)

    @cached_property
    def _store(self) -> SessionStore:
        return self._opened()

    def _documents(self, index: str, topic: str, query: Body | None, fields: Sequence[str]) -> DocumentSet:
        searched = list(fields or map(str, self._engine.info(index).fields))
        if query is None:
            scanned = self._engine.scan(index, fields=fields or None)
            texts = _by_id(index, ((one.id, document_text(one.source, searched)) for one in scanned))
        else:
            texts = self._found(index, query, searched, MAX_FOUND)
        if not texts:
            raise BadInput(f"no document to review in {index!r}", value=query, expected="a query that finds some")
        first: Mapping[str, str] = {}
        if topic:
            clause = text_clause(_asked(topic, len(searched)), searched or ["*"])
            asked = {"bool": {"must": [clause], "filter": [] if query is None else [query]}}
            first = self._found(index, asked, searched, _FIRST)
        return DocumentSet(list(texts), list(texts.values()), list(first))

    def _found(self, index: str, query: Body, fields: Sequence[str], most: int) -> dict[str, str]:
        """The texts of a query's hits by their ids, best first. Raises BadInput for more than MAX_FOUND."""
        body = {"query": query, "size": most, "_source": list(fields) or True, "track_total_hits": True}
        try:
            response = self._engine.search(index, {**body, **PLAIN}).response
        except EngineError as error:
            raise BadInput(f"the query is refused: {error.message}", value=query, expected="a query clause") from error
        total = response["hits"]["total"]["value"]
        if most == MAX_FOUND < total:
            raise BadInput(f"{total} documents", value=total, expected=f"a query that finds at most {MAX_FOUND}")
        hits = response["hits"]["hits"]
        return _by_id(index, ((hit["_id"], document_text(hit.get("_source", {}), fields)) for hit in hits))


def _asked(topic: str, fields: int) -> str:
    """The words of a topic that an engine is asked for: of more than it takes, the first that say something."""
    words, most = tokenize(topic), max(1, _CLAUSES // (fields or _UNKNOWN_FIELDS) - 1)
    if len(words) <= most:
        return topic
    return " ".join([word for word in dict.fromkeys(words) if word not in FUNCTION_WORDS][:most])


def _by_id(index: str, documents: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Texts by the ids of their documents. Raises AmbiguousDocument for two documents of one id."""
    texts: dict[str, str] = {}
    for id, text in documents:
        if id in texts:
            message = f"document {id!r} is in {index!r} more than once"
            raise AmbiguousDocument(message, value=id, expected="one index, or several that share no ids")
        texts[id] = text
    return texts
