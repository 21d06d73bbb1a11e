"""Searching with a model and sessions: the engine's hits, reranked. The facade over the steps in this folder."""

from __future__ import annotations

import logging
from typing import Any

from resift.arrays import Floats
from resift.encoders.model import Model
from resift.errors import ResiftError, SessionsUnavailable
from resift.plugin.documents import IndexInfo
from resift.plugin.engine import Engine
from resift.ranking.feedback import Feedback
from resift.ranking.judgements import JudgedDocument
from resift.ranking.late_interaction import LateInteraction
from resift.reranker.access.indices import ServedIndices, indices_in
from resift.reranker.cache import TtlCache
from resift.reranker.config import Config
from resift.reranker.late_reranker import ServedReranker
from resift.reranker.limits import check_clause
from resift.reranker.search.bodies import search_body, why_not_reranked
from resift.reranker.search.candidates import Candidates, gather_candidates
from resift.reranker.search.did_you_mean import DidYouMean
from resift.reranker.search.highlights import add_highlights
from resift.reranker.search.judged_documents import Headers, JudgedDocuments
from resift.reranker.search.request import ParsedSearch, Search
from resift.reranker.search.response import Ranking, add_reasons, page_of_hits, reranked_response
from resift.reranker.search.retrieval import EXPANDED, Retrieval
from resift.reranker.search.scoring import Scores, TransformedQuery, engine_scores, fuse, mean_of_z_scores
from resift.reranker.search.session_feedback import SessionFeedback
from resift.reranker.sessions import MAX_QUERY, Session, Sessions

log = logging.getLogger(__name__)
_INFO_SECONDS, _INFOS = 5.0, 1000


