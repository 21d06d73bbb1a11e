"""Rewriting: a search body, what is known of its index, and what a session taught → the body that the engine runs.

A pure function of what it is given. Hits are scored

    (BM25 of the query's words + BM25 of the session's words) · exp(beta · similarity)

where ``beta`` is alpha / (1 - alpha). The query's own clause scores as it always does; the session's words and the
similarity come in by ``rescore``, over a window of the first hits. So what matches, and with it totals, aggregations
and filters, stays what it was, unless the query may be widened. The product needs no statistics of the page, unlike
mixtures of normalised scores, and so depends neither on the page's size nor on shards.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from resift.query.dsl import Body
from resift.rewriting.clauses import (
    NAME,
    Parts,
    asked_fields,
    demotion,
    document_clauses,
    fixed_score,
    highlighted,
    holds_better,
    named_bool,
    named_without,
    nearest_clauses,
    other_word_clauses,
    rescore,
    rescores,
    similarity_clause,
    sunk,
    text_length,
    text_parts,
    word_clauses,
    word_room,
)
from resift.rewriting.hybrid import change_in_place
from resift.rewriting.outcome import Outcome
from resift.rewriting.request import RewriteSettings, Rewritten
from resift.sessions.knowledge import Knowledge
from resift.vectors.weights import beta_from_alpha

# Words that a widened query finds documents by. More of them find hardly more, and cost more than all else.
ALTERNATIVES = 5


def rewrite(body: Body, fields: Sequence[str], knowledge: Knowledge, settings: RewriteSettings) -> Rewritten:
    """The search body with what ``knowledge`` adds to it, over an index whose text ``fields`` are searched; where it
    names none, those count that the body's own text clauses look into, or all.

    ``body`` is not changed. What is not about the order of hits is in the rewritten body as it was.
    """
    in_place = holds_better(body.get("query")) or _takes_words(body, knowledge, settings)
    obstacle = _untouchable(body, None if in_place else knowledge)
    if obstacle is not None:
        return Rewritten(body, obstacle, knowledge, settings, is_changed=False)
    obstacle = _unrescorable(body)
    if in_place:
        return change_in_place(body, fields, knowledge, settings, _by_score(body, first=True), obstacle is None)
    rewriting = _Rewriting(body, fields, knowledge, settings)
    if obstacle is not None:
        # the words alone still say which of a group of hits is best, or come first
        query = rewriting.query_alone(_by_score(body, first=True))
        whole = body if query is None else rewriting.with_words(body, query)
        return Rewritten(whole, obstacle, knowledge, settings)
    outcome = Outcome.IN_PART if knowledge.notes else Outcome.REWRITTEN
    if knowledge.vector is None and settings.judged != "demote":
        # there are words alone, and in the query they count beyond any window, and for scrolls
        query = rewriting.query_alone(ranked=True, widened=True)
        if query is None:
            return Rewritten(body, Outcome.NOTHING_TO_ADD, knowledge, settings)
        return Rewritten(rewriting.with_words(body, query), outcome, knowledge, settings, widened=rewriting.widened)
    stages, query = rewriting.stages(), rewriting.rewritten_query()
    if not stages and not (rewriting.hidden or knowledge.terms or rewriting.others):
        return Rewritten(body, Outcome.NOTHING_TO_ADD, knowledge, settings)
    all_stages = rescores(body, *stages)
    whole = {**body, "query": query, **({"rescore": all_stages} if all_stages else {})}
    return Rewritten(whole, outcome, knowledge, settings, widened=rewriting.widened)


def kept_factor(knowledge: Knowledge, id: str, beta: float) -> float:
    """What the score of a judged document is multiplied by that keeps its place: its share of the session's words
    times exp(beta · similarity), or exp(beta · (1 + similarity)) for a cosine.

    It is 1 or more, so that no hit that is scored anew falls behind one that is not.
    """
    value = knowledge.kept[id]
    return knowledge.share * math.exp(beta * (max(0.0, 1 + value) if knowledge.similarity == "cosine" else value))


def _takes_words(body: Body, knowledge: Knowledge, settings: RewriteSettings) -> bool:
    """Whether words are all that is added, and the query's clauses take them: OpenSearch rescores no scroll, and fails
    at the second page of one that reads a single shard."""
    if knowledge.vector is not None or not knowledge.terms or settings.widen or "min_score" in body:
        return False
    return asked_fields(body.get("query")) is not None


def _untouchable(body: Body, knowledge: Knowledge | None) -> Outcome | None:
    """Why nothing can be added to a search; None if something can.

    ``knowledge`` is what is added by rescoring, None where nothing is.
    """
    if knowledge is not None and not knowledge.text and knowledge.feedback is None and not knowledge.judged:
        return Outcome.NO_TEXT
    query = body.get("query", {"match_all": {}})
    if is_malformed(query):
        return Outcome.MALFORMED
    if body.get("size", 10) == 0:
        return Outcome.NO_HITS
    if knowledge is not None and "slice" in body and "pit" not in body:
        return Outcome.SLICED
    if "query" not in body and "suggest" in body:
        return Outcome.NO_QUERY
    return Outcome.ALREADY_REWRITTEN if is_named(query) else None


def _unrescorable(body: Body) -> Outcome | None:
    """Why OpenSearch would refuse to rescore a search's hits, or make nothing of it; None if it can."""
    if "collapse" in body:
        return Outcome.COLLAPSED
    if "search_after" in body:
        return Outcome.SEARCH_AFTER
    return None if _by_score(body) else Outcome.SORTED


