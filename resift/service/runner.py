"""Run searches that are rewritten according to their sessions.

:meth:`SearchRunner.run` rewrites a search, sends the rewritten body to the engine, and adds details to the hits.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

from msgspec import structs

from resift.contracts.documents import SearchResult
from resift.contracts.engine import Engine
from resift.encoders.model import Model
from resift.errors import CorruptEngine, EngineUnavailable, ResiftError
from resift.query.body import Query
from resift.query.dsl import MAX_RESULTS, Body
from resift.rewriting.outcome import Outcome, Rewritten
from resift.rewriting.rewrite import marked_query
from resift.service.answers import Answer, ParsedSearch, add_reasons, add_similarities
from resift.service.bodies import Search, rewriting_options
from resift.service.catalogue import Catalogue, count_facets
from resift.service.reranking import DynaMaxReranker, Reranking, ServedReranker, late_reranking, reranked_page
from resift.service.rewriter import SearchRewriter

log = logging.getLogger(__name__)
# Keys of a search body that decide which hits a search has, and in which order, besides the query.
_RANKING_KEYS = ("query", "post_filter", "min_score", "rescore", "indices_boost")


class SearchRunner:
    """Runs searches whose ranking follows the user's relevance feedback. Instances are thread-safe.

    Args:
        engine: The search engine, which runs the rewritten searches.
        model: The embedding model that encodes queries and documents.
        rewriter: Rewrites searches according to their sessions.
        catalogue: Describes the fields of each index, which decide how facets are counted.
        served_reranker: The trained reranker, if there is one.
        dynamax: Reorders the hits of searches that request DynaMax.
    """

    def __init__(
        self,
        engine: Engine,
        model: Model,
        rewriter: SearchRewriter,
        catalogue: Catalogue,
        served_reranker: ServedReranker,
        dynamax: DynaMaxReranker,
    ) -> None:
        self.engine, self.model, self.rewriter, self.catalogue = engine, model, rewriter, catalogue
        self.served_reranker, self.dynamax = served_reranker, dynamax

    def run(self, parsed: ParsedSearch) -> Answer:
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
            rewritten = self.rewriter.rewrite_search(info, query, options, search.headers, without_vectors=by_words)
        except Exception as error:
            return self._original_answer(parsed, error, "rewriting failed")
        try:
            has_texts = "_none_" not in str(query.body.get("stored_fields", ""))
            reranking = self.dynamax.reranking(options, rewritten) if by_words else late_reranking(late, rewritten)
            return self._answer(parsed, rewritten, reranking if rewritten.ranks_by_text_scores and has_texts else None)
        except Exception as error:
            return self._original_answer(parsed, error, "the rewritten search failed", is_rewritten=True)

    def _original_answer(
        self, parsed: ParsedSearch, error: Exception, message: str, is_rewritten: bool = False
    ) -> Answer:
        """Run the original search after an error, and return the response, which contains the reason.

        Args:
            parsed: The search request and its parsed body.
            error: The error of the rewriting or of the rewritten search.
            message: A description of what failed, for the log and the response. The response to an error that Resift
                raised on purpose contains the message of that error instead.
            is_rewritten: Whether the rewritten search failed. The engine may have refused only the rewritten search
                (status 400), for example because the setting ``index.max_rescore_window`` has just become smaller than
                its rescore window.

        Raises:
            ResiftError: If the error says what is wrong with the search, or if the engine cannot be reached. Then
                ``error`` is raised again. A damaged document of the embedded engine may only concern the session, so
                this error is not raised again. If the engine also refuses the original search or one of its facets,
                the error of that request is raised.
        """
        if isinstance(error, ResiftError):
            is_unavailable = isinstance(error, EngineUnavailable) and not isinstance(error, CorruptEngine)
            may_concern_rewriting = error.status >= 500 or (is_rewritten and error.status == 400)
            if is_unavailable or not may_concern_rewriting:
                raise error
            reason = error.message
        else:
            log.error("%s", message, exc_info=error)
            reason = f"{message}: {type(error).__name__}"
        result = self.engine.search(parsed.search.index, parsed.query.body, headers=parsed.search.headers)
        facets: dict[str, Any] = {}
        try:
            facets = self._count_facets(parsed, parsed.query.body)
        except Exception as facet_error:  # counting may have failed before, and the hits do not need it
            if isinstance(facet_error, ResiftError) and facet_error.status < 500:
                raise
        return Answer(result, {"reranked": False, "outcome": Outcome.FAILED.code, "reason": reason, **facets})

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
        before = self.rewriter.rewrite_search(
            parsed.info, query, options, search.headers, without_vectors=has_no_vector
        )
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
            parsed: The search request, which names the facet fields, and the searched index.
            body: The search body that the engine ran.

        Returns:
            ``{"facets": …}``, or an empty dictionary if the search requests no facets.
        """
        search = parsed.search
        if not search.facets:
            return {}
        query = body.get("query", {"match_all": {}})
        ranges = self.catalogue.card_fields(parsed.info, search.headers).ranges
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
