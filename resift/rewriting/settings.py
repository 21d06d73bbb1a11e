"""How a search is rewritten, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from resift.contracts.query_dsl import Body, VectorFields
from resift.contracts.search_options import JUDGED
from resift.errors import BadInput
from resift.ranking.feedback import Feedback
from resift.rewriting.outcome import Note, Outcome
from resift.sessions.knowledge import Knowledge


@dataclass(frozen=True)
class RewriteSettings:
    """How a search is rewritten.

    ``alpha``: weight of the similarity, 0 (the words alone) to 1 (the similarity alone, but for ties). ``window``: how
    many of the first hits are rescored. ``widen``: whether the session's strongest words, and the ``knn`` documents
    nearest to the query, may add documents that the query itself does not match. ``judged``: what happens to documents
    that the session has judged: they ``keep`` the place that they have without the session, are shown last (``demote``)
    or not at all (``hide``).

    Raises BadInput for an unknown ``judged``.
    """

    alpha: float
    window: int
    widen: bool = False
    knn: int = 0
    judged: str = "keep"

    def __post_init__(self) -> None:
        if self.judged not in JUDGED:
            raise BadInput(f"judged is {self.judged!r}", value=self.judged, expected=" | ".join(JUDGED))


@dataclass(frozen=True)
class Rewritten:
    """A search ``body`` and what became of it, by what ``knowledge`` and under which ``settings``.

    ``notes``: what could not be done, beside what ``knowledge`` notes. ``in_place``: whether the body ranks by meaning
    itself, and its own clauses were changed if anything was; ``is_changed``: whether anything was.
    """

    body: Body
    outcome: Outcome
    knowledge: Knowledge
    settings: RewriteSettings
    notes: Sequence[Note] = ()
    in_place: bool = False
    is_changed: bool = True

    @property
    def is_scored(self) -> bool:
        """Whether its hits have scores of ours, :func:`resift.rewriting.rewrite.score_factor` times the words' own."""
        return not self.in_place and self.outcome in (Outcome.REWRITTEN, Outcome.IN_PART)

    @property
    def is_ranked(self) -> bool:
        """Whether its hits are in the order of their scores, and may be ordered by others."""
        return self.is_scored or (self.outcome is Outcome.NOTHING_TO_ADD and not self.in_place)

    @property
    def is_reranked(self) -> bool:
        """Whether the order of its hits is ours."""
        return self.is_scored or (self.in_place and self.is_changed)

    @property
    def field(self) -> tuple[str, Feedback] | None:
        """The first field whose vectors moved a clause of its own, and what they taught."""
        moved = self.knowledge.own.vectors.items() if self.in_place and self.is_changed else ()
        return next(((name, own.feedback) for name, own in moved), None)

    def seen(self, searched: VectorFields) -> VectorFields:
        """The field or fields by which hits are compared, of an index whose own that we search are ``searched``."""
        return searched if self.field is None else self.field[0]

    @property
    def obstacle(self) -> str:
        """What kept the body as it was, wholly or in part, in English; "" if nothing did."""
        notes = [note.outcome.english.format(note.detail) for note in self.notes]
        return "; ".join(dict.fromkeys(notes)) or self.outcome.english

    @property
    def reason(self) -> str:
        """The same, and what was left out beside it."""
        return "; ".join(filter(None, [self.obstacle, *self.knowledge.notes]))
