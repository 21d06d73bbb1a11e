"""The answer to a search: the engine's own, with sub-scores and reasons beside its hits where they are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson

from resift.arrays import Floats
from resift.encoders.model import Model
from resift.plugin.documents import SearchResult
from resift.plugin.rewriting.rewrite import score_factor
from resift.ranking.explain import reasons
from resift.reranker.search.hits import hit_key
from resift.reranker.search.rewriting import SessionQuery

Hits = list[dict[str, Any]]


@dataclass
class Answer:
    """The engine's ``result``, and what is said of it as ``resift``."""

    result: SearchResult
    resift: dict[str, Any]

    @property
    def body(self) -> dict[str, Any]:
        """Both in one."""
        return {**self.result.response, "resift": self.resift}

    def json(self) -> bytes | None:
        """The same as JSON, if the engine's own text can be handed on; its hits are most of the answer."""
        text = self.result.text
        if text is None:
            return None
        own = text.rstrip().removesuffix("}").encode("utf-8", "surrogatepass")
        return b'%b,"resift":%b}\n' % (own, orjson.dumps(self.resift))


def add_sub_scores(model: Model, query: SessionQuery, hits: Hits, vectors: Sequence[Floats | None], start: int) -> None:
    """Give each hit, as ``resift``, what its score is made of.

    ``vectors`` are the hits' (K,), None for one without; ``start`` is the position of the first hit in the ranking.
    """
    held = {row: vector for row, vector in enumerate(vectors) if vector is not None}
    by_row = dict(zip(held, _similarities(model, query, list(held.values())).tolist(), strict=True))
    for row, hit in enumerate(hits):
        value = by_row.get(row)
        # beyond the window a hit's score is the engine's own; with several shards, which have a window each, it may
        # be either
        rescored = query.rewritten.is_scored and start + row < query.settings.window and hit.get("_id") is not None
        score = hit.get("_score")
        if score is not None and rescored:
            # to four places, as the similarity: it is found back by vectors that may be rounded
            score = round(score / score_factor(query.meaning, query.settings, hit["_id"], value or 0.0), 4)
        hit["resift"] = {
            "engine_score": score if rescored or query.rewritten.reason else None,
            "similarity": None if value is None else round(value, 4),
        }


def add_reasons(model: Model, query: SessionQuery, hits: Hits, vectors: Sequence[Floats | None], alpha: float) -> None:
    """In a session that has learned something give each hit the judgement that moved it, or None.

    ``vectors`` are those of :func:`add_sub_scores`; ``alpha`` is the weight that similarities had.
    """
    if query.feedback is None:
        return
    for hit in hits:
        hit["resift"]["because"] = None
    held = [(hit, vector) for hit, vector in zip(hits, vectors, strict=True) if vector is not None]
    # with an alpha of 0 the similarity counts for nothing, and no judgement moved anything by it
    if query.meaning.vector is None or not alpha or not held:
        return
    matrix = np.stack([vector for _, vector in held])
    change = model.score(query.meaning.vector, matrix, query.meaning.mask) - model.score(query.vector, matrix)
    for (hit, _), reason in zip(held, reasons(query.feedback, query.documents, matrix, change), strict=True):
        hit["resift"]["because"] = reason


def _similarities(model: Model, query: SessionQuery, vectors: Sequence[Floats]) -> Floats:
    if query.meaning.vector is None or not vectors:
        return np.zeros(len(vectors), np.float32)
    return model.score(query.meaning.vector, np.stack(vectors), query.meaning.mask)


def add_engine_ranks(hits: Hits, plain: Hits) -> None:
    """Give each hit its rank, from 1, among the first ones of the engine's own answer; None for one that is not."""
    ranks = {hit_key(hit): rank for rank, hit in enumerate(plain, 1)}
    for hit in hits:
        hit.setdefault("resift", {})["engine_rank"] = ranks.get(hit_key(hit))
