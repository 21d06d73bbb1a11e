"""Rewriting of queries that search for words: expansion words and the similarity change the scores of their hits.

:func:`rewrite_rescored` is the entry point. There are two cases:

1. OpenSearch cannot rescore the search (``sort``, ``collapse``, ``search_after``, a scroll): the expansion words are
   added to the query itself. Without vectors, :mod:`resift.rewriting.in_place` handles most of these searches.
2. All other searches: the query may be widened, and rescore stages add the other expansion words. If the index has
   vectors, a further stage multiplies the scores by the similarity.

Rescore stages change neither the scores of the query itself nor the documents that it matches. They take about as long
as the same words in the query (``benchmarks/lexical_sessions.py cost``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import islice

from resift.feedback.judgements import DocumentKey
from resift.query.body import Query, TextQuery
from resift.query.clause_count import MAX_ENGINE_CLAUSES, WORD_TYPES, FieldTypes, term_count
from resift.query.dsl import Body
from resift.query.scores import text_score_factor
from resift.query.tree import Clause
from resift.rewriting.clauses import (
    MAX_DOCUMENT_LISTS,
    bool_clause,
    constant_score,
    demotion_stage,
    document_clauses,
    factor_clauses,
    highlight_section,
    marked_bool,
    marked_stages,
    rescore_stage,
    rescore_stages,
    widened_hit_marker,
    with_scaled_scores,
)
from resift.rewriting.knowledge import Knowledge
from resift.rewriting.obstacles import is_ranked_by_query, rescore_obstacle
from resift.rewriting.options import Options
from resift.rewriting.outcome import Note, Outcome, Rewritten, outcome_if_unchanged
from resift.rewriting.similarity import QueryVector, knn_clause, similarity_clause
from resift.rewriting.words import (
    addable_term_count,
    addable_word_count,
    average_boosts,
    best_related_words,
    query_word_norm,
    related_word_clauses,
    word_clauses,
)
from resift.text import tokenize

# The maximum number of expansion words by which a widened query finds documents. More words find few more documents,
# and cost more than the rest of the query.
WIDENING_WORDS = 5
# The maximum number of clauses that mark a query as rewritten (:func:`marked_bool`), or its hits as found by related
# words (:func:`widened_hit_marker`).
_MARKS = 2


def rewrite_rescored(query: Query, knowledge: Knowledge, options: Options) -> Rewritten:
    """Rewrite a text search so that the user's relevance judgements change its ranking.

    The rewriting adds expansion words to the query, rescore stages (which reorder the top hits) to the search body, or
    both.

    Args:
        query: The parsed search body.
        knowledge: The user's relevance judgements, the query vector, and other knowledge for this search.
        options: The options of the rewriting.

    Returns:
        The rewritten search body with its outcome and notes. Its ``body`` is the original body if there is nothing to
        add.
    """
    rewriter = _TextSearchRewriter(query, knowledge, options)
    obstacle = rescore_obstacle(query, options.scroll)
    if obstacle is not None:
        body = rewriter.body_with_words_in_query(is_ranked=is_ranked_by_query(query))
        notes = [Note(obstacle), *rewriter.notes]
        return Rewritten(
            body=body or query.body,
            outcome=obstacle,
            knowledge=knowledge,
            options=options,
            is_changed=body is not None,
            notes=notes,
        )
    body = rewriter.body_with_rescore_stages()
    if body is None:
        outcome = outcome_if_unchanged(knowledge) if rewriter.may_change_query else Outcome.TOO_MANY_CLAUSES
        return Rewritten(body=query.body, outcome=outcome, knowledge=knowledge, options=options, is_changed=False)
    return Rewritten(
        body=body,
        outcome=Outcome.IN_PART if knowledge.notes or rewriter.notes else Outcome.REWRITTEN,
        knowledge=knowledge,
        options=options,
        is_changed=True,
        notes=rewriter.notes,
        added_related_words=rewriter.added_related_words,
    )


class _TextSearchRewriter:
    """Builds the rewritten search body of a text search.

    The constructor chooses expansion words (words learned from relevant documents) and the judged documents that are
    treated differently. Two methods build the body. :meth:`body_with_rescore_stages` adds rescore stages, which change
    the scores of the top hits. :meth:`body_with_words_in_query` adds expansion words to the query, for searches that
    cannot be rescored.

    Attributes:
        may_change_query: Whether clauses can be added to the query without exceeding OpenSearch's limit on the number
            of clauses. Otherwise only rescore stages can be added, which are separate queries.
        notes: Changes that were not possible.
    """

    def __init__(self, query: Query, knowledge: Knowledge, options: Options) -> None:
        self._body, self._raw = query.body, query.root.raw
        # With vectors, expansion words are searched in all text fields, without the boosts of the query's fields.
        searches_all_fields = knowledge.vector is not None and bool(knowledge.fields)
        self._text_factor = text_score_factor(query.root, with_field_boosts=searches_all_fields)
        self._highlighted = _highlighted_query(query.root, knowledge.field_types)
        self._knowledge, self._options = knowledge, options
        self._query_vector = (
            None
            if knowledge.vector is None
            else QueryVector(knowledge.similarity, knowledge.vector_field, knowledge.vector, knowledge.mask)
        )
        added = _MARKS + MAX_DOCUMENT_LISTS * knowledge.document_clause_count
        self._clause_count = knowledge.clause_counter.count_clauses(query.root) + added
        self.may_change_query = self._clause_count <= MAX_ENGINE_CLAUSES
        self.notes: list[Note] = []
        # ``min_score`` applies to the score of the query itself, so the query must not be changed.
        self._has_min_score = query.body.get("min_score") is not None
        # A text without words matches nothing. Expansion words would turn it into a search for the session's topics.
        has_words = bool(tokenize(query.text))
        may_widen = options.widen and has_words and not self._has_min_score and self.may_change_query
        self._text_query = query.text_query if may_widen else None
        self._plan_words(_expansion_word_fields(query, knowledge))
        # OpenSearch demotes documents in a rescore stage.
        self._can_demote = rescore_obstacle(query, options.scroll) is None
        self._plan_documents()

    def _plan_words(self, fields: Sequence[str]) -> None:
        """Prepare the clauses for the words that the rewritten search adds to the user's query.

        These are expansion words, which were learned from the user's judgements, and related words, such as synonyms of
        query words. As many words are used as OpenSearch's limit on the number of clauses allows. The clauses are
        stored in attributes of this object.

        Args:
            fields: The fields in which the words are searched. If empty, all fields are searched.
        """
        knowledge = self._knowledge
        word_fields, mean_boost = average_boosts(fields)
        length = knowledge.word_weight * mean_boost * self._text_factor * query_word_norm(knowledge.text)
        words = word_clauses(knowledge.expansion_words, word_fields, length)
        clauses_per_term = knowledge.clause_counter.clauses_per_term(fields)
        # A rescore stage is a query of its own. It does not contain the words of the original query.
        self._words = words[: addable_word_count(knowledge.expansion_words, 0, clauses_per_term)]
        room = addable_word_count(knowledge.expansion_words, self._clause_count, clauses_per_term)
        nearest = {} if self._text_query is None else knowledge.related_words
        # The query with related words contains its own words twice: the second time to recognise hits without them.
        related_room = addable_term_count(2 * self._clause_count, clauses_per_term) if nearest else 0
        self._room = room
        self._widening_count = 0 if self._text_query is None else min(WIDENING_WORDS, room)
        # The related words leave room for the words that widen the query.
        reserved = sum(map(term_count, islice(knowledge.expansion_words, self._widening_count)))
        self._related_words = best_related_words(nearest, related_room - max(WIDENING_WORDS, reserved))
        self._related_clauses = related_word_clauses(self._related_words, fields)

    def _plan_documents(self) -> None:
        """Choose which judged documents the rewritten search treats differently, and store the choice in attributes.

        The choice depends on the option ``judged`` of the search:

        - ``hide``: All judged documents are excluded from the hits.
        - ``demote``: All judged documents are ranked below the other hits of the rescore window. If OpenSearch cannot
          rescore the search, the scores of irrelevant documents are multiplied as for ``keep``.
        - ``keep``: Documents that were judged for other queries keep their rank. The scores of documents that are
          irrelevant for this query are multiplied by :meth:`Knowledge.score_factors`.
        """
        knowledge, judged = self._knowledge, self._options.judged
        self._unaffected = list(knowledge.unaffected) if judged == "keep" else []
        hidden = knowledge.judged if judged == "hide" else ()
        if hidden and not self.may_change_query:
            self.notes.append(Note(Outcome.TOO_MANY_CLAUSES))
            hidden = ()
        self._hidden = self._document_clauses(hidden)
        demoted = knowledge.judged if judged == "demote" else ()
        if demoted and not self._can_demote:
            self.notes.append(Note(Outcome.NOT_DEMOTED))
        self._demoted = self._document_clauses(demoted)
        # With vectors, the similarity moves skipped hits down.
        factors = knowledge.score_factors(only_rejected=knowledge.vector is not None)
        # If judged documents cannot be demoted, irrelevant documents must not rank higher than with "keep".
        has_factors = judged == "keep" or (judged == "demote" and not self._can_demote)
        self._score_factors = factor_clauses(factors if has_factors else {}, knowledge.has_several_indices)
        self._without_words = self._document_clauses([*self._unaffected, *factors])

    def _document_clauses(self, documents: Sequence[DocumentKey]) -> list[Body]:
        """Build clauses that match some documents, each in its own index."""
        return document_clauses(documents, self._knowledge.has_several_indices)

    @property
    def added_related_words(self) -> list[str]:
        """The words that were added to the query so that it finds more documents, each once.

        They are words of the index that are similar in meaning to a word of the query.
        """
        return list(dict.fromkeys(word for weights in self._related_words.values() for word in weights))

    def body_with_words_in_query(self, is_ranked: bool) -> Body | None:
        """Build the search body for a search that OpenSearch cannot rescore.

        Expansion words (words learned from relevant documents) are added beside the whole query. With the option
        ``judged="hide"``, the judged documents are excluded.

        This method handles indices with vectors of Resift, queries that may be widened or have no text clause, and
        searches that get no expansion words but hide judged documents. Other text searches get expansion words in each
        text clause, by :func:`resift.rewriting.in_place.rewrite_in_place`.

        Args:
            is_ranked: Whether hits are ranked by their scores. If not, expansion words would have no effect, so they
                are not added.

        Returns:
            The new search body, or None if there is nothing to add or exclude.
        """
        if not self.may_change_query:
            return None
        words: list[Body] = []
        factors: list[tuple[Body, float]] = []
        if is_ranked and not self._has_min_score:
            words = self._without_judged(self._words[: self._room])
            factors = self._score_factors
        if not words and not factors and not self._hidden:
            return None
        query = with_scaled_scores(self._with_unaffected_scaled(self._raw) if words else self._raw, factors)
        body = {**self._body, "query": marked_bool(must=[query], should=words, must_not=self._hidden)}
        return body | highlight_section(self._body, self._highlighted)

    def body_with_rescore_stages(self) -> Body | None:
        """Build the search body with rescore stages, which rerank the top hits by the session's feedback.

        The query of the body is widened if the options allow this. If OpenSearch's limit on clauses leaves no room, the
        query stays unchanged, and only rescore stages are added.

        Returns:
            The new search body. None if there is nothing to add, for example because the session has no feedback.
        """
        new_stages = self._new_stages()
        if not new_stages and not (self._hidden or self._knowledge.expansion_words or self._related_clauses):
            return None
        if not self.may_change_query:
            stages = rescore_stages(self._body, marked_stages(new_stages))
            return {**self._body, "rescore": stages} if new_stages else None
        body = {**self._body, "query": self._rewritten_query()}
        if self._highlighted is not self._raw:
            body |= highlight_section(self._body, self._highlighted)
        stages = rescore_stages(self._body, new_stages)
        return {**body, "rescore": stages} if stages else body

    def _rewritten_query(self) -> Body:
        """Return the query for the rewritten search.

        If the options allow it, the query is widened: it also matches documents that lack the original words. These
        documents contain related words or expansion words (words learned from relevant documents), or a k-NN search
        finds them. Otherwise, the query matches the same documents as the original query. If the original query has
        enough hits, expansion words match no further documents, and only add to the scores of its hits.

        In all cases, the query contains a clause that marks it as rewritten. Judged documents are excluded if the user
        wants to hide them.
        """
        if self._text_query is None:
            return marked_bool(must=[self._raw], must_not=self._hidden)
        words = self._without_judged(self._words[: self._widening_count])
        nearest = self._knn_clause(self._text_query)
        alternatives = self._related_clauses if nearest is None else [*self._related_clauses, nearest]
        if not self._knowledge.has_enough_hits:
            words, alternatives = [], [*alternatives, *words]
        if not words and not alternatives:
            return marked_bool(must=[self._raw], must_not=self._hidden)
        clause, conditions, excluded = self._text_query
        if alternatives:
            markers = [widened_hit_marker(clause)] if self._related_clauses else []
            clause = {"bool": {"should": [clause, *alternatives, *markers], "minimum_should_match": 1}}
        return marked_bool(must=[clause], should=words, filter=conditions, must_not=[*excluded, *self._hidden])

    def _knn_clause(self, text_query: TextQuery) -> Body | None:
        """Build the k-NN clause by which the widened query matches further documents.

        The result is None if there is no query vector, or the options request no nearest documents.

        Args:
            text_query: The text clause and the filters of the original query. The filters also apply to the k-NN
                search.
        """
        if self._query_vector is None or not self._options.knn:
            return None
        conditions = None
        if text_query.filter or text_query.must_not:
            conditions = {"bool": {"filter": text_query.filter, "must_not": text_query.must_not}}
        return knn_clause(self._query_vector, self._options.knn, conditions)

    def _without_judged(self, words: list[Body]) -> list[Body]:
        """Exclude some judged documents from the effect of expansion words (words learned from relevant documents).

        Two kinds of judged documents must not gain score: documents that were judged irrelevant, and documents that
        were judged for other queries and should keep their rank.

        Args:
            words: The query clauses for expansion words, one clause per word.

        Returns:
            The clauses, wrapped in a single ``bool`` clause that excludes these documents. If there is nothing to
            exclude, the clauses are returned unchanged.
        """
        if not self._without_words or not words:
            return words
        return [bool_clause(should=words, must_not=self._without_words)]

    def _with_unaffected_scaled(self, query: Body) -> Body:
        """Wrap a query so that documents that were judged for other queries keep their rank.

        Other documents gain score from expansion words. To compensate, the scores of the judged documents are
        multiplied by :attr:`Knowledge.word_gain_factor`.

        Args:
            query: The query to wrap.

        Returns:
            The new query.
        """
        unaffected = self._document_clauses(self._unaffected)
        if not unaffected:
            return query
        functions = [{"filter": clause, "weight": self._knowledge.word_gain_factor} for clause in unaffected]
        return {"function_score": {"query": query, "functions": functions}}

    def _new_stages(self) -> list[Body]:
        """Build the rescore stages to add: for expansion words, for the vector similarity and for demoted documents."""
        window_size, stages = self._options.window_size, []
        words = self._without_judged(self._words[self._widening_count :])
        if words:
            stages.append(rescore_stage(window_size, {"bool": {"should": words}}, "total"))
        factors = self._factor_clauses()
        if factors:
            query = factors[0] if len(factors) == 1 else {"bool": {"should": factors}}
            stages.append(rescore_stage(window_size, query, "multiply"))
        if self._demoted:
            stages.append(demotion_stage(window_size, self._demoted))
        return stages

    def _factor_clauses(self) -> list[Body]:
        """Build the clauses of the rescore stage that multiplies the scores of hits.

        There are up to three kinds of clauses:

        - A clause whose factor increases with the similarity of a hit to the query vector. It is left out if there is
          no query vector, or the similarity has no weight.
        - A clause with a fixed factor for each document that was judged for another query and should keep its rank.
        - Clauses with a factor below 1 that move irrelevant documents down. See :meth:`Knowledge.score_factors`.
        """
        knowledge = self._knowledge
        beta = 0.0 if self._query_vector is None else self._options.beta
        factors = []
        if beta and self._query_vector is not None:
            unscored = [*self._document_clauses(self._unaffected), *(documents for documents, _ in self._score_factors)]
            scored_documents = bool_clause(must_not=unscored) if unscored else None
            factors.append(similarity_clause(self._query_vector, beta, scored_documents))
        if beta or knowledge.expansion_words:
            factors += [
                constant_score(self._document_clauses([document])[0], rank_keeping_factor(knowledge, document, beta))
                for document in self._unaffected
            ]
        return factors + [constant_score(documents, factor) for documents, factor in self._score_factors]


def _expansion_word_fields(query: Query, knowledge: Knowledge) -> Sequence[str]:
    """Return the fields in which expansion words (words learned from relevant documents) are searched.

    If the index has vectors of Resift, these are all text fields, because the vectors represent the texts of all of
    them. Otherwise, these are the fields that the query itself searches. If the result is empty, all fields are
    searched.

    Args:
        query: The parsed search body.
        knowledge: The knowledge about the search, which includes the text fields of the index.
    """
    searched = query.root.searched_fields or ()
    return (searched or knowledge.fields) if knowledge.vector is None else (knowledge.fields or searched)


def _highlighted_query(root: Clause, field_types: Sequence[FieldTypes]) -> Body:
    """Return the query whose words OpenSearch should highlight.

    This is usually the original query. However, a ``range`` query on numbers or dates contains no words to highlight,
    and the plain highlighter of OpenSearch 3 fails if such a query is part of another query. For such a ``range``
    query, the function returns ``match_all``, which highlights nothing.

    Args:
        root: The original query, parsed.
        field_types: The types of the fields of each searched index.
    """
    names = root.settings if root.kind == "range" else ()
    is_of_words = any(types.get(name) in WORD_TYPES for types in field_types for name in names)
    return root.raw if root.kind != "range" or is_of_words else {"match_all": {}}


def rank_keeping_factor(knowledge: Knowledge, document: DocumentKey, beta: float) -> float:
    """Return the factor by which the score of a document is multiplied so that the document keeps its rank.

    The document was judged for another query, so the session should not change its rank. The factor has two parts. The
    similarity part uses the query vector before the session moved it. The other part,
    :attr:`Knowledge.word_gain_factor`, compensates for the score that other hits gain from expansion words. The factor
    is at least 1, so that the document does not fall behind hits that are not rescored.

    Args:
        knowledge: The knowledge about the search.
        document: The index and the id of the document, a key of ``knowledge.unaffected``.
        beta: The weight of the similarity: scores are multiplied by exp(beta · similarity).
    """
    similarity = knowledge.unaffected[document]
    if knowledge.similarity == "cosine":
        similarity = max(0.0, 1 + similarity)
    return knowledge.word_gain_factor * math.exp(beta * similarity)
