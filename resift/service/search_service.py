"""The search service, which combines a search engine, an embedding model and search sessions.

:class:`SearchService` is the entry point for HTTP, the library, the command line and search pipelines. A search goes
through three classes:

1. :class:`SearchService` checks the search, and makes its body.
2. :class:`resift.service.runner.SearchRunner` runs the rewritten body, and adds details to the hits.
3. :class:`resift.service.rewriter.SearchRewriter` rewrites the body for the runner, with the knowledge of the session.
"""

from __future__ import annotations

import logging
from contextlib import ExitStack, suppress

from resift.contracts.documents import IndexInfo
from resift.contracts.engine import Engine, failover_allowed
from resift.encoders.model import Model
from resift.errors import ResiftError
from resift.plugin.addresses import without_credentials
from resift.query.body import parse
from resift.reviews.reviews import Reviews
from resift.service.answers import Answer, ParsedSearch, add_cards
from resift.service.bodies import Search, check_search, search_body
from resift.service.catalogue import Catalogue
from resift.service.config import Config
from resift.service.connect import open_review_store
from resift.service.index_infos import IndexInfos
from resift.service.interleaved import InterleavedSearches
from resift.service.marks import SessionMarks
from resift.service.reranking import DynaMaxReranker, ServedReranker
from resift.service.rewriter import SearchRewriter
from resift.service.runner import SearchRunner
from resift.service.served_indices import ServedIndices, index_not_served
from resift.service.words import SampledWords
from resift.sessions.clicks import Clicks
from resift.sessions.knowledge import KnowledgeLoader
from resift.sessions.sessions import Sessions
from resift.sessions.trials import Trials

log = logging.getLogger(__name__)


class SearchService:
    """Runs searches whose ranking follows the user's relevance feedback. Instances are thread-safe.

    The HTTP headers of a search's caller are passed on to the search engine. Cached values are shared only between
    callers with the same headers.

    Args:
        engine: The search engine: an OpenSearch cluster or the embedded engine.
        model: The embedding model that encodes queries and documents.
        sessions: The search sessions, which contain relevance judgements.
        config: The settings of the service.
        clicks: The clicks in the log of user events, or None to ignore the log.

    Attributes:
        infos: The descriptions of the indices that the service may search.
        catalogue: Lists these indices, and chooses the fields that the search page shows.
        words: The words of each index, for spelling corrections, completions and related words.
        knowledge: Loads the judgements of sessions, and learns from them.
        loader: The thread pool in which ``knowledge`` loads sessions before they are needed.
        marks: Adds marks to sessions, and describes what the sessions learned.
        rewriter: Rewrites searches without running them.
        runner: Rewrites and runs searches that have been checked.
        served_reranker: The trained reranker, if there is one.
        dynamax: The reranker that compares texts by their words.
        reviews: The reviews that find all relevant documents for a query.
        interleaved: Runs the searches of users who take part in an online experiment. None without ``clicks``.
    """

    def __init__(
        self, engine: Engine, model: Model, sessions: Sessions, config: Config, clicks: Clicks | None = None
    ) -> None:
        self.engine, self.model, self.sessions, self.config = engine, model, sessions, config
        internal = (config.session_index, f"{config.session_index}-reviews", config.ubi_events, config.ubi_queries)
        self.served_indices = ServedIndices(config.indices, *internal)
        self.infos = IndexInfos(engine, model, self.served_indices)
        self.catalogue = Catalogue(engine, self.served_indices, config.page_fields)
        self.words = SampledWords(engine, model)
        self.knowledge = KnowledgeLoader(engine, model, sessions, self.infos.get, config.feedback, clicks)
        self.loader = self.knowledge.loader
        self.rewriter = SearchRewriter(engine, model, config, self.infos, self.knowledge, self.words)
        self.marks = SessionMarks(model, sessions, self.knowledge, self.rewriter.searched_fields)
        self.served_reranker = ServedReranker(config.reranker)
        self.dynamax = DynaMaxReranker(self.words, config.alpha)
        self.runner = SearchRunner(engine, model, self.rewriter, self.catalogue, self.served_reranker, self.dynamax)
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

    def warm_up(self) -> None:
        """Load data about the configured index into the caches to make the first search fast. Errors are ignored."""
        with suppress(ResiftError):
            info = self.infos.get(self.config.index)
            self.words.get(info)
            self.catalogue.card_fields(info)

    def check_engine(self) -> None:
        """Log a warning if the engine does not answer, or is not supported."""
        try:
            self.engine.ping()
        except ResiftError as error:
            engine = without_credentials(self.config.engine)
            log.warning("The search engine %s cannot be used yet: %s", engine, error.message)

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
        info = self.infos.get(search.index, search.headers)
        with failover_allowed(search.is_repeatable):
            if self.interleaved is None:
                return self._run(search, info)
            return self.interleaved.answer(search, lambda search: self._run(search, info))

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
        served = self.infos.get_served(search.index, search.headers)
        if search.listed_only:
            return
        if not served.is_named_in_settings:
            check_search(search, self.config.max_text, listed_only=True)
        for index in looked_up:
            if not self.infos.get_served(index, search.headers).is_named_in_settings:
                raise index_not_served(index)

    def _run(self, search: Search, info: IndexInfo) -> Answer:
        """Run a search that has passed all checks.

        If the request asks for cards, each hit contains a short summary ("card") of its document. If words of the query
        text are misspelt, the response contains a correction.

        Args:
            search: The search request.
            info: The names, fields and settings of the searched index.
        """
        query = parse(search_body(search, info, self.model.table.idf))
        answer = self.runner.run(ParsedSearch(search=search, info=info, query=query))
        if search.documents == "card":
            add_cards(answer.result.hits, self.catalogue.card_fields(info, search.headers), info.readable_fields)
        if isinstance(search.query, str):
            correction = self.words.suggest_correction(search.query, info, search.headers, search.filter)
            if correction is not None:
                answer.resift["did_you_mean"] = correction
        return answer
