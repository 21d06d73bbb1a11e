"""What trainings on judged queries take from a collection: relevant documents and the engine's candidates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift_lab.evaluation.baselines.bm25 import BM25
from resift_lab.evaluation.data import Collection, Positions
from resift_lab.evaluation.pairwise import similarity_blocks


def relevant_documents(collection: Collection) -> list[list[int]]:
    """Positions of each query's relevant documents: those with a grade above 0."""
    return [[document for document, grade in grades.items() if grade > 0] for grades in collection.grades]


def bm25_scores(collection: Collection) -> Iterator[NDArray[Any]]:
    """BM25's scores of all documents for the queries, in order and in blocks (B, N)."""
    bm25 = BM25()
    documents = bm25.fit(collection.documents)
    for _, scores in similarity_blocks(bm25.queries(collection.queries), documents, "dot"):
        yield scores


def bm25_candidates(collection: Collection, count: int) -> list[Positions]:
    """BM25's ``count`` best documents for each query, best first; ``count`` is less than the number of documents."""
    candidates = []
    for block in bm25_scores(collection):
        for scores in block:
            best = np.argpartition(-scores, count - 1)[:count]
            candidates.append(best[np.argsort(-scores[best], kind="stable")].astype(np.int64))
    return candidates


def thinned(positions: Positions, limit: int) -> Positions:
    """At most so many of the positions, evenly spread."""
    if len(positions) <= limit:
        return positions
    chosen: Positions = positions[np.linspace(0, len(positions) - 1, limit).round().astype(int)]
    return chosen
