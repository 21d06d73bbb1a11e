"""Searching with a model and sessions: the engine's hits, reranked. The facade over the steps in this folder."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from msgspec import structs

from resift.cache import TtlCache
from resift.contracts.documents import IndexInfo, SearchResult
from resift.contracts.engine import Engine, Headers, retryable
from resift.contracts.tuning import Tuning
from resift.encoders.late_interaction import LateInteraction
from resift.encoders.model import Model
from resift.errors import IndexNotFound, ModelMismatch, NotFound, ResiftError
from resift.feedback.explain import explain
from resift.feedback.feedback import Feedback
from resift.feedback.judgements import Judgement, Mark
from resift.query.dsl import MAX_RESULTS
from resift.reviews.reviews import Reviews
from resift.rewriting.clauses import holds_better, text_parts
from resift.rewriting.hybrid import needs_of
from resift.rewriting.outcome import Outcome
from resift.rewriting.request import (
    Asked,
    RewriteSettings,
    Rewritten,
    as_written,
    asked_in,
    check_clause,
    find_text,
    telling_words,
)
from resift.rewriting.rewrite import as_it_is, rewrite
from resift.service.answers import (
    Answer,
    ServedReranker,
    add_cards,
    add_reasons,
    add_similarities,
    reranked_page,
)
from resift.service.bodies import Search, asked_by, check_asked, search_body
from resift.service.catalogue import Catalogue, count_facets
from resift.service.config import Config
from resift.service.connect import open_review_store
from resift.service.interleaved import Interleaved
from resift.service.served_indices import ServedIndex, ServedIndices, index_not_served, indices_in
from resift.service.words import SampledWords
from resift.sessions.clicks import Clicks
from resift.sessions.documents import NO_NEEDS
from resift.sessions.knowledge import KnowledgeLoader
from resift.sessions.sessions import Sessions, StoredSession, check_judgements
from resift.sessions.trials import Trials
from resift.vectors.weights import discount_alpha

log = logging.getLogger(__name__)
SESSION_WINDOW = 400  # least `window_size` of a search in a session that has learned something about the query
_INFO_SECONDS, _INFOS = 5.0, 1000
# Of searches that other words, and nearest documents, find documents for.
_WIDENED_WINDOW, _WIDENED_KNN = 200, 100


class SearchService:
    """Joins an engine, a model and the sessions. May be used from several threads.

    ``headers`` are everywhere the caller's own HTTP headers, which the engine is asked with; what was read with them
    is remembered for these headers alone. Without ``clicks``, UBI's log is not looked at.
    """

    def __init__(
        self,
        engine: Engine,
        model: Model,
        sessions: Sessions,
        config: Config,
        clicks: Clicks | None = None,
    ) -> None:
        self.engine, self.model, self.sessions, self.config = engine, model, sessions, config
        self.served_reranker = ServedReranker(config.reranker)
        internal = (config.session_index, f"{config.session_index}-reviews", config.ubi_events, config.ubi_queries)
        self.served_indices = ServedIndices(config.indices, *internal)
        self.catalogue = Catalogue(engine, self.served_indices, config.page_fields)
        self.words = SampledWords(engine, model)
        self._infos: TtlCache[ServedIndex] = TtlCache(_INFOS, _INFO_SECONDS)
        self.interleaved = None if clicks is None else Interleaved(Trials(sessions.store), clicks)
        self.reviews = Reviews(engine, lambda: open_review_store(config.store, config.session_index))
        self.knowledge = KnowledgeLoader(engine, model, sessions, self.info, config.feedback, clicks)

    def info(self, index: str, headers: Headers = None) -> IndexInfo:
        """An index's fields and model, remembered for five seconds.

        Raises IndexNotFound, IndexNotServed, and ModelMismatch if its vectors are another model's; an index without
        any may be used.
        """
        return self.served(index, headers).searched

    def served(self, index: str, headers: Headers = None) -> ServedIndex:
        """What ``index`` stands for. Raises IndexNotServed unless all of that is served, and what the engine raises."""
        known = self._infos.get((index, str(headers)))
        if known is not None:
            return known
        found: list[IndexInfo] = []

        def resolve(name: str) -> Sequence[str]:
            with suppress(IndexNotFound, ModelMismatch):  # nothing is said of an index before it is known to be served
                found.append(self.engine.info(name, headers))
                return found[-1].indices
            return self.engine.resolve(name, headers)

        by_own_names = self.served_indices.require(index, resolve)
        info = found[0] if found and found[0].name == index else self.engine.info(index, headers)
        return self._infos.put((index, str(headers)), ServedIndex(info, by_own_names, self.model))

    def warm_up(self) -> None:
        """Read what the first search of the configured index would wait for, as far as it can be read."""
        with suppress(ResiftError):
            info = self.info(self.config.index)
            self.words.get(info)
            self.catalogue.fields(info)

    def feedback(
        self, session: str, index: str, query: str, marks: Mapping[str, Mark], headers: Headers = None
    ) -> StoredSession:
        """Store marks as one step of a session.

        The only request to the engine checks that the marked documents exist. Use :meth:`describe` to learn what the
        marks taught. Withdrawing a mark (grade 0) of a document that no longer exists succeeds. Skipped documents that
        no longer exist are ignored if other marks remain.

        Args:
            session: The session's id. A new session starts with its first marks.
            index: The name under which the documents were searched.
            query: The query text that the marks were made for.
            marks: Document id → mark.
            headers: The caller's HTTP headers, sent with requests to the engine.

        Returns:
            The stored session, including the new step.

        Raises:
            NotFound: A marked document does not exist.
            IndexNotFound: The index does not exist.
            ModelMismatch: The index's vectors come from another model.
            SessionBusy: Concurrent writes to the session kept this one from being stored.
            ResiftError: The marks are invalid (see :func:`resift.sessions.sessions.check_judgements`).
        """
        judgements = [Judgement(index, id, mark.grade, source=mark.source) for id, mark in marks.items()]
        check_judgements(judgements)
        try:
            existing = self.knowledge.fetch(index, list(marks), headers)
        except IndexNotFound:
            if any(mark.grade for mark in marks.values()):
                raise
            existing = {}
        missing = [id for id, mark in marks.items() if id not in existing and mark.grade]
        # A click is sent with the hits skipped above it. One of these may have been deleted since it was shown.
        unknown = [id for id in missing if marks[id].source != "skip" or len(missing) == len(marks)]
        if unknown:
            raise NotFound(f"no document {unknown[0]!r} in {index!r}", value=unknown[0], expected="ids of hits")
        return self.sessions.add(session, query, [one for one in judgements if one.document not in missing])

    def describe(self, session: StoredSession, headers: Headers = None) -> dict[str, Any]:
        """All that is kept of a session, and what it learned, in words; of documents that the caller may read."""
        effective = session.effective_judgements
        # to a caller with rights of its own only judgements of documents are shown that it may read
        read = self.knowledge.read(effective if headers is None else session.judgements, headers)
        readable = session.judgements if headers is None else [one.judgement for one in read]
        found = {id(one.judgement): one for one in read}
        # by identity: the same document may have been judged twice in the same way, and only one judgement counts
        counting = {id(judgement) for judgement in effective}
        judged = [found[id(one)] for one in effective if id(one) in found]
        feedback = self.knowledge.learned(judged)
        asked = self.knowledge.words_of(feedback, effective[-1].index, headers) if effective else ()
        return {
            **session_summary(session),
            "judgements": [_described(one) | {"counts": id(one) in counting} for one in readable],
            "learned": None if feedback is None else explain(self.model, feedback, judged, asked),
        }

    def search(self, search: Search) -> Answer:
        """The engine's answer to the rewritten search.

        ``resift`` in it tells whether its hits were reranked, and if not the ``reason``; and what a query text with
        misspelt words was meant to be, as ``did_you_mean``. A failure of the rewriting itself leaves the engine's
        order. Raises what is wrong with the search, and EngineUnavailable.
        """
        self.require_allowed(search)
        info = self.info(search.index, search.headers)
        with retryable(search.is_repeatable):
            if self.interleaved is None:
                return self._answered(search, info)
            return self.interleaved.answer(search, lambda asked: self._answered(asked, info))

    def _answered(self, search: Search, info: IndexInfo) -> Answer:
        body = search_body(search, info, self.model.table.idf)
        answer = self._search(search, info, body)
        if search.documents == "card":
            add_cards(answer.result.hits, self.catalogue.fields(info, search.headers), info.fields)
        if isinstance(search.query, str):
            suggestion = self.words.suggest(search.query, info, search.headers, search.filter)
            if suggestion is not None:
                answer.resift["did_you_mean"] = suggestion
        return answer

    def require_allowed(self, search: Search) -> None:
        """Raise what is wrong with a search's index and clauses: IndexNotServed for a look-up elsewhere too, and
        ClauseNotAllowed where an alias alone is served.

        An alias may have a filter, which no look-up, script or suggestion would heed.
        """
        check_asked(search, self.config.max_text, search.listed_only)
        served = self.served(search.index, search.headers)
        if search.listed_only:
            return
        if not served.by_own_names:
            check_asked(search, self.config.max_text, listed_only=True)
        for other in indices_in([search.query, search.filter]):
            if not self.served(other, search.headers).by_own_names:
                raise index_not_served(other)

    def rewrite_for_pipeline(
        self, index: str, body: dict[str, Any], headers: Headers = None
    ) -> tuple[dict[str, Any], Outcome, str]:
        """A search body of a pipeline, rewritten, what became of it, and in English what was left out of it, or "".

        What is wanted stands in ``ext.ml_inference``: query, session, alpha, window, widen, knn, judged. Raises what
        :meth:`info` raises; whatever else goes wrong leaves the body as it is.
        """
        info = self.info(index, headers)
        try:
            written = as_written(body)
            check_clause("body", written, self.config.max_text)
            query = self.in_session(info, written, asked_in(written), headers)
        except ResiftError as error:
            return body, Outcome.FAILED, Outcome.FAILED.english.format(error.message)
        except Exception as error:
            log.exception("rewriting failed")
            return body, Outcome.FAILED, Outcome.FAILED.english.format(type(error).__name__)
        return body if query.body is written else query.body, query.outcome, query.reason

    def in_session(self, info: IndexInfo, body: dict[str, Any], asked: Asked, headers: Headers = None) -> Rewritten:
        """A search body, rewritten for an index with what its session and client know.

        Raises BadInput for a malformed session's id and what the engine raises.
        """
        needs = needs_of(body, info.vector_fields) if holds_better(body.get("query")) else NO_NEEDS
        by_whom = asked.session, asked.client, asked.through_cluster
        knowledge = self.knowledge.load(info, asked.text, *by_whom, headers, needs)
        words = telling_words(asked.text, len(info.fields), self.model.table.idf)
        if words != asked.text and words == find_text(body.get("query")):  # a body of the caller's own asks for all
            note = f"the query is too long for the engine: its {len(words.split())} most telling words count"
            knowledge = replace(knowledge, text=words, notes=[*knowledge.notes, note])
        kept = {word: weight for word, weight in knowledge.terms.items() if word not in asked.without}
        knowledge = replace(knowledge, terms=kept)
        if asked.widen and asked.knn and not info.has_hnsw:
            note = f"knn: the vectors of {info.name!r} have no graph (resift attach --vectors --graph)"
            knowledge = replace(knowledge, notes=[*knowledge.notes, note])
        is_text = asked.widen and asked.text and text_parts(body.get("query") or {}) is not None
        near = self.words.related(info, asked.text, body["query"], headers) if is_text else {}
        knowledge = replace(knowledge, related_words=near) if near else knowledge
        return rewrite(body, info.fields, knowledge, self._settings(info, asked, knowledge.feedback, bool(near)))

    def _settings(
        self, info: IndexInfo, asked: Asked, feedback: Feedback | None, is_widened: bool = False
    ) -> RewriteSettings:
        config = self.config
        alpha = self._similarity_weight(asked.text, asked.alpha, feedback, info.tuning)
        window = asked.window or (config.window if feedback is None else max(config.window, SESSION_WINDOW))
        # what other words find is ordered by meaning, further down
        window = max(window, _WIDENED_WINDOW) if is_widened and asked.window is None else window
        # for all indices that are served one number is set, and some may have no graph
        usual = max(config.knn, _WIDENED_KNN if is_widened else 0)
        knn = (usual if asked.knn is None else asked.knn) if info.has_hnsw else 0
        return RewriteSettings(alpha, window, asked.widen, knn, asked.judged)

    def _similarity_weight(self, text: str, asked: float | None, feedback: Feedback | None, tuning: Tuning) -> float:
        """The weight, 0 to 1, of the similarity of a query with these words against the engine's score.

        It is what the caller ``asked`` for, or the configuration's, or else that of the index or the model's own, which
        counts less where the model lacks words of the query and of what was judged. ``feedback`` is the part of what a
        session learned that concerns the query.
        """
        model, named = self.model, self.config.alpha if asked is None else asked
        if named is not None:  # a weight that somebody named counts as it is
            return named if feedback is None else feedback.adjusted_alpha(named, model.max_alpha)
        alpha, known = model.alpha if tuning.alpha is None else tuning.alpha, model.known_share(text)
        if feedback is None:
            return discount_alpha(alpha, known)
        return feedback.adjusted_alpha(alpha, model.max_alpha, known, tuning.strength)

    def _search(self, search: Search, info: IndexInfo, body: dict[str, Any]) -> Answer:
        asked = asked_by(search, body)
        search = structs.replace(search, session=asked.session, alpha=asked.alpha)
        late = self.served_reranker.get(search.method, info) if asked.text else None
        try:
            query = self.in_session(info, body, asked, search.headers)
            readable = query.is_ranked and "_none_" not in str(body.get("stored_fields", ""))
            return self._answer(search, info, body, query, late if readable else None)
        except ResiftError as error:
            # what is wrong with the search is the caller's to know; what is wrong here costs only the rewriting
            if error.status < 500 or error.code == "engine_unavailable":
                raise
            reason = error.message
        except Exception as error:
            log.exception("rewriting failed")
            reason = f"rewriting failed: {type(error).__name__}"
        result = self.engine.search(search.index, body, headers=search.headers)
        return Answer(result, {"reranked": False, "outcome": Outcome.FAILED.code, "reason": reason})

    def _answer(
        self,
        search: Search,
        info: IndexInfo,
        body: dict[str, Any],
        query: Rewritten,
        late: LateInteraction | None,
    ) -> Answer:
        reranked = late is not None or query.is_reranked
        explained, moved = reranked and search.reasons, search.reasons and query.knowledge.feedback is not None
        bodies = [self._asked(query, late)]
        if moved:  # what moved a hit goes by the places that it won
            bodies.append(self._plain(body, query))
        seen = info.vector_field if query.field is None else query.field[0]  # by which hits are compared
        result, *plain = self._results(search, bodies, seen if explained else None)
        facets = self._facets(search, bodies[0])
        if explained:
            add_similarities(self.model, query, result.hits, result.vectors)
        if late is not None:
            result = reranked_page(self.engine, late, search, info, body, query, result)
        if reranked and moved:
            add_reasons(query, result.hits, result.vectors, body["from"], plain[0].hits)
        said = self._described(search, query, late) if reranked else {"reranked": False}
        return Answer(result, {**said, **_became(query), **facets})

    def _facets(self, search: Search, body: dict[str, Any]) -> dict[str, Any]:
        """The values and ranges of the fields that a search asks for, counted among all documents that it finds."""
        if not search.facets:
            return {}
        query, info = body.get("query", {"match_all": {}}), self.info(search.index, search.headers)
        ranges = self.catalogue.fields(info, search.headers).ranges
        return {"facets": count_facets(self.engine, search.index, query, search.facets, ranges, search.headers)}

    def _asked(self, query: Rewritten, late: LateInteraction | None) -> dict[str, Any]:
        """The body that the engine is asked, for the whole window where hits are reordered, whatever page is wanted."""
        asked = query.body
        if query.outcome is Outcome.NOTHING_TO_ADD and not query.in_place:
            asked = {**asked, "query": as_it_is(asked)}
        if late is None:
            return asked
        return {**asked, "from": 0, "size": max(query.settings.window, asked["from"] + asked["size"])}

    def _results(self, search: Search, bodies: list[dict[str, Any]], vectors: str | None) -> list[SearchResult]:
        if len(bodies) > 1:
            return self.engine.search_all(search.index, bodies, vectors, search.headers)
        return [self.engine.search(search.index, bodies[0], vectors, headers=search.headers)]

    def _plain(self, body: dict[str, Any], query: Rewritten) -> dict[str, Any]:
        """The search as it was, for the ids of as many hits as are rescored."""
        # of a hybrid query other numbers of hits have other scores
        size = max(0 if query.in_place else query.settings.window, body["from"] + body["size"])
        asked: dict[str, Any] = {"query": as_it_is(body), "from": 0, "size": min(size, MAX_RESULTS)}
        kept: dict[str, Any] = {
            name: body[name] for name in ("post_filter", "min_score", "rescore", "indices_boost") if name in body
        }
        return {**kept, **asked, "_source": False, "track_total_hits": False}

    def _described(self, search: Search, query: Rewritten, late: LateInteraction | None) -> dict[str, Any]:
        return {
            "reranked": True,
            "model": self.model.hash,
            "method": "vectors" if late is None else "late",
            "alpha": 0.0 if query.in_place else round(query.settings.alpha, 6),
            "window": 0 if query.in_place else query.settings.window,
            "session": None if query.knowledge.feedback is None else search.session,
        }


def session_summary(session: StoredSession) -> dict[str, Any]:
    """Return a session's id, creation and expiry times (Unix seconds) and number of steps.

    Unlike :meth:`SearchService.describe`, this needs no request to the engine.
    """
    return {
        "session": session.id,
        "created": session.created,
        "expires": session.expires,
        "steps": session.steps,
    }


def _described(judgement: Judgement) -> dict[str, Any]:
    names = ("step", "at", "query", "index", "document", "grade", "source")
    return {name: getattr(judgement, name) for name in names}


def _became(query: Rewritten) -> dict[str, Any]:
    """What became of a query, as far as there is something to tell."""
    found = {"outcome": query.outcome.code, "reason": query.reason, "widened": list(query.widened)}
    return {name: value for name, value in found.items() if value}
