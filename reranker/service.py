"""Searching with a model and a session: the engine's candidates, reranked by the similarity of their vectors."""

from __future__ import annotations

import logging
import time
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from resift.errors import NotFound, ResiftError
from resift.feedback import Feedback
from resift.model import Model
from resift.plugin.engine import Engine, IndexInfo, SearchResult, document_text
from resift.reranker.config import Config
from resift.reranker.sessions import Judgement, SessionStore
from resift.similarity import combine
from resift.vectors import Floats

log = logging.getLogger(__name__)
_INFO_SECONDS = 5.0
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
    """One search as a caller asked for it; ``query`` is a text, a query clause or a whole search body."""

    index: str
    query: str | dict[str, Any]
    session: str | None = None
    size: int = 10
    start: int = 0
    window: int = 100
    alpha: float = 0.3
    normalization: str = "min_max"
    knn: int = 0
    highlight: bool = False
    filter: dict[str, Any] | None = None
    headers: Mapping[str, str] | None = None


class Reranker:
    """Joins an engine, a model and the sessions."""

    def __init__(self, engine: Engine, model: Model, store: SessionStore, config: Config) -> None:
        self.engine, self.model, self.store, self.config = engine, model, store, config
        self._infos: dict[tuple[str, str], tuple[float, IndexInfo]] = {}

    def info(self, index: str, headers: Mapping[str, str] | None = None) -> IndexInfo:
        """An index's fields and model, remembered for five seconds for each caller. Raises ModelMismatch."""
        key = (index, str(headers))
        known = self._infos.get(key)
        if known is None or time.monotonic() - known[0] > _INFO_SECONDS:
            known = (time.monotonic(), self.engine.info(index, headers))
            self._infos = {
                **{k: v for k, v in self._infos.items() if v[0] > known[0] - _INFO_SECONDS},
                key: known,
            }
        if known[1].model is not None:
            known[1].require(self.model)
        return known[1]

    def similarities(self, query: str, vectors: Floats, feedback: Feedback | None) -> Floats:
        """Similarity of the query, moved and masked by the session's feedback, with each of ``vectors`` (n, K)."""
        vector = self.model.encode([query])[0]
        if feedback is None:
            return self.model.score(vector, vectors)
        return self.model.score(feedback.move(vector), vectors, feedback.mask)

    def feedback_of(self, session: str | None) -> Feedback | None:
        """What a session has taught, if it has."""
        return None if session is None else self.store.learned(session, self.model.hash)

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
        found = self.engine.search(
            search.index, {**body, "from": 0, "size": depth}, vectors=True, headers=search.headers
        )
        feedback = self.feedback_of(search.session)
        hits, vectors = found.hits[: search.window], found.vectors[: search.window]
        ranks: list[int | None] = list(range(1, len(hits) + 1))
        if search.knn and isinstance(search.query, str):
            known = {(hit["_index"], hit["_id"]) for hit in found.hits}
            near = self._nearest(search, body, text, feedback)
            new = [i for i, hit in enumerate(near.hits) if (hit["_index"], hit["_id"]) not in known]
            hits = hits + [near.hits[i] for i in new]
            vectors = vectors + [near.vectors[i] for i in new]
            ranks += [None] * len(new)
        similar = self.similarities(text, self.fill(hits, vectors, info.fields), feedback)
        ordered = _ordered(hits, ranks, similar, search)
        beyond = [_with_parts(hit, None, None, rank) for rank, hit in enumerate(found.hits, 1)][search.window :]
        page = (ordered + beyond)[start : start + size]
        response = {**found.response, "hits": {**found.response["hits"], "hits": page}}
        response["hits"]["max_score"] = ordered[0]["_score"] if ordered else None
        response["resift"] = {
            "reranked": True,
            "model": self.model.hash,
            "alpha": search.alpha,
            "window": search.window,
            "candidates": len(hits),
            "session": search.session if feedback is not None else None,
        }
        return response

    def _nearest(self, search: Search, body: dict[str, Any], text: str, feedback: Feedback | None) -> SearchResult:
        vector = self.model.encode([text])[0]
        if feedback is not None:
            vector = feedback.mask**2 * feedback.move(vector)
        return self.engine.knn(
            search.index, vector, search.knn, search.filter, search.headers, body.get("_source", True)
        )

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
        marks: dict[str, int],
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Note a step of marks (document id → 1, -1 or 0) and tell what changed. Raises NotFound for unknown ids."""
        info = self.info(index, headers)
        found = self.engine.documents(index, list(marks), headers)
        unknown = [id for id in marks if id not in found]
        if unknown:
            raise NotFound(f"no document {unknown[0]!r} in {index!r}", value=unknown[0], expected="ids of hits")
        sources = [{"_source": found[id][0]} for id in marks]
        vectors = self.fill(sources, [found[id][1] for id in marks], info.fields)
        before = self.store.learned(session, self.model.hash)
        judgements = [Judgement(id, label, vectors[i]) for i, (id, label) in enumerate(marks.items())]
        after = self.store.add(session, self.model.hash, index, query, judgements)
        return {**self.session(session), "changed": _change(before, after)}

    def session(self, session: str) -> dict[str, Any]:
        """A session's marks and what was learned from them, in words."""
        found = self.store.get(session)
        feedback = self.store.learned(session, self.model.hash)
        return {
            "session": found.id,
            "created": found.created,
            "expires": found.expires,
            "steps": len({mark["step"] for mark in found.judgements}),
            "judgements": found.judgements,
            "learned": None if feedback is None else self.explain(feedback, _labels(found.judgements)),
        }

    def explain(self, feedback: Feedback, labels: Container[int], count: int = 5) -> dict[str, Any]:
        """Words that the session moves queries towards and away from; dimensions that weigh more and less.

        ``labels`` are the kinds of marks that count now: without a relevant one there is nothing to move towards.
        """
        change = feedback.mask - 1
        order = np.argsort(-change, kind="stable")
        towards = feedback.shift * feedback.mask**2

        def dimensions(rows: Any) -> list[dict[str, Any]]:
            return [
                {
                    "dimension": int(row),
                    "weight": round(float(feedback.mask[row]), 4),
                    "words": self.model.words_of(int(row)),
                }
                for row in rows
                if change[row]
            ]

        return {
            "towards": self.model.nearest_words(towards, count) if 1 in labels else [],
            "away": self.model.nearest_words(-towards, count) if -1 in labels else [],
            "stronger": dimensions(order[:count]),
            "weaker": dimensions(order[::-1][:count]),
        }


