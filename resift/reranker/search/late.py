"""The trained reranker's step: it reads the texts of the first hits and orders them anew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.contracts.documents import IndexInfo, SearchResult
from resift.contracts.engine import Engine
from resift.contracts.query_dsl import document_text
from resift.ranking.fusion import factors_of
from resift.ranking.late_interaction import LateInteraction
from resift.reranker.search.request import Search
from resift.reranker.search.response import HitKey, hit_key
from resift.rewriting.settings import Rewritten


class LateReranking:
    """Orders the first hits of a search by ``late``, a trained reranker: their scores times its factors."""

    def __init__(self, engine: Engine, late: LateInteraction) -> None:
        self.engine, self.late = engine, late

    def window_body(self, body: dict[str, Any], window: int) -> dict[str, Any]:
        """The body for the whole window, whichever page of it is wanted, and for the page where it ends beyond."""
        end = body["from"] + body["size"]
        return {**body, "from": 0, "size": max(window, end)}

    def page(
        self, search: Search, info: IndexInfo, body: dict[str, Any], query: Rewritten, result: SearchResult
    ) -> SearchResult:
        """The page that ``body`` asks for, of a ``result`` for :meth:`window_body`; hits of the window have their new
        scores, and in ``resift`` as ``reranker`` by how much the reranker is for them, 0 to 1."""
        window = query.settings.window
        hits = result.hits[:window]
        support = self.late.support(query.knowledge.text, self._texts(search, info, body, hits))
        support[_demoted(query, hits)] = 0
        scores = np.array([hit["_score"] for hit in hits], np.float64) * factors_of(support, self.late.alpha)
        order = np.argsort(-scores, kind="stable").tolist()
        ranked = [
            {
                **hits[row],
                "_score": float(scores[row]),
                "resift": {**hits[row].get("resift", {}), "reranker": round(float(support[row]), 4)},
            }
            for row in order
        ]
        ranked += result.hits[window:]
        ranked_vectors = [*(result.vectors[row] for row in order), *result.vectors[window:]]
        start, end = body["from"], body["from"] + body["size"]
        response = {**result.response, "hits": {**result.response["hits"], "hits": ranked[start:end]}}
        response["hits"]["max_score"] = float(scores.max()) if len(scores) else None
        return SearchResult(response, ranked_vectors[start:end])

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


def _demoted(query: Rewritten, hits: Sequence[dict[str, Any]]) -> NDArray[np.bool_]:
    """Which hits (n,) are shown last, behind all others however much the reranker is for them."""
    judged = set(query.knowledge.judged) if query.settings.judged == "demote" else set()
    return np.array([hit["_id"] in judged for hit in hits], bool)
