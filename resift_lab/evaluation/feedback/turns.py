"""Feedback in recorded conversations: evaluate how people's judgements of earlier turns change later searches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from resift.errors import BadInput
from resift.feedback.judgements import JudgedDocument
from resift.feedback.methods import DEFAULT_METHOD
from resift_lab.evaluation.feedback.bench import FeedbackBench, Scores
from resift_lab.evaluation.metrics import Numbers, ndcg_at
from resift_lab.evaluation.protocol import Run

if TYPE_CHECKING:
    from resift_lab.evaluation.data import Turn

METRICS = (
    "ndcg@5",
    "ndcg@5_without_session",
    "ndcg@5_residual",
    "ndcg@5_without_session_residual",
    "condensed_ndcg@5",
    "condensed_ndcg@5_without_session",
    "judged@10",
    "judged@10_without_session",
)
"""Names of the metrics, in the order of :func:`run_turns`."""

_NDCG_CUT = 5
_JUDGED_CUT = 10


def run_turns(bench: FeedbackBench, conversations: Sequence[Sequence[Turn]], method: str = DEFAULT_METHOD) -> Run:
    """Evaluate the turns of conversations, searched in a session and without a session.

    A turn is evaluated if it has a relevant document, and if the user judged a document positively in an earlier turn.
    Each turn is searched with its own text. Afterwards the recorded judgements of the turn are added to the session,
    as judgements for this text.

    Metrics named ``residual`` ignore documents that are judged in the session. ``condensed`` metrics ignore documents
    that have neither a grade nor a judgement for the turn. ``judged@10`` is the fraction of the first ten hits that
    have a grade or a judgement for the turn.

    Args:
        bench: Documents and queries. The queries are the texts of all turns, conversation by conversation.
        conversations: The turns of each conversation.
        method: Name of the feedback method.

    Raises:
        BadInput: If no turn has a relevant document and an earlier positive judgement.

    Source:
        Sakai 2007 ("Alternatives to Bpref"), for the condensed ranking.
    """
    _, table = _evaluate_turns(bench, conversations, method)
    values = {name: table[:, column] for column, name in enumerate(METRICS)}
    return Run(values, {"queries": len(table), "conversations": len(conversations), "documents": len(bench.documents)})


def conversation_means(
    bench: FeedbackBench, conversations: Sequence[Sequence[Turn]], metric: str, method: str = DEFAULT_METHOD
) -> Numbers:
    """Return the mean of a metric over the evaluated turns of each conversation.

    The turns of a conversation are not independent, so tests and choices should use one value for each conversation.

    Args:
        bench: Documents and queries, as for :func:`run_turns`.
        conversations: The turns of each conversation.
        metric: A name in ``METRICS``.
        method: Name of the feedback method.

    Returns:
        A value for each of n conversations that have an evaluated turn, shape (n,). Turns whose value is NaN are
        ignored. The value is NaN if all turns have the value NaN.

    Raises:
        BadInput: If no turn has a relevant document and an earlier positive judgement.
    """
    owners, table = _evaluate_turns(bench, conversations, method)
    values = table[:, METRICS.index(metric)]
    parts = [values[(owners == owner) & ~np.isnan(values)] for owner in np.unique(owners)]
    return np.array([part.mean() if len(part) else np.nan for part in parts])


def _evaluate_turns(
    bench: FeedbackBench, conversations: Sequence[Sequence[Turn]], method: str
) -> tuple[NDArray[np.int64], Numbers]:
    """Evaluate the turns of conversations. See :func:`run_turns`.

    Args:
        bench: Documents and queries.
        conversations: The turns of each conversation.
        method: Name of the feedback method.

    Returns:
        The number of the conversation of each of n evaluated turns, shape (n,), and the value of each of the m
        ``METRICS``, shape (n, m).

    Raises:
        BadInput: If no turn is evaluated.
    """
    rows: list[list[float]] = []
    owners: list[int] = []
    query = -1
    for number, turns in enumerate(conversations):
        session: dict[int, JudgedDocument] = {}
        for turn in turns:
            query += 1
            has_mark = any(document.judgement.grade > 0 for document in session.values())
            if has_mark and any(grade > 0 for grade in turn.grades.values()):
                rankings = bench.search_scores(query, list(session.values()), method), bench.search_scores(query)
                complete = [ndcg_at_5(scores, turn, ()) for scores in rankings]
                residual = [ndcg_at_5(scores, turn, tuple(session)) for scores in rankings]
                rows.append(complete + residual + _condensed_metrics(rankings, turn))
                owners.append(number)
            for document in bench.judged_documents(turn.text, list(turn.marks.items())):
                session[int(document.judgement.document)] = document
    if not rows:
        raise BadInput("no turn has a relevant document and an earlier mark", expected="conversations with marks")
    return np.array(owners), np.array(rows)


def ndcg_at_5(scores: Scores, turn: Turn, excluded: Sequence[int]) -> float:
    """Return the nDCG@5 of a ranking for a question in a conversation, without some of the documents.

    Args:
        scores: Scores of the N documents, shape (N,).
        turn: The question and the grades of its documents.
        excluded: Positions of documents that are removed from the ranking first.

    Returns:
        A number from 0 to 1, or NaN if no relevant document remains.
    """
    grades = {row: grade for row, grade in turn.grades.items() if row not in excluded}
    remaining = scores.copy()
    remaining[list(excluded)] = -np.inf
    best = np.argsort(-remaining, kind="stable")[:_NDCG_CUT]
    gains = [grades.get(row, 0.0) if np.isfinite(remaining[row]) else 0.0 for row in best.tolist()]
    return ndcg_at(gains, list(grades.values()), _NDCG_CUT)


def _condensed_metrics(rankings: Sequence[Scores], turn: Turn) -> list[float]:
    """Compute the nDCG@5 of rankings after their unjudged documents are removed, and the share of judged hits.

    Args:
        rankings: Scores of the N documents in each ranking, each of shape (N,).
        turn: The question, with the grades of the test collection and the user's own judgements (marks). A document
            with a grade or a mark is judged.

    Returns:
        A list of 2 · n numbers for n rankings. The first n are the nDCG@5 of the rankings, from which all unjudged
        documents are removed. The last n are the shares of judged documents among the first ten hits of the complete
        rankings.
    """
    judged = list({*turn.grades, *turn.marks})
    condensed, fractions = [], []
    for scores in rankings:
        judged_scores = np.full_like(scores, -np.inf)
        judged_scores[judged] = scores[judged]
        condensed.append(ndcg_at_5(judged_scores, turn, ()))
        order = np.argsort(-scores, kind="stable")[:_JUDGED_CUT].tolist()
        first = [row for row in order if np.isfinite(scores[row])]
        fractions.append(float(np.isin(first, judged).mean()) if first else 0.0)
    return condensed + fractions