def _labels(judgements: Sequence[dict[str, Any]]) -> set[int]:
    """The labels of the documents' latest marks."""
    return set({(mark["index"], mark["document"]): mark["label"] for mark in judgements}.values())


def _ordered(
    hits: Sequence[dict[str, Any]], ranks: Sequence[int | None], similar: Floats, search: Search
) -> list[dict[str, Any]]:
    """Hits by their combined score, best first, each with its sub-scores; ``ranks`` are the engine's, if it has one."""
    scores = [np.nan if rank is None else hit["_score"] for hit, rank in zip(hits, ranks, strict=True)]
    combined = combine(np.asarray(scores, np.float64), similar, search.alpha, search.normalization)
    order = np.argsort(-combined, kind="stable")
    return [_with_parts(hits[i], float(combined[i]), float(similar[i]), ranks[i]) for i in order]


def _with_parts(hit: dict[str, Any], score: float | None, similarity: float | None, rank: int | None) -> dict[str, Any]:
    """A hit with its new score (None beyond the window: nothing that could be compared) and its sub-scores."""
    parts = {
        "engine_score": None if rank is None else hit["_score"],
        "similarity": None if similarity is None else round(similarity, 6),
        "engine_rank": rank,
    }
    return {**hit, "_score": score, "resift": parts}


def _change(before: Feedback | None, after: Feedback) -> dict[str, float]:
    """How far mask and query shift moved, as lengths (l2)."""
    mask = np.ones_like(after.mask) if before is None else before.mask
    shift = np.zeros_like(after.shift) if before is None else before.shift
    return {
        "mask": round(float(np.linalg.norm(after.mask - mask)), 6),
        "shift": round(float(np.linalg.norm(after.shift - shift)), 6),
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
