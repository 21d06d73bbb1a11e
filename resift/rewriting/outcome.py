"""The result of a rewriting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from resift.feedback.feedback import Feedback
from resift.query.dsl import Body
from resift.rewriting.knowledge import Knowledge
from resift.rewriting.options import Options


class Outcome(Enum):
    """Results of rewriting a search: it was rewritten completely, in part, or not at all for some reason.

    Attributes:
        code: A stable code for responses and metrics.
        english: The reason in English, or "" for success. It can contain a placeholder for a detail such as a field's
            name, which ``str.format`` fills in.
    """

    REWRITTEN = "rewritten", ""
    IN_PART = "in_part", ""  # rewritten, but notes say that something was left out
    NOTHING_TO_ADD = "nothing_to_add", "there is nothing to add"
    SESSION_NOT_LOADED = "session_not_loaded", "there is nothing to add without the session"
    NO_TEXT = "no_text", "the query has no text"
    NO_QUERY = "no_query", "there is no query"
    NO_HITS = "no_hits", "no hits are requested"
    MALFORMED = "malformed_query", "the query is malformed"
    # OpenSearch would refuse or misread these queries inside another clause.
    UNKNOWN_CLAUSE = "unknown_clause", "a clause is malformed or of an unknown kind"
    INNER_HYBRID = "inner_hybrid", "`hybrid` is inside another clause"
    MMR = "mmr", "`ext.mmr` works only with a `knn` or `neural` clause that nothing is added to"
    SLICED = "sliced_scroll", "OpenSearch does not rescore a scroll"
    # The service rewrites a search for an index whose default search pipeline would rewrite it again.
    ALREADY_REWRITTEN = "already_rewritten", "the query is rewritten already"
    # Set by the service. The search may succeed nevertheless, for example with ``ignore_unavailable``.
    INDEX_UNAVAILABLE = "index_unavailable", "the index {!r} does not exist, or it is not served"
    # OpenSearch does not rescore these searches. Only the expansion words count, and hidden documents stay hidden.
    COLLAPSED = "collapsed", "the search has 'collapse'"
    SEARCH_AFTER = "search_after", "the search has 'search_after'"
    SORTED = "sorted", "the search has 'sort'"
    SCORES_REPLACED = "scores_replaced", "`boost_mode: replace` ignores the scores of the query"
    # A clause that ranks by vectors or tokens of the index stays as it came.
    THRESHOLD = "threshold", "`min_score` or `max_distance` decides what matches"
    NOT_MOVED = "vectors_not_moved", "the vectors of {!r} are nested, binary, or not in the mapping"
    NO_VECTORS = "no_vectors", "no marked document has a value in {!r}"
    OTHER_DIMENSION = "other_dimension", "the query vector has another dimension than the vectors of {!r}"
    MODEL_NOT_NAMED = "model_not_named", "neither the search nor the mapping names the model of {!r}"
    TOKENS_UNKNOWN = "tokens_unknown", "OpenSearch does not return the token numbers of a query for field {!r}"
    MODEL_UNAVAILABLE = "model_unavailable", "the model could not encode the query for {!r}"
    TOO_MANY_CLAUSES = "too_many_clauses", "the query has almost as many clauses as OpenSearch allows"
    # Another part of the search could not be rewritten.
    NOT_DEMOTED = "not_demoted", "OpenSearch cannot demote judged documents in this search"
    MARKS_GONE = "marks_gone", "marked documents that no longer exist: {}"
    FAILED = "failed", "failed: {}"
    OVERLOADED = "overloaded", "the service is overloaded"

    def __init__(self, code: str, english: str) -> None:
        self.code, self.english = code, english


class Note(NamedTuple):
    """A reason why a part of a query could not be rewritten.

    For example, ``Note(Outcome.NO_VECTORS, "title_vector")`` stands for the message "no marked document has a value in
    'title_vector'".

    Attributes:
        outcome: The kind of obstacle. Its attribute ``english`` is the message, which can contain a placeholder.
        detail: The value for this placeholder, such as the name of a field.
    """

    outcome: Outcome
    detail: object = ""


def outcome_if_unchanged(knowledge: Knowledge) -> Outcome:
    """Return the outcome of a search that was not changed, because its session has nothing to add to it.

    Args:
        knowledge: The data about the search, its session and the searched indices.

    Returns:
        ``SESSION_NOT_LOADED`` if the marks of the session could not be read, or not in time. Otherwise
        ``NOTHING_TO_ADD``.
    """
    return Outcome.SESSION_NOT_LOADED if knowledge.lacks_session else Outcome.NOTHING_TO_ADD


@dataclass(frozen=True, kw_only=True)
class Rewritten:
    """The result of rewriting a search body. Its ``body`` is the original body if nothing was changed.

    Attributes:
        body: The rewritten search body, or the original object if nothing changed.
        outcome: The outcome of the rewriting.
        knowledge: The knowledge on which the rewriting is based.
        options: The options of the rewriting.
        notes: Changes that were not possible, besides the notes of ``knowledge``.
        is_changed: Whether ``body`` differs from the original body.
        in_place: True if the clauses of the query were to be changed (see :mod:`resift.rewriting.in_place`). False if
            rescore stages were to be added to the search body (see :mod:`resift.rewriting.rescored`).
        added_related_words: The words that were added to the query so that it finds more documents. They are similar in
            meaning to the words of the query.
    """

    body: Body
    outcome: Outcome
    knowledge: Knowledge
    options: Options
    is_changed: bool
    notes: Sequence[Note] = ()
    in_place: bool = False
    added_related_words: Sequence[str] = ()

    @property
    def has_resift_scores(self) -> bool:
        """Whether words or rescore stages that Resift added to the search body may change the scores of the hits.

        The value is False if Resift changed the clauses of the query instead (:attr:`in_place`), or if the search was
        not rewritten.
        """
        return not self.in_place and self.outcome in (Outcome.REWRITTEN, Outcome.IN_PART)

    @property
    def ranks_by_text_scores(self) -> bool:
        """Whether the hits are ranked by the scores of a text search, which Resift may have changed.

        Only such hits may be reordered by a trained reranker. The value is False for a search that ranks by vectors, or
        that OpenSearch cannot rescore, for example because it is sorted by a field.
        """
        return self.has_resift_scores or self.had_nothing_to_add

    @property
    def had_nothing_to_add(self) -> bool:
        """Whether a text search was not changed, because its session has nothing to add to it or was not loaded."""
        return not self.in_place and self.outcome in (Outcome.NOTHING_TO_ADD, Outcome.SESSION_NOT_LOADED)

    @property
    def may_reorder_hits(self) -> bool:
        """Whether the rewritten search body may rank the hits in another order than the original body."""
        return self.has_resift_scores or (self.in_place and self.is_changed)

    @property
    def moved_field(self) -> tuple[str, Feedback] | None:
        """The name of the vector field whose query vector was moved, and the feedback that moved the query vector.

        This applies only to a query that itself searches vector fields of the index, such as a ``knn`` query. If it
        searches several vector fields, the value describes the first field. The value is None if no query vector was
        moved.
        """
        if not (self.in_place and self.is_changed):
            return None
        return next(((name, vectors.feedback) for name, vectors in self.knowledge.own_fields.vectors.items()), None)

    @property
    def obstacle(self) -> str:
        """The reasons why the search body was not rewritten completely, in English, or "" if there are none."""
        sentences = [note.outcome.english.format(note.detail) for note in self.notes]
        if sentences or self.outcome is not Outcome.NOTHING_TO_ADD:
            return "; ".join(dict.fromkeys(sentences)) or self.outcome.english
        return ": ".join(filter(None, [self.outcome.english, self.unused_session]))

    @property
    def unused_session(self) -> str:
        """The reason in English why the session has no effect on the search, or "" if it has an effect.

        The value is also "" if the search names no session, or if other notes give the reason. A session that belongs
        to another caller appears to have no marks.
        """
        knowledge = self.knowledge
        if self.options.session is None or knowledge.feedback is not None:
            return ""
        if knowledge.documents:
            return "the session's marks do not count for this query"
        return "" if knowledge.notes or knowledge.lacks_session else "the session has no marks"

    @property
    def reason(self) -> str:
        """All reasons why the rewriting is incomplete, as an English text, or "" if it is complete.

        The text consists of the reasons why the search body was not rewritten completely (:attr:`obstacle`), followed
        by notes on data that could not be loaded.
        """
        return "; ".join(filter(None, [self.obstacle, *self.knowledge.notes]))
