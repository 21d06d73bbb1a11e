"""Feedback in a retrieval collection: the user judges as the collection's qrels have it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from resift.errors import BadInput
from resift_lab.evaluation.data import Collection
from resift_lab.evaluation.feedback.bench import FeedbackBench, Scores
from resift_lab.evaluation.feedback.protocol import FeedbackProtocol
from resift_lab.evaluation.protocol import CONDENSED, condensed_metrics, graded_metrics, is_pool

_RELATED = 0.3
UNJUDGED = ("skip", "irrelevant")  # what the simulated user does about a hit that the qrels do not name


class Graded(FeedbackProtocol):
    """The first documents of what is served are judged, as the qrels have them.

    ``unjudged``, of UNJUDGED: whether a hit that the qrels do not name is passed over or irrelevant. By default it is
    passed over where the qrels name irrelevant documents too, since there only part of what is irrelevant was judged.
    Of such pools there are two more figures: nDCG@10 of the ranking without what was not judged (condensed: Sakai 2007,
    "Alternatives to Bpref"), and the part of the first ten documents that was.

    Raises BadInput for another ``unjudged``.
    """

    name = "retrieval"

    def __init__(self, collection: Collection, unjudged: str | None = None) -> None:
        if unjudged not in (None, *UNJUDGED):
            raise BadInput(f"unjudged is {unjudged!r}", value=unjudged, expected=" | ".join(UNJUDGED))
        self.documents, self.queries, self._grades = collection.documents, collection.queries, collection.grades
        self.skipped = collection.skipped
        self._relevant = [{row for row, grade in grades.items() if grade > 0} for grades in collection.grades]
        self._is_pool = is_pool(collection)
        self.unjudged = unjudged or UNJUDGED[not self._is_pool]
        self.metrics = ("ndcg@10", "map", "recall@10", "mrr@10", *(CONDENSED if self._is_pool else ()))

    def first(self, bench: FeedbackBench, query: int) -> Scores:
        """As it is served without a session."""
        return bench.served(query)

    def judgements(self, query: int, ranking: NDArray[np.int64], count: int) -> list[tuple[int, float]]:
        """The first ``count`` documents, or the first of them that the qrels name."""
        if self.unjudged == "skip":
            ranking = ranking[np.isin(ranking, list(self._grades[query]))]
        relevant = self._relevant[query]
        return [(document, 1.0 if document in relevant else -1.0) for document in ranking[:count].tolist()]

    def measure(self, query: int, scores: Scores, judged: Sequence[int]) -> list[float]:
        """Over the documents not judged; NaN where no relevant one is left."""
        left_out = set(judged)
        grades = {row: grade for row, grade in self._grades[query].items() if row not in left_out}
        if not any(grade > 0 for grade in grades.values()):
            return [np.nan] * len(self.metrics)
        # last in the ranking and without a grade, judged documents count for nothing
        residual = scores.copy()
        residual[list(left_out)] = -np.inf
        values = graded_metrics(residual, grades)
        if self._is_pool:
            values |= condensed_metrics(residual, grades)
        return [values[name] for name in self.metrics]

    def other_queries(self, query: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Queries that share three tenths of the relevant documents or more (of the smaller set), and none."""
        own = self._relevant[query]
        shared = np.array([len(own & other) / min(len(own), len(other)) for other in self._relevant])
        shared[query] = _RELATED / 2  # neither related to itself nor about something else
        return np.flatnonzero(shared >= _RELATED), np.flatnonzero(shared == 0)
