"""The reviews in a store, over documents of an engine."""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from functools import cached_property

from resift.contracts.engine import Engine
from resift.contracts.session_store import SessionStore
from resift.errors import BadInput, NotFound
from resift.query.dsl import Body
from resift.reviews.loading import LazySet
from resift.reviews.log import Event, ReviewLog, check_review_id, list_reviews, size_in_bytes
from resift.reviews.ranking import DocumentSet
from resift.reviews.review import Review
from resift.reviews.stopping import TARGET, progress
from resift.reviews.stored import StoredSet
from resift.sessions.quotas import Quotas
from resift.sessions.sessions import SessionCaller

MAX_FIELDS = 50  # maximum number of fields of a review
# Maximum memory of the open reviews in bytes, as estimated. Beyond it, the least recently used reviews are closed. The
# largest review that is ranked as a whole needs 3.2 GB (MAX_SET_SIZE).
MAX_MEMORY = 4 * 10**9


@dataclass(frozen=True)
class ReviewSettings:
    """The settings of a review.

    Attributes:
        topic: The subject of the review, in words. The best hits of a search for the topic are read first.
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
        caller: A function that returns the caller of the current request. The name of the caller's API key is stored
            with each event.
        quotas: Daily limits on the storage of each API key. By default there are no limits.

    Attributes:
        max_seconds: The maximum time in seconds for reading the texts of a review from the engine.
    """

    def __init__(
        self,
        engine: Engine,
        open_store: Callable[[], SessionStore],
        caller: Callable[[], SessionCaller] = SessionCaller,
        quotas: Quotas | None = None,
    ) -> None:
        self.max_seconds = math.inf
        self._engine = engine
        self._open_store = open_store
        self._caller = caller
        self._quotas = quotas or Quotas()
        self._open: OrderedDict[str, Review] = OrderedDict()
        self._resources = ExitStack()
        self._lock = threading.Lock()  # protects _open, and is never held during a request to the engine or the store

    def begin(self, id: str, index: str, settings: ReviewSettings | None = None, by: str = "") -> Review:
        """Start a review of an index, or open the review if it has already been started.

        Args:
            id: The id of the review.
            index: The name of the index.
            settings: The settings of a new review. They are ignored if the review exists.
            by: The name of the person who starts the review.

        Raises:
            BadInput: If the review exists for another index, the query matches no document with text, a field is
                unknown, or the target is out of range.
            AmbiguousDocument: If two documents have the same id.
            DeadlineExceeded: If reading the documents takes too long.
            QuotaExceeded: If the caller's API key has reached a daily limit.
        """
        log = ReviewLog(self._store, check_review_id(id))
        first = log.first_event()
        if first is not None:
            return self.open(_checked_id(first, id, index))
        settings = settings or ReviewSettings()
        progress((), 1, settings.target)  # raises BadInput if the target is out of range
        self._check_fields(index, settings.fields)
        self._quotas.check(self._caller().name, "sessions", "bytes")
        stored_settings = {**asdict(settings), "fields": list(dict.fromkeys(settings.fields))}
        now = round(time.time(), 3)
        event: Event = {"kind": "begin", "by": by, "key": self._caller().name, "at": now, "index": index}
        event |= stored_settings
        documents = self._documents(event)
        loaded = documents.load()
        if isinstance(loaded, DocumentSet) and not any(map(loaded.text, loaded.ids)):
            message = f"no document with text to review in {index!r}"
            expected = "a query and fields that match documents with text"
            raise BadInput(message, value=settings.query, expected=expected)

        if not log.append(lambda: [] if log.events else [event], index):  # another request has just started it
            return self.open(_checked_id(log.events[0], id, index))
        self._quotas.record_usage(self._caller().name, sessions=1, bytes=size_in_bytes([event]))
        return self._opened(log, event, documents)

    def open(self, id: str, reload: bool = False) -> Review:
        """Open an existing review. Its documents are read from the engine when they are needed.

        Args:
            id: The id of the review.
            reload: Whether to read the documents from the engine again. Otherwise, documents that this process has read
                before may be reused.

        Raises:
            NotFound: If the review does not exist.
        """
        log = ReviewLog(self._store, id)
        event = self._first_event(log)
        with self._lock:
            review = self._open.get(id)
        if review is None or reload or review.first_event != event:
            return self._opened(log, event, self._documents(event))
        self._close_unused_reviews(id)
        return review

    def list(self) -> list[tuple[str, str]]:
        """Return all reviews in the store, as pairs of a review id and the name of its index."""
        return list_reviews(self._store)

    def index(self, id: str) -> str:
        """Return the name of the index whose documents are judged in a review.

        Args:
            id: The id of the review.

        Raises:
            NotFound: If the review does not exist.
        """
        return str(self._first_event(ReviewLog(self._store, id))["index"])

    def delete(self, id: str) -> None:
        """Delete a review with all its judgements. Raise NotFound if it does not exist."""
        ReviewLog(self._store, id).delete()
        with self._lock:
            self._open.pop(id, None)

    @cached_property
    def _store(self) -> SessionStore:
        return self._resources.enter_context(closing(self._open_store()))

    def close(self) -> None:
        """Close the session store, if it was opened."""
        self._resources.close()

    @staticmethod
    def _first_event(log: ReviewLog) -> Event:
        event = log.first_event()
        if event is None:
            raise NotFound(f"no review {log.id!r}", value=log.id, expected="an existing review")
        return event

    def _check_fields(self, index: str, fields: Sequence[str]) -> None:
        if len(fields) > MAX_FIELDS:
            raise BadInput(f"{len(fields)} fields", value=len(fields), expected=f"at most {MAX_FIELDS} fields")
        names = set(self._engine.field_names(index)) if fields else set()
        unknown = [field for field in fields if field not in names]
        if unknown:
            message = f"index {index!r} has no field {unknown[0]!r}"
            raise BadInput(message, value=unknown[0], expected="the name of a field, without patterns")

    def _documents(self, event: Event) -> LazySet:
        """Return the documents of a review, without loading them. They are loaded when they are first needed.

        Args:
            event: The event that started the review. It contains the index, the query and the topic of the review.
        """
        index = event["index"]

        def fields() -> list[str]:
            return event["fields"] or list(map(str, self._engine.info(index).fields))

        stored = StoredSet(self._engine, index, event["query"], fields)
        return LazySet(stored, event["topic"], self.max_seconds, self._close_unused_reviews)

    def _opened(self, log: ReviewLog, event: Event, documents: LazySet) -> Review:
        review = Review(log, documents, event, caller=self._caller, quotas=self._quotas)
        with self._lock:
            self._open[log.id] = review
        self._close_unused_reviews(log.id)
        return review

    def _close_unused_reviews(self, id: str | None = None) -> None:
        """Close the least recently used reviews if all open reviews together need too much memory.

        A review that a thread is working on stays in memory until the thread has finished.

        Args:
            id: The id of a review that is being used.
        """
        with self._lock:
            if id is not None and id in self._open:
                self._open.move_to_end(id)
            total = sum(review.memory_in_bytes for review in self._open.values())
            while total > MAX_MEMORY and len(self._open) > 1:
                _, closed = self._open.popitem(last=False)
                total -= closed.memory_in_bytes


def _checked_id(first_event: Event, id: str, index: str) -> str:
    """Check that a review belongs to the expected index, and return the id of the review.

    Args:
        first_event: The first event in the log of the review. It names the index.
        id: The id of the review.
        index: The name of the expected index.

    Raises:
        BadInput: If the review belongs to another index.
    """
    if first_event["index"] != index:
        message = f"review {id!r} is of index {first_event['index']!r}"
        raise BadInput(message, value=index, expected="that index, or another review")
    return id