class Reranker:
    """Joins an engine, a model and the sessions. May be used from several threads.

    ``headers`` are everywhere the caller's own HTTP headers, which the engine is asked with; what was read with them
    is remembered for these headers alone.
    """

    def __init__(self, engine: Engine, model: Model, sessions: Sessions, config: Config) -> None:
        self.engine, self.model, self.sessions, self.config = engine, model, sessions, config
        self.served_reranker = ServedReranker(config.reranker)
        self.served_indices = ServedIndices(config.indices, config.session_index)
        self.did_you_mean = DidYouMean(engine)
        self._infos: TtlCache[IndexInfo] = TtlCache(_INFOS, _INFO_SECONDS)
        self._documents = JudgedDocuments(engine, model, self.info)
        self._feedback = SessionFeedback(sessions, self._documents, model, config.feedback)

    @property
    def alpha(self) -> float:
        """Weight of the vectors' similarity where a search names none: the setting, or else the model's own."""
        return self.model.alpha if self.config.alpha is None else self.config.alpha

    def info(self, index: str, headers: Headers = None) -> IndexInfo:
        """An index's fields and model, remembered for five seconds.

        Raises IndexNotFound, IndexNotServed, and ModelMismatch if its vectors are another model's; an index without
        any may be used.
        """
        info = self._served_info(index, headers)
        if info.model is not None:
            info.require(self.model)
        return info

    def require_served(self, index: str, headers: Headers = None) -> None:
        """Raise IndexNotServed unless everything that ``index`` stands for is served, and what the engine raises."""
        self._served_info(index, headers)

    def _served_info(self, index: str, headers: Headers) -> IndexInfo:
        known = self._infos.get((index, str(headers)))
        if known is not None:
            return known
        # before anything is said of an index: whose models differ, for instance
        self.served_indices.require(index, lambda name: self.engine.resolve(name, headers))
        return self._infos.put((index, str(headers)), self.engine.info(index, headers))

    def late_interaction(self, method: str) -> LateInteraction | None:
        """The trained reranker for a search's ``method``: ``late`` (ModelNotFound if none is in service), or ``auto``,
        None if none is; None for any other method."""
        if method == "late":
            return self.served_reranker.require()
        return self.served_reranker.get() if method == "auto" else None

    def similarities(self, query: str, vectors: Floats, feedback: Feedback | None) -> Floats:
        """Similarity (n,) of a query with ``vectors`` (n, K), its candidates.

        The query is moved and masked by the part of ``feedback`` that concerns it.
        """
        vector = self.model.encode_one(query)
        scoped = feedback and feedback.scoped(vector, vectors, query[:MAX_QUERY])
        return TransformedQuery.of(vector, scoped).similarities(self.model, vectors)

    def feedback_of(self, session: str | None, headers: Headers = None) -> Feedback | None:
        """What a session has learned; None if it is None, new or expired, or if none of its judgements counts.

        Raises BadInput for a malformed id and SessionsUnavailable.
        """
        return self._feedback.of(session, headers)

    def judged_documents(self, session: Session | None, headers: Headers = None) -> list[JudgedDocument]:
        """A session's effective judgements with their documents, as :meth:`JudgedDocuments.of` gives them."""
        return self._documents.of(session, headers)

    def feedback(
        self, session: str, index: str, query: str, marks: dict[str, float], headers: Headers = None
    ) -> dict[str, Any]:
        """Add a step of marks to a session, as :meth:`SessionFeedback.mark` does it."""
        return self._feedback.mark(session, index, query, marks, headers)

    def describe(self, session: Session, headers: Headers = None) -> dict[str, Any]:
        """All that is kept of a session, and what it has learned, in words."""
        return self._feedback.describe(session, headers)

    def search(self, search: Search) -> dict[str, Any]:
        """The engine's answer with its hits reranked.

        ``resift`` in it tells whether they were, and if not the ``reason``; each hit's sub-scores; and what a query
        text with misspelt words was meant to be, as ``did_you_mean``. A failure of the reranking itself leaves the
        engine's order. Raises what is wrong with the search, and EngineUnavailable.
        """
        for name, clause in (("query", search.query), ("filter", search.filter)):
            if isinstance(clause, dict):
                check_clause(name, clause, self.config.max_text)
        info = self.info(search.index, search.headers)
        for other in indices_in([search.query, search.filter]):
            self.require_served(other, search.headers)
        response = self._search(search, info)
        if isinstance(search.query, str):
            suggestion = self.did_you_mean.suggest(search.query, info, search.headers)
            if suggestion is not None:
                response["resift"]["did_you_mean"] = suggestion
        return response

    def _search(self, search: Search, info: IndexInfo) -> dict[str, Any]:
        body, text = search_body(search, info)
        reason = why_not_reranked(body, text, search)
        if reason is None:
            try:
                return self._reranked(search, info, body, text)
            except ResiftError as error:
                # what is wrong with the search is the caller's to know; what is wrong here costs only the reranking
                if error.status < 500 or error.code == "engine_unavailable":
                    raise
                reason = error.message
            except Exception as error:
                log.exception("reranking failed")
                reason = f"reranking failed: {type(error).__name__}"
        page = {"size": search.size, "from": search.start, **body}
        response = self.engine.search(search.index, page, headers=search.headers).response
        return {**response, "resift": {"reranked": False, "reason": reason}}

    def _reranked(self, search: Search, info: IndexInfo, body: dict[str, Any], text: str) -> dict[str, Any]:
        late = self.late_interaction(search.method) if text else None
        judged, notes = self._judged_or_why_not(search)
        parsed = self._parsed(search, info, body, text)
        retrieval = Retrieval(self.engine, self.model, self.config, parsed)
        feedback = retrieval.run(self._feedback.learned(judged))
        query = TransformedQuery.of(parsed.vector, feedback)
        candidates = gather_candidates(retrieval, query)
        ranking = Ranking(retrieval, candidates, self._scores(retrieval, candidates, query, feedback, late))
        page = page_of_hits(ranking)
        if feedback is not None:
            add_reasons(self.model, ranking, page, feedback, judged)
        add_highlights(self.engine, parsed, page, feedback)
        method, session = "vectors" if late is None else "late", None if feedback is None else search.session
        return reranked_response(self.model, ranking, page, method, session, [*notes, *retrieval.notes])

    def _judged_or_why_not(self, search: Search) -> tuple[list[JudgedDocument], list[str]]:
        """The session's judged documents; none, and why, where the sessions' store does not answer."""
        try:
            session = None if search.session is None else self.sessions.find(search.session)
            return self.judged_documents(session, search.headers), []
        except SessionsUnavailable as error:
            log.warning("searching without the session: %s", error.message)
            return [], [error.message]

    def _parsed(self, search: Search, info: IndexInfo, body: dict[str, Any], text: str) -> ParsedSearch:
        vector = self.model.encode_one(text)
        if not isinstance(search.query, str):
            return ParsedSearch(search, info, body, None, text, vector)
        return ParsedSearch(search, info, {"query": body["query"]}, body.get("highlight"), text, vector)

    def _scores(
        self,
        retrieval: Retrieval,
        candidates: Candidates,
        query: TransformedQuery,
        feedback: Feedback | None,
        late: LateInteraction | None,
    ) -> Scores:
        """The candidates' scores by the search's method, with its own weight and normalisation if none are named."""
        search = retrieval.parsed.search
        similarity = query.similarities(self.model, candidates.vectors)
        if late is None:
            semantic, alpha, normalization = similarity, self.alpha, "min_max"
        else:
            semantic = late.scores(retrieval.parsed.text, retrieval.texts(candidates.hits))
            alpha, normalization = late.alpha, "z_score"
        alpha = alpha if search.alpha is None else search.alpha
        if feedback is not None and late is None:
            alpha = feedback.adjusted_alpha(alpha, self.model.max_alpha)
        elif feedback is not None:
            # the trained reranker reads texts and knows no session: the similarity brings the session in
            semantic = mean_of_z_scores(semantic, similarity)
        engine = engine_scores(candidates.hits, candidates.ranks, retrieval.results.get(EXPANDED))
        return fuse(engine, similarity, semantic, alpha, search.normalization or normalization)
