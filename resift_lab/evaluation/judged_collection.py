"""Turn the judgements of sessions and clicks into a test collection for training a reranker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from resift.contracts.engine import Engine
from resift.errors import BadInput
from resift.feedback.judgements import Judgement
from resift.query.dsl import document_text
from resift.query.questions import question_clause
from resift_lab.evaluation.data import Collection, Positions

T = TypeVar("T")


@dataclass(frozen=True)
class JudgedCollection:
    """A test collection made from the relevance judgements of sessions or of a click log.

    Attributes:
        collection: The documents, the queries and their grades.
        candidates: For each query, the documents that a reranker may be trained to reorder, as positions in
            ``collection.documents``. Documents that were judged irrelevant come first, then the engine's best hits,
            then other documents.
        missing: Number of judgements whose document no longer exists in the index.
    """

    collection: Collection
    candidates: list[Positions]
    missing: int


def judged_collection(engine: Engine, judgements: Sequence[Judgement], index: str, pool: int) -> JudgedCollection:
    """Make a test collection from the judgements in an index.

    The engine runs each query again to find candidate documents. If a document was judged several times for the same
    query, the grades are added. Queries without a relevant document, for example because it was deleted, are left out
    and counted in ``collection.skipped``.

    Args:
        engine: The engine that holds the index.
        judgements: The judgements of sessions or clicks.
        index: Name of the index.
        pool: Number of the engine's best hits that become candidates of each query.

    Returns:
        The documents, queries and grades, with the candidates of each query.

    Raises:
        BadInput: If no query has a document with a positive sum of grades.
    """
    fields = list(engine.info(index).fields)
    scanned = sorted(engine.scan(index), key=lambda document: document.id)
    texts = {stored.id: document_text(stored.source, fields) for stored in scanned}
    positions = {id: position for position, id in enumerate(texts)}
    grades = sum_grades(judgements, positions)
    relevant = {query: graded for query, graded in sorted(grades.items()) if max(graded.values()) > 0}
    if not relevant:
        raise BadInput(f"nobody found a document of {index} relevant", value=index, expected="marks or clicks")
    candidates = []
    for query, graded in relevant.items():
        best = [positions[id] for id in _best_hits(engine, index, query, fields, pool) if id in positions]
        candidates.append(_candidates(graded, best, pool, len(texts)))
    queries = list(relevant)
    judged_queries = {judgement.query.strip() for judgement in judgements} - {""}
    collection = Collection(
        index,
        list(texts),
        list(texts.values()),
        queries,
        queries,
        list(relevant.values()),
        len(judged_queries) - len(relevant),
    )
    return JudgedCollection(
        collection, candidates, sum(judgement.document not in positions for judgement in judgements)
    )


def sum_grades(judgements: Sequence[Judgement], names: Mapping[str, T]) -> dict[str, dict[T, float]]:
    """Add up the grades that different sessions or clients gave to the same document for the same query.

    Args:
        judgements: Judgements from all sessions or clients.
        names: The key of each document in the result, by document id. Judgements of documents that are not in ``names``
            are ignored.

    Returns:
        The summed grades: ``result[query text][document key]``.
    """
    grades: dict[str, dict[T, float]] = {}
    for judgement in judgements:
        query, name = judgement.query.strip(), names.get(judgement.document)
        if query and name is not None:
            graded = grades.setdefault(query, {})
            graded[name] = graded.get(name, 0.0) + judgement.grade
    return grades


def _best_hits(engine: Engine, index: str, query: str, fields: list[str], size: int) -> list[str]:
    """Search an index for a text by BM25.

    Args:
        engine: The engine with the index.
        index: The name of the index.
        query: The text to search for.
        fields: The text fields to search.
        size: Maximum number of hits.

    Returns:
        The ids of the hits, best first.
    """
    body = {"query": question_clause(query, fields), "size": size, "_source": False}
    return [hit["_id"] for hit in engine.search(index, body).hits]


def _candidates(graded: Mapping[int, float], best: Sequence[int], pool: int, documents: int) -> Positions:
    """Choose the documents that a reranker may be trained to reorder for a query.

    These are the documents that were judged irrelevant, then the engine's best hits, and then the first documents of
    the collection, in case the engine returns only a few hits.

    Args:
        graded: Grades of the judged documents, by position.
        best: Positions of the engine's best hits.
        pool: Number of documents to add from the start of the collection. The number of judged documents is added to
            it.
        documents: Number of documents in the collection.

    Returns:
        The positions of the documents, without duplicates.
    """
    disliked = [position for position, grade in graded.items() if grade < 0]
    first = range(min(pool + len(graded), documents))
    return np.array(list(dict.fromkeys([*disliked, *best, *first])), np.int64)
