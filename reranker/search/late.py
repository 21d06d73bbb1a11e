"""The trained reranker's step: it reads the texts of the first hits and orders them anew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.encoders.model import Model
from resift.plugin.documents import IndexInfo, SearchResult
from resift.plugin.engine import Engine
from resift.plugin.query_dsl import document_text
from resift.plugin.rewriting.rewrite import PROMOTED
from resift.ranking.fusion import combine, z_score
from resift.ranking.late_interaction import LateInteraction
from resift.reranker.search.hits import HitKey, hit_key
from resift.reranker.search.request import Search
from resift.reranker.search.rewriting import SessionQuery


class LateReranking:
    """Orders the first hits of a search by ``late``, a trained reranker, whose scores have the weight ``alpha``."""

    def __init__(self, engine: Engine, model: Model, late: LateInteraction, alpha: float | None) -> None:
        self.engine, self.model, self.late = engine, model, late
        self.alpha = late.alpha if alpha is None else alpha

    def window_body(self, body: dict[str, Any], window: int) -> dict[str, Any]:
        """The body for the whole window, whichever page of it is wanted, and for the page where it ends beyond."""
        end = body["from"] + body["size"]
        return {**body, "from": 0, "size": max(window, end)}

    def page(
        self, search: Search, info: IndexInfo, body: dict[str, Any], query: SessionQuery, result: SearchResult
    ) -> SearchResult:
        """The page that ``body`` asks for, of a ``result`` for :meth:`window_body`; hits have their new scores, and as
        ``resift`` what these are made of."""
        window = query.settings.window
        hits, vectors = result.hits[:window], result.vectors[:window]
        semantic = self._semantic(query, vectors, self._texts(search, info, body, hits))
        engine, demoted = _engine_scores(query, hits)
        scores = combine(engine, semantic, self.alpha, "z_score")
        if len(scores):
            scores[demoted] -= np.ptp(scores) + 1
        order = np.argsort(-scores, kind="stable").tolist()
        ranked = [
            {
                **hits[row],
                "_score": float(scores[row]),
                "resift": _sub_scores(engine[row], round(float(semantic[row]), 6)),
            }
            for row in order
        ]
        # beyond the window hits were compared with nothing, and have no score that could be compared with those above
        ranked += [{**hit, "_score": None, "resift": _sub_scores(hit["_score"], None)} for hit in result.hits[window:]]
        ranked_vectors = [*(vectors[row] for row in order), *result.vectors[window:]]
        start, end = body["from"], body["from"] + body["size"]
        best = float(scores.max()) if len(scores) else None
        response = {**result.response, "hits": {**result.response["hits"], "hits": ranked[start:end]}}
        response["hits"]["max_score"] = best
        return SearchResult(response, ranked_vectors[start:end])

    def _semantic(self, query: SessionQuery, vectors: Sequence[Floats | None], texts: Sequence[str]) -> Floats:
        """What is weighed against the engine's scores, (n,)."""
        semantic = self.late.scores(query.meaning.text, list(texts))
        if query.feedback is not None and query.meaning.vector is not None:
            # the trained reranker reads texts and knows no session: the similarity brings the session in
            zero = np.zeros(self.model.dim, np.float32)
            matrix = np.stack([zero if vector is None else vector for vector in vectors]) if vectors else zero[None][:0]
            similar = self.model.score(query.meaning.vector, matrix, query.meaning.mask)
            semantic = np.asarray((z_score(semantic) + z_score(similar)) / 2, np.float32)
        return semantic

    def _texts(
        self, search: Search, info: IndexInfo, body: dict[str, Any], hits: Sequence[dict[str, Any]]
    ) -> list[str]:
        """The encoded texts of hits; fetched where the search leaves fields out of them."""
        if body.keys().isdisjoint(("_source", "stored_fields")):
            return [document_text(hit.get("_source", {}), info.fields) for hit in hits]
        sources: dict[HitKey, dict[str, Any]] = {}
        # from each index by itself: in several of them an id may be found
        for index in dict.fromkeys(hit["_index"] for hit in hits):
            ids = [hit["_id"] for hit in hits if hit["_index"] == index]
            documents = self.engine.documents(index, ids, search.headers, info.searched)
            sources |= {(index, id): source for id, (source, _) in documents.items()}
        return [document_text(sources.get(hit_key(hit), {}), info.fields) for hit in hits]


def _engine_scores(
    query: SessionQuery, hits: Sequence[dict[str, Any]]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The engine's scores (n,), and which hits (n,) are to be shown last."""
    scores = np.array([hit["_score"] for hit in hits], np.float64)
    judged = set(query.meaning.judged) if query.settings.judged == "demote" else set()
    demoted = np.array([hit["_id"] in judged for hit in hits], bool)
    if judged and query.rewritten.is_scored:
        scores[~demoted] /= PROMOTED
    return scores, demoted


def _sub_scores(engine_score: float, similarity: float | None) -> dict[str, Any]:
    return {"engine_score": float(engine_score), "similarity": similarity}
