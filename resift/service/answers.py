"""Build the answer to a search: the response of the engine, with Resift's scores and reasons in its hits.

A trained reranker or DynaMax may have reordered the hits before (:mod:`resift.service.reranking`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson

from resift.arrays import Floats
from resift.contracts.documents import IndexInfo, SearchResult
from resift.contracts.engine import Engine
from resift.encoders.model import Model
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


def hit_key(hit: Mapping[str, Any]) -> DocumentKey:
    """Return the index and the id of a hit."""
    return hit["_index"], hit["_id"]


def hit_texts(engine: Engine, parsed: ParsedSearch, hits: Sequence[dict[str, Any]]) -> list[str]:
    """Return the text of each hit's document as plain text (see :func:`readable_text`).

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
        texts = hit_texts(engine, parsed, hits)
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
