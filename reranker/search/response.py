"""The answer to a search: the page's hits with their sub-scores and reasons, in the engine's own response."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.encoders.model import Model
from resift.ranking.explain import reasons
from resift.ranking.feedback import Feedback
from resift.ranking.judgements import JudgedDocument
from resift.reranker.search.candidates import Candidates
from resift.reranker.search.hits import hit_key, vector_origins
from resift.reranker.search.retrieval import HITS, Retrieval
from resift.reranker.search.scoring import Scores

Hits = list[dict[str, Any]]


@dataclass(frozen=True)
class Ranking:
    """One search's candidates with their scores."""

    retrieval: Retrieval
    candidates: Candidates
    scores: Scores

    @property
    def shown(self) -> NDArray[np.int64]:
        """Positions of the candidates that are on the page, best first."""
        parsed = self.retrieval.parsed
        return self.scores.order[parsed.start : parsed.start + parsed.size]


def page_of_hits(ranking: Ranking) -> Hits:
    """The page: candidates as they are ranked, then, where these are too few, the engine's hits beyond the window."""
    scores, shown = ranking.scores, ranking.shown
    combined = scores.combined[shown].tolist()
    semantic = scores.semantic[shown].astype(float).round(6).tolist()
    page = []
    for position, score, similarity in zip(shown.tolist(), combined, semantic, strict=True):
        hit, rank = ranking.candidates.hits[position], ranking.candidates.ranks[position]
        engine_score = None if rank is None else hit["_score"]
        page.append({**hit, "_score": score, "resift": _sub_scores(engine_score, similarity, rank)})
    return page + _hits_beyond_window(ranking.retrieval, ranking.candidates)


def _hits_beyond_window(retrieval: Retrieval, candidates: Candidates) -> Hits:
    """The page's hits that are no candidates. They have no score, since they were compared with nothing."""
    parsed, count = retrieval.parsed, len(candidates.hits)
    end = parsed.start + parsed.size
    if end <= count:
        return []
    known = set(candidates.keys)
    # up to `end` is enough, however many of these hits have joined and are left out here: each is one candidate more
    ranked = enumerate(retrieval.beyond_window(end), parsed.search.window + 1)
    left = [(rank, hit) for rank, hit in ranked if hit_key(hit) not in known]
    shown = left[max(0, parsed.start - count) : end - count]
    return [{**hit, "_score": None, "resift": _sub_scores(hit["_score"], None, rank)} for rank, hit in shown]


def _sub_scores(engine_score: float | None, similarity: float | None, rank: int | None) -> dict[str, Any]:
    return {"engine_score": engine_score, "similarity": similarity, "engine_rank": rank}


def add_reasons(
    model: Model, ranking: Ranking, page: Hits, feedback: Feedback, judged: Sequence[JudgedDocument]
) -> None:
    """Give each of the page's candidates, as ``because``, the judgement that moved it."""
    vectors = ranking.candidates.vectors[ranking.shown]
    unmoved = model.score(ranking.retrieval.parsed.vector, vectors)
    # with an alpha of 0 the similarity weighs nothing, and so no hit gains by what it has become
    change = (ranking.scores.similarity[ranking.shown] - unmoved) * (ranking.scores.alpha > 0)
    # the page may be longer: hits beyond the window were not moved
    for hit, reason in zip(page, reasons(feedback, judged, vectors, change), strict=False):
        hit["resift"]["because"] = reason


def reranked_response(
    model: Model, ranking: Ranking, page: Hits, method: str, session: str | None, notes: Sequence[str]
) -> dict[str, Any]:
    """The engine's response with the ``page`` in place of its hits, and, as ``resift``, what was done.

    ``session`` is the one whose feedback counted, or None; ``notes`` are what had to be left out.
    """
    response, combined = ranking.retrieval.results[HITS].response, ranking.scores.combined
    hits = {**response["hits"], "hits": page, "max_score": float(combined.max()) if len(combined) else None}
    if joined := ranking.retrieval.count_unfound(ranking.candidates.joined):
        hits["total"] = {**hits["total"], "value": hits["total"]["value"] + joined}
    return {
        **response,
        "hits": hits,
        "resift": {
            "reranked": True,
            "model": model.hash,
            "method": method,
            "alpha": round(ranking.scores.alpha, 6),
            "window": ranking.retrieval.parsed.search.window,
            "candidates": len(ranking.candidates.hits),
            "vectors": vector_origins(ranking.retrieval.results.values()),
            "session": session,
            **({"reason": "; ".join(notes)} if notes else {}),
        },
    }
