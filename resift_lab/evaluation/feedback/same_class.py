"""Simulated feedback with labelled documents, where documents of the query's class are relevant."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from resift.errors import BadInput
from resift_lab.evaluation.data import LabelledDocuments
from resift_lab.evaluation.feedback.bench import FeedbackBench, Scores
from resift_lab.evaluation.feedback.protocol import FeedbackProtocol
from resift_lab.evaluation.metrics import interpolated_precision_at, map11, precision_at

_TOP = 30  # number of top-ranked documents among which the user judges documents


class SameClassFeedback(FeedbackProtocol):
    """An evaluation protocol on labelled documents: documents with the same label as the query are relevant.

    The user judges equal numbers of relevant and irrelevant documents among the first 30.

    Args:
        train: Labelled documents to search.
        test: Labelled documents that serve as queries. Queries whose label does not occur in ``train`` are skipped.

    Raises:
        BadInput: If all queries are skipped.

    Source:
        Passalis and Tefas 2018, section 4.5 and Table 5.
    """

    name, whole = "classes", True
    metrics = ("map11", "p@10", "ip@10", "residual_map11", "residual_ip@10")

    def __init__(self, train: LabelledDocuments, test: LabelledDocuments) -> None:
        numbers = {label: number for number, label in enumerate(dict.fromkeys(train.labels))}
        known = [row for row, label in enumerate(test.labels) if label in numbers]
        if not known:
            raise BadInput("no test document's label is in the training file", expected=" | ".join(list(numbers)[:20]))
        self.documents, self.queries = train.texts, [test.texts[row] for row in known]
        self.skipped = len(test.labels) - len(known)
        self._document_classes = np.array([numbers[label] for label in train.labels])
        self._query_classes = np.array([numbers[test.labels[row]] for row in known])

    def initial_scores(self, bench: FeedbackBench, query: int) -> Scores:
        """Return the ranking of a search without a session.

        Args:
            bench: Documents and queries.
            query: Position of the query.

        Returns:
            The scores of the N documents, shape (N,).
        """
        return bench.search_scores(query)

    def correct_judgements(self, query: int, ranking: NDArray[np.int64], count: int) -> list[tuple[int, float]]:
        """Return judgements of the best relevant and the best irrelevant documents among the first 30 of a ranking.

        Args:
            query: Position of the query.
            ranking: Positions of the n documents, best first, shape (n,).
            count: Maximum number of judgements. Half of them, rounded up, are of relevant documents.

        Returns:
            Pairs of a document's position and its grade, 1 (relevant) or -1 (irrelevant).
        """
        top = ranking[:_TOP]
        relevant = self._document_classes[top] == self._query_classes[query]
        half = -(-count // 2)
        return [
            *((int(document), 1.0) for document in top[relevant][:half]),
            *((int(document), -1.0) for document in top[~relevant][: count - half]),
        ]

    def measure(self, query: int, scores: Scores, judged: Sequence[int]) -> list[float]:
        """Measure a ranking twice: with all documents, and without the judged documents.

        Args:
            query: Position of the query.
            scores: Scores of all N documents, shape (N,).
            judged: Positions of the judged documents.

        Returns:
            The value of each metric, in the order of :attr:`metrics`. The metrics without the judged documents are NaN
            if every relevant document was judged.
        """
        relevant = self._document_classes == self._query_classes[query]
        residual = np.delete(scores, judged), np.delete(relevant, judged)
        values = (
            map11(scores, relevant),
            precision_at(scores, relevant, 10),
            interpolated_precision_at(scores, relevant, 10),
            map11(*residual),
            interpolated_precision_at(*residual, 10),
        )
        metrics = [float(value[0]) for value in values]
        # NaN rather than a precision of 0: if the whole class is judged, the ranking cannot contain relevant documents
        return metrics if residual[1].any() else [*metrics[:3], np.nan, np.nan]

    def queries_by_topic(self, query: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the other queries with the same label as a query, and the queries with different labels.

        Args:
            query: Position of the query.

        Returns:
            The positions of the other queries with the same label, and the positions of the queries with different
            labels.
        """
        same = self._query_classes == self._query_classes[query]
        other = np.flatnonzero(~same)
        same[query] = False
        return np.flatnonzero(same), other
