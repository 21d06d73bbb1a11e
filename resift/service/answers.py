"""Build the answer to a search: the response of the engine, with Resift's scores and reasons in its hits.

A trained reranker or DynaMax may reorder the hits first (:func:`reranked_page`). The other functions add details to
each hit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
from resift.feedback.explain import explain_moves, explain_moves_by_words
from resift.feedback.judgements import DocumentKey
from resift.query.body import Query
from resift.rewriting.outcome import Rewritten
from resift.service.bodies import Search
from resift.service.cards import CardFields
from resift.sessions.documents import readable_text

Hits = list[dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class ParsedSearch:
    """A search request together with the searched index and the parsed search body.

    Attributes:
        search: The request as the caller sent it.
        info: The names, fields and settings of the searched index.
        query: The parsed search body.
    """

    search: Search
    info: IndexInfo
    query: Query


class ServedReranker:
    """The trained reranker that the service uses to reorder hits, if there is one.

    The reranker is loaded into memory once. Later changes of its files have no effect.

    Args:
        folder: The folder of the reranker. If it contains no reranker, none is used.

    Raises:
        CorruptModel: If the files of the reranker are damaged.
    """

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)
        self._reranker = LateInteraction.load(folder) if (self.folder / RERANKER_FILE).is_file() else None

    def get(self, method: str = "auto", info: IndexInfo | None = None) -> LateInteraction | None:
        """Return the trained reranker to use for a search, or None if the hits should not be reranked.

        Args:
            method: The ranking method that the search requests. ``late`` always uses the reranker. ``auto`` uses the
                reranker only if it was trained for the index. Other methods do not use a reranker.
            info: The searched index. If None, ``auto`` uses any reranker.

        Raises:
            ModelNotFound: If the method is ``late``, and there is no reranker.
        """
        reranker = self._reranker
        if method == "late" and reranker is None:
            expected = "resift reranker use DIR before the service starts, or another method"
            raise ModelNotFound(f"no trained reranker in {self.folder}", value=method, expected=expected)
        if method == "late" or reranker is None:
            return reranker
        return reranker if method == "auto" and (info is None or _is_trained_for(reranker, info)) else None


def _is_trained_for(reranker: LateInteraction, info: IndexInfo) -> bool:
    """Return whether a reranker was trained for an index.

    For an alias, the reranker must have been trained for the alias itself or for all indices behind the alias. A
    reranker that names no indices is valid for every index.

    Args:
        reranker: The trained reranker, which records the indices for which it was trained.
        info: The index or alias.
    """
    indices = set(reranker.indices)
    return not indices or info.name in indices or indices.issuperset(info.indices)


@dataclass(frozen=True, kw_only=True)
class Reranking:
    """Settings for reordering the first hits of a search by their texts.

    Attributes:
        method: The name of the method: ``late`` (a trained reranker) or ``dynamax`` (see
            :mod:`resift.encoders.dynamax`).
        scores: A function that takes the query text and the texts of n hits, and returns an array of shape (n,) with
            values from 0 to 1.
        alpha: The weight of these scores relative to the engine's scores, from 0 to 1.
        window_size: The number of hits to reorder.
    """

    method: str
    scores: Callable[[str, Sequence[str]], Floats]
    alpha: float
    window_size: int


def reranked_page(
    engine: Engine, reranking: Reranking, parsed: ParsedSearch, rewritten: Rewritten, result: SearchResult
) -> SearchResult:
    """Reorder the top hits of a search by their texts, and return the requested page.

    Let s be the score from 0 to 1 that the reranking method gives to the text of a hit, and beta = alpha / (1 - alpha)
    the weight of the method. The score of each reranked hit is multiplied by exp(beta · s). The score s is added to the
    hit, as ``resift.reranker`` for a trained reranker and as ``resift.similarity`` for DynaMax. For hits that the
    option ``judged`` demotes, s is set to 0.

    Args:
        engine: The search engine, from which the texts of the hits are read if necessary.
        reranking: The method of the reordering, and the number of hits to reorder.
        parsed: The search. Its body contains ``from`` and ``size`` of the page.
        rewritten: The rewritten search, which contains the query text and the judged documents.
        result: The hits of the rewritten search, starting with the first hit. They must include all hits to rerank and
            the whole requested page.
    """
    body, window_size = parsed.query.body, reranking.window_size
    hits = result.hits[:window_size]
    text_scores = reranking.scores(rewritten.knowledge.text, _hit_texts(engine, parsed, hits))
    text_scores[_are_demoted(rewritten, hits)] = 0
    scores = np.array([hit["_score"] for hit in hits], np.float64) * score_factors(text_scores, reranking.alpha)
    order = np.argsort(-scores, kind="stable").tolist()
    name = "reranker" if reranking.method == "late" else "similarity"
    reranked_hits = [_reranked_hit(hits[row], float(scores[row]), name, float(text_scores[row])) for row in order]
    reranked_hits += result.hits[window_size:]
    vectors = [*(result.vectors[row] for row in order), *result.vectors[window_size:]]
    start, end = body["from"], body["from"] + body["size"]
    response = {**result.response, "hits": {**result.response["hits"], "hits": reranked_hits[start:end]}}
    response["hits"]["max_score"] = float(scores.max()) if len(scores) else None
    return SearchResult(response, vectors[start:end])


def _reranked_hit(hit: dict[str, Any], score: float, name: str, text_score: float) -> dict[str, Any]:
    """Return a copy of a hit with its new score, and with the score by the reranking method in its section ``resift``.

    Args:
        hit: The hit, in OpenSearch's format.
        score: The new score of the hit.
        name: The key for the method's score in the section, ``reranker`` or ``similarity``.
        text_score: The score that the method gave to the hit's text, from 0 to 1.
    """
    return {**hit, "_score": score, "resift": {**hit.get("resift", {}), name: round(text_score, 4)}}


def _hit_texts(engine: Engine, parsed: ParsedSearch, hits: Sequence[dict[str, Any]]) -> list[str]:
    """Return the text of each hit's document for the reranker (see :func:`readable_text`).

    If the search body restricts the fields in its hits, for example with ``_source``, the whole documents are fetched.

    Args:
        engine: The search engine.
        parsed: The search request with its parsed body.
        hits: The hits, in OpenSearch's format.
    """
    info = parsed.info
    if parsed.query.body.keys().isdisjoint(("_source", "stored_fields")):
        return [readable_text(hit.get("_source", {}), info) for hit in hits]
    sources: dict[DocumentKey, dict[str, Any]] = {}
    for index in dict.fromkeys(hit["_index"] for hit in hits):
        ids = [hit["_id"] for hit in hits if hit["_index"] == index]
        documents = engine.documents(index, ids, parsed.search.headers, info.vector_field)
        sources |= {(index, id): source for id, (source, _) in documents.items()}
    return [readable_text(sources.get(hit_key(hit), {}), info) for hit in hits]


def _are_demoted(rewritten: Rewritten, hits: Sequence[dict[str, Any]]) -> NDArray[np.bool_]:
    """Return for each hit whether it must stay behind all others because the user has already judged it.

    This applies only to searches with the option ``judged`` set to ``demote``. The reranker must not raise such hits.

    Args:
        rewritten: The rewritten search, with its options and the user's judgements.
        hits: The hits, in OpenSearch's format.

    Returns:
        Boolean array of shape (n_hits,).
    """
    judged = rewritten.knowledge.judged_hits if rewritten.options.judged == "demote" else {}
    return np.array([hit_key(hit) in judged for hit in hits], bool)


def hit_key(hit: Mapping[str, Any]) -> DocumentKey:
    """Return the index and the id of a hit."""
    return hit["_index"], hit["_id"]


@dataclass
class Answer:
    """The response to a search.

    Attributes:
        result: The hits and the other results of the engine.
        resift: Details about Resift's ranking, which the response contains under the key ``resift``.
    """

    result: SearchResult
    resift: dict[str, Any]

    @property
    def body(self) -> dict[str, Any]:
        """The response of the engine with the key ``resift``."""
        return {**self.result.response, "resift": self.resift}

    def json(self) -> bytes | None:
        """Return the response as JSON bytes, or None if the engine's response has already been parsed.

        The details about the ranking are inserted into the engine's JSON without parsing it, which is faster.
        """
        text = self.result.text
        if text is None:
            return None
        response = text.rstrip().removesuffix("}").encode("utf-8", "surrogatepass")
        return b'%b,"resift":%b}\n' % (response, orjson.dumps(self.resift))


def add_similarities(model: Model, rewritten: Rewritten, hits: Hits, vectors: Sequence[Floats | None]) -> None:
    """Store in each hit how similar its vector is to the query vector, as ``resift.similarity``.

    The similarity is measured with the final query vector, after the session's judgements moved it. The value is None
    for a hit without a vector. It is None for all hits if the query was rewritten in place (see
    :mod:`resift.rewriting.in_place`), because Resift's vectors then have no influence on the ranking.

    Args:
        model: The embedding model of the vectors.
        rewritten: The rewritten search, which contains the query vector.
        hits: The hits. They are modified in place.
        vectors: The vector of each hit, of shape (n_dimensions,), or None for a hit without a vector.
    """
    vectors_by_row = {row: vector for row, vector in enumerate(vectors) if vector is not None}
    if rewritten.in_place:
        vectors_by_row = {}
    similarities = _similarities_to_query(model, rewritten, list(vectors_by_row.values())).tolist()
    by_row = dict(zip(vectors_by_row, similarities, strict=True))
    for row, hit in enumerate(hits):
        hit["resift"] = {"similarity": round(by_row[row], 4) if row in by_row else None}


def _similarities_to_query(model: Model, rewritten: Rewritten, vectors: Sequence[Floats]) -> Floats:
    """Return the similarities between the query vector of a rewritten search and some document vectors.

    Args:
        model: The embedding model of the vectors, which defines the similarity.
        rewritten: The rewritten search, which contains the query vector and the mask of the dimensions.
        vectors: The document vectors, each of shape (n_dimensions,).

    Returns:
        Array of shape (n_vectors,). All values are 0 if the search has no query vector.
    """
    knowledge = rewritten.knowledge
    if knowledge.vector is None or not vectors:
        return np.zeros(len(vectors), np.float32)
    return model.score(knowledge.vector, np.stack(vectors), knowledge.mask)


def add_reasons(  # noqa: PLR0913 - two rankings, and how they were made
    engine: Engine,
    parsed: ParsedSearch,
    rewritten: Rewritten,
    result: SearchResult,
    start: int,
    earlier_hits: Hits,
    is_reordered: bool = False,
) -> None:
    """Add to each hit the relevance judgement that changed its rank, as ``resift.because``.

    The value is None if no judgement changed the rank of the hit. Judged documents are compared with the hits by their
    vectors, or by the expansion words in their texts if the search compares no vectors. There are no reasons from words
    if the hits were reordered by their texts, because the ranks then changed for this reason, too.

    Args:
        engine: The search engine, from which the texts of the hits are read if they do not contain them.
        parsed: The search.
        rewritten: The rewritten search, which contains the feedback and the judged documents.
        result: The hits of the requested page, with their vectors. The hits are modified in place, and must already
            have the key ``resift``.
        start: The number of hits before the page.
        earlier_hits: The top hits of the same search without a session, for comparison.
        is_reordered: Whether the hits were reordered by their texts (see :func:`reranked_page`).
    """
    hits = result.hits
    for hit in hits:
        hit["resift"]["because"] = None
    knowledge, moved_field = rewritten.knowledge, rewritten.moved_field
    feedback = knowledge.feedback if moved_field is None else moved_field[1]
    if feedback is None:
        return
    gained_ranks = _gained_ranks(hits, start, earlier_hits)
    if moved_field is None and knowledge.vector is None and not parsed.query.root.ranks_by_meaning:
        if is_reordered:
            return
        texts = _hit_texts(engine, parsed, hits)
        positions = [knowledge.judged_hits.get(hit_key(hit)) for hit in hits]
        judged_hits = list(zip(texts, positions, strict=True))
        reasons = explain_moves_by_words(
            feedback, knowledge.documents, knowledge.expansion_words, judged_hits, gained_ranks, knowledge.text
        )
        for hit, reason in zip(hits, reasons, strict=True):
            hit["resift"]["because"] = reason
        return
    rows = [row for row, vector in enumerate(result.vectors) if vector is not None]
    if not rows or (rewritten.in_place and moved_field is None):
        return
    matrix = np.stack([vector for vector in result.vectors if vector is not None])
    reasons = explain_moves(feedback, knowledge.documents, matrix, [gained_ranks[row] for row in rows])
    for row, reason in zip(rows, reasons, strict=True):
        hits[row]["resift"]["because"] = reason


def _gained_ranks(hits: Hits, start: int, earlier_hits: Hits) -> list[int]:
    """Return the number of ranks that each hit moved up, compared with the top hits of another search.

    Args:
        hits: The hits of a page.
        start: The number of hits before the page.
        earlier_hits: The top hits of the other search.
    """
    earlier_ranks = {hit_key(hit): rank for rank, hit in enumerate(earlier_hits, 1)}
    gained_ranks = []
    for rank, hit in enumerate(hits, start + 1):
        # A hit that is not among the earlier hits was at least behind all of them.
        worst_rank = max(len(earlier_hits), rank) + 1
        gained_ranks.append(earlier_ranks.get(hit_key(hit), worst_rank) - rank)
    return gained_ranks


def add_cards(hits: Hits, card_fields: CardFields, fields: Sequence[str]) -> None:
    """Add a short summary for display to each hit, as ``resift.card``, and remove the ``_source`` of the hit.

    Args:
        hits: The hits. They are modified in place.
        card_fields: The fields to display, for example the field with the title.
        fields: The text fields of the index.
    """
    for hit in hits:
        hit.setdefault("resift", {})["card"] = card_fields.card(hit.pop("_source", {}), fields)
