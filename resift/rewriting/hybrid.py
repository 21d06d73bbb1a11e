"""Requests that rank by meaning already: ``hybrid``, ``knn``, ``neural`` and ``neural_sparse``, alone or among others.

Their own clauses are changed in place, since nothing of ours ranks better, and no rescoring goes with mixed lists. A
vector clause is moved, a sparse one too (``fields.py``), and a text clause gets the session's words as alternatives
that find nothing by themselves. Each stays what it was in all else, so that whatever mixes or filters its hits goes on
doing so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from resift.feedback.field_feedback import evidence_share
from resift.query.dsl import Body
from resift.rewriting.clauses import (
    asked_fields,
    demotion,
    document_clauses,
    fixed_score,
    highlighted,
    holds_better,
    kind_of,
    named_bool,
    plain_bool,
    rescores,
    sunk,
    text_length,
    word_clauses,
    word_room,
)
from resift.rewriting.fields import Moved, changed, field_query, vector_clauses, without_documents
from resift.rewriting.outcome import Note, Outcome
from resift.rewriting.request import RewriteSettings, Rewritten
from resift.sessions.documents import Needs
from resift.sessions.knowledge import WORD_WEIGHT, Knowledge

_SMALLEST_SHARE = 0.3


def needs_of(body: Body, mapped: Mapping[str, Any]) -> Needs:
    """What has to be known of an index with these ``mapped`` fields, and of models, for a body to be rewritten."""
    asked = filter(None, map(field_query, vector_clauses(body.get("query"))))
    moved = [(one, field) for one in asked if (field := one.field(mapped)) is not None and not one.has_threshold]
    texts = (one.text(field) for one, field in moved)
    return Needs(frozenset(field for _, field in moved), frozenset(text for text in texts if text is not None))


def change_in_place(
    body: Body, fields: Sequence[str], knowledge: Knowledge, settings: RewriteSettings, by_score: bool, rescorable: bool
) -> Rewritten:
    """The body with its own clauses changed by what ``knowledge`` says.

    ``by_score``: whether its hits are sorted by their scores first; ``rescorable``: whether OpenSearch would.
    """
    query: Body = body["query"]
    change = _Change(query, fields, knowledge, settings)
    ranked = by_score and body.get("min_score") is None
    made = change.whole(query) if ranked else query
    change.notes += [] if ranked else [Note(Outcome.THRESHOLD if by_score else Outcome.SORTED)]
    hidden = change.judged if settings.judged == "hide" else []
    last = change.judged if settings.judged == "demote" else []
    if last and not (rescorable and kind_of(query) != "hybrid"):
        change.notes.append(Note(Outcome.NOT_DEMOTED))
        last = []
    if made is query and not last and not hidden:
        return _unchanged(body, knowledge, settings, change.notes)
    whole = {
        **body,
        "query": _named(made, hidden),
        **({"rescore": rescores(body, demotion(settings.window, last))} if last else {}),
        **(highlighted(body, _texts_of(query)) if change.has_words else {}),
    }
    change.notes += [Note(Outcome.MARKS_GONE, knowledge.gone)] * bool(knowledge.gone)
    return Rewritten(whole, _outcome(change.notes, knowledge), knowledge, settings, change.notes, in_place=True)


def _unchanged(body: Body, knowledge: Knowledge, settings: RewriteSettings, notes: Sequence[Note]) -> Rewritten:
    why = notes if knowledge.feedback is not None else ()
    outcome = _outcome(why, knowledge) if why else Outcome.NOTHING_TO_ADD
    return Rewritten(body, outcome, knowledge, settings, why, in_place=True, is_changed=False)


def _outcome(notes: Sequence[Note], knowledge: Knowledge) -> Outcome:
    """What became of a body: its only note's outcome."""
    outcomes = {note.outcome for note in notes}
    if not outcomes and not knowledge.notes:
        return Outcome.REWRITTEN
    return outcomes.pop() if len(outcomes) == 1 and not knowledge.notes else Outcome.IN_PART


def _texts_of(clause: Any) -> Any:
    """A clause without vectors and tokens, which highlights need not have encoded once more."""
    return {"match_none": {}} if field_query(clause) else changed(clause, _texts_of)


def _named(query: Body, hidden: list[Body]) -> Body:
    """A query under our name, without the documents that are hidden; a ``hybrid`` one has both inside its parts."""
    inner = query.get("hybrid")
    if inner is None:
        return named_bool(must=[query], must_not=hidden)
    first, *others = inner["queries"]
    queries = [named_bool([first], must_not=hidden), *(plain_bool([one], must_not=hidden) for one in others)]
    return {"hybrid": {**inner, "queries": queries if hidden else [queries[0], *others]}}


