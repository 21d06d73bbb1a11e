"""The reviews of a store, each over documents that an engine holds."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import islice
from typing import Any

from resift.contracts.engine import Engine
from resift.contracts.session_store import SessionStore
from resift.errors import AmbiguousDocument, BadInput, EngineError, NotFound
from resift.query.dsl import Body, text_clause
from resift.reviews.large import DOCUMENT_OVERHEAD, MAX_TEXT, LargeSet, readable
from resift.reviews.log import ReviewLog, check_review_id, review_ids
from resift.reviews.ranking import DocumentSet
from resift.reviews.review import Review
from resift.reviews.stopping import TARGET, progress
from resift.text import FUNCTION_WORDS, tokenize

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
        target: float = TARGET,
    ) -> Review:
        """Begin a review of an index, or of the documents that a ``query`` clause finds.

        ``topic``: what is looked for, in words; its best hits are read first. ``fields``: what is read of a document;
        all texts by default. ``target``: the recall at which it may stop. A review of that id and index that was begun
        already is opened as it is. Raises BadInput for one of another index, and if the query finds nothing, two
        documents have the same id, or the target is none.
        """
        log = ReviewLog(self._store, check_review_id(id))
        if log.refresh() and log.events[0]["index"] == index:
            return self.open(id)
        progress((), 1, target)  # refused before anything is stored
        found = self._documents(index, topic, query, fields)
        if len(found.ids) == found.total and not any(map(found.text, found.ids)):
            message = f"no document with a text to review in {index!r}"
            raise BadInput(message, value=query, expected="a query and fields that find some")
        wanted = {"index": index, "topic": topic, "query": query, "fields": list(fields), "target": target}
        now = round(time.time(), 3)

        def decide() -> list[dict[str, Any]]:
            if log.events:
                message = f"review {id!r} is of index {log.events[0]['index']!r}"
                raise BadInput(message, value=index, expected="that index, or another review")
            return [{"kind": "begin", "by": by, "at": now, **wanted}]

        begun = log.append(decide, index)[0]
        with self._lock:
            self._open[id] = Review(log, found, begun)
        return self.open(id)

    def open(self, id: str, anew: bool = False) -> Review:
        """A review that was begun, with its documents as they were when this process first opened it, or ``anew``.

        Raises NotFound if there is none.
        """
        with self._lock:
            log = ReviewLog(self._store, id)
            begun, held = log.first_event(), self._open.get(id)
            if begun is None:
                raise NotFound(f"no review {id!r}", value=id, expected="one that was begun")
            if held is None or anew or held.first_event != begun:
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
        clause = text_clause(_asked(topic, len(searched)), searched or ["*"]) if topic else {"match_all": {}}
        texts: dict[str, str] = {}
        left = MAX_TEXT
        try:
            for one in self._engine.scan(index, fields=fields or None, query=query):
                if one.id in texts:
                    message = f"document {one.id!r} is in {index!r} more than once"
                    raise AmbiguousDocument(message, value=one.id, expected="one index, or several that share no ids")
                texts[one.id] = readable(one.source, searched)
                left -= len(texts[one.id]) + DOCUMENT_OVERHEAD
                if left < 0:
                    return LargeSet(self._engine, index, searched, query, clause)
            asked = {"bool": {"must": [clause], "filter": [] if query is None else [query]}}
            hits = self._engine.scan(index, fields=["_id"], query=asked) if topic else ()
            first = [one.id for one in islice(hits, _FIRST)]
        except EngineError as error:
            raise BadInput(f"the query is refused: {error.message}", value=query, expected="a query clause") from error
        return DocumentSet(list(texts), list(texts.values()), first)


def _asked(topic: str, fields: int) -> str:
    """The words of a topic that an engine is asked for: of more than it takes, the first that say something."""
    words, most = tokenize(topic), max(1, _CLAUSES // (fields or _UNKNOWN_FIELDS) - 1)
    if len(words) <= most:
        return topic
    return " ".join([word for word in dict.fromkeys(words) if word not in FUNCTION_WORDS][:most])
