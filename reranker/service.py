"""Searching with a model and a session: the engine's candidates, reranked by the similarity of their vectors."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.errors import IndexNotFound, ModelMismatch, NotFound, ResiftError, SessionsUnavailable
from resift.feedback import Feedback, Judged, Judgement
from resift.late import LateInteraction
from resift.model import Model
from resift.plugin.engine import Engine, IndexInfo, SearchResult, document_text, knn_body
from resift.reranker.config import Config
from resift.reranker.explain import explain, reasons
from resift.reranker.recent import Recent
from resift.reranker.sessions import Session, Sessions
from resift.reranker.trained import Trained
from resift.similarity import combine, z_score
from resift.vectors import Floats

log = logging.getLogger(__name__)
_INFO_SECONDS, _DOCUMENT_SECONDS = 5.0, 300.0
_INFOS, _DOCUMENTS, _TEXT = 1000, 5000, 20_000
_AS_IT_IS = ("sort", "search_after", "collapse", "rescore")
_TEXT_CLAUSES = (
    "match",
    "multi_match",
    "match_phrase",
    "query_string",
    "simple_query_string",
    "combined_fields",
)


@dataclass(frozen=True)
class Search:
    """One search as a caller asked for it; ``query`` is a text, a query clause or a whole search body.

    ``method``: ``late`` (the trained reranker), ``vectors``, or ``auto``: late where one is in service. ``alpha``
    and ``normalization`` None are the method's own. ``knn`` None is the configured number of nearest documents,
    which is another where a session has taught something.
    """

    index: str
    query: str | dict[str, Any]
    session: str | None = None
    size: int = 10
    start: int = 0
    window: int = 100
    alpha: float | None = None
    normalization: str | None = None
    method: str = "auto"
    knn: int | None = None
    highlight: bool = False
    filter: dict[str, Any] | None = None
    headers: Mapping[str, str] | None = None


class Reranker:
    """Joins an engine, a model and the sessions."""

    def __init__(self, engine: Engine, model: Model, sessions: Sessions, config: Config) -> None:
        self.engine, self.model, self.sessions, self.config = engine, model, sessions, config
        self.trained = Trained(config.reranker)
        self._infos: Recent[IndexInfo] = Recent(_INFOS, _INFO_SECONDS)
        self._feedbacks: Recent[Feedback] = Recent(_DOCUMENTS, _DOCUMENT_SECONDS)
        self._documents: Recent[tuple[Floats, str]] = Recent(_DOCUMENTS, _DOCUMENT_SECONDS)

    def info(self, index: str, headers: Mapping[str, str] | None = None) -> IndexInfo:
        """An index's fields and model, remembered for five seconds for each caller. Raises ModelMismatch."""
        key = (index, str(headers))
        known = self._infos.get(key) or self._infos.put(key, self.engine.info(index, headers))
        if known.model is not None:
            known.require(self.model)
        return known

    def similarities(self, query: str, vectors: Floats, feedback: Feedback | None) -> Floats:
        """Similarity of the query, moved and masked by the session's feedback, with each of ``vectors`` (n, K)."""
        vector = self.model.encode_one(query)
        if feedback is None:
            return self.model.score(vector, vectors)
        return self.model.score(feedback.move(vector), vectors, feedback.mask)

    def feedback_of(self, session: str | None, headers: Mapping[str, str] | None = None) -> Feedback | None:
        """What a session has taught, if it has."""
        found = None if session is None else self.sessions.find(session)
        return self._learned(self.judged(found, headers))

    def _learned(self, judged: Sequence[Judged]) -> Feedback | None:
        """What judged documents teach; learned anew where one of them, its grade or its vector, is another."""
        if not judged:
            return None
        grades = np.array([one.judgement.grade for one in judged], np.float64)
        key = blake2b(b"".join([grades.tobytes(), *(one.vector.tobytes() for one in judged)])).digest()
        return self._feedbacks.get(key) or self._feedbacks.put(key, Feedback.of(judged, self.model.dim))

    def judged(self, session: Session | None, headers: Mapping[str, str] | None = None) -> list[Judged]:
        """A session's judgements that count, with their documents as they are in the index now.

        Left out are those of documents that are gone, and of indices that are gone or of another model. Documents are
        remembered for five minutes.
        """
        judgements = [] if session is None else session.standing
        found: dict[tuple[str, str], tuple[Floats, str]] = {}
        for index in dict.fromkeys(one.index for one in judgements):
            ids = [one.document for one in judgements if one.index == index]
            known = {id: self._documents.get((index, id, str(headers))) for id in ids}
            if None in known.values():
                try:
                    known |= self._fetch(index, [id for id, value in known.items() if value is None], headers)
                except (IndexNotFound, ModelMismatch):
                    continue
            found |= {(index, id): value for id, value in known.items() if value is not None}
        return [
            Judged(one, *found[one.index, one.document]) for one in judgements if (one.index, one.document) in found
        ]

    def _fetch(
        self, index: str, ids: Sequence[str], headers: Mapping[str, str] | None
    ) -> dict[str, tuple[Floats, str] | None]:
        """Vectors and texts of documents, by their ids; None where one does not exist."""
        info = self.info(index, headers)
        found = self.engine.documents(index, ids, headers)
        here = [id for id in ids if id in found]
        vectors = self.fill([{"_source": found[id][0]} for id in here], [found[id][1] for id in here], info.fields)
        texts = [document_text(found[id][0], info.fields)[:_TEXT] for id in here]
        pairs = zip(here, zip(vectors, texts, strict=True), strict=True)
        fetched = {id: self._documents.put((index, id, str(headers)), value) for id, value in pairs}
        return {id: fetched.get(id) for id in ids}

    def search(self, search: Search) -> dict[str, Any]:
        """The engine's answer with its hits reranked, and ``resift``: whether, why not, and each hit's sub-scores."""
        info = self.info(search.index, search.headers)
        body, text = search_body(search, info)
        reason = _why_not(body, text, search)
        if reason is None:
            try:
                return self._reranked(search, info, body, text)
            except ResiftError as error:
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
        start, size = body.get("from", search.start), body.get("size", search.size)
        depth = max(search.window, start + size)
        late = self.late(search.method) if text else None
        search = self._filled_in(search, late)
        judged, notes = self._judged_or_why_not(search)
        feedback = self._learned(judged)
        query = self.model.encode_one(text)
        engine_body = {**body, "from": 0, "size": depth}
        wanted = self._wanted(search, info, feedback)
        near_body = self._near_body(query, feedback, wanted, search.filter) if wanted else None
        found, near = self._asked(search, engine_body, near_body, notes)
        hits, vectors = found.hits[: search.window], found.vectors[: search.window]
        ranks: list[int | None] = list(range(1, len(hits) + 1))
        matrix = self.fill(hits, vectors, info.fields)
        if near is not None:
            known = {(hit["_index"], hit["_id"]) for hit in found.hits}
            rows = self.fill(near.hits, near.vectors, info.fields)
            nearness = self.similarities(text, rows, feedback)
            best = [
                i for i, hit in enumerate(near.hits) if nearness[i] > 0 and (hit["_index"], hit["_id"]) not in known
            ]
            new = [near.hits[i] for i in best]
            hits, matrix = hits + new, np.concatenate([matrix, rows[best]])
            ranks += [None] * len(new)
        similar = scored = self.similarities(text, matrix, feedback)
        if late is not None:
            scored = late.scores(text, self._texts(search, hits, info))
            if feedback is not None:
                scored = np.asarray((z_score(scored) + z_score(similar)) / 2, np.float32)
        ordered, order = _ordered(hits, ranks, scored, search)
        later = enumerate(found.hits[search.window :], search.window + 1)
        beyond = [_with_parts(hit, None, None, rank) for rank, hit in later]
        page = (ordered + beyond)[start : start + size]
        if feedback is not None:
            shown = order[start : start + size]
            change = similar[shown] - self.similarities(text, matrix[shown], None)
            for hit, reason in zip(page, reasons(self.model, feedback, judged, matrix[shown], change), strict=False):
                hit["resift"]["because"] = reason
        response = {**found.response, "hits": {**found.response["hits"], "hits": page}}
        response["hits"]["max_score"] = ordered[0]["_score"] if ordered else None
        response["resift"] = {
            "reranked": True,
            "model": self.model.hash,
            "method": "vectors" if late is None else "late",
            "alpha": search.alpha,
            "window": search.window,
            "candidates": len(hits),
            "vectors": _origins([found] if near is None else [found, near]),
            "session": search.session if feedback is not None else None,
            **({"reason": "; ".join(notes)} if notes else {}),
        }
        return response

    def late(self, method: str) -> LateInteraction | None:
        """The trained reranker, if ``method`` is ``late`` (ModelNotFound without one), or ``auto`` and it is there."""
        if method == "late":
            return self.trained.require()
        return self.trained.get() if method == "auto" else None

    def _filled_in(self, search: Search, late: LateInteraction | None) -> Search:
        """The search with the method's own weight and normalisation where the caller names none."""
        own = (self.config.alpha, "min_max") if late is None else (late.alpha, "z_score")
        alpha, normalization = search.alpha, search.normalization
        return replace(
            search,
            alpha=own[0] if alpha is None else alpha,
            normalization=own[1] if normalization is None else normalization,
        )

    def _texts(self, search: Search, hits: Sequence[dict[str, Any]], info: IndexInfo) -> list[str]:
        """The hits' texts; fetched where the search leaves fields out of its hits."""
        if isinstance(search.query, str) or "_source" not in search.query:
            return [document_text(hit.get("_source", {}), info.fields) for hit in hits]
        found = self.engine.documents(search.index, [hit["_id"] for hit in hits], search.headers)
        return [document_text(found[hit["_id"]][0], info.fields) if hit["_id"] in found else "" for hit in hits]

    def _judged_or_why_not(self, search: Search) -> tuple[list[Judged], list[str]]:
        """The session's judged documents; none, and why, where the sessions cannot be asked."""
        try:
            session = None if search.session is None else self.sessions.find(search.session)
            return self.judged(session, search.headers), []
        except SessionsUnavailable as error:
            log.warning("searching without the session: %s", error.message)
            return [], [error.message]

    def _wanted(self, search: Search, info: IndexInfo, feedback: Feedback | None) -> int:
        """How many nearest documents join the candidates."""
        if not isinstance(search.query, str):
            return 0
        if search.knn is not None:
            return search.knn
        learned = feedback is not None and info.model is not None
        return max(self.config.knn, self.config.session_knn) if learned else self.config.knn

    def _near_body(
        self, query: Floats, feedback: Feedback | None, wanted: int, filter: dict[str, Any] | None
    ) -> dict[str, Any]:
        if feedback is None:
            return knn_body(query, wanted, filter)
        moved = feedback.move(query)
        return self.engine.masked_body(moved, feedback.mask, self.model.similarity, wanted, filter)

    def _asked(
        self, search: Search, body: dict[str, Any], near: dict[str, Any] | None, notes: list[str]
    ) -> tuple[SearchResult, SearchResult | None]:
        """The engine's hits and the nearest documents, in one round trip; the hits alone, and a note, if it must be."""
        if near is not None:
            try:
                found, nearest = self.engine.search_all(search.index, [body, near], True, search.headers)
                return found, nearest
            except ResiftError as error:
                if error.code == "engine_unavailable":
                    raise
                failure = error
        found = self.engine.search(search.index, body, vectors=True, headers=search.headers)
        if near is not None:
            log.warning("no nearest documents: %s", failure.message)
            notes.append(f"no nearest documents: {failure.message}")
        return found, None

    def fill(self, hits: Sequence[dict[str, Any]], vectors: Sequence[Floats | None], fields: Sequence[str]) -> Floats:
        """The hits' vectors (n, K); those that the index lacks are encoded from the hit's text."""
        missing = [i for i, vector in enumerate(vectors) if vector is None]
        matrix = np.zeros((len(vectors), self.model.dim), np.float32)
        for i, vector in enumerate(vectors):
            if vector is not None:
                matrix[i] = vector
        if missing:
            matrix[missing] = self.model.encode([document_text(hits[i].get("_source", {}), fields) for i in missing])
        return matrix

    def feedback(
        self,
        session: str,
        index: str,
        query: str,
        marks: dict[str, float],
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Note a step of marks (document id → grade) and tell what changed. Raises NotFound for unknown ids."""
        fetched = self._fetch(index, list(marks), headers)
        unknown = [id for id, value in fetched.items() if value is None]
        if unknown:
            raise NotFound(f"no document {unknown[0]!r} in {index!r}", value=unknown[0], expected="ids of hits")
        before = self.feedback_of(session, headers)
        steps = [Judgement(index, id, grade) for id, grade in marks.items()]
        added = self.sessions.add(session, query, steps)
        after = self._learned(self.judged(added, headers))
        return {**self.told(added, headers), "changed": _change(before, after, self.model.dim)}

    def told(self, session: Session, headers: Mapping[str, str] | None = None) -> dict[str, Any]:
        """All that is kept of a session, and what was learned from it, in words."""
        judged = self.judged(session, headers)
        feedback = self._learned(judged)
        counting = {id(one) for one in session.standing}
        return {
            "session": session.id,
            "created": session.created,
            "expires": session.expires,
            "steps": session.steps,
            "judgements": [
                {
                    "step": one.step,
                    "at": one.at,
                    "query": one.query,
                    "index": one.index,
                    "document": one.document,
                    "grade": one.grade,
                    "counts": id(one) in counting,
                }
                for one in session.judgements
            ],
            "learned": None if feedback is None else explain(self.model, feedback, judged),
        }


def _origins(results: Sequence[SearchResult]) -> dict[str, int]:
    """Where the hits' vectors came from: known from before, the engine, or encoded now since the index has none."""
    kept = sum(result.kept for result in results)
    encoded = sum(vector is None for result in results for vector in result.vectors)
    return {
        "kept": kept,
        "fetched": sum(len(result.vectors) for result in results) - kept - encoded,
        "encoded": encoded,
    }


def _ordered(
    hits: Sequence[dict[str, Any]], ranks: Sequence[int | None], similar: Floats, search: Search
) -> tuple[list[dict[str, Any]], NDArray[np.int64]]:
    """Hits by their combined score, best first, each with its sub-scores, and their positions before.

    ``ranks`` are the engine's, if it has one.
    """
    scores = [np.nan if rank is None else hit["_score"] for hit, rank in zip(hits, ranks, strict=True)]
    alpha, normalization = search.alpha or 0.0, search.normalization or "min_max"
    combined = combine(np.asarray(scores, np.float64), similar, alpha, normalization)
    order = np.argsort(-combined, kind="stable")
    return [_with_parts(hits[i], float(combined[i]), float(similar[i]), ranks[i]) for i in order], order


def _with_parts(hit: dict[str, Any], score: float | None, similarity: float | None, rank: int | None) -> dict[str, Any]:
    """A hit with its new score (None beyond the window: nothing that could be compared) and its sub-scores."""
    parts = {
        "engine_score": None if rank is None else hit["_score"],
        "similarity": None if similarity is None else round(similarity, 6),
        "engine_rank": rank,
    }
    return {**hit, "_score": score, "resift": parts}


def _change(before: Feedback | None, after: Feedback | None, dim: int) -> dict[str, float]:
    """How far mask and query shift moved, as lengths (l2)."""
    old, new = (Feedback.of([], dim) if one is None else one for one in (before, after))
    return {
        "mask": round(float(np.linalg.norm(new.mask - old.mask)), 6),
        "shift": round(float(np.linalg.norm(new.shift - old.shift)), 6),
    }


def search_body(search: Search, info: IndexInfo) -> tuple[dict[str, Any], str]:
    """The engine's search body, and the text that is encoded ('' where none is found)."""
    if isinstance(search.query, str):
        fields = list(info.fields) or ["*"]
        text: dict[str, Any] = {"multi_match": {"query": search.query, "fields": fields}}
        query = {"bool": {"must": [text], "filter": [search.filter]}} if search.filter else text
        highlight = {"highlight": {"fields": {name: {} for name in fields}, "encoder": "html"}}
        return {"query": query, **(highlight if search.highlight else {})}, search.query
    body = dict(search.query) if "query" in search.query or not search.query else {"query": search.query}
    if search.filter:
        body["query"] = {"bool": {"must": [body.get("query", {"match_all": {}})], "filter": [search.filter]}}
    return body, find_text(body.get("query", {}))


def find_text(query: Any) -> str:
    """The first text that a query clause asks for, depth first.

    >>> find_text({"bool": {"must": [{"match": {"title": {"query": "bush fire"}}}]}})
    'bush fire'
    """
    if isinstance(query, Mapping):
        for kind, body in query.items():
            if kind in _TEXT_CLAUSES and isinstance(body, Mapping):
                inner = body.get("query", next(iter(body.values()), ""))
                found = inner.get("query", "") if isinstance(inner, Mapping) else inner
            else:
                found = find_text(body)
            if isinstance(found, str) and found:
                return found
    if isinstance(query, list):
        return next((found for found in map(find_text, query) if found), "")
    return ""


def _why_not(body: dict[str, Any], text: str, search: Search) -> str | None:
    """Why a search is left in the engine's order, or None."""
    for name in _AS_IT_IS:
        if name in body:
            return f"the query has {name!r}"
    if body.get("size", search.size) == 0:
        return "no hits were asked for"
    if not text and search.session is None:
        return "the query has no text"
    return None
