"""The search service, which combines a search engine, an embedding model and search sessions.

:class:`SearchService` is the entry point for HTTP, the library, the command line and search pipelines. A search goes
through three of its methods:

1. ``search`` checks the search and makes its body.
2. ``rewrite_search`` loads the knowledge of the session, and rewrites the body.
3. ``_answer`` runs the rewritten body, and adds details to the hits.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, NamedTuple

from msgspec import structs

from resift.cache import TtlCache
from resift.contracts.documents import IndexInfo, SearchResult
from resift.contracts.engine import Engine, Headers, failover_allowed
from resift.encoders.dynamax import MAX_HITS, DynaMax
from resift.encoders.late_interaction import LateInteraction
from resift.encoders.model import Model
from resift.errors import (
    CorruptEngine,
    EngineUnavailable,
    IndexNotFound,
    IndexNotServed,
    ModelMismatch,
    NotFound,
    ResiftError,
)
from resift.feedback.explain import explain, title_of
from resift.feedback.feedback import Feedback
from resift.feedback.judgements import JudgedDocument, Judgement, Mark
from resift.options_section import without_options
from resift.plugin.addresses import without_credentials
from resift.query.body import Query, parse, restore_body
from resift.query.dsl import MAX_RESULTS, Body, without_boost
from resift.query.limits import check_limits
from resift.query.questions import shorten_to_distinctive_words
from resift.reviews.reviews import Reviews
from resift.rewriting.knowledge import NO_REQUIRED_DATA, Knowledge, RequiredData
from resift.rewriting.moving import required_data
from resift.rewriting.options import Options, read_options
from resift.rewriting.outcome import Outcome, Rewritten
from resift.rewriting.rewrite import marked_query, rewrite
from resift.service.answers import (
    Answer,
    ParsedSearch,
    Reranking,
    ServedReranker,
    add_cards,
    add_reasons,
    add_similarities,
    reranked_page,
)
from resift.service.bodies import Search, check_search, rewriting_options, search_body
from resift.service.catalogue import Catalogue, count_facets
from resift.service.config import Config
from resift.service.connect import open_review_store
from resift.service.interleaved import InterleavedSearches
from resift.service.served_indices import ServedIndex, ServedIndices, index_not_served
from resift.service.words import SampledWords
from resift.sessions.clicks import Clicks
from resift.sessions.documents import notes_on_unreadable_texts
from resift.sessions.knowledge import KnowledgeLoader
from resift.sessions.sessions import Sessions, StoredSession, check_judgements, check_session_id
from resift.sessions.trials import Trials
from resift.text import searchable_words
from resift.vectors.weights import DEFAULT_ALPHA, discount_alpha

log = logging.getLogger(__name__)
_INFO_SECONDS = 5.0
"""Seconds for which the description of an index (:class:`IndexInfo`) is cached."""
_CACHED_INFOS = 1000
_CACHED_SESSIONS = 5000
_FIELD_SECONDS = 600.0
SESSION_WINDOW = 400
"""Smallest default ``window_size`` of a search in a session that has learned something about the query."""
LEXICAL_SESSION_WINDOW = 500
"""The same for an index without vectors. A window of only 200 hits reduces nDCG@10 by up to 0.003."""
# Defaults of a search that is widened by related words. The hits for these words are further down in the list. With a
# larger window, the vector similarity orders them, too.
_WIDENED_WINDOW = 200
_WIDENED_KNN = 100
# Keys of a search body that decide which hits a search has, and in which order, besides the query.
_RANKING_KEYS = ("query", "post_filter", "min_score", "rescore", "indices_boost")


class RewrittenBody(NamedTuple):
    """A search body for a client that runs the search itself.

    Attributes:
        body: The rewritten body, or the body as :func:`restore_body` returns it if nothing was added.
        outcome: The outcome of the rewriting.
        reason: The reason in English if something was not rewritten, otherwise "".
        is_changed: Whether the body was rewritten.
        has_warning: Whether the client should log the reason, because the session was not loaded, or because the body
            contains unknown options.
    """

    body: Body
    outcome: Outcome
    reason: str
    is_changed: bool = False
    has_warning: bool = False


class SearchService:
    """Runs searches whose ranking follows the user's relevance feedback. Instances are thread-safe.

    Methods with an argument ``headers`` pass these HTTP headers of the caller on to the search engine. Cached values
    are shared only between callers with the same headers.

    Args:
        engine: The search engine: an OpenSearch cluster or the embedded engine.
        model: The embedding model that encodes queries and documents.
        sessions: The search sessions, which contain relevance judgements.
        config: The settings of the service.
        clicks: The clicks in the log of user events, or None to ignore the log.
    """

    def __init__(
        self, engine: Engine, model: Model, sessions: Sessions, config: Config, clicks: Clicks | None = None
    ) -> None:
        self.engine, self.model, self.sessions, self.config = engine, model, sessions, config
        self.served_reranker = ServedReranker(config.reranker)
        internal = (config.session_index, f"{config.session_index}-reviews", config.ubi_events, config.ubi_queries)
        self.served_indices = ServedIndices(config.indices, *internal)
        self.catalogue = Catalogue(engine, self.served_indices, config.page_fields)
        self.words = SampledWords(engine, model)
        self._infos: TtlCache[ServedIndex] = TtlCache(_CACHED_INFOS, _INFO_SECONDS)
        self.interleaved = (
            None
            if clicks is None
            else InterleavedSearches(Trials(sessions.store), clicks, sessions.caller, sessions.quotas)
        )
        self.reviews = Reviews(
            engine,
            lambda: open_review_store(config.store, config.session_index),
            caller=sessions.caller,
            quotas=sessions.quotas,
        )
        self.knowledge = KnowledgeLoader(engine, model, sessions, self.info, config.feedback, clicks)
        self.loader = self.knowledge.loader
        # The text fields of each session's latest search, if the index has no text fields of Resift.
        self._searched_fields: TtlCache[Collection[str]] = TtlCache(_CACHED_SESSIONS, _FIELD_SECONDS)
        # For each index and caller's headers, the index's own vector and token fields that the latest query searched.
        self._needs: TtlCache[RequiredData] = TtlCache(_CACHED_INFOS, _FIELD_SECONDS)

    def close(self) -> None:
        """Close the connections to the engine, the stores and the log of UBI. The service cannot be used afterwards.

        The background threads that use these connections are stopped first. If closing a connection fails, the other
        connections are closed nevertheless, and the error is raised.
        """
        with ExitStack() as resources:  # closes its resources in reverse order
            resources.callback(self.engine.close)
            resources.callback(self.sessions.store.close)
            resources.callback(self.reviews.close)
            if self.interleaved is not None:
                resources.callback(self.interleaved.close)
            resources.callback(self.words.close)
            resources.callback(self.loader.stop)

    def info(self, index: str, headers: Headers = None) -> IndexInfo:
        """Return the names, fields and settings of an index. They are cached for five seconds.

        An index without vectors is allowed.

        Args:
            index: The name of the index or alias.
            headers: The caller's HTTP headers, or None.

        Raises:
            IndexNotFound: If the index does not exist.
            IndexNotServed: If the settings of the service do not allow searching the index.
            ModelMismatch: If the index has vectors, but none were made by the service's model.
        """
        return self.served_index(index, headers).info_for_search

    def served_index(self, index: str, headers: Headers = None) -> ServedIndex:
        """Return the description of an index that the service may search. The result is cached for five seconds.

        Args:
            index: The name of the index or alias.
            headers: The caller's HTTP headers, or None.

        Raises:
            IndexNotServed: If the settings of the service do not allow searching the index, or an index behind the
                alias.
            ResiftError: If the index does not exist, or the engine failed.
        """
        key = (index, str(headers))
        return self._infos.get_or_load(key, lambda: self._load_served(index, headers))

    def _load_served(self, index: str, headers: Headers) -> ServedIndex:
        """Check that the service may search an index, and read the description of the index from the engine.

        The arguments and errors are those of :meth:`served_index`, which caches the result.
        """
        infos: list[IndexInfo] = []

        def resolve(name: str) -> Sequence[str]:
            # An error about the index must not be reported before the index is known to be served.
            with suppress(IndexNotFound, ModelMismatch):
                infos.append(self.engine.info(name, headers))
                return infos[-1].indices
            return self.engine.resolve(name, headers)

        is_named_in_settings = self.served_indices.require_served(index, resolve)
        info = infos[0] if infos and infos[0].name == index else self.engine.info(index, headers)
        return ServedIndex(info, is_named_in_settings, self.model)

    def info_or_none(self, index: str, headers: Headers = None, cached_only: bool = False) -> IndexInfo | None:
        """Return the names, fields and settings of an index, or None if the index cannot be read. See :meth:`info`.

        Args:
            index: The name of the index or alias.
            headers: The HTTP headers of the caller, or None.
            cached_only: Whether to send no request to the engine, and return None if the result is not cached.
        """
        try:
            if not cached_only:
                return self.info(index, headers)
            cached = self._infos.get((index, str(headers)))
            return None if cached is None else cached.info_for_search
        except ResiftError:
            return None

    def warm_up(self) -> None:
        """Load data about the configured index into the caches to make the first search fast. Errors are ignored."""
        with suppress(ResiftError):
            info = self.info(self.config.index)
            self.words.get(info)
            self.catalogue.card_fields(info)

    def warm_session(self, session: str, index: str, query: str, headers: Headers = None) -> None:
        """Load in the background what the next search of a session needs, such as document counts of words.

        Nothing happens if :attr:`loader` has not been started, or has too much to do.

        Args:
            session: The session's id.
            index: The name of the index that will be searched.
            query: The text that will be searched for.
            headers: The HTTP headers of the caller, or None.
        """

        def load() -> None:
            info = self.info(index, headers)
            needs = self._needs.get((info.name, str(headers))) or NO_REQUIRED_DATA
            options = Options(text=query, session=session, through_cluster=True)
            self.knowledge.warm_caches(info, options, needs, headers)

        self.loader.submit((index, session, str(headers)), load)

    def add_marks(
        self, session: str, index: str, query: str, marks: Mapping[str, Mark], headers: Headers = None
    ) -> StoredSession:
        """Add a user's marks (relevance judgements) to a session, as a new step that can be undone as a whole.

        The marks change the ranking of the session's later searches. Use :meth:`describe_session` to see what was
        learned from them. The engine is only asked whether the marked documents exist:

        - Withdrawing a mark (grade 0) also succeeds if the document no longer exists.
        - Skipped documents that no longer exist are ignored if other marks remain.
        - For any other document that does not exist, an error is raised.

        Args:
            session: The session's id. A new session starts with its first marks.
            index: The name under which the documents were searched.
            query: The query text that the marks were made for.
            marks: The marks, by document id.
            headers: The caller's HTTP headers, sent with requests to the engine.

        Returns:
            The stored session, including the new step.

        Raises:
            NotFound: If a marked document does not exist.
            IndexNotFound: If the index does not exist.
            ModelMismatch: If the index's vectors come from another model.
            SessionBusy: If concurrent writes to the session prevented this write.
            ResiftError: If the id of the session or the marks are invalid (see
                :func:`resift.sessions.sessions.check_judgements`).
        """
        check_session_id(session)
        judgements = [Judgement(index, id, mark.grade, source=mark.source) for id, mark in marks.items()]
        check_judgements(judgements)
        try:
            existing = self.knowledge.fetch_documents(index, list(marks), headers)
        except IndexNotFound:
            if any(mark.grade for mark in marks.values()):
                raise
            existing = {}
        missing = [id for id, mark in marks.items() if id not in existing and mark.grade]
        # A click is sent with the hits skipped above it. Some of these may have been deleted since they were shown.
        unknown = [id for id in missing if marks[id].source != "skip" or len(missing) == len(marks)]
        if unknown:
            raise NotFound(f"no document {unknown[0]!r} in {index!r}", value=unknown[0], expected="ids of hits")
        existing_judgements = [judgement for judgement in judgements if judgement.document not in missing]
        return self.sessions.add(session, query, existing_judgements)

    def describe_session(
        self, session: StoredSession, headers: Headers = None, method: str | None = None
    ) -> dict[str, Any]:
        """Return all stored judgements of a search session, with an explanation of what was learned from them.

        In an index without vectors of Resift, a session learns from the fields that a query searches. The explanation
        is about the fields of the session's latest search, if this service has run it in the last ten minutes.
        Otherwise, it is about all text fields.

        Args:
            session: The stored session.
            headers: The caller's HTTP headers. Only judgements of documents that this caller may read are returned. If
                None, all judgements are returned.
            method: The feedback method to describe, or None for the method of the service's settings.

        Returns:
            A dictionary with the id of the ``session``, the times ``created`` and ``expires``, the number of ``steps``,
            the list ``judgements``, and the explanation ``learned``. The explanation is None if nothing was learned.
            In each item of ``judgements``, ``counts`` tells whether the judgement still has an effect on searches.
            If no judged document has a text to learn from, the list ``notes`` contains a message about this.
        """
        effective = session.effective_judgements
        text_fields = self._searched_fields.get(session.id) or ()
        documents = self.knowledge.read_judged_documents(
            effective if headers is None else session.judgements, headers, text_fields
        )
        readable = session.judgements if headers is None else [document.judgement for document in documents]
        # Judgements are compared by identity. A document may have been judged twice in the same way, and only one
        # judgement counts.
        documents_by_judgement = {id(document.judgement): document for document in documents}
        effective_ids = {id(judgement) for judgement in effective}
        judged = [
            documents_by_judgement[id(judgement)] for judgement in effective if id(judgement) in documents_by_judgement
        ]
        feedback = self.knowledge.learned_feedback(judged, method)
        index = effective[-1].index if effective else ""
        words = self.knowledge.expansion_words(feedback, index, headers, text_fields) if effective else ()
        word_values = partial(self.knowledge.word_values, headers=headers, text_fields=text_fields)
        notes = notes_on_unreadable_texts(judged)
        return {
            **session_summary(session),
            **({"notes": notes} if notes else {}),
            "judgements": [
                {**_judgement_details(judgement), "counts": id(judgement) in effective_ids} for judgement in readable
            ],
            "learned": None
            if feedback is None
            else explain(self.model, feedback, judged, _title_words_first(words, judged), word_values),
        }

    def describe_change(self, session: StoredSession, headers: Headers = None) -> dict[str, Any]:
        """Describe a session after a change was stored, like :meth:`describe_session`, even if the engine fails.

        An error would look as if the change was not stored, and a client would repeat it.

        Args:
            session: The session after the change.
            headers: The caller's HTTP headers.

        Returns:
            The description. If the engine fails, the judgements are left out, and a note gives the reason.
        """
        try:
            return self.describe_session(session, headers)
        except ResiftError as error:
            note = f"The change was stored, but the judgements cannot be described: {error.message}"
            return {**session_summary(session), "notes": [note], "judgements": [], "learned": None}

    def search(self, search: Search) -> Answer:
        """Run a search, ranked by the judgements in the session that the request names, and return the response.

        The search is rewritten before it is sent to the engine. The section ``resift`` of the response states whether
        this changed the order of the hits. If not, ``reason`` says why. If words of a query text are misspelt, the
        section contains a correction as ``did_you_mean``. If the rewriting fails, the hits have the engine's own order.

        Args:
            search: The search request: the index, the query, the id of the session and other options, with the rights
                of the caller.

        Raises:
            ResiftError: If the search is malformed or not allowed, or the engine failed.
        """
        self.check_allowed(search)
        info = self.info(search.index, search.headers)
        with failover_allowed(search.is_repeatable):
            if self.interleaved is None:
                return self._search(search, info)
            return self.interleaved.answer(search, lambda search: self._search(search, info))

    def check_engine(self) -> None:
        """Log a warning if the engine does not answer, or is not supported."""
        try:
            self.engine.ping()
        except ResiftError as error:
            engine = without_credentials(self.config.engine)
            log.warning("The search engine %s cannot be used yet: %s", engine, error.message)

    def check_allowed(self, search: Search) -> None:
        """Check that the caller may run a search, and that the search is not too large.

        If an index may be searched only through an alias, the search must match the allow-list of query clauses. The
        alias may have a filter, which lookups, scripts and suggesters would ignore.

        Args:
            search: The search request, with the rights of its caller.

        Raises:
            BadInput: If the query or the filter is malformed or too large.
            TextTooLong: If a text is too long.
            ClauseNotAllowed: If the query or the filter contains something that is not in the allow-list.
            IndexNotServed: If the settings of the service do not allow searching the index, or an index that a clause
                looks up.
        """
        looked_up = check_search(search, self.config.max_text, search.listed_only)
        served = self.served_index(search.index, search.headers)
        if search.listed_only:
            return
        if not served.is_named_in_settings:
            check_search(search, self.config.max_text, listed_only=True)
        for index in looked_up:
            if not self.served_index(index, search.headers).is_named_in_settings:
                raise index_not_served(index)

    def _search(self, search: Search, info: IndexInfo) -> Answer:
        """Run a search that has passed all checks.

        If the request asks for cards, each hit contains a short summary ("card") of its document. If words of the query
        text are misspelt, the response contains a correction.

        Args:
            search: The search request.
            info: The names, fields and settings of the searched index.
        """
        query = parse(search_body(search, info, self.model.table.idf))
        answer = self._rewritten_answer(ParsedSearch(search=search, info=info, query=query))
        if search.documents == "card":
            add_cards(answer.result.hits, self.catalogue.card_fields(info, search.headers), info.readable_fields)
        if isinstance(search.query, str):
            correction = self.words.suggest_correction(search.query, info, search.headers, search.filter)
            if correction is not None:
                answer.resift["did_you_mean"] = correction
        return answer

    def _rewritten_answer(self, parsed: ParsedSearch) -> Answer:
        """Rewrite a search, run it, and return the response.

        If the rewriting or the rewritten search fails, the original search is run instead.

        Args:
            parsed: The search request and its parsed body.
        """
        search, info, query = parsed.search, parsed.info, parsed.query
        options = rewriting_options(search, query)
        late = self.served_reranker.get(search.method, info) if options.text else None
        by_words = search.method == "dynamax" and bool(options.text)
        try:
            rewritten = self.rewrite_search(info, query, options, search.headers, without_vectors=by_words)
        except Exception as error:
            return self._original_answer(parsed, error, "rewriting failed")
        try:
            has_texts = "_none_" not in str(query.body.get("stored_fields", ""))
            reranking = self._dynamax_reranking(options, rewritten) if by_words else _late_reranking(late, rewritten)
            return self._answer(parsed, rewritten, reranking if rewritten.ranks_by_text_scores and has_texts else None)
        except Exception as error:
            return self._original_answer(parsed, error, "the rewritten search failed")

    def _original_answer(self, parsed: ParsedSearch, error: Exception, message: str) -> Answer:
        """Run the original search after an error, and return the response, which contains the reason.

        Args:
            parsed: The search request and its parsed body.
            error: The error of the rewriting or of the rewritten search.
            message: A description of what failed, for the log and the response. The response to an error that Resift
                raised on purpose contains the message of that error instead.

        Raises:
            ResiftError: If the error says what is wrong with the search, or if the engine cannot be reached. Then
                ``error`` is raised again. A damaged document of the embedded engine may only concern the session, so
                this error is not raised again.
        """
        if isinstance(error, ResiftError):
            is_unavailable = isinstance(error, EngineUnavailable) and not isinstance(error, CorruptEngine)
            if error.status < 500 or is_unavailable:
                raise error
            reason = error.message
        else:
            log.error("%s", message, exc_info=error)
            reason = f"{message}: {type(error).__name__}"
        result = self.engine.search(parsed.search.index, parsed.query.body, headers=parsed.search.headers)
        return Answer(result, {"reranked": False, "outcome": Outcome.FAILED.code, "reason": reason})

    def rewrite_for_pipeline(
        self, index: str, body: Body, headers: Headers = None, is_scroll: bool = False
    ) -> RewrittenBody:
        """Rewrite a search body for a client that runs the search itself: a search pipeline or an application.

        If the rewriting fails, or there is nothing to add, the body stays as :func:`restore_body` returns it.

        A missing index is no error here, because the search itself may tolerate it: with ``ignore_unavailable``,
        OpenSearch finds nothing in a missing index. The outcome is the same for an index that is not served, so that
        the outcome does not reveal whether the index exists.

        Args:
            index: The name that is searched.
            body: The search body. Its section ``ext.resift`` or ``ext.ml_inference`` contains Resift's options.
            headers: The caller's HTTP headers.
            is_scroll: Whether the search is a scroll. The options in the body can state this, too.

        Returns:
            A body that OpenSearch can run, the outcome, and the reason if something was not rewritten.

        Raises:
            EngineUnavailable: If the engine cannot be reached.
        """
        try:
            info = self.info(index, headers)
        except (IndexNotFound, IndexNotServed) as error:
            log.info("Not rewritten: %s", error.message)
            outcome = Outcome.INDEX_UNAVAILABLE
            return RewrittenBody(restore_body(body), outcome, outcome.english.format(index))
        except EngineUnavailable:
            raise
        except ResiftError as error:
            log.info("Not rewritten: %s", error.message)
            return RewrittenBody(restore_body(body), Outcome.FAILED, Outcome.FAILED.english.format(error.message))
        unchanged = without_options(body)
        try:
            query = parse(body)
            unchanged = query.body
            check_limits("body", query.body, self.config.max_text)
            options = read_options(query)
            options = structs.replace(options, scroll=options.scroll or is_scroll)
            rewritten = self.rewrite_search(info, query, options, headers)
        except ResiftError as error:
            return RewrittenBody(unchanged, Outcome.FAILED, Outcome.FAILED.english.format(error.message))
        except Exception as error:
            log.exception("Rewriting failed")
            return RewrittenBody(unchanged, Outcome.FAILED, Outcome.FAILED.english.format(type(error).__name__))
        has_warning = rewritten.knowledge.lacks_session or bool(options.unknown_keys)
        return RewrittenBody(rewritten.body, rewritten.outcome, rewritten.reason, rewritten.is_changed, has_warning)

    def rewrite_search(
        self, info: IndexInfo, query: Query, options: Options, headers: Headers = None, without_vectors: bool = False
    ) -> Rewritten:
        """Rewrite a search according to the judgements in its session and the clicks of its user.

        Args:
            info: The names, fields and settings of the searched index.
            query: The parsed search body.
            options: The rewriting options that the search sets.
            headers: The caller's HTTP headers, which are passed on to the engine.
            without_vectors: Whether to rewrite as for an index without vectors of Resift.

        Returns:
            The rewritten search body, with the outcome of the rewriting.

        Raises:
            BadInput: If the session id is malformed.
            ResiftError: If the engine failed.
        """
        knowledge = self._load_knowledge(info, query, options, headers)
        if without_vectors:
            knowledge = replace(knowledge, vector=None, mask=None)
        return rewrite(query, knowledge, self._with_defaults(info, options, knowledge))

    def _load_knowledge(self, info: IndexInfo, query: Query, options: Options, headers: Headers) -> Knowledge:
        """Load everything that the rewriting of a search needs, such as judgements, document vectors and related words.

        Args:
            info: The names, fields and settings of the searched index.
            query: The parsed search body.
            options: The rewriting options that the search sets.
            headers: The caller's HTTP headers.
        """
        needs = required_data(query, info.vector_fields) if query.root.ranks_by_meaning else NO_REQUIRED_DATA
        if not info.fields:
            needs = replace(needs, text_fields=frozenset(map(without_boost, query.root.searched_fields or ())))
        self._needs.put((info.name, str(headers)), replace(needs, texts=frozenset()))
        if options.session is not None:
            self._searched_fields.put(options.session, needs.text_fields)
        knowledge = self.knowledge.load(info, options, needs, headers)
        text, notes = options.text or "", [*filter(None, [options.unknown_keys]), *knowledge.notes]
        searched_text = text
        distinctive = shorten_to_distinctive_words(text, len(info.fields), self.model.table.idf)
        # A body of the caller's own may search for the whole text.
        if distinctive != text and distinctive == query.text:
            searched_text = distinctive
            count = len(distinctive.split())
            notes.append(f"the query is too long for the engine: only its {count} most distinctive words count")
        if options.widen and options.knn and not info.has_hnsw:
            notes.append(f"knn: the vectors of {info.name!r} have no HNSW index (resift attach --vectors --graph)")
        may_widen = options.widen and text and query.text_query is not None
        words = {word: weight for word, weight in knowledge.expansion_words.items() if word not in options.without}
        return replace(
            knowledge,
            text=searched_text,
            expansion_words=words,
            has_enough_hits=bool(may_widen and words)
            and self.knowledge.word_selector.has_enough_hits(query.root.raw, info, headers),
            related_words=self.words.related_words(info, text, query.root.raw, headers) if may_widen else {},
            notes=notes,
        )

    def _with_defaults(self, info: IndexInfo, options: Options, knowledge: Knowledge) -> Options:
        """Fill in defaults for the rewriting options that a search does not set.

        The defaults depend on the settings of the service, on the index, and on what is known about the query.

        Args:
            info: The names, fields and settings of the searched index.
            options: The options that the search sets.
            knowledge: The user's judgements and other knowledge for this search.
        """
        config, is_widened = self.config, bool(knowledge.related_words)
        window, knn = options.window, options.knn
        if window is None:
            window = config.window if knowledge.feedback is None else max(config.window, min_session_window(knowledge))
            window = max(window, _WIDENED_WINDOW) if is_widened else window
        if knn is None:
            knn = max(config.knn, _WIDENED_KNN if is_widened else 0)
        alpha = self._similarity_weight(info, options, knowledge.feedback)
        # The configuration is for all indices, and some may have no HNSW index.
        return structs.replace(options, alpha=alpha, window=window, knn=knn if info.has_hnsw else 0)

    def _similarity_weight(self, info: IndexInfo, options: Options, feedback: Feedback | None) -> float:
        """Return alpha, the weight of the vector similarity in the score of a hit, from 0 to 1.

        By default, the weight comes from the index or the model. It is then reduced if the model does not know all
        words of the query and of the judged documents. The search or the settings of the service can override this
        default. In both cases, relevance feedback for the query increases the weight.

        Args:
            info: The names, fields and settings of the searched index.
            options: The options that the search sets.
            feedback: The feedback for the query, or None.
        """
        model, tuning = self.model, info.tuning
        stated = self.config.alpha if options.alpha is None else options.alpha
        if stated is not None:
            return stated if feedback is None else feedback.adjusted_alpha(stated, model.max_alpha)
        alpha = model.alpha if tuning.alpha is None else tuning.alpha
        known = model.known_share(options.text or "")
        if feedback is None:
            return discount_alpha(alpha, known)
        return feedback.adjusted_alpha(alpha, model.max_alpha, known, tuning.strength)

    @cached_property
    def dynamax(self) -> DynaMax:
        """An object that computes the DynaMax similarity of texts, a fuzzy similarity of their word vectors.

        The word vectors are those of the model, or the vectors that come with Resift (see
        :meth:`SampledWords.word_vectors`).
        """
        return DynaMax(self.words.word_vectors())

    def _dynamax_reranking(self, options: Options, rewritten: Rewritten) -> Reranking:
        """Return how DynaMax reorders the first hits of a search.

        The weight of its similarities is the ``alpha`` of the search or of the settings, or 0.5. It does not depend on
        the model or the session, because they do not change these similarities.

        Args:
            options: The options that the search sets.
            rewritten: The rewritten search, with all defaults filled in.
        """
        stated = self.config.alpha if options.alpha is None else options.alpha
        return Reranking(
            method="dynamax",
            scores=self.dynamax.scores,
            alpha=DEFAULT_ALPHA if stated is None else stated,
            window_size=min(rewritten.options.window_size, MAX_HITS),
        )

    def _answer(self, parsed: ParsedSearch, rewritten: Rewritten, reranking: Reranking | None) -> Answer:
        """Run a rewritten search, and build the response.

        If the caller requested them, facets and the reasons for the rank of each hit are added.

        Args:
            parsed: The search request and its parsed body.
            rewritten: The rewritten search.
            reranking: How the hits are reordered by their texts, or None.
        """
        search, body = parsed.search, parsed.query.body
        may_reorder_hits = reranking is not None or rewritten.may_reorder_hits
        needs_vectors = may_reorder_hits and search.reasons
        # The ranks that a hit gained tell which judgement moved the hit.
        compares = search.reasons and rewritten.knowledge.feedback is not None
        bodies = [self._body_to_run(parsed, rewritten, reranking)]
        if compares:
            bodies.append(self._body_without_session(parsed, rewritten))
        moved_field = rewritten.moved_field
        vector_field = parsed.info.vector_field if moved_field is None else moved_field[0]
        result, *before = self._run_bodies(search, bodies, vector_field if needs_vectors else None)
        facets = self._count_facets(parsed, bodies[0])
        if needs_vectors:
            add_similarities(self.model, rewritten, result.hits, result.vectors)
        if reranking is not None:
            result = reranked_page(self.engine, reranking, parsed, rewritten, result)
        if may_reorder_hits and compares:
            try:
                is_reordered = reranking is not None
                add_reasons(self.engine, parsed, rewritten, result, body["from"], before[0].hits, is_reordered)
            except Exception as error:  # without reasons, the ranking is still correct
                log.exception("The reasons of the hits are left out")
                note = f"the reasons of the hits are left out: {type(error).__name__}"
                knowledge = replace(rewritten.knowledge, notes=[*rewritten.knowledge.notes, note])
                rewritten = replace(rewritten, knowledge=knowledge)
        ranking = self._ranking_details(parsed, rewritten, reranking) if may_reorder_hits else {"reranked": False}
        return Answer(result, {**ranking, **_outcome_details(rewritten), **facets})

    def _body_to_run(self, parsed: ParsedSearch, rewritten: Rewritten, reranking: Reranking | None) -> Body:
        """Return the search body to send to the engine.

        If hits will be reordered by their texts, the body requests all hits to reorder instead of a single page.

        Args:
            parsed: The search request and its parsed body.
            rewritten: The rewritten search.
            reranking: How the hits are reordered by their texts, or None.
        """
        body = _marked_if_unchanged(parsed.query, rewritten)
        if reranking is None:
            return body
        return {**body, "from": 0, "size": max(reranking.window_size, body["from"] + body["size"])}

    def _body_without_session(self, parsed: ParsedSearch, rewritten: Rewritten) -> Body:
        """Return the body of the same search without its session, which requests only the ids of hits.

        The service compares these hits with the hits of the search in the session, to report how feedback changed their
        ranks. The body requests at least as many hits as the rescore window of the search in the session contains,
        because rescoring can move any hit in the window.

        Args:
            parsed: The search request and its parsed body.
            rewritten: The search, rewritten with the feedback of its session.
        """
        search, query = parsed.search, parsed.query
        options = structs.replace(rewriting_options(search, query), session=None, client=None)
        has_no_vector = rewritten.knowledge.vector is None
        before = self.rewrite_search(parsed.info, query, options, search.headers, without_vectors=has_no_vector)
        body = _marked_if_unchanged(query, before)
        # In place, there is no window. The scores of a ``hybrid`` query depend on the number of requested hits.
        window_size = 0 if rewritten.in_place else rewritten.options.window_size
        size = min(max(window_size, query.body["from"] + query.body["size"]), MAX_RESULTS)
        ranking = {name: body[name] for name in _RANKING_KEYS if name in body}
        return {**ranking, "from": 0, "size": size, "_source": False, "track_total_hits": False}

    def _run_bodies(self, search: Search, bodies: list[Body], vector_field: str | None) -> list[SearchResult]:
        """Send one or more search bodies to the engine, in a single request.

        Args:
            search: The search request, which names the index and contains the caller's headers.
            bodies: The search bodies.
            vector_field: The field whose vectors are returned with the hits, or None for no vectors.

        Returns:
            The result for each body.
        """
        if len(bodies) > 1:
            return self.engine.search_all(search.index, bodies, vector_field, search.headers)
        return [self.engine.search(search.index, bodies[0], vector_field, headers=search.headers)]

    def _count_facets(self, parsed: ParsedSearch, body: Body) -> dict[str, Any]:
        """Count the values of the requested facet fields among all hits of a search.

        Args:
            parsed: The search request, which names the facet fields.
            body: The search body that the engine ran.

        Returns:
            ``{"facets": …}``, or an empty dictionary if the search requests no facets.
        """
        search = parsed.search
        if not search.facets:
            return {}
        query, info = body.get("query", {"match_all": {}}), self.info(search.index, search.headers)
        ranges = self.catalogue.card_fields(info, search.headers).ranges
        return {"facets": count_facets(self.engine, search.index, query, search.facets, ranges, search.headers)}

    def _ranking_details(
        self, parsed: ParsedSearch, rewritten: Rewritten, reranking: Reranking | None
    ) -> dict[str, Any]:
        """Return details about the ranking of a search for the response.

        Args:
            parsed: The search request and its parsed body.
            rewritten: The rewritten search.
            reranking: How the hits were reordered by their texts, or None.

        Returns:
            A dictionary with these keys:

            - ``reranked``: True.
            - ``model``: the hash of the model.
            - ``method``: "vectors", "late" for a trained reranker, "dynamax", or "lexical" without vectors.
            - ``alpha``: the weight of the similarity. It is 0 if the query was rewritten in place, or for "lexical".
            - ``window``: the number of rescored hits on each shard. It is 0 if the query was rewritten in place.
            - ``session``: the id of the session, or None if the ranking uses no feedback.
        """
        options, has_feedback = rewritten.options, rewritten.knowledge.feedback is not None
        alpha, window_size = options.alpha or 0.0, options.window_size
        if reranking is not None and reranking.method == "dynamax":
            alpha, window_size = reranking.alpha, reranking.window_size
        # A query can also rank by the index's own vectors.
        is_lexical = reranking is None and parsed.info.model is None and not parsed.query.root.ranks_by_meaning
        if is_lexical:
            alpha = 0.0
        return {
            "reranked": True,
            "model": self.model.hash,
            "method": "lexical" if is_lexical else "vectors" if reranking is None else reranking.method,
            "alpha": 0.0 if rewritten.in_place else round(alpha, 6),
            "window": 0 if rewritten.in_place else window_size,
            "session": options.session if has_feedback else None,
        }


def _marked_if_unchanged(query: Query, rewritten: Rewritten) -> Body:
    """Return the body of a rewritten search, marked as rewritten if there was nothing to rewrite.

    The mark is a named clause. It keeps a search pipeline of the index from rewriting the body once more.

    Args:
        query: The parsed search body.
        rewritten: The rewritten search.
    """
    if rewritten.had_nothing_to_add:
        return {**rewritten.body, "query": marked_query(query)}
    return rewritten.body


def _late_reranking(late: LateInteraction | None, rewritten: Rewritten) -> Reranking | None:
    """Return how a trained reranker reorders the first hits of a search.

    Args:
        late: The reranker, or None. In the latter case, the result is None.
        rewritten: The rewritten search, whose rescore window determines the number of hits to reorder.
    """
    if late is None:
        return None
    window_size = rewritten.options.window_size
    return Reranking(method="late", scores=late.discounted_scores, alpha=late.alpha, window_size=window_size)


def min_session_window(knowledge: Knowledge) -> int:
    """Return the minimum default ``window_size``, the number of rescored hits, of a search in a session with feedback.

    Args:
        knowledge: The knowledge about the search, which shows whether the index has vectors.
    """
    return LEXICAL_SESSION_WINDOW if knowledge.vector is None else SESSION_WINDOW


def _title_words_first(words: Sequence[str], judged: Sequence[JudgedDocument]) -> list[str]:
    """Order expansion words (words learned from relevant documents) as the explanation of a session shows them.

    Words in titles of relevant documents come first.

    People recognise the words of titles. The heaviest words of a text can be verbs that say little about its topic.
    Single letters and digits are left out, but not single characters beyond ASCII, which can be words.

    Args:
        words: The expansion words, heaviest first.
        judged: The judged documents of the session.
    """
    relevant = (document for document in judged if document.judgement.grade > 0)
    in_titles = {
        word for document in relevant for word in searchable_words(title_of(document.title_text or document.text))
    }
    names = [word for word in words if len(word) > 1 or not word.isascii()]
    return sorted(names, key=lambda word: word not in in_titles)


def session_summary(session: StoredSession) -> dict[str, Any]:
    """Return a short description of a session, as a JSON object for a response.

    It contains the id, the times of creation and expiry (in Unix seconds) and the number of feedback steps. No request
    to the engine is necessary.

    Args:
        session: The session.
    """
    return {
        "session": session.id,
        "created": session.created,
        "expires": session.expires,
        "steps": session.steps,
    }


def _judgement_details(judgement: Judgement) -> dict[str, Any]:
    """Return a judgement as a JSON object for a response."""
    names = ("step", "at", "query", "index", "document", "grade", "source")
    return {name: getattr(judgement, name) for name in names}


def _outcome_details(rewritten: Rewritten) -> dict[str, Any]:
    """Describe the outcome of a rewriting for the response.

    Returns:
        A dictionary with ``outcome`` (the code of the outcome), ``reason`` (an explanation), ``widened`` (the words
        that were added so that more documents match) and ``carried`` (the words that come from judgements for earlier
        queries of the session). Empty values are left out.
    """
    details = {
        "outcome": rewritten.outcome.code,
        "reason": rewritten.reason,
        "widened": list(rewritten.added_related_words),
        "carried": rewritten.knowledge.carried_words if rewritten.may_reorder_hits else [],
    }
    return {name: value for name, value in details.items() if value}
