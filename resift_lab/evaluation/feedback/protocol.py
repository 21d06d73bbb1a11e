"""The base class of the protocols of simulated feedback."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from resift_lab.evaluation.feedback.bench import FeedbackBench, Judged, Scores
from resift_lab.evaluation.feedback.options import FeedbackOptions


class FeedbackProtocol:
    """A protocol that defines the initial ranking, the simulated judgements and the metrics.

    Attributes:
        name: Name of the protocol in reports.
        whole: Whether rankings contain all documents, and not only the hits of a search.
        unjudged: Treatment of documents without a grade, "" if all documents have a grade.
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

    def first(self, bench: FeedbackBench, query: int) -> Scores:
        """Return the scores of the N documents in the initial ranking of a query, shape (N,).

        The user judges this ranking in the first round.
        """
        raise NotImplementedError

    def judge(
        self, query: int, scores: Scores, judged: Judged, options: FeedbackOptions, rng: np.random.Generator
    ) -> list[tuple[int, float]]:
        """Return the judgements of a round, in which the user judges the present ranking.

        Args:
            query: Position of the query.
            scores: Scores (N,) of the ranking that the user sees.
            judged: Judgements of earlier rounds. These documents are not judged again.
            options: Number of judgements, and the probability that a judgement is inverted.
            rng: Random generator for the noise.

        Returns:
            Positions of documents, with the grade 1 or -1 each.
        """
        order = np.argsort(-scores, kind="stable")
        order = order[np.isfinite(scores[order])]  # a user sees hits only
        unjudged = order[~np.isin(order, [document for document, _ in judged])]
        judgements = self.judgements(query, unjudged, options.judgements)
        inverted = rng.random(len(judgements)) < options.noise
        return [
            (document, -grade if invert else grade)
            for (document, grade), invert in zip(judgements, inverted, strict=True)
        ]

    def judgements(self, query: int, ranking: NDArray[np.int64], count: int) -> list[tuple[int, float]]:
        """Return the correct judgements of at most ``count`` documents.

        Args:
            query: Position of the query.
            ranking: Positions of the documents (n,), best first.
            count: Maximum number of judgements.

        Returns:
            Positions of documents, with the grade 1 or -1 each.
        """
        raise NotImplementedError

    def measure(self, query: int, scores: Scores, judged: Sequence[int]) -> list[float]:
        """Return the metrics of a ranking, in the order of :attr:`metrics`.

        Args:
            query: Position of the query.
            scores: Scores (N,) of all documents.
            judged: Positions of the judged documents.
        """
        raise NotImplementedError

    def other_queries(self, query: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the positions of the queries on the same topic as ``query``, and of the queries on other topics."""
        raise NotImplementedError
