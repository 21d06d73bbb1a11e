"""The reviews in a store, over documents of an engine."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
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

_OPEN = 4  # number of reviews whose documents are in memory
_CLAUSES = 1000  # maximum number of clauses of a query; each word in each field is a clause
_UNKNOWN_FIELDS = 50  # assumed number of text fields, if they are unknown
_FIRST = 1000  # number of hits for the topic that are read before any document is relevant


@dataclass(frozen=True)
class ReviewSettings:
    """The settings of a review.

    Attributes:
        topic: What the review is about, in words. The best hits of a search for the topic are read first.
        query: An OpenSearch query clause that selects the documents to review. By default, the whole index is reviewed.
        fields: The names of the fields that people read. If empty, all text fields are read.
        target: The recall at which the review may stop, between 0 and 1.
    """

    topic: str = ""
    query: Body | None = None
    fields: Sequence[str] = ()
    target: float = TARGET


class Reviews:
    """Starts, opens, lists and deletes reviews. In a review, people judge the relevance of the documents of an index.

    Reviews are stored in a session store, which several processes may share. Instances are thread-safe.

    Args:
        engine: The search engine that contains the documents.
        open_store: A function that opens the session store. It is called when the store is first needed.
    """

    def __init__(self, engine: Engine, open_store: Callable[[], SessionStore]) -> None:
        self._engine = engine
        self._open_store = open_store
        self._open: OrderedDict[str, Review] = OrderedDict()
        self._lock = threading.Lock()

    def begin(self, id: str, index: str, settings: ReviewSettings | None = None, by: str = "") -> Review:
        """Start a review of an index, or open the review if it has already been started.

        Args:
            id: The id of the review.
            index: The name of the index.
            settings: The settings of a new review. They are ignored if the review exists.
            by: The name of the person who starts the review.

        Raises:
            BadInput: The review exists for another index, the query matches no document with text, or the target is out
                of range.
            AmbiguousDocument: Two documents have the same id.
        """
        log = ReviewLog(self._store, check_review_id(id))
        if log.refresh() and log.events[0]["index"] == index:
            return self.open(id)
        settings = settings or ReviewSettings()
        progress((), 1, settings.target)  # raises BadInput if the target is out of range
        documents = self._documents(index, settings)
        if len(documents.ids) == documents.total and not any(map(documents.text, documents.ids)):
            message = f"no document with text to review in {index!r}"
            expected = "a query and fields that match documents with text"
            raise BadInput(message, value=settings.query, expected=expected)
        stored_settings = {**asdict(settings), "fields": list(settings.fields)}
        now = round(time.time(), 3)

        def decide() -> list[dict[str, Any]]:
            if log.events:
                message = f"review {id!r} is of index {log.events[0]['index']!r}"
                raise BadInput(message, value=index, expected="that index, or another review")
            return [{"kind": "begin", "by": by, "at": now, "index": index, **stored_settings}]

        first_event = log.append(decide, index)[0]
        with self._lock:
            self._open[id] = Review(log, documents, first_event)
        return self.open(id)

    def open(self, id: str, anew: bool = False) -> Review:
        """Open an existing review.

        Args:
            id: The id of the review.
            anew: Whether to read the documents from the engine again. Otherwise, documents that this process has read
                before may be reused.

        Raises:
            NotFound: The review does not exist.
        """
        with self._lock:
            log = ReviewLog(self._store, id)
            event, review = log.first_event(), self._open.get(id)
            if event is None:
                raise NotFound(f"no review {id!r}", value=id, expected="an existing review")
            if review is None or anew or review.first_event != event:
                settings = ReviewSettings(event["topic"], event["query"], event["fields"])
                documents = self._documents(event["index"], settings)
                review = self._open[id] = Review(log, documents, event)
            self._open.move_to_end(id)
            while len(self._open) > _OPEN:
                self._open.popitem(last=False)
            return review

    def list(self) -> list[tuple[str, str]]:
        """Return the id and the index of each review."""
        return review_ids(self._store)

    def delete(self, id: str) -> None:
        """Delete a review with all its judgements.

        Args:
            id: The id of the review.

        Raises:
            NotFound: The review does not exist.
        """
        ReviewLog(self._store, id).delete()
        with self._lock:
            self._open.pop(id, None)

    @cached_property
    def _store(self) -> SessionStore:
        return self._open_store()

    def _documents(self, index: str, settings: ReviewSettings) -> DocumentSet:
        topic, query, fields = settings.topic, settings.query, settings.fields
        searched = list(fields or map(str, self._engine.info(index).fields))
        clause = text_clause(_shortened(topic, len(searched)), searched or ["*"]) if topic else {"match_all": {}}
        texts: dict[str, str] = {}
        remaining = MAX_TEXT
        try:
            for document in self._engine.scan(index, fields=fields or None, query=query):
                if document.id in texts:
                    message = f"document {document.id!r} is in {index!r} more than once"
                    expected = "a single index, or indices without common ids"
                    raise AmbiguousDocument(message, value=document.id, expected=expected)
                texts[document.id] = readable(document.source, searched)
                remaining -= len(texts[document.id]) + DOCUMENT_OVERHEAD
                if remaining < 0:
                    return LargeSet(self._engine, index, searched, query, clause)
            topic_query = {"bool": {"must": [clause], "filter": [] if query is None else [query]}}
            hits = self._engine.scan(index, fields=["_id"], query=topic_query) if topic else ()
            first = [hit.id for hit in islice(hits, _FIRST)]
        except EngineError as error:
            message = f"the engine refused the query: {error.message}"
            raise BadInput(message, value=query, expected="a query clause") from error
        return DocumentSet(list(texts), list(texts.values()), first)


def _shortened(topic: str, fields: int) -> str:
    """Shorten the topic of a review if it has more words than the engine accepts in a query.

    Args:
        topic: The topic, in words.
        fields: The number of searched fields, or 0 if the number is unknown.

    Returns:
        The topic itself if it is short enough. Otherwise its first distinct words, as many as the engine accepts,
        without function words such as "the".
    """
    words, limit = tokenize(topic), max(1, _CLAUSES // (fields or _UNKNOWN_FIELDS) - 1)
    if len(words) <= limit:
        return topic
    return " ".join([word for word in dict.fromkeys(words) if word not in FUNCTION_WORDS][:limit])
