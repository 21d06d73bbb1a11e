"""Loading the texts of a review's documents from the engine, when the documents are ranked for the first time."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import islice

from resift.contracts.engine import Headers
from resift.errors import AmbiguousDocument, BadInput, DeadlineExceeded, EngineError
from resift.query.clause_count import UNKNOWN_FIELDS
from resift.query.dsl import MAX_OWN_CLAUSES, text_clause
from resift.reviews.documents import ReviewDocuments
from resift.reviews.large import MAX_SET_SIZE, LargeSet
from resift.reviews.ranking import DOCUMENT_OVERHEAD, DocumentSet
from resift.reviews.stored import StoredSet
from resift.text import FUNCTION_WORDS, tokenize

_FIRST = 1000  # number of hits for the topic that are ranked first, until a document has been judged relevant


class LazySet(ReviewDocuments):
    """The documents of a review, whose texts are loaded only when the documents are first ranked.

    Before that, the engine counts the documents, looks them up and draws random documents.

    Args:
        stored: The documents in the engine.
        topic: The subject of the review in words, or "". The best hits of a search for it are ranked first.
        max_seconds: The maximum time in seconds for reading the texts.
        on_load: A function that is called after texts were loaded, and :attr:`memory_in_bytes` has changed.
    """

    def __init__(
        self,
        stored: StoredSet,
        topic: str = "",
        max_seconds: float = math.inf,
        on_load: Callable[[], None] = lambda: None,
    ) -> None:
        self._stored = stored
        self._topic = topic
        self._max_seconds = max_seconds
        self._on_load = on_load
        self._lock = threading.Lock()
        self._loaded: ReviewDocuments | None = None

    @property
    def total(self) -> int:
        """The number of documents."""
        return (self._loaded or self._stored).total

    @property
    def memory_in_bytes(self) -> int:
        """The estimated number of bytes of memory that the loaded texts and the classifiers occupy."""
        return self._loaded.memory_in_bytes if self._loaded else 0

    def existing_ids(self, ids: Collection[str]) -> set[str]:
        """Return the ids in ``ids`` that belong to documents of this set. Other ids are left out."""
        return (self._loaded or self._stored).existing_ids(ids)

    def draw(self, count: int, excluded: Collection[str]) -> tuple[list[str], int]:
        """Draw random documents without replacement. The documents need not be loaded.

        Args:
            count: The number of documents to draw. Fewer are drawn if fewer are available.
            excluded: The ids of the documents that must not be drawn.

        Returns:
            The ids of the drawn documents, and the number of documents that could be drawn.
        """
        return (self._loaded or self._stored).draw(count, excluded)

    def text(self, id: str) -> str:
        """Return the text of a document as it was loaded, or "" if the document is not in this set."""
        return self.load().text(id)

    def texts(self, ids: Sequence[str], headers: Headers = None) -> dict[str, str]:
        """Return the current texts of documents in the engine by id.

        Documents that do not exist any more, or that the caller may not read, are left out.
        """
        return self._stored.texts(ids, headers)

    def ranked(self, labels: Mapping[str, bool], read: Collection[str] = ()) -> list[str]:
        """Return the ids of the documents that nobody has read yet, most likely relevant first.

        The documents are loaded first, if they are not loaded yet.

        Args:
            labels: The judgements to learn from, with True for relevant documents.
            read: The ids of the documents to leave out because they have been read.
        """
        ranked = self.load().ranked(labels, read)
        self._on_load()  # a large set may have loaded other documents
        return ranked

    def reasons(self, id: str, labels: Mapping[str, bool], count: int) -> list[str]:
        """Return the words and pairs of words that contribute most to the score of a document.

        Args:
            id: The id of the document.
            labels: The judged documents, with True for relevant documents.
            count: The maximum number of words and pairs of words.
        """
        return self.load().reasons(id, labels, count)

    def load(self) -> ReviewDocuments:
        """Return the documents with their texts, which are loaded from the engine by the first call.

        Raises:
            DeadlineExceeded: If reading the texts takes too long.
            AmbiguousDocument: If two documents have the same id.
            BadInput: If the engine refuses the query.
        """
        with self._lock:
            if self._loaded is not None:
                return self._loaded
            try:
                loaded = self._loaded = self._read()
            except EngineError as error:
                if error.status >= 500:
                    raise
                message = f"the engine refused the query: {error.message}"
                raise BadInput(message, value=self._stored.query, expected="a query clause") from error
        self._on_load()
        return loaded

    def _read(self) -> ReviewDocuments:
        stored, index, searched = self._stored, self._stored.index, self._stored.fields
        clause = text_clause(_shortened_topic(self._topic, len(searched)), searched or ["*"]) if self._topic else None
        texts: dict[str, str] = {}
        remaining, deadline = MAX_SET_SIZE, time.monotonic() + self._max_seconds
        for id, text in stored.scan(query=stored.query):
            if id in texts:
                message = f"document {id!r} is in {index!r} more than once"
                expected = "a single index, or indices without common ids"
                raise AmbiguousDocument(message, value=id, expected=expected)
            if time.monotonic() > deadline:
                message = f"the documents of {index!r} were not read within {self._max_seconds:g} s"
                raise DeadlineExceeded(
                    message, value=index, expected="a review of fewer documents, or a larger RESIFT_DEADLINE"
                )
            texts[id] = text
            remaining -= len(text) + DOCUMENT_OVERHEAD
            if remaining < 0:
                return LargeSet(stored, clause or {"match_all": {}})
        first: list[str] = []
        if clause is not None:
            hits = stored.engine.scan(index, fields=["_id"], query=stored.restricted_query(must=[clause]))
            first = [hit.id for hit in islice(hits, _FIRST)]
        return DocumentSet(list(texts), list(texts.values()), first)


def _shortened_topic(topic: str, fields: int) -> str:
    """Shorten the topic of a review if it has more words than the engine accepts in a query.

    Args:
        topic: The topic, in words.
        fields: The number of searched fields, or 0 if the number is unknown.

    Returns:
        The topic itself if it is short enough. Otherwise its first distinct words, as many as the engine accepts,
        without function words such as "the".
    """
    words, limit = tokenize(topic), max(1, MAX_OWN_CLAUSES // (fields or UNKNOWN_FIELDS) - 1)
    if len(words) <= limit:
        return topic
    return " ".join([word for word in dict.fromkeys(words) if word not in FUNCTION_WORDS][:limit])
