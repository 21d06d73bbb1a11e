"""What every protocol of simulated feedback has: a user who judges, and figures of the rankings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from resift_lab.evaluation.feedback.bench import FeedbackBench, Judged, Scores
from resift_lab.evaluation.feedback.options import FeedbackOptions


class FeedbackProtocol:
    """A protocol: which ranking is judged first, what is judged of it, and what is measured.

    ``name`` is what a report calls it, ``metrics`` names the figures; ``documents`` and ``queries`` are texts;
    ``skipped``: how many further queries there are that no document is relevant to; ``whole``: whether the figures are
    of rankings of all documents, and not of what is served; ``unjudged``: what the user does about documents that
    nobody has judged, "" where all have been.
    """

    name: str
    whole = False
    unjudged = ""
    metrics: tuple[str, ...]
    documents: Sequence[str]
    queries: Sequence[str]
    skipped: int

    def first(self, bench: FeedbackBench, query: int) -> Scores:
        """Scores (N,) of the ranking that is judged first."""
        raise NotImplementedError

    def judge(
        self, query: int, scores: Scores, judged: Judged, options: FeedbackOptions, rng: np.random.Generator
    ) -> list[tuple[int, float]]:
        """A round's judgements, (document, 1 or -1) each, of documents that are not ``judged`` yet.

        With the chance ``options.noise`` a judgement is the opposite of what it should be.
        """
        order = np.argsort(-scores, kind="stable")
        order = order[np.isfinite(scores[order])]  # nobody judges what was not found
        unjudged = order[~np.isin(order, [document for document, _ in judged])]
        judgements = self.judgements(query, unjudged, options.judgements)
        wrong = rng.random(len(judgements)) < options.noise
        return [
            (document, -grade if flip else grade) for (document, grade), flip in zip(judgements, wrong, strict=True)
        ]

    def judgements(self, query: int, ranking: NDArray[np.int64], count: int) -> list[tuple[int, float]]:
        """What a user without error judges of a ``ranking`` (n,) of documents, best first: ``count`` at most."""
        raise NotImplementedError

    def measure(self, query: int, scores: Scores, judged: Sequence[int]) -> list[float]:
        """The figures of a ranking by ``scores`` (N,), by the order of ``metrics``; ``judged``: documents."""
        raise NotImplementedError

    def other_queries(self, query: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Positions of the queries about the same as ``query``, and of those about something else."""
        raise NotImplementedError
