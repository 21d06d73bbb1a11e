"""Rewriting of queries that rank by meaning already: ``hybrid``, ``knn``, ``neural`` and ``neural_sparse``.

The vectors of these queries rank better than anything that Resift could add, and OpenSearch does not rescore ``hybrid``
queries. So the clauses of the query are changed where they are:

- Query vectors and query tokens are moved towards relevant documents (:mod:`resift.rewriting.moving`).
- Text clauses get the expansion words as optional clauses, which match no further documents.

The clauses are filtered, combined and normalised as before.

Searches for words that OpenSearch cannot rescore, such as a scroll, get their expansion words in the same way, if the
index has no vectors of Resift. See :func:`resift.rewriting.rewrite.rewrite`.

:func:`rewrite_in_place` is the entry point. :class:`_ClauseRewriter` changes the clauses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from resift.feedback.evidence import evidence_share
from resift.feedback.field_feedback import MAX_ADDED_TOKENS
from resift.query.body import Query
from resift.query.clause_count import MAX_ENGINE_CLAUSES
from resift.query.dsl import REWRITTEN_NAME, Body
from resift.query.kinds import HYBRID_KIND, JOINING_KINDS, VECTOR_KINDS
from resift.query.scores import always_scores, replaces_scores, text_score_factor
from resift.query.tree import Clause, HybridClause, SemanticClause, SparseClause
from resift.rewriting.clauses import (
    MAX_DOCUMENT_LISTS,
    bool_clause,
    constant_score,
    demotion_stage,
    document_clauses,
    factor_clauses,
    highlight_section,
    marked_bool,
    rescore_stages,
    with_scaled_scores,
)
from resift.rewriting.knowledge import LEXICAL_WORD_WEIGHT, Knowledge
from resift.rewriting.moving import MovedClause, move_clause, with_excluded_documents
from resift.rewriting.obstacles import is_ranked_by_query, rescore_obstacle
from resift.rewriting.options import Options
from resift.rewriting.outcome import Note, Outcome, Rewritten, outcome_if_unchanged
from resift.rewriting.words import addable_word_count, average_boosts, query_word_norm, word_clauses

# Expansion words keep this share of their scores in a ``hybrid`` query whose vectors do not distinguish topics, before
# the number of judgements is taken into account.
_SMALLEST_WORD_SHARE = 0.3
# The value that is assumed for ``MovedClause.topic_separation`` if a query has vector clauses, but none of them could
# be moved.
_UNKNOWN_TOPIC_SEPARATION = 0.5


def rewrite_in_place(query: Query, knowledge: Knowledge, options: Options) -> Rewritten:
    """Rewrite the clauses of a query instead of adding rescore stages to the search body.

    This is for queries that rank by vectors or sparse tokens, and for text searches that OpenSearch cannot rescore. The
    query vectors and query tokens in the clauses are moved towards the relevant documents of the session. Text clauses
    get expansion words (words learned from relevant documents). A rescore stage is added only to demote judged
    documents.

    Args:
        query: The parsed search body.
        knowledge: The user's relevance judgements and other knowledge for this search.
        options: The options of the rewriting, for example how judged documents are shown.

    Returns:
        The rewritten search body, with notes on clauses that could not be changed.
    """
    rewriter = _ClauseRewriter(query, knowledge, options)
    notes = rewriter.notes
    has_threshold = query.body.get("min_score") is not None
    is_ranked = is_ranked_by_query(query)
    may_rank = is_ranked and not has_threshold
    if not rewriter.may_add_clauses:
        moved = rewriter.query_with_moved_vectors() if may_rank else query.root.raw
        notes.append(Note(Outcome.TOO_MANY_CLAUSES))
        if moved is query.root.raw:
            return _unchanged_result(query, knowledge, options, notes)
        return _changed_result({**query.body, "query": moved}, knowledge, options, notes)
    if may_rank:
        changed = rewriter.rewritten_query()
    else:
        changed = query.root.raw
        notes.append(Note(Outcome.THRESHOLD if is_ranked else _order_obstacle(query)))
    hidden = rewriter.judged if options.judged == "hide" else []
    demoted = rewriter.judged if options.judged == "demote" else []
    if demoted and not _can_demote(query, options):
        notes.append(Note(Outcome.NOT_DEMOTED))
        demoted = []
    if changed is query.root.raw and not demoted and not hidden:
        return _unchanged_result(query, knowledge, options, notes)
    body = {**query.body, "query": _marked_without_hidden(query, changed, hidden)}
    if demoted:
        body["rescore"] = rescore_stages(query.body, [demotion_stage(options.window_size, demoted)])
    if rewriter.has_added_words:
        body |= highlight_section(query.body, _without_vector_clauses(query.root))
    return _changed_result(body, knowledge, options, notes)


def _changed_result(body: Body, knowledge: Knowledge, options: Options, notes: list[Note]) -> Rewritten:
    """Return the result of a rewriting that changed the search body.

    Args:
        body: The new search body.
        knowledge: The user's relevance judgements and other knowledge for this search.
        options: The options of the rewriting.
        notes: The reasons why parts of the query were not changed. Marked documents that no longer exist are added.
    """
    if knowledge.missing_documents:
        notes.append(Note(Outcome.MARKS_GONE, knowledge.missing_documents))
    return Rewritten(
        body=body,
        outcome=_outcome_of_notes(notes, knowledge),
        knowledge=knowledge,
        options=options,
        is_changed=True,
        notes=notes,
        in_place=True,
    )


def _order_obstacle(query: Query) -> Outcome:
    """Return the reason why the scores of the query do not decide the order of the hits.

    Args:
        query: The parsed search body of such a search.
    """
    is_sorted_by_score = query.is_sorted_by_score(allow_further_criteria=True)
    return Outcome.SCORES_REPLACED if is_sorted_by_score else Outcome.SORTED


def _can_demote(query: Query, options: Options) -> bool:
    """Return whether a rescore stage can move judged documents behind the other hits.

    OpenSearch does not rescore ``hybrid`` queries, for example.

    Args:
        query: The parsed search body.
        options: The options of the rewriting.
    """
    return rescore_obstacle(query, options.scroll) is None and query.root.kind != HYBRID_KIND


def _unchanged_result(query: Query, knowledge: Knowledge, options: Options, notes: Sequence[Note]) -> Rewritten:
    """Return the result of a rewriting that did not change the query.

    Args:
        query: The parsed search body.
        knowledge: The user's relevance judgements and other knowledge for this search.
        options: The options of the rewriting.
        notes: The reasons why clauses were not changed. They are ignored if nothing had to be changed, because the
            session has no feedback for this query, and no judged documents must be hidden or demoted.
    """
    moves_documents = options.judged in ("hide", "demote") and bool(knowledge.judged)
    reasons = notes if knowledge.feedback is not None or moves_documents else ()
    return Rewritten(
        body=query.body,
        outcome=_outcome_of_notes(reasons, knowledge) if reasons else outcome_if_unchanged(knowledge),
        knowledge=knowledge,
        options=options,
        is_changed=False,
        notes=reasons,
        in_place=True,
    )


def _outcome_of_notes(notes: Sequence[Note], knowledge: Knowledge) -> Outcome:
    """Summarise the notes of a rewriting as a single outcome.

    Args:
        notes: The reasons why parts of the query were not changed, each with an outcome.
        knowledge: The knowledge about the search. It has notes, too, if some data could not be loaded.

    Returns:
        ``REWRITTEN`` if neither ``notes`` nor ``knowledge`` contains a note. If ``knowledge`` has no notes and all
        ``notes`` have the same outcome, that outcome is returned. In all other cases, ``IN_PART`` is returned.
    """
    outcomes = {note.outcome for note in notes}
    if not outcomes and not knowledge.notes:
        return Outcome.REWRITTEN
    return outcomes.pop() if len(outcomes) == 1 and not knowledge.notes else Outcome.IN_PART


def _without_vector_clauses(clause: Clause) -> Any:
    """Return a query in which all vector and sparse token clauses are replaced with ``match_all``.

    The result is used as the query for highlights. If it contained the ``neural`` clauses, OpenSearch would have to
    encode their texts a second time.

    Args:
        clause: The parsed query, or a clause inside it.
    """
    if isinstance(clause, SemanticClause) and clause.field is not None:
        texts = clause.parts.get("query", ())  # of a scripted clause
        return texts[0].raw if texts else {"match_all": {}}
    return clause.replace_scoring_clauses(_without_vector_clauses)


def _marked_without_hidden(query: Query, changed: Body, hidden: list[Body]) -> Body:
    """Mark a query as rewritten by Resift, and exclude hidden documents from its hits.

    The query is wrapped in a ``bool`` clause with a named filter, which is the mark. A ``hybrid`` query cannot be
    wrapped in another query. Therefore its first sub-query is marked, and hidden documents are excluded from each
    sub-query. A sub-query with an unknown clause is not wrapped.

    A query for ``ext.mmr`` cannot be wrapped either. The ``_name`` of its only clause is the mark, and the filter of
    the clause excludes hidden documents already. A clause with a name of the user's own is not rewritten.

    Args:
        query: The parsed search body.
        changed: The query with changed clauses, as JSON.
        hidden: Clauses that match the hidden documents.
    """
    if query.has_mmr:
        return _with_mark(changed)
    hybrid = changed.get(HYBRID_KIND)
    if not isinstance(query.root, HybridClause) or hybrid is None:
        return marked_bool(must=[changed], must_not=hidden)
    queries, is_marked = [], False
    for clause, inner in zip(query.root.queries, hybrid["queries"], strict=True):
        if clause.has_unknown or (is_marked and not hidden):
            queries.append(inner)
        else:
            wrap = bool_clause if is_marked else marked_bool
            queries.append(wrap(must=[inner], must_not=hidden))
            is_marked = True
    return {HYBRID_KIND: {**hybrid, "queries": queries}}


def _with_mark(clause: Body) -> Body:
    """Mark a ``knn`` or ``neural`` clause as rewritten by Resift, by its ``_name``."""
    ((kind, settings),) = clause.items()
    return {kind: {field: {**options, "_name": REWRITTEN_NAME} for field, options in settings.items()}}


class _ClauseRewriter:
    """Applies the user's relevance judgements to the clauses of a query that ranks by vectors or sparse tokens.

    Attributes:
        notes: The changes that were not possible, with the reasons.
        has_added_words: Whether expansion words were added to a text clause.
        judged: Clauses that match all documents that the user judged.
    """

    def __init__(self, query: Query, knowledge: Knowledge, options: Options) -> None:
        self.notes: list[Note] = []
        self.has_added_words = False
        self._root, self._knowledge = query.root, knowledge
        self._hides, self._widens = options.judged == "hide", bool(options.widen)
        self._has_mmr = query.has_mmr
        relevant = knowledge.judged_for_query(1)
        not_relevant = [document for document in knowledge.judged if document not in relevant]
        self.judged = document_clauses(knowledge.judged, knowledge.has_several_indices)
        self._relevant = document_clauses(relevant, knowledge.has_several_indices)
        # If judged documents cannot be demoted, they must not rank higher than with "keep".
        is_kept = options.judged == "keep" or (options.judged == "demote" and not _can_demote(query, options))
        factors = knowledge.score_factors(only_rejected=False) if is_kept else {}
        self._score_factors = factor_clauses(factors, knowledge.has_several_indices)
        self._not_relevant = document_clauses(not_relevant, knowledge.has_several_indices)
        self._moves = self._moved_clauses()
        self._texts = list(self._text_clauses(query.root))
        self._clause_count = knowledge.clause_counter.count_clauses(query.root) + self._added_clause_count()
        self._word_count = self._words_per_text_clause()

    @property
    def may_add_clauses(self) -> bool:
        """Whether clauses can be added to the query without exceeding OpenSearch's limit on the number of clauses."""
        return self._clause_count <= MAX_ENGINE_CLAUSES

    def _text_clauses(self, clause: Clause, in_hybrid: bool = False) -> Iterator[Clause]:
        """Yield the text clauses to which expansion words are added: the clause itself, or text clauses inside it.

        Expansion words are words that the session learned from relevant documents.

        OpenSearch removes documents with the score 0 from the hits of a ``hybrid`` query. Expansion words would raise
        such a score, and the document would become a hit. Inside a ``hybrid`` query, a text clause is therefore yielded
        only if each document that it matches has a score above 0. Otherwise, the clauses inside it are examined.

        Nothing is yielded from a clause whose functions replace the scores of the words.

        Args:
            clause: The parsed clause.
            in_hybrid: Whether the clause is inside a ``hybrid`` query.
        """
        if replaces_scores(clause) or (in_hybrid and clause.has_unknown):
            return
        is_text = not clause.ranks_by_meaning and clause.searched_fields is not None
        if is_text and (not in_hybrid or always_scores(clause)):
            yield clause
        elif clause.kind not in JOINING_KINDS:
            for _, parts in clause.scoring_parts():
                for part in parts:
                    yield from self._text_clauses(part, in_hybrid or clause.kind == HYBRID_KIND)

    def _added_clause_count(self) -> int:
        """Return the maximum number of clauses that the rewriter adds to the query for judged documents and tokens.

        Clauses for expansion words are not counted, because their number is chosen later.
        """
        lists = MAX_DOCUMENT_LISTS * (1 + len(self._texts) + len(self._moves))
        sparse = sum(isinstance(clause, SparseClause) for clause in self._moves)
        return 1 + lists * self._knowledge.document_clause_count + sparse * MAX_ADDED_TOKENS

    def _words_per_text_clause(self) -> int:
        """Return the number of expansion words to add to each text clause of the query.

        Expansion words are words that the session learned from relevant documents. The number is limited, because
        OpenSearch rejects queries with too many clauses.
        """
        knowledge = self._knowledge
        if not self._texts or not knowledge.expansion_words:
            return 0
        clauses_per_term = sum(
            knowledge.clause_counter.clauses_per_term(clause.searched_fields or knowledge.fields)
            for clause in self._texts
        )
        return addable_word_count(knowledge.expansion_words, self._clause_count, clauses_per_term)

    def _moved_clauses(self) -> dict[Clause, MovedClause | Note]:
        """Adapt each vector clause and sparse token clause of the query to the judged documents of the session.

        A query vector is moved towards the vectors of relevant documents. Query tokens are extended with tokens of
        relevant documents.

        Returns:
            A mapping from each clause to the changed clause, or to a note with the reason why the clause cannot be
            changed. Clauses whose scores are replaced by functions are left out.
        """
        feedback = self._knowledge.feedback
        if feedback is None:
            return {}
        # Marks for other queries add only expansion words.
        is_moved = bool(feedback.for_query.evidence)
        replaced = {
            inner for clause in self._root.walk() if replaces_scores(clause) for inner in clause.semantic_clauses()
        }
        return {
            clause: move_clause(clause, self._knowledge.own_fields, self._widens)
            if is_moved
            else MovedClause(clause.raw)
            for clause in self._root.semantic_clauses()
            if clause.field is not None and clause not in replaced
        }

    def rewritten_query(self) -> Body:
        """Return the whole query with all clauses rewritten.

        If a clause was changed, the scores of documents that the user marked irrelevant are reduced as well. A
        ``hybrid`` query and a query for ``ext.mmr`` are exceptions, because OpenSearch does not allow them inside
        another query.

        Returns:
            The new query, or the original query if no clause was changed.
        """
        changed: Body = self._rewrite_clause(self._root)
        if changed is self._root.raw or self._root.kind == HYBRID_KIND or self._has_mmr:
            return changed
        return self._with_irrelevant_scaled(changed)

    def query_with_moved_vectors(self) -> Any:
        """Return the query with moved query vectors, and without any additional clause.

        This is for queries with almost as many clauses as OpenSearch allows. Only ``knn`` and ``neural`` clauses that
        are the whole query, or one of the queries of ``hybrid``, are changed. Their ``_name`` marks the query as
        rewritten, so clauses with a name of the user's own stay unchanged. If a vector cannot be moved, the reason is
        added to :attr:`notes`.

        Returns:
            The new query, or the original query if no clause was changed.
        """
        root = self._root
        return root.replace_scoring_clauses(self._moved) if isinstance(root, HybridClause) else self._moved(root)

    def _moved(self, clause: Clause) -> Any:
        """Return a ``knn`` or ``neural`` clause with a moved query vector, named as a mark of the rewriting.

        Args:
            clause: The clause. Clauses of other types, and clauses with a ``_name``, are returned unchanged.
        """
        moved = self._moves.get(clause)
        if isinstance(moved, Note):
            self.notes.append(moved)
        is_named = isinstance(clause, SemanticClause) and clause.options.get("_name") is not None
        if clause.kind not in VECTOR_KINDS or is_named or not isinstance(moved, MovedClause):
            return clause.raw
        return clause.raw if moved.clause is clause.raw else _with_mark(moved.clause)

    def _rewrite_clause(self, clause: Clause, in_hybrid: bool = False) -> Any:
        """Rewrite a clause of the query, or the clauses inside a compound clause.

        Query vectors and query tokens are moved towards the relevant documents of the session. Text clauses get
        expansion words (words learned from relevant documents). A clause whose functions replace all scores inside it
        is not changed.

        Args:
            clause: The parsed clause.
            in_hybrid: Whether the clause is inside a ``hybrid`` query, where OpenSearch normalises the scores of
                each sub-query before it combines them.

        Returns:
            The new clause as JSON, or ``clause.raw`` if nothing was changed.
        """
        if in_hybrid and clause.has_unknown:
            self.notes.append(Note(Outcome.UNKNOWN_CLAUSE))
            return clause.raw
        if replaces_scores(clause):
            return clause.raw
        if isinstance(clause, SemanticClause) and clause.field is not None:
            return self._rewrite_vector_clause(clause, in_hybrid)
        if not clause.ranks_by_meaning:
            return self._rewrite_text_clause(clause, in_hybrid)
        if clause.kind in JOINING_KINDS:
            self.notes.append(Note(Outcome.NOT_MOVED, clause.settings.get("path", clause.kind)))
            return clause.raw
        in_hybrid = in_hybrid or clause.kind == HYBRID_KIND
        return clause.replace_scoring_clauses(lambda inner: self._rewrite_clause(inner, in_hybrid))

    def _rewrite_vector_clause(self, clause: Clause, in_hybrid: bool) -> Body:
        """Return a vector clause or sparse token clause, as JSON, whose query was moved towards relevant documents.

        If the user wants to hide judged documents, a filter excludes them.

        Args:
            clause: The clause. Its query vector or query tokens were moved by :meth:`_moved_clauses`.
            in_hybrid: Whether the clause is inside a ``hybrid`` query, where OpenSearch normalises the scores of
                each sub-query. In this case, relevant documents that match the clause get a higher score.
        """
        moved = self._moves.get(clause, MovedClause(clause.raw))
        if isinstance(moved, Note):
            self.notes.append(moved)
            moved = MovedClause(clause.raw)
        changed = moved.clause
        if self._hides and self.judged:
            changed = with_excluded_documents(changed, self.judged)
        if not (in_hybrid and moved.bonus and self._relevant):
            return changed
        # Only documents that the clause finds get the bonus. A document that the bonus alone finds would have the
        # smallest score of the list.
        bonuses = [constant_score(documents, moved.bonus) for documents in self._relevant]
        return bool_clause(must=[changed], should=bonuses)

    def _rewrite_text_clause(self, clause: Clause, in_hybrid: bool) -> Any:
        """Add expansion words (words learned from relevant documents) to a text clause.

        In a ``hybrid`` query, the scores of documents that the user marked irrelevant are reduced as well.

        Args:
            clause: The clause. If the clause does not search for a text, it is returned unchanged.
            in_hybrid: Whether the clause is inside a ``hybrid`` query, where OpenSearch normalises the scores of
                each sub-query.

        Returns:
            The new clause.
        """
        changed = self._with_added_words(clause, in_hybrid)
        # In normalised lists, irrelevant documents lose score in text clauses only. In a list of vectors, an irrelevant
        # document would get the smallest score and compress all other scores. If documents are marked relevant, these
        # rise, and scaling would cost more than it gains.
        is_scaled = in_hybrid and not self._relevant and clause.searched_fields is not None
        return self._with_irrelevant_scaled(changed) if is_scaled else changed

    def _with_added_words(self, clause: Clause, in_hybrid: bool) -> Any:
        """Add expansion words to a text clause, so that documents with these words get higher scores.

        Expansion words are words that the session learned from relevant documents.

        The clause matches the same documents as before. Expansion words change neither the scores of irrelevant
        documents nor the scores of documents that were judged for other queries.

        Args:
            clause: The clause. If the clause does not search for a text, it is returned unchanged.
            in_hybrid: Whether the clause is inside a ``hybrid`` query, where OpenSearch normalises the scores of
                each sub-query. In this case, the score that relevant documents gain from expansion words is reduced.
        """
        if clause not in self._texts:
            if clause.kind in JOINING_KINDS:
                return clause.raw
            return clause.replace_scoring_clauses(lambda inner: self._with_added_words(inner, in_hybrid))
        words = self._word_clauses(clause)
        if not words:
            return clause.raw
        self.has_added_words = True
        added = bool_clause(should=words, must_not=self._not_relevant)
        if in_hybrid:
            share = self._word_share()
            added = with_scaled_scores(added, [(documents, share) for documents in self._relevant])
        return bool_clause(must=[clause.raw], should=[added])

    def _word_clauses(self, clause: Clause) -> list[Body]:
        """Build a clause for each expansion word, as many as OpenSearch's limit on the number of clauses allows.

        Expansion words are words that the session learned from relevant documents. They are added to a text clause.

        If the limit allows none, a note is added to :attr:`notes`.

        Args:
            clause: The text clause. The words are searched in its fields, and with its boosts.
        """
        knowledge = self._knowledge
        if knowledge.expansion_words and not self._word_count:
            self.notes.append(Note(Outcome.TOO_MANY_CLAUSES))
        word_fields, mean_boost = average_boosts(clause.searched_fields or knowledge.fields)
        factor = mean_boost * text_score_factor(clause)
        length = LEXICAL_WORD_WEIGHT * factor * query_word_norm(knowledge.text)
        return word_clauses(knowledge.expansion_words, word_fields, length)[: self._word_count]

    def _word_share(self) -> float:
        """Return the factor, 0 to 1, by which the scores from expansion words are multiplied in a ``hybrid`` query.

        A ``hybrid`` query normalises the scores of its sub-queries. Relevant documents contain most expansion words, so
        their full score would become the maximum, and the normalised scores of all other documents would be close
        together.

        The factor depends on two numbers. The number g, from 0 to 1, measures how well the vectors in the query's other
        clauses separate documents on the query's topic from other documents (see
        :meth:`resift.feedback.field_feedback.FieldFeedback.topic_separation`). Values below 0.3 count as 0.3. If
        the query has no such clauses, g is 1. If it has some, but none can be moved, g is 0.5. The number e is the
        total weight of the judgements for this query. The factor is max(0.3, g) · e / (1 + e), so more
        judgements give a larger factor.
        """
        moves = self._moves.values()
        topic_separations = [move.topic_separation for move in moves if isinstance(move, MovedClause)]
        topic_separation = _UNKNOWN_TOPIC_SEPARATION if moves else 1.0
        if topic_separations:
            topic_separation = sum(topic_separations) / len(topic_separations)
        feedback = self._knowledge.feedback
        evidence = 0.0 if feedback is None else feedback.for_query.evidence
        return max(_SMALLEST_WORD_SHARE, topic_separation) * evidence_share(evidence)

    def _with_irrelevant_scaled(self, clause: Body) -> Body:
        """Wrap a clause so that documents that the user marked irrelevant for this query get a lower score."""
        return with_scaled_scores(clause, self._score_factors)