def _by_score(body: Body, first: bool = False) -> bool:
    """Whether hits are sorted by their scores, best first, and by nothing else but where scores only come ``first``."""
    sort = body.get("sort")
    parts = sort if isinstance(sort, list) else [] if sort is None else [sort]
    # OpenSearch takes more than one part, whatever they are, for a sort that it cannot rescore
    asked = parts[:1] if first else parts
    return len(asked) <= 1 and all(
        part in ("_score", {"_score": "desc"}, {"_score": {"order": "desc"}}) for part in asked
    )


class _Rewriting:
    """What is known of one query adds to it under some settings."""

    def __init__(self, body: Body, fields: Sequence[str], knowledge: Knowledge, settings: RewriteSettings) -> None:
        self.knowledge, self.settings = knowledge, settings
        self.beta = 0.0 if knowledge.vector is None else beta_from_alpha(settings.alpha)
        query = body.get("query", {"match_all": {}})
        self.query: Body = query
        # a hit's score with the words says nothing of what it has without them, which min_score is about
        self.min_score = body.get("min_score")
        self.parts = text_parts(query) if settings.widen and self.min_score is None else None
        # the terms' weights are for a query of length 1: this scales them to the query's own length
        length = knowledge.word_weight * text_length(knowledge.text)
        fields = fields or asked_fields(query) or ()
        self.words = word_clauses(knowledge.terms, fields, length)[: word_room("", fields)]
        # what the query's own words leave
        room = word_room(knowledge.text, fields)
        near = {} if self.parts is None else knowledge.related_words
        # the query's own words stand there twice then: by them it is told which hits have none
        twice = word_room(f"{knowledge.text} {knowledge.text}", fields) if near else room
        self.others = other_word_clauses(near, fields, twice - ALTERNATIVES)
        self.most_in_query = room - sum(len(near) + 1 for near in knowledge.related_words.values() if self.others)
        self.in_query = 0 if self.parts is None else min(ALTERNATIVES, self.most_in_query)
        self.kept = dict(knowledge.kept) if settings.judged == "keep" else {}
        self.hidden = list(knowledge.judged) if settings.judged == "hide" else []
        # with vectors their similarity says it
        irrelevant = knowledge.judged_here(-1) if knowledge.vector is None else []
        self.wordless = [*self.kept, *irrelevant]
        self.demoted = list(knowledge.judged) if settings.judged == "demote" else []
        self.sunk = self._documents(irrelevant if settings.judged == "keep" else [])

    @property
    def widened(self) -> list[str]:
        """The words of the index that the query is widened by."""
        near = self.knowledge.related_words if self.others else {}
        return list(dict.fromkeys(word for others in near.values() for word in others))

    def rewritten_query(self) -> Body:
        """The query under our name: widened if it may be, and without the documents that are hidden."""
        alternatives = [] if self.parts is None else self._alternatives(self.parts)
        if self.parts is None or not alternatives:
            return named_bool(must=[self.query], must_not=self._documents(self.hidden))
        scoring, conditions, excluded = self.parts
        told = [named_without(scoring)] if self.others else []
        widened = {"bool": {"should": [scoring, *alternatives, *told], "minimum_should_match": 1}}
        return named_bool(must=[widened], filter=conditions, must_not=excluded + self._documents(self.hidden))

    def _alternatives(self, parts: Parts) -> list[Body]:
        """What else a widened query finds documents by."""
        found = [*self.others, *self._words(self.words[: self.in_query])]
        knowledge, vector, count = self.knowledge, self.knowledge.vector, self.settings.knn
        if count and vector is not None:
            conditions = {"bool": {"filter": parts.filter, "must_not": parts.must_not}}
            wanted = conditions if parts.filter or parts.must_not else None
            near = nearest_clauses(knowledge.similarity, knowledge.vector_field, vector, knowledge.mask, count, wanted)
            found += near
        return found

    def _words(self, words: list[Body]) -> list[Body]:
        """Clauses for words, which do not count for documents that keep their places, nor for irrelevant ones where
        nothing else tells them apart."""
        if not self.wordless or not words:
            return words
        return [{"bool": {"should": words, "must_not": self._documents(self.wordless)}}]

    def query_alone(self, ranked: bool, widened: bool = False) -> Body | None:
        """The query of hits that are not rescored: with the session's words if they are ``ranked`` by their scores,
        ``widened`` by the strongest if it may be, and without the documents that are hidden; None where it stays as it
        is."""
        first = min(self.in_query, len(self.words)) if widened else 0
        words = self.words[first : self.most_in_query]
        is_scored = ranked and self.min_score is None
        words, sinking = (self._words(words), self.sunk) if is_scored else ([], [])
        is_widened = widened and bool(first or self.others)
        if not words and not is_widened and not sinking and not self.hidden:
            return None
        if is_widened:
            self.query = self.rewritten_query()
        query = sunk(self._in_place() if words else self.query, sinking, self.knowledge.sinking)
        return named_bool(must=[query], should=words, must_not=self._documents(self.hidden))

    def with_words(self, body: Body, query: Body) -> Body:
        """The body with a query of :meth:`query_alone`."""
        # what a widened query found by a word shows it
        return {**body, "query": query, **({} if self.settings.widen else highlighted(body, self.query))}

    def _in_place(self) -> Body:
        """The query, whose score for documents that keep their places counts for their share of the words, too."""
        kept = self._documents(list(self.kept))
        if not kept:
            return self.query
        functions = [{"filter": documents, "weight": self.knowledge.share} for documents in kept]
        return {"function_score": {"query": self.query, "functions": functions}}

    def stages(self) -> list[Body]:
        """The rescorings: of the words that are not in the query, of the similarity, and of what is shown last."""
        window, stages = self.settings.window, []
        words = self._words(self.words[self.in_query :])
        if words:
            stages.append(rescore(window, {"bool": {"should": words}}, "total"))
        factors = self._factors()
        if factors:
            stages.append(rescore(window, {"bool": {"should": factors}} if self.kept else factors[0], "multiply"))
        if self.demoted:
            stages.append(demotion(window, self._documents(self.demoted)))
        return stages

    def _factors(self) -> list[Body]:
        """Clauses for what scores are multiplied by: the similarity, and factors of documents that keep a place."""
        knowledge, factors = self.knowledge, []
        if self.beta and knowledge.vector is not None:
            others = {"bool": {"must_not": self._documents(list(self.kept))}} if self.kept else None
            factors.append(
                similarity_clause(
                    knowledge.similarity, knowledge.vector_field, knowledge.vector, knowledge.mask, self.beta, others
                )
            )
        if self.beta or knowledge.terms:
            factors += [
                fixed_score(self._documents([id])[0], kept_factor(knowledge, id, self.beta)) for id in self.kept
            ]
        return factors

    def _documents(self, ids: Sequence[str]) -> list[Body]:
        return document_clauses(ids, self.knowledge.homes)


