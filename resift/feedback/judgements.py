"""Judgements: what a person marked, and where each comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple

from resift.arrays import Floats
from resift.errors import BadInput

GRADES = {"relevant": 1.0, "irrelevant": -1.0, "clicked": 0.5, "skipped": -0.25, "neutral": 0.0}
# Where a judgement comes from; sessions are stored by the places of these names, so new ones go to the end.
SOURCES = ("mark", "click", "skip", "model")
_IMPLICIT = {"clicked": "click", "skipped": "skip"}


class Mark(NamedTuple):
    """What a document is marked with: a ``grade`` from -1 to 1, and its ``source``, one of SOURCES."""

    grade: float
    source: str = "mark"


@dataclass(frozen=True)
class Judgement:
    """One judgement of a session: a document of an index, and how it was judged.

    ``grade`` is one of GRADES or a score from -1 to 1: its sign says which, and its size how much it counts; 0 takes
    earlier ones back. ``source`` says where it comes from: a person's ``mark``, a ``click``, a ``skip`` (a hit that was
    passed over on the way to a click), or a ``model``. ``query`` is the text that the document was judged for, "" if
    unknown, and ``at`` the time in Unix seconds. Judgements of one ``step`` are undone together.
    """

    index: str
    document: str
    grade: float
    query: str = ""
    at: float = 0.0
    step: int = 1
    source: str = "mark"


@dataclass(frozen=True)
class JudgedDocument:
    """A judgement with what is learned from it: the document's ``vector`` (K,), float32, and its ``text``."""

    judgement: Judgement
    vector: Floats
    text: str


def inferred_source(grade: float) -> str:
    """The source of a judgement that was kept without one, as version 0.1 keeps them: clicks went by their grade."""
    return {GRADES[name]: source for name, source in _IMPLICIT.items()}.get(grade, "mark")


def collect_marks(marked: Mapping[str, Sequence[str]], scores: Mapping[str, float] | None = None) -> dict[str, Mark]:
    """Marks by document, of ids that were marked under the names of GRADES, and of a model's ``scores`` by id.

    Raises BadInput if no document is marked or one under two names, and for scores that are none.

    >>> collect_marks({"relevant": ["a"], "skipped": ["b"]}, {"c": 0.8})
    {'c': Mark(grade=0.8, source='model'), 'a': Mark(grade=1.0, source='mark'), 'b': Mark(grade=-0.25, source='skip')}
    """
    marks = _checked({} if scores is None else scores)
    for name, ids in marked.items():
        mark = Mark(GRADES[name], _IMPLICIT.get(name, "mark"))
        for id in ids:
            if marks.setdefault(id, mark).grade != mark.grade:
                raise BadInput(f"document {id!r} is marked twice", value=id, expected="one mark a document")
    if not marks:
        raise BadInput("no document is marked", value=[], expected=f"ids in {' | '.join(GRADES)}, or scores")
    return marks


def _checked(scores: Any) -> dict[str, Mark]:
    if not isinstance(scores, Mapping) or not all(isinstance(id, str) and id for id in scores):
        raise BadInput("scores are not by document", value=scores, expected="numbers by document id")
    for id, score in scores.items():
        # bool is a kind of int in Python, and true is no number in JSON; models answer numbers of numpy
        if isinstance(score, bool) or not isinstance(score, Real) or not -1 <= float(score) <= 1:
            raise BadInput(f"the score of {id!r} is {score!r}", value=score, expected="a number from -1 to 1")
    return {id: Mark(float(score), "model") for id, score in scores.items()}
