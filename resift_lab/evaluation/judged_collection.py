"""What sessions judged in an index, or clients clicked, as a test collection that a reranker can be trained on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from resift.contracts.engine import Engine
from resift.errors import BadInput
from resift.feedback.judgements import Judgement
from resift.query.dsl import document_text
from resift.rewriting.clauses import question_clause
from resift_lab.evaluation.data import Collection, Positions

T = TypeVar("T")


@dataclass(frozen=True)
class JudgedCollection:
    """A collection, the candidates of each of its queries, and how many judgements had no document any more.

    ``candidates`` are positions of documents: those that were judged irrelevant, then the engine's best, then others.
    """

    collection: Collection
    candidates: list[Positions]
    missing: int


def judged_collection(engine: Engine, judgements: Sequence[Judgement], index: str, pool: int) -> JudgedCollection:
    """All judgements of documents in ``index``; each query is asked once more for its candidates.

    Grades of one query and document are added up. Queries without a relevant document are left out and
    counted (``collection.skipped``), as are documents that are no longer in the index (``missing``).

    Args:
        engine: where the index is.
        judgements: what was judged.
        index: the index's name.
        pool: how many of the engine's best documents are candidates.

    Raises BadInput if no query has a relevant document.
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
        best = [positions[id] for id in _best(engine, index, query, fields, pool) if id in positions]
        candidates.append(_candidates(graded, best, pool, len(texts)))
    queries = list(relevant)
    collection = Collection(
        index,
        list(texts),
        list(texts.values()),
        queries,
        queries,
        list(relevant.values()),
        len(grades) - len(relevant),
    )
    return JudgedCollection(collection, candidates, sum(one.document not in positions for one in judgements))


def sum_grades(judgements: Sequence[Judgement], names: Mapping[str, T]) -> dict[str, dict[T, float]]:
    """Query → a document, as ``names`` has its id → sum of its grades; documents without a name are left out."""
    grades: dict[str, dict[T, float]] = {}
    for one in judgements:
        query, name = one.query.strip(), names.get(one.document)
        if query and name is not None:
            graded = grades.setdefault(query, {})
            graded[name] = graded.get(name, 0.0) + one.grade
    return grades


def _best(engine: Engine, index: str, query: str, fields: list[str], size: int) -> list[str]:
    """Ids of the engine's best documents for a query."""
    body = {"query": question_clause(query, fields), "size": size, "_source": False}
    return [hit["_id"] for hit in engine.search(index, body).hits]


def _candidates(graded: Mapping[int, float], best: Sequence[int], pool: int, documents: int) -> Positions:
    """Positions to draw irrelevant documents from, each once, however few the engine found."""
    disliked = [position for position, grade in graded.items() if grade < 0]
    others = range(min(pool + len(graded), documents))
    return np.array(list(dict.fromkeys([*disliked, *best, *others])), np.int64)
