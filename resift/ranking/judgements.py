"""Judgements: what a person marked, and which of the marks count (effective judgements)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

from resift.arrays import Floats
from resift.errors import BadInput

GRADES = {"relevant": 1.0, "irrelevant": -1.0, "clicked": 0.5, "skipped": -0.25, "neutral": 0.0}
_IMPLICIT = (GRADES["clicked"], GRADES["skipped"])


@dataclass(frozen=True)
class Judgement:
    """One judgement of a session: a document of an index, and how it was judged.

    ``grade`` is one of GRADES or a score from -1 to 1: its sign says which, and its size how much it counts. 1 and -1
    are explicit marks, .5 and -.25 implicit ones (a hit that was clicked, or was skipped on the way to a click), and 0
    takes earlier ones back. ``query`` is the text that the document was judged
    for, "" if unknown, and ``at`` the time in Unix seconds. Judgements of one ``step`` are undone together.
    """

    index: str
    document: str
    grade: float
    query: str = ""
    at: float = 0.0
    step: int = 1


@dataclass(frozen=True)
class JudgedDocument:
    """A judgement with what is learned from it: the document's ``vector`` (K,), float32, and its ``text``."""

    judgement: Judgement
    vector: Floats
    text: str


def effective_judgements(judgements: Sequence[Judgement]) -> list[Judgement]:
    """Of all judgements of a session those that count, in the order in which their documents were first judged.

    Of each document the latest counts, except that a click or a skip does not replace an explicit mark, nor a skip a
    click: they say less.

    >>> marks = [Judgement("i", "a", 1), Judgement("i", "b", -0.25), Judgement("i", "a", 0.5), Judgement("i", "b", 0.5)]
    >>> [(judgement.document, judgement.grade) for judgement in effective_judgements(marks)]
    [('a', 1), ('b', 0.5)]
    """
    latest: dict[tuple[str, str], Judgement] = {}
    for judgement in judgements:
        key = (judgement.index, judgement.document)
        earlier = abs(latest[key].grade) if key in latest else 0
        if judgement.grade not in _IMPLICIT or abs(judgement.grade) >= min(1, earlier):
            latest[key] = judgement
    return [judgement for judgement in latest.values() if judgement.grade]


def collect_marks(marked: Mapping[str, Sequence[str]], scores: Mapping[str, float] | None = None) -> dict[str, float]:
    """Grades by document, of ids that were marked under the names of GRADES, and of ``scores`` by id.

    Raises BadInput if no document is marked or one under two names, and for scores that are none.

    >>> collect_marks({"relevant": ["a"], "skipped": ["b"]}, {"c": 0.8})
    {'c': 0.8, 'a': 1.0, 'b': -0.25}
    """
    marks = _checked({} if scores is None else scores)
    for name, ids in marked.items():
        for id in ids:
            if marks.setdefault(id, GRADES[name]) != GRADES[name]:
                raise BadInput(f"document {id!r} is marked twice", value=id, expected="one mark a document")
    if not marks:
        raise BadInput("no document is marked", value=[], expected=f"ids in {' | '.join(GRADES)}, or scores")
    return marks


def _checked(scores: Any) -> dict[str, float]:
    if not isinstance(scores, Mapping) or not all(isinstance(id, str) and id for id in scores):
        raise BadInput("scores are not by document", value=scores, expected="numbers by document id")
    for id, score in scores.items():
        # bool is a kind of int in Python, and true is no number in JSON; models answer numbers of numpy
        if isinstance(score, bool) or not isinstance(score, Real) or not -1 <= float(score) <= 1:
            raise BadInput(f"the score of {id!r} is {score!r}", value=score, expected="a number from -1 to 1")
    return {id: float(score) for id, score in scores.items()}
