"""Rewrite searches according to the judgements in their sessions.

:class:`SearchRewriter` loads the knowledge for a search, fills in the defaults of its options, and calls
:func:`resift.rewriting.rewrite.rewrite`.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Collection
from dataclasses import replace
from typing import NamedTuple

from msgspec import structs

from resift.cache import TtlCache
from resift.contracts.documents import IndexInfo
from resift.contracts.engine import Engine, Headers
from resift.encoders.model import Model
from resift.errors import EngineUnavailable, IndexNotFound, IndexNotServed, ResiftError
from resift.feedback.feedback import Feedback
from resift.options_section import without_options
from resift.query.allow_list import check_against_allow_list
from resift.query.body import Query, parse, restore_body
from resift.query.dsl import Body, without_boost
from resift.query.limits import check_limits
from resift.query.questions import shorten_to_distinctive_words
from resift.rewriting.knowledge import NO_REQUIRED_DATA, Knowledge, RequiredData
from resift.rewriting.moving import required_data
from resift.rewriting.options import Options, read_options
from resift.rewriting.outcome import Outcome, Rewritten
from resift.rewriting.rewrite import rewrite
from resift.service.config import Config
from resift.service.index_infos import IndexInfos
from resift.service.words import SampledWords
from resift.sessions.knowledge import KnowledgeLoader
from resift.vectors.weights import discount_alpha

log = logging.getLogger(__name__)
# The caches of field names. A client can search any number of fields, so their size is limited in bytes.
_SESSIONS_BYTES = 4_000_000
_INDICES_BYTES = 2_000_000
_ENTRY_BYTES = 600
"""Approximate size of an entry without the field names: its key and the objects around the names."""
_FIELD_SECONDS = 600.0
_CACHED_WINDOWS = 2000
_WINDOW_SECONDS = 60.0
_MAX_SEARCHED_FIELDS = 100
"""If a query names more fields or patterns of fields, its session learns from all text fields.

