"""Load the data about a session that the rewriting of a search needs.

Each search needs the session, the clicks of its client, the judged documents and a sample of the index.
:class:`KnowledgeLoader` reads each of them once, learns from the judgements, and selects the part that applies to the
query.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, replace
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
    IndexNotFound,
    IndexNotServed,
    ModelMismatch,
    ResiftError,
    SessionsUnavailable,
)
from resift.feedback.feedback import Feedback
from resift.feedback.judgements import DocumentKey, JudgedDocument, Judgement
from resift.feedback.ridge import Background
from resift.feedback.scope import is_same_query
from resift.rewriting.knowledge import NO_REQUIRED_DATA, FieldKnowledge, Knowledge, RequiredData
from resift.rewriting.options import Options
from resift.rewriting.outcome import Outcome
from resift.sessions.clicks import Clicks
from resift.sessions.documents import Content, FieldLoader, join_texts, notes_on_unreadable_texts, read_documents
from resift.sessions.loading import LoadingPool
from resift.sessions.samples import BackgroundSampler, WordSelector
from resift.sessions.sessions import MAX_QUERY, STRENGTH, Sessions, effective_judgements
from resift.vectors.similarity import SIMILARITIES

log = logging.getLogger(__name__)

_UNREADABLE_INDEX = (IndexNotFound, IndexNotServed, ModelMismatch)
# The caches of documents, and of the feedback that was learned from them.
_SECONDS = 300.0
_CACHE_BYTES = 16_000_000
_CACHED_SESSIONS = 5000
# Seconds that a search waits for its session to be loaded. ML Commons gives a search pipeline one second.
_PATIENCE = 10.0
_PATIENCE_OF_PIPELINES = 0.3
_ENTRY_BYTES = 600  # of a document in the cache, besides its vector and its text
_LEARNED_BYTES = 8_000_000
_WORD_BYTES = 16  # of a word in a document's bag of words: a reference to the word, and its weight


class EncodedQuery(NamedTuple):
    """The text of a query together with its vector.

    Attributes:
        text: The query text.
        vector: The vector, of shape (n_dimensions,).
        similarity: How the embedding model compares vectors: ``cosine`` or ``jaccard``.
    """

    text: str
    vector: Floats
    similarity: str


@dataclass(frozen=True)
class _SessionSearch:
    """A search in a session, with the data that must be loaded for it.

    Attributes:
        info: The names, fields and settings of the searched index.
        options: The options of the search: its text, its session and its user.
        needs: The fields whose vectors, tokens or texts the search needs, and the query texts that must be encoded.
        headers: The caller's HTTP headers, or None.
    """

    info: IndexInfo
    options: Options
    needs: RequiredData
    headers: Headers

    def cache_key(self, judgements: Sequence[Judgement]) -> Hashable:
        """Return a key by which :class:`KnowledgeLoader` records that the data for the search is in its caches.

        The key does not depend on the text of the search. Later searches of the session for other texts therefore find
        the data.

        Args:
            judgements: The judgements in the session. The key depends on the judged documents.
        """
        documents = hash(tuple(judgement.key for judgement in judgements))
        needs, caller = self.needs, str(self.headers)
        # A client can search any number of fields, so their names are not stored.
        return self.info.name, caller, documents, needs.fields, hash(needs.text_fields), self.options.feedback


def scoped_feedback(
    learned: Feedback | None, query: EncodedQuery, background: Callable[[], Background], carried: float = 1.0
) -> Feedback | None:
    """Return the part of a session's feedback that applies to a query.

    Judgements that were made for other queries have less weight, or none.

    Args:
        learned: The feedback that was learned from all judgements of the session, or None if there are none.
        query: The text of the query, and its vector before the session moves it.
        background: A function that returns the vectors of random documents of the index, for comparison.
        carried: An additional factor for the weights of judgements that were made for other queries.

    Returns:
        The feedback for the query, or None if no judgement applies to the query.
    """
    if learned is None:
        return None
    drawn = background()
    scoped = learned.with_background(drawn).scoped_to_query(
        query.vector, drawn.vectors, query.text[:MAX_QUERY], carried
    )
    return scoped if scoped.evidence else None


def collect_knowledge(
    info: IndexInfo,
    query: EncodedQuery,
    feedback: Feedback | None,
    documents: Sequence[JudgedDocument],
    searched: Sequence[JudgedDocument],
) -> Knowledge:
    """Return the data with which a search is rewritten, such as the moved query vector and the judged documents.

    Args:
        info: The names, fields and settings of the searched index.
        query: The text and vector of the query.
        feedback: The part of the session's feedback that applies to the query, or None.
        documents: All judged documents of the session, in any index.
        searched: The judged documents that are in the searched index. Only these can be hits of the search.

    Returns:
        The data, without the expansion words and without ``own_fields`` (knowledge about the index's own vector and
        token fields). The caller adds both.
    """
    vector = query.vector if feedback is None else feedback.transform_query(query.vector)
    if len(info.indices) == 1:
        # An alias and its index can name the same document. Then the latest judgement counts.
        latest = {document.judgement.document: document for document in sorted(searched, key=_precedence)}
        searched = [document for document in searched if latest[document.judgement.document] is document]
    # A session stores only the first MAX_QUERY characters of a query.
    text = query.text[:MAX_QUERY]
    elsewhere = [document for document in searched if not is_same_query(document.judgement.query, text)]
    return Knowledge(
        text=query.text,
        fields=info.fields,
        vector=vector if info.model is not None and np.any(vector) else None,
        vector_field=info.vector_field,
        similarity=query.similarity,
        mask=None if feedback is None or not feedback.method.masked else feedback.mask,
        judged=[document.judgement.key for document in searched],
        judged_elsewhere={document.judgement.key for document in elsewhere},
        unaffected={} if feedback is None else _original_similarities(elsewhere, query),
        has_several_indices=len(info.indices) > 1,
        feedback=feedback,
        documents=documents,
        field_types=info.field_types,
    )


def _precedence(document: JudgedDocument) -> tuple[int, int, float]:
    """Return a sort key for judgements of the same document. The judgement with the largest key counts.

    A mark counts more than a click, and a click more than a skipped hit. Otherwise the latest judgement counts.
    """
    judgement = document.judgement
    return STRENGTH[judgement.source], judgement.step, judgement.at


def _original_similarities(judged_elsewhere: Sequence[JudgedDocument], query: EncodedQuery) -> dict[DocumentKey, float]:
    """Return the similarities of documents to the original query vector, which the session has not moved.

    The documents were judged for other queries, and the session must not change their rank: otherwise documents that
    were marked earlier would fill the top of every later search.

    Args:
        judged_elsewhere: The judged documents in the searched index that were judged for other queries.
        query: The query with its original vector.

    Returns:
        The similarity of each document.
    """
    if not judged_elsewhere:
        return {}
    vectors = np.stack([document.vector for document in judged_elsewhere])
    similarities = SIMILARITIES[query.similarity](query.vector, vectors)
    return {
        document.judgement.key: float(similarity)
        for document, similarity in zip(judged_elsewhere, similarities, strict=True)
    }


class KnowledgeLoader:
    """Loads everything that is needed to apply the relevance judgements of a session to a search.

    Vectors and texts of judged documents are cached for five minutes, separately for each caller's headers.
    Instances are thread-safe.

    Args:
        engine: The search engine.
        model: The embedding model that encodes queries.
        sessions: The search sessions.
        info: A function that returns the names, fields and settings of an index, given its name and the caller's
            headers. It raises ``ModelMismatch`` if the vectors of the index were made by another model.
        method: The feedback method of searches that state none, a key of :data:`resift.feedback.methods.METHODS`.
        clicks: The clicks in the log of user events, or None to ignore the log.
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
        self.samples = BackgroundSampler(engine)
        self.word_selector = WordSelector(engine)
        self.fields = FieldLoader(engine, self.samples.draw)
        self._contents: TtlCache[Content] = TtlCache(_CACHE_BYTES, _SECONDS)
        self._learned: TtlCache[Feedback] = TtlCache(_LEARNED_BYTES, _SECONDS)
        # For each search by its key, the judged documents that exist.
        self._loaded: TtlCache[Collection[DocumentKey]] = TtlCache(_CACHED_SESSIONS, _SECONDS)
        self.loader = LoadingPool()

    def load(
        self, info: IndexInfo, options: Options, needs: RequiredData = NO_REQUIRED_DATA, headers: Headers = None
    ) -> Knowledge:
        """Load the data with which Resift rewrites a search, such as the moved query vector and the expansion words.

        The data is derived from the relevance judgements in the session and from the clicks of the user. If these
        cannot be read, they are ignored, and a note in the result gives the reason.

        A service that answers many searches starts the :attr:`loader`, which loads sessions in the background. Then the
        judgements are ignored in two more cases: if the session is not loaded within 0.3 s (10 s outside a search
        pipeline), or if several other sessions are waiting to be loaded. The loader continues, so that later searches
        of the session find it loaded.

        Args:
            info: The names, fields and settings of the searched index.
            options: The options of the search: its text, its session and its user.
            needs: The fields whose vectors or tokens must be loaded, and the query texts that must be encoded.
            headers: The caller's HTTP headers, or None.

        Raises:
            BadInput: If the session id is malformed.
            ResiftError: If the engine failed.
        """
        search = _SessionSearch(info, options, needs, headers)
        judgements, notes, is_read = self._judgements(search)
        if judgements and self.loader.is_running:
            key = search.cache_key(judgements)
            work = partial(self._fill_caches, search, judgements)
            patience = _PATIENCE_OF_PIPELINES if options.through_cluster else _PATIENCE
            if not self._is_loaded(search, key) and not self.loader.run_and_wait(key, work, patience):
                judgements, notes, is_read = [], [*notes, "the session is still being loaded"], False
        knowledge = self._load_knowledge(search, judgements)
        return replace(knowledge, lacks_session=not is_read, notes=[*notes, *knowledge.notes])

    def warm_caches(self, info: IndexInfo, options: Options, needs: RequiredData, headers: Headers = None) -> None:
        """Load the data about a session into the caches, so that :meth:`load` is fast for its next search.

        Args:
            info: The names, fields and settings of the index that will be searched.
            options: The options of a search in the session.
            needs: The fields whose vectors or tokens must be loaded, and the query texts that must be encoded.
            headers: The HTTP headers of the caller, or None.

        Raises:
            ResiftError: If the engine failed.
        """
        search = _SessionSearch(info, options, needs, headers)
        judgements, *_ = self._judgements(search)
        if judgements:
            self._fill_caches(search, judgements)

    def _fill_caches(self, search: _SessionSearch, judgements: Sequence[Judgement]) -> None:
        """Load the data about a session into the caches, and record that this was done.

        Args:
            search: A search in the session.
            judgements: The relevance judgements of the session.
        """
        knowledge = self._load_knowledge(search, judgements)
        documents = [document.judgement.key for document in knowledge.documents]
        self._loaded.put(search.cache_key(judgements), documents)

    def _is_loaded(self, search: _SessionSearch, key: Hashable) -> bool:
        """Return whether the data about a session was loaded for a search, and its documents are still in the cache.

        Args:
            search: A search in the session.
            key: The key of the search, from :meth:`_SessionSearch.cache_key`.
        """
        documents, caller = self._loaded.get(key), str(search.headers)
        if documents is None:
            return False
        return len(self._contents.get_all({document: (*document, caller) for document in documents})) == len(documents)

    def _load_knowledge(self, search: _SessionSearch, judgements: Sequence[Judgement]) -> Knowledge:
        """Return the data with which a search is rewritten, such as the moved query vector and the expansion words.

        Args:
            search: The search.
            judgements: The relevance judgements from which the data is derived.
        """
        info, options, needs, headers = search.info, search.options, search.needs, search.headers
        documents = self.read_judged_documents(judgements, headers, needs.text_fields)
        text = options.text or ""
        query = EncodedQuery(text, self.model.encode_query(text), self.model.similarity)
        background = partial(self.samples.draw, info, headers)
        feedback = scoped_feedback(
            self.learned_feedback(documents, options.feedback), query, background, info.tuning.carried
        )
        names = {
            index: self._common_indices(index, info, headers)
            for index in {document.judgement.index for document in documents}
        }
        searched = [document for document in documents if names[document.judgement.index]]
        positions = [(document, position) for position, document in enumerate(documents)]
        knowledge = replace(
            collect_knowledge(info, query, feedback, documents, searched),
            judged_hits={
                (name, document.judgement.document): position
                for document, position in sorted(positions, key=lambda pair: _precedence(pair[0]))
                for name in names[document.judgement.index]
            },
            expansion_words=self.word_selector.select(feedback, info, headers, needs.text_fields),
        )
        if feedback is None:
            gone = [Outcome.MARKS_GONE.english.format(len(judgements))] if judgements and not documents else []
            return replace(knowledge, notes=[*notes_on_unreadable_texts(documents), *gone])
        indices = (info.name, *info.indices)
        # Documents that were judged under another alias of the index are not counted, whether or not they exist.
        existing = sum(document.judgement.index in indices for document in searched)
        missing = sum(judgement.index in indices for judgement in judgements) - existing
        own_fields = FieldKnowledge(mapped=info.vector_fields)
        if needs.fields:
            own_fields = self.fields.load(info, needs, feedback.for_query, documents, searched, headers)
        notes = [] if own_fields.vectors or own_fields.tokens else notes_on_unreadable_texts(documents)
        return replace(knowledge, missing_documents=missing, own_fields=own_fields, notes=notes)

    def _judgements(self, search: _SessionSearch) -> tuple[list[Judgement], list[str], bool]:
        """Read the relevance judgements of a session, and the judgements derived from the clicks of its user.

        Args:
            search: The search, whose options name the session and the user.

        Returns:
            The judgements, at most one for each document, warnings for the user about data that could not be read, and
            whether the marks of the session could be read.
        """
        options, notes, is_read = search.options, list[str](), True
        stored = None
        try:
            if options.session is not None:
                stored = self.sessions.find(options.session, options.through_cluster)
        except SessionsUnavailable as error:
            log.warning("Searching without the session: %s", error.message)
            notes.append(error.message)
            is_read = False
        judgements = [] if stored is None else stored.effective_judgements
        clicked: list[Judgement] = []
        client = options.client or options.session
        # Events in the UBI log have no owner. With API keys, only the cluster and administrators may use them.
        if self.clicks and client and (options.through_cluster or self.sessions.caller().may_use(None)):
            try:
                clicked = self.clicks.judgements(client, search.info.name, search.headers)
            except ResiftError as error:
                log.warning("Searching without clicks: %s", error.message)
                notes.append(f"clicks: {error.message}")
            except Exception:  # other programs write to the log, and unexpected entries must not cost the marks
                log.exception("Searching without clicks")
                notes.append("clicks: internal error; see the log of the service")
        # A mark says more about a document than a click.
        marked = {judgement.key for judgement in judgements}
        clicked = [judgement for judgement in clicked if judgement.key not in marked]
        return effective_judgements([*clicked, *judgements]), notes, is_read

    def _common_indices(self, index: str, info: IndexInfo, headers: Headers) -> set[str]:
        """Return the searched indices in which documents that were judged under a name can be hits.

        The name and the name in the search can refer to common indices through aliases, for example.

        Args:
            index: The name of the index or alias in which the documents were judged.
            info: The names, fields and settings of the searched index.
            headers: The caller's HTTP headers.
        """
        try:
            judged = info if index == info.name else self.info(index, headers)
        except _UNREADABLE_INDEX:
            return set()  # the cache can outlive the index
        return set(judged.indices).intersection(info.indices)

    def learned_feedback(self, judged: Sequence[JudgedDocument], method: str | None = None) -> Feedback | None:
        """Return the feedback that is learned from judged documents. The result is cached.

        Args:
            judged: The judgements, with the vectors and texts of the documents.
            method: The name of the feedback method (see :mod:`resift.feedback.methods`), or None for the method of the
                service's settings.

        Returns:
            The feedback, or None if ``judged`` is empty.
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
        model, method = self.model, method or self.method
        return self._learned.get_or_load(
            (method, key),
            lambda: Feedback.from_judged(judged, model.dim, model.table.idf, method, model.document_known_share),
            lambda learned: 3 * learned.vectors.nbytes + _WORD_BYTES * sum(map(len, learned.bags)),
        )

    def expansion_words(
        self, feedback: Feedback | None, index: str, headers: Headers = None, text_fields: Collection[str] = ()
    ) -> list[str]:
        """Return the words that feedback adds to queries in an index, heaviest first.

        This also loads the vectors of random documents into a cache, so that the next search is faster.

        Args:
            feedback: The feedback of the session, or None.
            index: The name of the index.
            headers: The caller's HTTP headers.
            text_fields: The names or patterns of the fields that the queries search. Empty for all fields.

        Returns:
            The words. Empty if the index no longer exists, may not be searched, or has vectors of another model.
        """
        try:
            info = self.info(index, headers)
            self.samples.draw(info, headers)
            return list(self.word_selector.select(feedback, info, headers, text_fields))
        except _UNREADABLE_INDEX:
            return []

    def word_values(
        self, index: str, words: Sequence[str], headers: Headers = None, text_fields: Collection[str] = ()
    ) -> dict[str, float]:
        """Return how useful words are as expansion words of queries in an index (see :meth:`WordSelector.values`).

        Args:
            index: The name of the index. If it cannot be read, all values are 1.
            words: The words.
            headers: The caller's HTTP headers.
            text_fields: The names or patterns of the fields that the queries search. Empty for all fields.
        """
        try:
            return self.word_selector.values(words, self.info(index, headers), headers, text_fields)
        except _UNREADABLE_INDEX:
            return dict.fromkeys(words, 1.0)

    def read_judged_documents(
        self, judgements: Sequence[Judgement], headers: Headers, text_fields: Collection[str] = ()
    ) -> list[JudgedDocument]:
        """Return relevance judgements with the vectors and texts of their documents.

        A judgement is left out in these cases:

        - Its document no longer exists, or the caller may not read it.
        - Several indices behind an alias contain a document with the same id.
        - Its index no longer exists, may not be searched, or has vectors of another model.

        Args:
            judgements: The judgements, which can be about documents of several indices.
            headers: The caller's HTTP headers.
            text_fields: The names or patterns of the fields that the query searches. See
                :func:`resift.sessions.documents.join_texts`.

        Returns:
            The judgements, each with the vector and text of its document.
        """
        contents: dict[DocumentKey, Content] = {}
        for index in dict.fromkeys(judgement.index for judgement in judgements):
            ids = list(dict.fromkeys(judgement.document for judgement in judgements if judgement.index == index))
            contents |= {(index, id): content for id, content in self._read_documents(index, ids, headers).items()}
        documents = []
        for judgement in judgements:
            if judgement.key in contents:
                vector, texts = contents[judgement.key]
                text, title_text = join_texts(texts, text_fields), texts[0].text if texts else ""
                documents.append(JudgedDocument(judgement, vector, text, title_text))
        return documents

    def _read_documents(self, index: str, ids: Sequence[str], headers: Headers) -> dict[str, Content]:
        """Return the vectors and texts of some documents of an index, from the cache or from the engine.

        Args:
            index: The name of the index.
            ids: The ids of the documents.
            headers: The caller's HTTP headers, which are passed on to the engine.

        Returns:
            The vector and text of each document that the caller may read, by id.
        """
        cached = self._cached_documents(index, ids, headers)
        missing = tuple(id for id in ids if id not in cached)
        if not missing:
            return cached
        with self._contents.loading((index, missing, str(headers))):
            cached = self._cached_documents(index, ids, headers)
            still_missing = [id for id in missing if id not in cached]
            return cached | (self._fetch_readable(index, still_missing, headers) if still_missing else {})

    def _cached_documents(self, index: str, ids: Sequence[str], headers: Headers) -> dict[str, Content]:
        """Look up documents in the cache.

        Args:
            index: The name of the index.
            ids: The ids of the documents.
            headers: The caller's HTTP headers. Callers with other headers have other entries.

        Returns:
            The vector and text of each document that is in the cache, by document id.
        """
        caller = str(headers)
        return self._contents.get_all({id: (index, id, caller) for id in ids})

    def _fetch_readable(self, index: str, ids: Sequence[str], headers: Headers) -> dict[str, Content]:
        """Fetch documents like :meth:`fetch_documents`, but skip documents that cannot be read.

        Args:
            index: The name of the index or alias. If it cannot be read, the result is empty.
            ids: The ids of the documents. An id that occurs in several of the indices behind an alias is skipped.
            headers: The caller's HTTP headers.

        Returns:
            A mapping from document ids to vectors and texts.
        """
        try:
            return self.fetch_documents(index, ids, headers)
        except AmbiguousDocument:
            # The error does not say which id is ambiguous, so the ids are halved until it is alone.
            half = len(ids) // 2
            halves = (ids[:half], ids[half:]) if half else ()
            return {
                id: content for part in halves for id, content in self._fetch_readable(index, part, headers).items()
            }
        except _UNREADABLE_INDEX:
            return {}

    def fetch_documents(self, index: str, ids: Sequence[str], headers: Headers) -> dict[str, Content]:
        """Fetch the vectors and texts of documents from the engine, and cache them.

        Args:
            index: The name of the index or alias.
            ids: The ids of the documents.
            headers: The caller's HTTP headers.

        Returns:
            A mapping from the ids of existing documents to their vectors and texts.

        Raises:
            IndexNotFound: If the index does not exist.
            IndexNotServed: If the settings of the service do not allow searching the index.
            ModelMismatch: If the vectors in the index were made by another model.
            AmbiguousDocument: If several of the indices behind an alias contain a document with one of the ids.
            ResiftError: If the engine failed.
        """
        cache = self._contents  # another thread can clear the cache while the documents are read
        contents = read_documents(self.engine, self.model, self.info(index, headers), ids, headers)
        for id, content in contents.items():
            vector, texts = content
            text_bytes = sum(sys.getsizeof(part) + sys.getsizeof(part.text) for part in texts)
            size = vector.nbytes + text_bytes + len(str(headers)) + _ENTRY_BYTES
            # Headers are part of the key, because callers with other rights may read other documents.
            cache.put((index, id, str(headers)), content, size)
        return contents

    def clear_document_cache(self) -> None:
        """Clear the cache of documents. Call this method after documents were changed."""
        # A new cache: a thread that is reading the old documents now stores them in the old cache.
        self._contents = TtlCache(_CACHE_BYTES, _SECONDS)
        self.fields.clear_document_cache()