def as_it_is(body: Body) -> Body:
    """The query of a body, unchanged, but named as one that is rewritten, where it may stand inside another."""
    query: Body = body.get("query", {"match_all": {}})
    return query if "hybrid" in query else named_bool(must=[query])


def is_malformed(query: Any) -> bool:
    """Whether a query is no clause, or a ``hybrid`` one of nothing."""
    if not isinstance(query, Mapping) or len(query) != 1:
        return True
    inner = query.get("hybrid")
    queries = inner.get("queries") if isinstance(inner, Mapping) else None
    return inner is not None and not (isinstance(queries, list) and queries)


def is_named(query: Mapping[str, Any]) -> bool:
    """Whether a query, or one that a ``hybrid`` query is made of, is one of :func:`named_bool`; OpenSearch has filled
    in the defaults of one that comes back to us."""
    if isinstance(query.get("hybrid"), Mapping):
        parts = query["hybrid"].get("queries")
        return any(is_named(part) for part in parts if isinstance(part, Mapping)) if isinstance(parts, list) else False
    inner = query.get("bool")
    conditions = inner.get("filter") if isinstance(inner, Mapping) else None
    clauses = conditions if isinstance(conditions, list) else []
    everything = [one.get("match_all") for one in clauses if isinstance(one, Mapping)]
    return any(isinstance(one, Mapping) and one.get("_name") == NAME for one in everything)
