"""The base class of the protocols of simulated feedback."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from resift_lab.evaluation.feedback.bench import FeedbackBench, Judged, Scores
from resift_lab.evaluation.feedback.options import FeedbackOptions


class FeedbackProtocol:
    """The base class of evaluation protocols for relevance feedback.

    A protocol defines the initial ranking of a query, the judgements of the simulated user, and the metrics.

    Attributes:
        name: Name of the protocol in reports.
        whole: Whether a ranking contains all documents. Otherwise it contains only the hits of a search.
        unjudged: How the simulated user treats documents without a grade: ``skip`` or ``irrelevant``. Empty if all
            documents have a grade.
        metrics: Names of the metrics.
        documents: Texts of the documents.
        queries: Texts of the queries.
        skipped: Number of queries that are not evaluated, because no document is relevant for them.
    """

    name: str
    whole = False
    unjudged = ""
    metrics: tuple[str, ...]
    documents: Sequence[str]
    queries: Sequence[str]
    skipped: int

    def initial_scores(self, bench: FeedbackBench, query: int) -> Scores:
        """Return the initial ranking of a query, which the user judges in the first round.

        Args:
            bench: Documents and queries.
            query: Position of the query.

        Returns:
            The scores of the N documents, shape (N,). A higher score means a better rank.
        """
        raise NotImplementedError

    def judge(
        self, query: int, scores: Scores, judged: Judged, options: FeedbackOptions, rng: np.random.Generator
    ) -> list[tuple[int, float]]:
        """Simulate a round of judging: the user looks at a ranking and judges some of its documents.

        Args:
            query: Position of the query.
            scores: Scores of the N documents, shape (N,), whose order the user sees.
            judged: Judgements of earlier rounds. These documents are not judged again.
            options: Number of judgements, and the probability that the user gives the opposite of the right judgement.
            rng: Random generator that decides which judgements are the opposite.

        Returns:
            Pairs of a document's position and its grade, 1 (relevant) or -1 (irrelevant).
        """
        order = np.argsort(-scores, kind="stable")
        order = order[np.isfinite(scores[order])]  # documents that are not hits have the score -inf
        unjudged = order[~np.isin(order, [document for document, _ in judged])]
        judgements = self.correct_judgements(query, unjudged, options.judgements)
        inverted = rng.random(len(judgements)) < options.noise
        return [
            (document, -grade if invert else grade)
            for (document, grade), invert in zip(judgements, inverted, strict=True)
        ]

    def correct_judgements(self, query: int, ranking: NDArray[np.int64], count: int) -> list[tuple[int, float]]:
        """Return the judgements of a user who judges some documents of a ranking and makes no errors.

        Args:
            query: Position of the query.
            ranking: Positions of the n documents, best first, shape (n,).
            count: Maximum number of judgements.

        Returns:
            Pairs of a document's position and its grade, 1 (relevant) or -1 (irrelevant).
        """
        raise NotImplementedError

    def measure(self, query: int, scores: Scores, judged: Sequence[int]) -> list[float]:
        """Compute the metrics of a ranking.

        Args:
            query: Position of the query.
            scores: Scores of all N documents, shape (N,).
            judged: Positions of the documents that the user has judged. Some metrics, such as those of the residual
                ranking, leave these documents out of the ranking.

        Returns:
            The value of each metric, in the order of :attr:`metrics`.
        """
        raise NotImplementedError

    def queries_by_topic(self, query: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Divide the other queries into those on the same topic as a query, and those on other topics.

        Each protocol defines which queries are on the same topic, for example by the documents that are relevant to
        both.

        Args:
            query: Position of the query.

        Returns:
            The positions of the queries on the same topic, and the positions of the queries on other topics.
        """
        raise NotImplementedError
