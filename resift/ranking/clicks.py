"""Clicks: what people did with the hits of a query, as grades of the documents.

A click says less the higher the hit stood, since what stands first is clicked because it stands there (position bias).
A hit that was shown above a click, and was not clicked itself, was passed over; the lower it stood, the less likely it
was looked at. Both by one estimate of how likely a hit at a place is looked at, (place + 1) ** -POSITION_BIAS.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from resift.errors import BadInput
from resift.ranking.judgements import GRADES

SHOWN = "impression"
ACTIONS = {
    "purchase": 1.0,
    "add_to_cart": 0.8,
    "watch": GRADES["clicked"],
    "click": GRADES["clicked"],
    "click_through": GRADES["clicked"],
    "view": 0.25,
    SHOWN: GRADES["skipped"],
}
POSITION_BIAS = 0.25
Actions = Mapping[str, float]


@dataclass(frozen=True)
class Interaction:
    """What somebody did with a hit: a ``document``, one of the ACTIONS or another, and the time in Unix seconds.

    ``ordinal``: the hit's place in the list as the page counts it, from 0 or from 1; None if it is not known.
    """

    document: str
    action: str
    ordinal: int | None = None
    at: float = 0.0


@dataclass(frozen=True)
class Graded:
    """A document's grade, -1 to 1, the time in Unix seconds of what it follows from, and whether that was a ``click``
    or any other action, or a ``skip``: a hit that was passed over."""

    grade: float
    at: float
    source: str = "click"


def read_actions(parts: Iterable[str]) -> dict[str, float]:
    """What each action counts, of settings ``ACTION=GRADE``. Raises BadInput for another form, and beyond -1 to 1.

    >>> read_actions(["purchase=1", "impression=-0.1"])
    {'purchase': 1.0, 'impression': -0.1}
    """
    actions = {}
    for part in parts:
        name, _, text = part.rpartition("=")
        try:
            grade = float(text)
        except ValueError:
            grade = math.nan
        if not name.strip() or not -1 <= grade <= 1:  # which is also false for nan
            raise BadInput(f"an action is {part!r}", value=part, expected="ACTION=GRADE, a grade from -1 to 1")
        actions[name.strip()] = grade
    return actions


def click_grades(
    interactions: Sequence[Interaction], actions: Actions = ACTIONS, shown: Sequence[str] = ()
) -> dict[str, Graded]:
    """Grades by document of what was done with the hits of one query.

    A document counts by the action with the largest grade, the latest of several: grade ** p for a hit that is looked
    at with probability p, so an action of grade 1 counts the same everywhere. Hits that were passed over count the
    grade of SHOWN times p. ``shown``: the documents of the list in its order, if it is known; those with an
    interaction SHOWN were shown too. Documents of actions without a grade are left out.

    >>> marks = click_grades([Interaction("b", "click", 2), Interaction("a", "impression", 1)])
    >>> {document: round(one.grade, 2) for document, one in marks.items()}
    {'b': 0.56, 'a': -0.25}
    """
    ranks = _ranks(interactions, shown)
    graded: dict[str, Graded] = {}
    strongest: dict[str, float] = {}
    for one in sorted(interactions, key=lambda one: one.at):
        grade = 0.0 if one.action == SHOWN else actions.get(one.action, 0.0)
        if grade and abs(grade) >= strongest.get(one.document, 0.0):
            strongest[one.document] = abs(grade)
            graded[one.document] = Graded(_weighed(grade, ranks.get(one.document, 0)), one.at)
    clicks = {id: one for id, one in graded.items() if one.grade > 0 and id in ranks}
    passed_over = actions.get(SHOWN, 0.0)
    if not clicks or not passed_over:
        return graded
    lowest = max(clicks, key=lambda id: ranks[id])
    for document, rank in ranks.items():
        if rank < ranks[lowest] and document not in graded:
            graded[document] = Graded(passed_over * _looked_at(rank), clicks[lowest].at, "skip")
    return graded


def _ranks(interactions: Sequence[Interaction], shown: Sequence[str]) -> dict[str, int]:
    """The place from 0 of each document for which it is known."""
    # The specification says "nth", and its own sample counts from 0.
    first = 0 if any(one.ordinal == 0 for one in interactions) else 1
    ranks: dict[str, int] = {}
    for one in interactions:
        if one.ordinal is not None and one.ordinal >= first:
            ranks[one.document] = min(one.ordinal - first, ranks.get(one.document, one.ordinal))
    # what a page says of itself is nearer to what was seen than the order of the answer
    return {**{document: rank for rank, document in reversed(list(enumerate(shown)))}, **ranks}


def _looked_at(rank: int) -> float:
    return float((rank + 1) ** -POSITION_BIAS)


def _weighed(grade: float, rank: int) -> float:
    return grade ** _looked_at(rank) if grade > 0 else grade
