"""Training data from judged queries: relevant documents and BM25 candidates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift_lab.evaluation.baselines.bm25 import BM25
from resift_lab.evaluation.data import Collection, Positions
from resift_lab.evaluation.pairwise import similarity_blocks


@dataclass(frozen=True)
class JudgedQueries:
    """Training data: queries with their relevant documents.

    Attributes:
        documents: The texts of all documents.
        queries: The texts of the queries.
        relevant: For each query, the positions of its relevant documents in ``documents``.
    """

    documents: Sequence[str]
    queries: Sequence[str]
    relevant: Sequence[Sequence[int]]


def relevant_documents(collection: Collection) -> list[list[int]]:
    """Return the positions of the relevant documents of each query.

    Args:
        collection: A test collection. A document is relevant for a query if its grade is above 0.
    """
    return [[document for document, grade in grades.items() if grade > 0] for grades in collection.grades]


def bm25_scores(collection: Collection) -> Iterator[NDArray[Any]]:
    """Score all documents of a test collection by BM25 for each query, in blocks of queries.

    Args:
        collection: The documents and queries.

    Yields:
        The scores of the N documents for the next B queries, shape (B, N).
    """
    bm25 = BM25()
    documents = bm25.fit(collection.documents)
    for _, scores in similarity_blocks(bm25.encode_queries(collection.queries), documents, "dot"):
        yield scores


def bm25_candidates(collection: Collection, count: int) -> list[Positions]:
    """Return the documents with the highest BM25 scores for each query.

    Args:
        collection: The documents and queries.
        count: The number of documents for each query, less than the number of documents in the collection.

    Returns:
        For each query, the positions of the documents, best first.
    """
    candidates = []
    for block in bm25_scores(collection):
        for scores in block:
            best = np.argpartition(-scores, count - 1)[:count]
            candidates.append(best[np.argsort(-scores[best], kind="stable")].astype(np.int64))
    return candidates


def evenly_spaced(positions: Positions, limit: int) -> Positions:
    """Select evenly spaced items of an array.

    Args:
        positions: The n items, shape (n,).
        limit: The maximum number of items.

    Returns:
        ``limit`` items, or all items if there are at most ``limit``.
    """
    if len(positions) <= limit:
        return positions
    chosen: Positions = positions[np.linspace(0, len(positions) - 1, limit).round().astype(int)]
    return chosen
