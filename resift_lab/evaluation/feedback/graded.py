"""Simulated feedback in a retrieval collection, where the user's judgements come from the qrels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from resift.errors import BadInput
from resift_lab.evaluation.data import Collection
from resift_lab.evaluation.feedback.bench import FeedbackBench, Scores
from resift_lab.evaluation.feedback.protocol import FeedbackProtocol
from resift_lab.evaluation.protocol import CONDENSED, condensed_metrics, graded_metrics, has_irrelevant_judgements

# queries are on the same topic if they share this fraction of the relevant documents of the query with fewer of them
_RELATED = 0.3

UNJUDGED = ("skip", "irrelevant")
"""Treatments of a hit that has no grade in the qrels: skip the hit, or judge it as irrelevant."""


class GradedFeedback(FeedbackProtocol):
    """A protocol in which the user judges the first hits by their grades in the qrels.

    Some collections have pooled judgements: their qrels also contain irrelevant documents, which other systems ranked
    high. Such a collection has two more metrics: nDCG@10 of the condensed ranking, which omits hits without a grade,
    and the fraction of the first ten hits that have a grade.

    Args:
        collection: Documents, queries and qrels.
        unjudged: Treatment of hits without a grade, a value of :data:`UNJUDGED`. The default is ``skip`` for pooled
            judgements, in which a document without a grade may be relevant, and ``irrelevant`` otherwise.

    Raises:
        BadInput: If ``unjudged`` is unknown.

    Source:
        Sakai 2007 ("Alternatives to Bpref"), for the condensed ranking.
    """

    name = "retrieval"

    def __init__(self, collection: Collection, unjudged: str | None = None) -> None:
        if unjudged not in (None, *UNJUDGED):
            raise BadInput(
                f"unknown treatment of unjudged hits: {unjudged!r}", value=unjudged, expected=" | ".join(UNJUDGED)
            )
        self.documents, self.queries, self._grades = collection.documents, collection.queries, collection.grades
        self.skipped = collection.skipped
        self._relevant = [{row for row, grade in grades.items() if grade > 0} for grades in collection.grades]
        self._has_negatives = has_irrelevant_judgements(collection)
        self.unjudged = unjudged or UNJUDGED[not self._has_negatives]
        self.metrics = ("ndcg@10", "map", "recall@10", "mrr@10", *(CONDENSED if self._has_negatives else ()))

    def initial_scores(self, bench: FeedbackBench, query: int) -> Scores:
        """Run a query without a session, to get the ranking that the simulated user judges first.

        Args:
            bench: Documents and queries.
            query: Position of the query.

        Returns:
            The scores of the N documents, shape (N,).
        """
        return bench.search_scores(query)

    def correct_judgements(self, query: int, ranking: NDArray[np.int64], count: int) -> list[tuple[int, float]]:
        """Return judgements of the first documents of a ranking, by the grades of the test collection.

        Documents without a grade are skipped if :attr:`unjudged` is ``skip``, and otherwise judged as irrelevant.

        Args:
            query: Position of the query.
            ranking: Positions of the n documents, best first, shape (n,).
            count: Maximum number of judgements.

        Returns:
            Pairs of a document's position and its grade, 1 (relevant) or -1 (irrelevant).
        """
        if self.unjudged == "skip":
            ranking = ranking[np.isin(ranking, list(self._grades[query]))]
        relevant = self._relevant[query]
        return [(document, 1.0 if document in relevant else -1.0) for document in ranking[:count].tolist()]

    def measure(self, query: int, scores: Scores, judged: Sequence[int]) -> list[float]:
        """Return the metrics of the residual ranking, from which the judged documents were removed.

        Args:
            query: Position of the query.
            scores: Scores of all N documents, shape (N,).
            judged: Positions of the judged documents.

        Returns:
            The value of each metric, in the order of :attr:`metrics`. All values are NaN if every relevant document was
            judged.
        """
        excluded = set(judged)
        grades = {row: grade for row, grade in self._grades[query].items() if row not in excluded}
        if not any(grade > 0 for grade in grades.values()):
            return [np.nan] * len(self.metrics)
        # at the end of the ranking and without a grade, a judged document does not affect the metrics
        residual = scores.copy()
        residual[list(excluded)] = -np.inf
        values = graded_metrics(residual, grades)
        if self._has_negatives:
            values |= condensed_metrics(residual, grades)
        return [values[name] for name in self.metrics]

    def queries_by_topic(self, query: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Divide the other queries into those on the same topic as a query, and those on other topics.

        Two queries are on the same topic if they share at least 30 % of their relevant documents, relative to the query
        with fewer relevant documents. They are on different topics if they share no relevant document.

        Args:
            query: Position of the query.

        Returns:
            The positions of the queries on the same topic, and the positions of the queries on other topics.
        """
        relevant = self._relevant[query]
        shared = np.array([len(relevant & other) / min(len(relevant), len(other)) for other in self._relevant])
        shared[query] = _RELATED / 2  # excludes the query itself from both groups
        return np.flatnonzero(shared >= _RELATED), np.flatnonzero(shared == 0)