class _Change:
    """What is known changes in the clauses of a ``query``; ``notes`` say what it could not."""

    def __init__(self, query: Body, fields: Sequence[str], knowledge: Knowledge, settings: RewriteSettings) -> None:
        self.fields, self.knowledge, self.settings = fields, knowledge, settings
        self.notes: list[Note] = []
        self.has_words = False
        relevant = knowledge.judged_here(1)
        self.judged = document_clauses(knowledge.judged, knowledge.homes)
        self.relevant = document_clauses(relevant, knowledge.homes)
        irrelevant = knowledge.judged_here(-1) if settings.judged == "keep" else []
        self.irrelevant = document_clauses(irrelevant, knowledge.homes)
        self.others = document_clauses([id for id in knowledge.judged if id not in relevant], knowledge.homes)
        self.moves: dict[int, Moved | Note] = {}
        for clause in vector_clauses(query) if knowledge.feedback is not None else ():
            found = field_query(clause)
            if found is not None:
                # words alone are carried over from another query
                own = knowledge.feedback is not None and knowledge.feedback.for_query.evidence
                self.moves[id(clause)] = found.moved(knowledge.own) if own else Moved(clause)

    @property
    def share(self) -> float:
        """The part of the session's words that relevant documents count in a list whose scores are normalised.

        They have most of them: with all they would set the largest score, and press the other documents together, so
        that a list of vectors that says little takes over. It is max(.3, g) · e / (1 + e), where g is how well the
        vectors beside it tell documents apart: their mean, 1 without any, and a half where they could not be had.
        """
        feedback = self.knowledge.feedback
        moved = [one.distinction for one in self.moves.values() if isinstance(one, Moved)]
        distinction = sum(moved) / len(moved) if moved else 0.5 if self.moves else 1.0
        return max(_SMALLEST_SHARE, distinction) * evidence_share(
            0.0 if feedback is None else feedback.for_query.evidence
        )

    def whole(self, query: Body) -> Body:
        """The whole query, changed, in which irrelevant documents sink; lists that are mixed have no way for that."""
        made: Body = self.clause(query)
        return made if made is query or kind_of(query) == "hybrid" else self.sunk(made)

    def clause(self, clause: Any, mixed: bool = False) -> Any:
        """A clause that scores, changed. ``mixed``: whether its scores are normalised beside those of other lists."""
        kind = kind_of(clause)
        if kind is None:
            return clause
        if id(clause) in self.moves:
            return self._moved(clause, mixed)
        if not holds_better(clause):
            return self._with_words(clause, mixed)
        if kind in ("nested", "has_child", "has_parent"):
            self.notes.append(Note(Outcome.NOT_MOVED, clause[kind].get("path", kind)))
            return clause
        return changed(clause, lambda inner: self.clause(inner, mixed or kind == "hybrid"))

    def _moved(self, clause: Body, mixed: bool) -> Body:
        """A clause of vectors or tokens, moved; in a mixed list relevant documents have a bonus."""
        moved = self.moves[id(clause)]
        if isinstance(moved, Note):
            self.notes.append(moved)
            moved = Moved(clause)
        hides = self.settings.judged == "hide" and self.judged
        found = without_documents(moved.clause, self.judged) if hides else moved.clause
        if not (mixed and moved.bonus and self.relevant):
            return found
        bonus = [fixed_score(one, moved.bonus) for one in self.relevant]
        return plain_bool([found], bonus)  # of what is found: what comes in by it alone would be the smallest score

    def _with_words(self, clause: Body, mixed: bool) -> Body:
        """A text clause with the session's words, which find nothing by themselves; irrelevant documents, and those
        that were judged for other queries, go without."""
        asked = asked_fields(clause)
        if asked is None:
            return clause
        # Not among vectors that are mixed: there it would set the smallest score, and press all others together. Nor
        # beside relevant documents, with which others rise: it would cost more than it does for the order.
        clause = self.sunk(clause) if mixed and not self.relevant else clause
        fields = asked or self.fields
        room = word_room(self.knowledge.text, fields)
        length = WORD_WEIGHT * text_length(self.knowledge.text)
        words = word_clauses(self.knowledge.terms, fields, length)[:room]
        if not words:
            return clause
        self.has_words = True
        added = plain_bool((), words, must_not=self.others)
        if mixed and self.relevant:
            functions = [{"filter": one, "weight": round(self.share, 4)} for one in self.relevant]
            added = {"function_score": {"query": added, "functions": functions, "score_mode": "first"}}
        return plain_bool([clause], [added])

    def sunk(self, clause: Body) -> Body:
        """A clause whose irrelevant documents sink."""
        return sunk(clause, self.irrelevant, self.knowledge.sinking)
