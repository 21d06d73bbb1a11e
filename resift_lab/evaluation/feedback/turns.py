"""Feedback in conversations: people's own marks, made turn by turn, and what they do to the turns after."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from resift.errors import BadInput
from resift.feedback.judgements import JudgedDocument
from resift.feedback.methods import DEFAULT_METHOD
from resift_lab.evaluation.feedback.bench import FeedbackBench, Scores
from resift_lab.evaluation.metrics import ndcg_at
from resift_lab.evaluation.protocol import Run

if TYPE_CHECKING:
    from resift_lab.evaluation.data import Turn

METRICS = (
    *("ndcg@5", "ndcg@5_without_session", "ndcg@5_residual", "ndcg@5_without_session_residual"),
    *("condensed_ndcg@5", "condensed_ndcg@5_without_session", "judged@10", "judged@10_without_session"),
)
_CUT, _PAGE = 5, 10


def run_turns(bench: FeedbackBench, conversations: Sequence[Sequence[Turn]], method: str = DEFAULT_METHOD) -> Run:
    """nDCG@5 of turns that come after one at which a passage was marked as relevant, in the session and without it.

    The queries of ``bench`` are the texts of all turns, one conversation after the other. Each turn is searched with
    its own text; then its people's marks are given for this text. ``residual``: marked documents are left out of the
    ranking and of what is relevant. ``condensed``: those are left out that nobody judged for the turn, with a grade or
    a mark (Sakai 2007); ``judged@10``: the part of the first ten that somebody did. Raises BadInput if there is no such
    turn.
    """
    rows: list[list[float]] = []
    query = -1
    for turns in conversations:
        session: dict[int, JudgedDocument] = {}
        for turn in turns:
            query += 1
            if any(one.judgement.grade > 0 for one in session.values()) and any(v > 0 for v in turn.grades.values()):
                rankings = bench.served(query, list(session.values()), method), bench.served(query)
                residual = [ndcg(scores, turn, left) for left in ((), tuple(session)) for scores in rankings]
                rows.append(residual + _condensed(rankings, turn))
            for one in bench.judged(turn.text, list(turn.marks.items())):
                session[int(one.judgement.document)] = one
    if not rows:
        raise BadInput("no turn has an earlier mark and a relevant document", expected="conversations with marks")
    table = np.array(rows)
    values = {name: table[:, column] for column, name in enumerate(METRICS)}
    return Run(values, {"queries": len(rows), "conversations": len(conversations), "documents": len(bench.documents)})


def ndcg(scores: Scores, turn: Turn, left_out: Sequence[int]) -> float:
    """nDCG@5 of a ranking, NaN if no relevant document is left."""
    grades = {row: grade for row, grade in turn.grades.items() if row not in left_out}
    kept = scores.copy()
    kept[list(left_out)] = -np.inf
    best = np.argsort(-kept, kind="stable")[:_CUT]
    gains = [grades.get(row, 0.0) if np.isfinite(kept[row]) else 0.0 for row in best.tolist()]
    return ndcg_at(gains, list(grades.values()), _CUT)


def _condensed(rankings: Sequence[Scores], turn: Turn) -> list[float]:
    """nDCG@5 of each ranking without what nobody judged for the turn, and which part of its first ten somebody did."""
    known = list({*turn.grades, *turn.marks})
    condensed, judged = [], []
    for scores in rankings:
        kept = np.full_like(scores, -np.inf)
        kept[known] = scores[known]
        condensed.append(ndcg(kept, turn, ()))
        first = [row for row in np.argsort(-scores, kind="stable")[:_PAGE].tolist() if np.isfinite(scores[row])]
        judged.append(float(np.isin(first, known).mean()) if first else 0.0)
    return condensed + judged
