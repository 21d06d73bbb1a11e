"""Judgements: what a person marked, and which of the marks count (effective judgements)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from resift.arrays import Floats
from resift.errors import BadInput

GRADES = {"relevant": 1.0, "irrelevant": -1.0, "clicked": 0.5, "skipped": -0.25, "neutral": 0.0}


@dataclass(frozen=True)
class Judgement:
    """One judgement of a session: a document of an index, and how it was judged.

    ``grade`` is one of GRADES: 1 and -1 are explicit marks, fractions are implicit ones (a hit that was clicked, or was
    skipped on the way to a click), and 0 takes earlier ones back. ``query`` is the text that the document was judged
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
        if not judgement.grade or abs(judgement.grade) >= min(1, earlier):
            latest[key] = judgement
    return [judgement for judgement in latest.values() if judgement.grade]


def collect_marks(marked: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """Grades by document, of ids that were marked under the names of GRADES.

    Raises BadInput if no document is marked, or one under two names.

    >>> collect_marks({"relevant": ["a"], "skipped": ["b"]})
    {'a': 1.0, 'b': -0.25}
    """
    marks: dict[str, float] = {}
    for name, ids in marked.items():
        for id in ids:
            if marks.setdefault(id, GRADES[name]) != GRADES[name]:
                raise BadInput(f"document {id!r} is marked twice", value=id, expected="one mark a document")
    if not marks:
        raise BadInput("no document is marked", value=[], expected=f"ids in {' | '.join(GRADES)}")
    return marks