Each expansion word is counted in these fields. To count 25 words in 20,000 patterns takes a node half a minute.
"""
SESSION_WINDOW = 400
"""Smallest default ``window_size`` of a search in a session that has learned something about the query."""
LEXICAL_SESSION_WINDOW = 500
"""The same for an index without vectors. A window of only 200 hits reduces nDCG@10 by up to 0.003."""
# Defaults of a search that is widened by related words. The hits for these words are further down in the list. With a
# larger window, the vector similarity orders them, too.
_WIDENED_WINDOW = 200
_WIDENED_KNN = 100


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


class SearchRewriter:
    """Rewrites searches according to the judgements in their sessions. Instances are thread-safe.

    Methods with an argument ``headers`` pass these HTTP headers of the caller on to the search engine. Cached values
    are shared only between callers with the same headers.

    Args:
        engine: The search engine, which limits the rescore windows of an index.
        model: The embedding model that encodes queries and documents.
        config: The settings of the service.
        infos: The descriptions of the searched indices.
        knowledge: Loads the judgements of sessions, and learns from them.
        words: The words of each index, from which related words are chosen.
    """

    def __init__(
        self,
        engine: Engine,
        model: Model,
        config: Config,
        infos: IndexInfos,
        knowledge: KnowledgeLoader,
        words: SampledWords,
    ) -> None:
        self.engine, self.model, self.config = engine, model, config
        self.infos, self.knowledge, self.words = infos, knowledge, words
        # The largest allowed rescore window, by index, needed window and caller's headers.
        self._max_windows: TtlCache[int] = TtlCache(_CACHED_WINDOWS, _WINDOW_SECONDS)
        # The text fields of each session's latest search, if the index has no text fields of Resift.
        self._searched_fields: TtlCache[Collection[str]] = TtlCache(_SESSIONS_BYTES, _FIELD_SECONDS)
        # For each index and caller's headers, the index's own vector and token fields that the latest query searched.
        self._needs: TtlCache[RequiredData] = TtlCache(_INDICES_BYTES, _FIELD_SECONDS)

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
            info = self.infos.get(index, headers)
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
        options = self._with_defaults(info, options, knowledge)
        rewritten = rewrite(query, knowledge, options)
        if rewritten.body.get("rescore") == query.body.get("rescore"):
            return rewritten
        window = self._max_rescore_window(info, options.window_size, headers)
        if window == options.window_size:
            return rewritten
        return rewrite(query, knowledge, structs.replace(options, window=window))

    def _max_rescore_window(self, info: IndexInfo, window: int, headers: Headers) -> int:
        """Return the largest rescore window that an index allows, but at most ``window``. It is cached for a minute.

        OpenSearch refuses a search with a larger window than the setting ``index.max_rescore_window``. If the engine
        does not answer the question, the result is ``window``.

        Args:
            info: The names, fields and settings of the index.
            window: The rescore window of the search.
            headers: The caller's HTTP headers, which are passed on to the engine.
        """
        key = (info.name, window, str(headers))
        try:
            return self._max_windows.get_or_load(
                key, lambda: self.engine.max_rescore_window(info.name, window, headers)
            )
        except ResiftError:
            return window

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
            text_fields = frozenset(map(without_boost, query.root.searched_fields or ()))
            needs = replace(needs, text_fields=text_fields if len(text_fields) <= _MAX_SEARCHED_FIELDS else frozenset())
        knowledge = self.knowledge.load(info, options, needs, headers)
        size, caller = _size_in_bytes(needs.text_fields), str(headers)
        self._needs.put((info.name, caller), replace(needs, texts=frozenset()), size + len(caller))
        if options.session is not None:  # its id is well-formed, since the session was loaded
            self._searched_fields.put(options.session, needs.text_fields, size)
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
            has_enough_hits=bool(may_widen and words) and self._has_enough_hits(info, query, options, headers),
            terms_per_word=self._terms_per_word(info, query.root.searched_fields or (), headers) if words else 1,
            related_words=self.words.related_words(info, text, query.root.raw, headers) if may_widen else {},
            notes=notes,
        )

    def _terms_per_word(self, info: IndexInfo, searched_fields: Collection[str], headers: Headers) -> int:
        """Return an upper estimate of the number of terms that OpenSearch makes of a word in the searched fields.

        Args:
            info: The names, fields and settings of the searched index.
            searched_fields: The fields that the query searches for words.
            headers: The caller's HTTP headers, which are passed on to the engine.
        """
        fields = set(map(without_boost, (*info.fields, *searched_fields)))
        return self.knowledge.word_selector.terms_per_word(info, headers, fields)

    def _has_enough_hits(self, info: IndexInfo, query: Query, options: Options, headers: Headers) -> bool:
        """Return whether a query has enough hits, so that expansion words need not find further documents.

        To count the hits, the service runs the query itself. The query of a search pipeline or of an application was
        not checked, and it could look up documents of indices that are not served. Such a query is only run if the
        allow-list of query clauses permits it. Otherwise, it counts as a query with enough hits.

        Args:
            info: The names, fields and settings of the searched index.
            query: The parsed search body.
            options: The rewriting options that the search sets.
            headers: The caller's HTTP headers.
        """
        if options.through_cluster:
            try:
                check_against_allow_list("query", query.root.raw)
            except ResiftError:
                return True
        return self.knowledge.word_selector.has_enough_hits(query.root.raw, info, headers)

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

    def searched_fields(self, session: str) -> Collection[str]:
        """Return the text fields of a session's latest search, if its index has no text fields of Resift.

        The fields are cached for ten minutes.

        Args:
            session: The session's id.

        Returns:
            The names or patterns of the fields. Empty for all text fields, or if the search is not known.
        """
        return self._searched_fields.get(session) or ()

    def warm_session(self, session: str, index: str, query: str, headers: Headers = None) -> None:
        """Load in the background what the next search of a session needs, such as document counts of words.

        Nothing happens if the thread pool ``knowledge.loader`` has not been started, or has too much to do.

        Args:
            session: The session's id.
            index: The name of the index that will be searched.
            query: The text that will be searched for.
            headers: The HTTP headers of the caller, or None.
        """

        def load() -> None:
            info = self.infos.get(index, headers)
            needs = self._needs.get((info.name, str(headers))) or NO_REQUIRED_DATA
            options = Options(text=query, session=session, through_cluster=True)
            self.knowledge.warm_caches(info, options, needs, headers)
            self._terms_per_word(info, needs.text_fields, headers)

        self.knowledge.loader.submit((index, session, str(headers)), load)


def _size_in_bytes(fields: Collection[str]) -> int:
    """Return the approximate size of an entry with some field names in a cache."""
    return _ENTRY_BYTES + sum(map(sys.getsizeof, fields))


def min_session_window(knowledge: Knowledge) -> int:
    """Return the minimum default ``window_size``, the number of rescored hits, of a search in a session with feedback.

    Args:
        knowledge: The knowledge about the search, which shows whether the index has vectors.
    """
    return LEXICAL_SESSION_WINDOW if knowledge.vector is None else SESSION_WINDOW
