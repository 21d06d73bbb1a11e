"""Judgements of documents by people and models, and their sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple

from resift.arrays import Floats
from resift.errors import BadInput

GRADES = {"relevant": 1.0, "irrelevant": -1.0, "clicked": 0.5, "skipped": -0.25, "neutral": 0.0}
"""Grade of each kind of mark: positive for relevant, negative for irrelevant. The absolute value is the weight."""

DocumentKey = tuple[str, str]
"""The index and the id of a document. Documents of different indices can have the same id."""

SOURCES = ("mark", "click", "skip", "model")
"""Sources of judgements. Sessions are stored with positions in this tuple, so new sources must be added at the end."""

_IMPLICIT_SOURCES = {"clicked": "click", "skipped": "skip"}


class Mark(NamedTuple):
    """A judgement of a single document, as sent in a feedback request.

    Attributes:
        grade: The relevance, from -1 (irrelevant) to 1 (relevant).
        source: The origin of the judgement: ``mark`` (the user judged the document), ``click`` (the user clicked the
            hit), ``skip`` (the user ignored the hit and clicked a lower hit) or ``model`` (a model computed the grade).
    """

    grade: float
    source: str = "mark"


@dataclass(frozen=True)
class Judgement:
    """A judgement of a document in a session.

    Attributes:
        index: Index of the document.
        document: Id of the document.
        grade: Grade from -1 (irrelevant) to 1 (relevant). The absolute value is the weight of the judgement. 0
            withdraws earlier judgements of the document.
        query: Query for which the document was judged, or "" if there was none or it is unknown.
        at: Unix time in seconds.
        step: Number of the feedback request in the session, counted from 1. Judgements of the same request are undone
            together.
        source: Source of the judgement: a person's ``mark``, a ``click``, a ``skip`` (a hit that was not clicked,
            although a lower hit was), or a ``model``.
    """

    index: str
    document: str
    grade: float
    query: str = ""
    at: float = 0.0
    step: int = 1
    source: str = "mark"

    @property
    def key(self) -> DocumentKey:
        """The index and the id of the judged document."""
        return self.index, self.document


@dataclass(frozen=True)
class JudgedDocument:
    """A relevance judgement together with the vector and text of the judged document.

    Attributes:
        judgement: The judgement: its grade, its source and the query for which it was made.
        vector: The vector of the document, as a float32 array of shape (n_dimensions,).
        text: The text of the document from which the session learns.
        title_text: A text that begins with the title of the document. If it is empty, ``text`` begins with the title.
    """

    judgement: Judgement
    vector: Floats
    text: str
    title_text: str = ""


def collect_marks(marked: Mapping[str, Sequence[str]], scores: Mapping[str, float] | None = None) -> dict[str, Mark]:
    """Convert lists of marked document ids, and the relevance scores of a model, to a mark for each document.

    Args:
        marked: For each kind of mark (a key of GRADES, such as ``relevant``), the ids of the documents with this mark.
        scores: The score that a model gave each document, from -1 (irrelevant) to 1 (relevant), by document id.

    Returns:
        The mark of each document, by document id.

    Raises:
        BadInput: If no document is marked, a document has two different marks, or the scores are invalid.

    >>> collect_marks({"relevant": ["a"], "skipped": ["b"]}, {"c": 0.8})
    {'c': Mark(grade=0.8, source='model'), 'a': Mark(grade=1.0, source='mark'), 'b': Mark(grade=-0.25, source='skip')}
    """
    marks = _score_marks({} if scores is None else scores)
    for name, ids in marked.items():
        mark = Mark(GRADES[name], _IMPLICIT_SOURCES.get(name, "mark"))
        for id in ids:
            if marks.setdefault(id, mark).grade != mark.grade:
                raise BadInput(f"document {id!r} has two different marks", value=id, expected="one mark per document")
    if not marks:
        raise BadInput("no document is marked", value=[], expected=f"ids in {' | '.join(GRADES)}, or scores")
    return marks


def _score_marks(scores: Any) -> dict[str, Mark]:
    """Validate the relevance scores of a model, and convert them to judgements by document id.

    Args:
        scores: A mapping from document ids to numbers from -1 (irrelevant) to 1 (relevant).

    Raises:
        BadInput: If ``scores`` is not such a mapping, or a number is out of range.
    """
    if not isinstance(scores, Mapping) or not all(isinstance(id, str) and id for id in scores):
        raise BadInput("scores are not by document id", value=scores, expected="numbers by document id")
    for id, score in scores.items():
        # bool is a subclass of int, but true is not a number in JSON. Real includes NumPy's numbers.
        if isinstance(score, bool) or not isinstance(score, Real) or not -1 <= float(score) <= 1:
            raise BadInput(f"the score of {id!r} is {score!r}", value=score, expected="a number from -1 to 1")
    return {id: Mark(float(score), "model") for id, score in scores.items()}
