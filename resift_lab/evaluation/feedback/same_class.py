"""Feedback in labelled documents: a document of the query's class is relevant (Passalis and Tefas 2018, Table 5)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from resift.errors import BadInput
from resift_lab.evaluation.data import Classes
from resift_lab.evaluation.feedback.bench import FeedbackBench, Scores
from resift_lab.evaluation.feedback.protocol import FeedbackProtocol
from resift_lab.evaluation.metrics import interpolated_precision_at, map11, precision_at
from resift_lab.evaluation.pairwise import similarity_blocks
from resift_lab.evaluation.system import System

_TOP = 30


class SameClass(FeedbackProtocol):
    """Of the first 30 documents so many relevant and irrelevant ones are judged, half and half.

    ``train`` is the database, ``test`` the queries; those whose label no training document has are skipped.
    ``first_system`` makes the ranking that is judged first; if there is none, it is what is served without a session.
    Raises BadInput if no query is left.
    """

    name, whole = "classes", True
    metrics = ("map11", "p@10", "ip@10", "residual_map11", "residual_ip@10")

    def __init__(self, train: Classes, test: Classes, first_system: System | None = None) -> None:
        numbers = {label: number for number, label in enumerate(dict.fromkeys(train.labels))}
        known = [row for row, label in enumerate(test.labels) if label in numbers]
        if not known:
            raise BadInput("no test document's label is in the training file", expected=" | ".join(list(numbers)[:20]))
        self.documents, self.queries = train.texts, [test.texts[row] for row in known]
        self.skipped = len(test.labels) - len(known)
        self._document_classes = np.array([numbers[label] for label in train.labels])
        self._query_classes = np.array([numbers[test.labels[row]] for row in known])
        self._first = None if first_system is None else _scorer(first_system, self.documents, self.queries)

    def first(self, bench: FeedbackBench, query: int) -> Scores:
        """By the similarity of the first system, or as it is served without a session."""
        return bench.served(query) if self._first is None else self._first(query)

    def judgements(self, query: int, ranking: NDArray[np.int64], count: int) -> list[tuple[int, float]]:
        """The first of either kind, one more relevant one where ``count`` is odd."""
        top = ranking[:_TOP]
        relevant = self._document_classes[top] == self._query_classes[query]
        half = -(-count // 2)
        return [
            *((int(document), 1.0) for document in top[relevant][:half]),
            *((int(document), -1.0) for document in top[~relevant][: count - half]),
        ]

    def measure(self, query: int, scores: Scores, judged: Sequence[int]) -> list[float]:
        """Over all documents, and over those not judged: NaN where no relevant one is left."""
        relevant = self._document_classes == self._query_classes[query]
        residual = np.delete(scores, judged), np.delete(relevant, judged)
        values = (
            map11(scores, relevant),
            precision_at(scores, relevant, 10),
            interpolated_precision_at(scores, relevant, 10),
            map11(*residual),
            interpolated_precision_at(*residual, 10),
        )
        found = [float(value[0]) for value in values]
        # a precision of 0 where all of the class was judged would say nothing about the ranking
        return found if residual[1].any() else [*found[:3], np.nan, np.nan]

    def other_queries(self, query: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Queries of the same class, and of another."""
        same = self._query_classes == self._query_classes[query]
        other = np.flatnonzero(~same)
        same[query] = False
        return np.flatnonzero(same), other


def _scorer(system: System, documents: Sequence[str], queries: Sequence[str]) -> Callable[[int], Scores]:
    """The similarities (N,) of the documents with a query, by its position."""
    database, rows = system.fit(documents), system.queries(queries)

    def scores(query: int) -> Scores:
        _, block = next(similarity_blocks(rows[query : query + 1], database, system.similarity))
        return np.asarray(block[0])

    return scores
