"""Loads the knowledge of a session for a search.

Each search needs the session, the clicks of its client, the judged documents and a sample of the index.
:class:`KnowledgeLoader` reads each of them once, learns from the judgements, and keeps the part that concerns the
query.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from resift.arrays import Floats
from resift.cache import TtlCache
from resift.contracts.documents import IndexInfo
from resift.contracts.engine import Engine, Headers
from resift.encoders.model import Model
from resift.errors import (
    AmbiguousDocument,
    EngineError,
    EngineUnavailable,
    IndexNotFound,
    IndexNotServed,
    ModelMismatch,
    SessionsUnavailable,
)
from resift.feedback.feedback import Feedback
from resift.feedback.judgements import JudgedDocument, Judgement
from resift.feedback.ridge import Background
from resift.rewriting.knowledge import NO_NEEDS, FieldKnowledge, Knowledge, Needs
from resift.rewriting.options import Options
from resift.sessions.clicks import Clicks
from resift.sessions.documents import Content, FieldLoader, read_documents
from resift.sessions.samples import Samples, WordSelector
from resift.sessions.sessions import MAX_QUERY, Sessions, effective_judgements
from resift.vectors.similarity import SIMILARITIES

log = logging.getLogger(__name__)

_UNREADABLE_INDEX = (IndexNotFound, IndexNotServed, ModelMismatch)
# The caches of documents, and of what was learned from them.
_SECONDS = 300.0
_CACHE_BYTES = 16_000_000
_ENTRY_BYTES = 600  # of a document in the cache, besides its vector and its text
_WORD_BYTES = 70  # of a word in a document's bag of words: the word, its weight, their slot in a dictionary


class EncodedQuery(NamedTuple):
    """A query text and its vector.

    Attributes:
        text: The text.
        vector: The vector, of shape (K,) for K dimensions.
        similarity: How the model compares vectors, ``cosine`` or ``jaccard``.
    """

    text: str
    vector: Floats
    similarity: str


def scoped_feedback(
    learned: Feedback | None, query: EncodedQuery, background: Callable[[], Background], carried: float = 1.0
) -> Feedback | None:
    """Return the part of a session's feedback that concerns a query.

    Args:
        learned: The feedback that was learned from all judgements of the session, or None if there are none.
        query: The query.
        background: A function that returns vectors of random documents. It is not called if ``learned`` is None.
        carried: A factor for the weights of judgements that were made for other queries.

    Returns:
        The feedback for the query, or None if no judgement concerns the query.
    """
    if learned is None:
        return None
    drawn = background()
    scoped = learned.with_background(drawn).scoped(query.vector, drawn.vectors, query.text[:MAX_QUERY], carried)
    return scoped if scoped.evidence else None


def knowledge_of(
    info: IndexInfo,
    query: EncodedQuery,
    feedback: Feedback | None,
    documents: Sequence[JudgedDocument],
    searched: Sequence[JudgedDocument],
) -> Knowledge:
    """Return the knowledge about a query that follows from a session's feedback.

    Expansion words, and knowledge about vectors and tokens that the index had before Resift, are not included.

    Args:
        info: The index.
        query: The query.
        feedback: The part of the session's feedback that concerns the query, or None if no feedback does.
        documents: All judged documents of the session.
        searched: Those of the judged documents that are in the index.
    """
    vector = query.vector if feedback is None else feedback.transform_query(query.vector)
    homes = {document.judgement.document: document.judgement.index for document in searched}
    return Knowledge(
        text=query.text,
        fields=info.fields,
        vector=vector if info.model is not None and np.any(vector) else None,
        vector_field=info.vector_field,
        similarity=query.similarity,
        mask=None if feedback is None or not feedback.method.masked else feedback.mask,
        judged=tuple(homes),
        unmoved={} if feedback is None else _unmoved(searched, query),
        home_indices=homes if len(info.indices) > 1 else {},
        feedback=feedback,
        documents=documents,
    )


def _unmoved(judged: Sequence[JudgedDocument], query: EncodedQuery) -> dict[str, float]:
    """Return the similarities between a query and the documents that were judged for other queries.

    The session does not change the rank of these documents. Otherwise documents that were marked earlier would fill
    the top of every later search. Documents that were judged for this query do move, because a person who marks a hit
    expects it.

    Args:
        judged: The judged documents that are in the index.
        query: The query, before the session moves its vector.

    Returns:
        A mapping from the ids of the documents to the similarities.
    """
    # A session stores the beginning of a query.
    unmoved = [document for document in judged if document.judgement.query not in ("", query.text[:MAX_QUERY])]
    if not unmoved:
        return {}
    similarities = SIMILARITIES[query.similarity](query.vector, np.stack([document.vector for document in unmoved]))
    return {
        document.judgement.document: float(similarity)
        for document, similarity in zip(unmoved, similarities, strict=True)
    }


class KnowledgeLoader:
    """Loads the knowledge of sessions. Thread-safe.

    Vectors and texts of judged documents are cached for five minutes, for callers with the same headers.

    Args:
        engine: The engine.
        model: The model that encodes queries.
        sessions: The sessions.
        info: A function that returns the record of an index, for a name and the headers of the caller. It raises
            ``ModelMismatch`` for an index of another model.
        method: The feedback method, a key of :data:`resift.feedback.methods.METHODS`.
        clicks: The clicks in UBI's log, or None to ignore the log.
    """

    def __init__(
        self,
        engine: Engine,
        model: Model,
        sessions: Sessions,
        info: Callable[[str, Headers], IndexInfo],
        method: str,
        clicks: Clicks | None = None,
    ) -> None:
        self.engine, self.model, self.sessions, self.info = engine, model, sessions, info
        self.method, self.clicks = method, clicks
        self.samples = Samples(engine)
        self.word_selector = WordSelector(engine)
        self.fields = FieldLoader(engine, self.samples.draw)
        self._contents: TtlCache[Content] = TtlCache(_CACHE_BYTES, _SECONDS)
        self._learned: TtlCache[Feedback] = TtlCache(_CACHE_BYTES, _SECONDS)

    def load(self, info: IndexInfo, options: Options, needs: Needs = NO_NEEDS, headers: Headers = None) -> Knowledge:
        """Load the knowledge about a query that follows from its session and the clicks of its client.

        If the session or the clicks cannot be read, the result does not include them, and its notes say so.

        Args:
            info: The index.
            options: The options of the search, which state its text, its session and its client.
            needs: The fields whose vectors or tokens must be loaded, and the query texts that must be encoded.
            headers: The HTTP headers of the caller, or None.

        Raises:
            BadInput: The id of the session is malformed.
            ResiftError: The engine failed.
        """
        judgements, notes = self._judgements(info, options, headers)
        documents = self.read(judgements, headers)
        text = options.text or ""
        query = EncodedQuery(text, self.model.encode_one(text), self.model.similarity)
        background = partial(self.samples.draw, info, headers)
        feedback = scoped_feedback(self.learned(documents), query, background, info.tuning.carried)
        searched = [document for document in documents if self._is_searched(document.judgement.index, info, headers)]
        knowledge = replace(
            knowledge_of(info, query, feedback, documents, searched),
            expansion_words=self.word_selector.select(feedback, info, headers),
            notes=notes,
        )
        if feedback is None:
            return knowledge
        indices = (info.name, *info.indices)
        missing = sum(judgement.index in indices for judgement in judgements) - len(searched)
        own_fields = FieldKnowledge(mapped=info.vector_fields)
        if needs.fields:
            own_fields = self.fields.load(info, needs, feedback.for_query, documents, searched, headers)
        return replace(knowledge, missing_documents=max(0, missing), own_fields=own_fields)

    def _judgements(self, info: IndexInfo, options: Options, headers: Headers) -> tuple[list[Judgement], list[str]]:
        """Read the judgements of a session and the clicks of its client.

        Args:
            info: The index.
            options: The options of the search, which state its session and its client.
            headers: The HTTP headers of the caller.

        Returns:
            The judgements that count, of which each document has at most one, and English sentences about what could
            not be read.
        """
        notes: list[str] = []
        stored = None
        try:
            if options.session is not None:
                stored = self.sessions.find(options.session, options.through_cluster)
        except SessionsUnavailable as error:
            log.warning("Searching without the session: %s", error.message)
            notes.append(error.message)
        judgements = [] if stored is None else stored.effective_judgements
        clicked: list[Judgement] = []
        client = options.client or options.session
        # UBI's log knows no owners. With API keys it belongs to the cluster and to administrators.
        if self.clicks and client and (options.through_cluster or self.sessions.caller().may_use(None)):
            try:
                clicked = self.clicks.judgements(client, info.name, headers)
            except (EngineError, EngineUnavailable) as error:
                log.warning("Searching without clicks: %s", error.message)
                notes.append(f"clicks: {error.message}")
        # A mark says more about a document than a click.
        marked = {(judgement.index, judgement.document) for judgement in judgements}
        clicked = [judgement for judgement in clicked if (judgement.index, judgement.document) not in marked]
        return effective_judgements([*clicked, *judgements]), notes

    def _is_searched(self, index: str, info: IndexInfo, headers: Headers) -> bool:
        """Return whether documents that were judged in one index can be hits of a search in another.

        Args:
            index: The name of the index or alias in which the documents were judged.
            info: The searched index.
            headers: The HTTP headers of the caller.
        """
        try:
            judged = info if index == info.name else self.info(index, headers)
        except _UNREADABLE_INDEX:
            return False  # the cache can outlive the index
        return not set(judged.indices).isdisjoint(info.indices)

    def learned(self, judged: Sequence[JudgedDocument]) -> Feedback | None:
        """Learn from judged documents, or return the cached feedback if it was learned from them before.

        Args:
            judged: The judged documents.

        Returns:
            The feedback, or None if there are no judged documents.
        """
        if not judged:
            return None
        # Vectors and texts are part of the key. A document that was indexed again can teach something different, and
        # texts with different unknown words can have the same vector.
        key = tuple(
            (
                document.judgement.grade,
                document.judgement.query,
                hash(document.text),
                hash(document.vector.tobytes()),
            )
            for document in judged
        )
        if (cached := self._learned.get(key)) is not None:
            return cached
        model = self.model
        learned = Feedback.from_judged(judged, model.dim, model.table.idf, self.method, model.document_known_share)
        size = 3 * learned.vectors.nbytes + _WORD_BYTES * sum(map(len, learned.bags))
        return self._learned.put(key, learned, size)

    def expansion_words(self, feedback: Feedback | None, index: str, headers: Headers = None) -> list[str]:
        """Return the words that feedback adds to queries in an index, heaviest first.

        As a side effect, vectors of random documents are loaded into a cache, so the next search need not wait for
        them.

        Args:
            feedback: The feedback, or None.
            index: The name of the index.
            headers: The HTTP headers of the caller.

        Returns:
            The words. Empty if the index no longer exists, is not served or has vectors of another model.
        """
        try:
            info = self.info(index, headers)
            self.samples.draw(info, headers)
            return list(self.word_selector.select(feedback, info, headers))
        except _UNREADABLE_INDEX:
            return []

    def read(self, judgements: Sequence[Judgement], headers: Headers) -> list[JudgedDocument]:
        """Return judgements together with their documents.

        A judgement is left out in these cases:

        - Its document no longer exists, or the caller may not read it.
        - Several of the searched indices contain a document with the same id.
        - Its index no longer exists, is not served or has vectors of another model.

        Args:
            judgements: The judgements.
            headers: The HTTP headers of the caller.
        """
        contents: dict[tuple[str, str], Content] = {}
        for index in dict.fromkeys(judgement.index for judgement in judgements):
            ids = list(dict.fromkeys(judgement.document for judgement in judgements if judgement.index == index))
            cached = {id: self._contents.get((index, id, str(headers))) for id in ids}
            missing = [id for id, content in cached.items() if content is None]
            fetched = self._fetch_readable(index, missing, headers) if missing else {}
            contents |= {(index, id): content for id, content in cached.items() if content is not None}
            contents |= {(index, id): content for id, content in fetched.items()}
        keys = ((judgement, (judgement.index, judgement.document)) for judgement in judgements)
        return [JudgedDocument(judgement, *contents[key]) for judgement, key in keys if key in contents]

    def _fetch_readable(self, index: str, ids: Sequence[str], headers: Headers) -> dict[str, Content]:
        """Fetch documents like :meth:`fetch`, but leave out documents that cannot be read.

        Args:
            index: The name of the index or alias. If it cannot be read, the result is empty.
            ids: The ids of the documents. An id that occurs in several of the searched indices is left out.
            headers: The HTTP headers of the caller.

        Returns:
            A mapping from the ids to the vectors and texts of the documents.
        """
        try:
            return self.fetch(index, ids, headers)
        except AmbiguousDocument:
            # The error does not say which id is ambiguous, so the ids are halved until it is alone.
            half = len(ids) // 2
            halves = (ids[:half], ids[half:]) if half else ()
            return {
                id: content for part in halves for id, content in self._fetch_readable(index, part, headers).items()
            }
        except _UNREADABLE_INDEX:
            return {}

    def fetch(self, index: str, ids: Sequence[str], headers: Headers) -> dict[str, Content]:
        """Fetch the vectors and texts of documents from the engine, and cache them.

        Args:
            index: The name of the index or alias.
            ids: The ids of the documents.
            headers: The HTTP headers of the caller.

        Returns:
            A mapping from the ids of existing documents to their vectors and texts.

        Raises:
            IndexNotFound: The index does not exist.
            IndexNotServed: The index is not served.
            ModelMismatch: The index has vectors of another model.
            AmbiguousDocument: Several of the searched indices have a document with one of the ids.
            ResiftError: The engine failed.
        """
        contents = read_documents(self.engine, self.model, self.info(index, headers), ids, headers)
        for id, (vector, text) in contents.items():
            size = vector.nbytes + sys.getsizeof(text) + len(str(headers)) + _ENTRY_BYTES
            # Headers are part of the key, because callers with other rights may read other documents.
            self._contents.put((index, id, str(headers)), (vector, text), size)
        return contents

    def forget(self) -> None:
        """Remove all documents from the cache, because some have changed."""
        self._contents.clear()
        self.fields.forget()
