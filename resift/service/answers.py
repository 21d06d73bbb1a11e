"""The answer to a search: the engine's own, ordered anew by a trained reranker if there is one in service, with
similarities and reasons beside its hits where they are asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.contracts.documents import IndexInfo, SearchResult
from resift.contracts.engine import Engine
from resift.encoders.late_interaction import RERANKER_FILE, LateInteraction, score_factors
from resift.encoders.model import Model
from resift.errors import ModelNotFound
from resift.feedback.explain import explain_moves
from resift.query.dsl import document_text
from resift.rewriting.request import Rewritten
from resift.service.bodies import Search
from resift.service.cards import CardFields

Hits = list[dict[str, Any]]
HitKey = tuple[str, str]


class ServedReranker:
    """The reranker in ``folder`` when the service starts, if there is one. Raises CorruptModel if it is damaged.

    It is read into memory, so that whatever becomes of the files does no harm to the one in service.
    """

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)
        self._reranker = LateInteraction.load(folder) if (self.folder / RERANKER_FILE).is_file() else None

    def get(self, method: str = "auto", info: IndexInfo | None = None) -> LateInteraction | None:
        """The reranker in service for a search's ``method``: ``late``, or ``auto``, which is None if there is none, or
        none for the index that ``info`` is of; None for any other. Raises ModelNotFound where ``late`` has none."""
        found = self._reranker
        if method == "late" and found is None:
            expected = "resift reranker use DIR before the service starts, or another method"
            raise ModelNotFound(f"no trained reranker in {self.folder}", value=method, expected=expected)
        fits = method == "late" or (method == "auto" and (found is None or info is None or _is_for(found, info)))
        return found if fits else None


def _is_for(reranker: LateInteraction, info: IndexInfo) -> bool:
    """Whether a reranker may order hits of what is searched: all of its indices, or their common name, are its own."""
    own = set(reranker.indices)
    return not own or info.name in own or own.issuperset(info.indices)


def reranked_page(
    engine: Engine,
    late: LateInteraction,
    search: Search,
    info: IndexInfo,
    body: dict[str, Any],
    query: Rewritten,
    result: SearchResult,
) -> SearchResult:
    """The page that ``body`` asks for, of a ``result`` for the whole window, as a trained reranker orders it: hits of
    the window have their scores times its factors, and in ``resift`` as ``reranker`` by how much it is for them, 0 to
    1."""
    window = query.settings.window
    hits = result.hits[:window]
    support = late.trusted_scores(query.knowledge.text, _texts(engine, search, info, body, hits))
    support[_demoted(query, hits)] = 0
    scores = np.array([hit["_score"] for hit in hits], np.float64) * score_factors(support, late.alpha)
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
    engine: Engine, search: Search, info: IndexInfo, body: dict[str, Any], hits: Sequence[dict[str, Any]]
) -> list[str]:
    """The encoded texts of hits; fetched where the search leaves fields out of them."""
    if body.keys().isdisjoint(("_source", "stored_fields")):
        return [document_text(hit.get("_source", {}), info.fields) for hit in hits]
    sources: dict[HitKey, dict[str, Any]] = {}
    # from each index by itself: in several of them an id may be found
    for index in dict.fromkeys(hit["_index"] for hit in hits):
        ids = [hit["_id"] for hit in hits if hit["_index"] == index]
        documents = engine.documents(index, ids, search.headers, info.vector_field)
        sources |= {(index, id): source for id, (source, _) in documents.items()}
    return [document_text(sources.get(hit_key(hit), {}), info.fields) for hit in hits]


def _demoted(query: Rewritten, hits: Sequence[dict[str, Any]]) -> NDArray[np.bool_]:
    """Which hits (n,) are shown last, behind all others however much the reranker is for them."""
    judged = set(query.knowledge.judged) if query.settings.judged == "demote" else set()
    return np.array([hit["_id"] in judged for hit in hits], bool)


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


def add_similarities(model: Model, query: Rewritten, hits: Hits, vectors: Sequence[Floats | None]) -> None:
    """Give each hit, as ``resift``, its similarity with the query as the session moved it.

    ``vectors`` are the hits' (K,), None for one without.
    """
    # those of an index's own are compared by the engine
    held = {row: vector for row, vector in enumerate(vectors) if vector is not None and not query.in_place}
    by_row = dict(zip(held, _similarities(model, query, list(held.values())).tolist(), strict=True))
    for row, hit in enumerate(hits):
        hit["resift"] = {"similarity": round(by_row[row], 4) if row in by_row else None}


def add_reasons(query: Rewritten, hits: Hits, vectors: Sequence[Floats | None], start: int, plain: Hits) -> None:
    """In a session that has learned something give each hit the judgement that moved it, or None.

    ``vectors`` are those of :func:`add_similarities`; ``start`` is the position of the first hit in the ranking, and
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
    why = explain_moves(feedback, query.knowledge.documents, matrix, moved)
    for (row, _), reason in zip(held, why, strict=True):
        hits[row]["resift"]["because"] = reason


def _similarities(model: Model, query: Rewritten, vectors: Sequence[Floats]) -> Floats:
    if query.knowledge.vector is None or not vectors:
        return np.zeros(len(vectors), np.float32)
    return model.score(query.knowledge.vector, np.stack(vectors), query.knowledge.mask)


def _ranks(hits: Hits) -> dict[HitKey, int]:
    return {hit_key(hit): rank for rank, hit in enumerate(hits, 1)}


def add_cards(hits: Hits, card_fields: CardFields, fields: Sequence[str]) -> None:
    """Give each hit a card in place of its document. ``fields`` are the index's text fields."""
    for hit in hits:
        hit.setdefault("resift", {})["card"] = card_fields.card(hit.pop("_source", {}), fields)
