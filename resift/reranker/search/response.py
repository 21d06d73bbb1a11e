"""The answer to a search: the engine's own, with sub-scores and reasons beside its hits where they are asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson

from resift.arrays import Floats
from resift.contracts.documents import SearchResult
from resift.encoders.model import Model
from resift.ranking.explain import reasons
from resift.reranker.search.cards import CardFields
from resift.rewriting.request import Rewritten
from resift.rewriting.rewrite import score_factor

Hits = list[dict[str, Any]]
HitKey = tuple[str, str]


def hit_key(hit: Mapping[str, Any]) -> HitKey:
    """A hit's index and id: a search over several indices may find the same id in each."""
    return hit["_index"], hit["_id"]


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


def add_sub_scores(model: Model, query: Rewritten, hits: Hits, vectors: Sequence[Floats | None], start: int) -> None:
    """Give each hit, as ``resift``, what its score is made of.

    ``vectors`` are the hits' (K,), None for one without; ``start`` is the position of the first hit in the ranking.
    """
    # those of an index's own are compared by the engine
    held = {row: vector for row, vector in enumerate(vectors) if vector is not None and not query.in_place}
    by_row = dict(zip(held, _similarities(model, query, list(held.values())).tolist(), strict=True))
    for row, hit in enumerate(hits):
        value = by_row.get(row)
        # beyond the window a hit's score is the engine's own; with several shards, which have a window each, it may
        # be either
        rescored = query.is_scored and start + row < query.settings.window and hit.get("_id") is not None
        score = hit.get("_score")
        if score is not None and rescored:
            # to four places, as the similarity: it is found back by vectors that may be rounded
            score = round(score / score_factor(query.knowledge, query.settings, hit["_id"], value or 0.0), 4)
        hit["resift"] = {
            "engine_score": score if rescored or not query.is_scored else None,
            "similarity": None if value is None else round(value, 4),
        }


def add_reasons(query: Rewritten, hits: Hits, vectors: Sequence[Floats | None], start: int, plain: Hits) -> None:
    """In a session that has learned something give each hit the judgement that moved it, or None.

    ``vectors`` are those of :func:`add_sub_scores`; ``start`` is the position of the first hit in the ranking, and
    ``plain`` are the first hits of the engine's own answer.
    """
    for hit in hits:
        hit["resift"]["because"] = None
    held = [(row, vector) for row, vector in enumerate(vectors) if vector is not None]
    feedback = query.knowledge.feedback if query.field is None else query.field[1]
    if feedback is None or not held or (query.in_place and query.field is None):
        return
    ranks = _ranks(plain)
    # what is not among the engine's first hits comes from behind them
    moved = [ranks.get(hit_key(hits[row]), max(len(plain), start + row + 1) + 1) - (start + row + 1) for row, _ in held]
    matrix = np.stack([vector for _, vector in held])
    why = reasons(feedback, query.knowledge.documents, matrix, moved)
    for (row, _), reason in zip(held, why, strict=True):
        hits[row]["resift"]["because"] = reason


def _similarities(model: Model, query: Rewritten, vectors: Sequence[Floats]) -> Floats:
    if query.knowledge.vector is None or not vectors:
        return np.zeros(len(vectors), np.float32)
    return model.score(query.knowledge.vector, np.stack(vectors), query.knowledge.mask)


def add_engine_ranks(hits: Hits, plain: Hits) -> None:
    """Give each hit its rank, from 1, among the first ones of the engine's own answer; None for one that is not."""
    ranks = _ranks(plain)
    for hit in hits:
        hit.setdefault("resift", {})["engine_rank"] = ranks.get(hit_key(hit))


def _ranks(hits: Hits) -> dict[HitKey, int]:
    return {hit_key(hit): rank for rank, hit in enumerate(hits, 1)}


def add_cards(hits: Hits, card_fields: CardFields, fields: Sequence[str]) -> None:
    """Give each hit a card in place of its document. ``fields`` are the index's text fields."""
    for hit in hits:
        hit.setdefault("resift", {})["card"] = card_fields.card(hit.pop("_source", {}), fields)
