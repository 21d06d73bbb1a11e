"""Rewriting: a search body, what is known of its index, and what a session taught → the body that the engine runs.

A pure function of what it is given. Hits are scored

    (BM25 of the query's words + BM25 of the session's words) · exp(beta · similarity)

where ``beta`` is alpha / (1 - alpha). The query's own clause scores as it always does; the session's words and the
similarity come in by ``rescore``, over a window of the first hits. So what matches, and with it totals, aggregations
and filters, stays what it was. The product needs no statistics of the page, unlike mixtures of normalised scores, and
so depends neither on the page's size nor on shards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from resift.arrays import Floats
from resift.contracts.query_dsl import VECTOR_FIELD, Body, VectorFields
from resift.errors import BadInput
from resift.ranking.fusion import similarity_factor
from resift.rewriting.similarity import (
    fixed_score,
    ids_clause,
    nearest_clauses,
    rescore,
    similarity_clause,
    word_clauses,
)
from resift.rewriting.text import CLAUSES, Parts, text_parts
from resift.stop_words import ANALYZER_STOP_WORDS
from resift.text import tokenize
from resift.vectors.similarity import beta_of

NAME = "resift"  # of the clause around a rewritten query: hits tell it in matched_queries
NOTHING_TO_ADD = "there is nothing to add"
JUDGED = ("keep", "demote", "hide")
# Words that a widened query finds documents by. More of them find hardly more, and cost more than all else.
ALTERNATIVES = 5
# Words of a query whose hits cannot be rescored.
_WORDS_IN_QUERY = 20
# Where an index does not say which fields are searched, it is all that it has.
_UNKNOWN_FIELDS = 50
# By how much all others of the window go ahead of a demoted document, which still stays ahead of what is beyond it:
# otherwise it would be the last hit of each page.
PROMOTED = 1000.0
# Queries that OpenSearch takes at the top of a body alone, or scores in a way that no rescoring goes with.
_TOP_ONLY = ("hybrid",)


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
class Meaning:
    """What a query means to a session, or by itself.

    ``text``: what it asks for. ``vector`` (K,): its vector as the session moves it, under ``mask`` (K,) if the session
    learned one; None for an index without vectors. ``similarity``: ``cosine`` or ``jaccard``. ``terms``: the session's
    words, heaviest first, and their weights. ``kept``: id → similarity with the query as it was typed, of the judged
    documents whose place the session does not change. ``judged``: ids of all judged documents. ``homes``: where several
    indices are searched, id → the name of the index that a judged document is in. ``vector_fields``: the field of the
    documents' vectors, or fields of joined ones.
    """

    text: str
    vector: Floats | None
    similarity: str = "cosine"
    mask: Floats | None = None
    terms: Mapping[str, float] = field(default_factory=dict)
    kept: Mapping[str, float] = field(default_factory=dict)
    judged: Sequence[str] = ()
    homes: Mapping[str, str] = field(default_factory=dict)
    vector_fields: VectorFields = VECTOR_FIELD

    @cached_property
    def share(self) -> float:
        """What a document's score is multiplied with that keeps its place, as if it had its share of the session's
        words: 1 + ‖weights of the terms‖."""
        share: float = 1 + sum(weight**2 for weight in self.terms.values()) ** 0.5
        return share


@dataclass(frozen=True)
class Rewritten:
    """A body, and why it is left as it was, wholly or in part; "" if it is not."""

    body: Body
    reason: str = ""

    @property
    def is_scored(self) -> bool:
        """Whether its hits have the scores of this module, :func:`score_factor` times those of the words."""
        return not self.reason

    @property
    def is_ranked(self) -> bool:
        """Whether its hits are in the order of their scores, and may be ordered by others."""
        return self.reason in ("", NOTHING_TO_ADD)


def rewrite(body: Body, fields: Sequence[str], meaning: Meaning, settings: RewriteSettings) -> Rewritten:
    """The search body with what ``meaning`` adds to it, over an index whose text ``fields`` are searched.

    ``body`` is not changed. What is not about the order of hits is in the rewritten body as it was.
    """
    reason = _untouchable(body)
    if reason:
        return Rewritten(body, reason)
    rewriting = _Rewriting(body, fields, meaning, settings)
    reason = _unrescorable(body)
    if reason:
        # the words alone still say which of a group of hits is best, where hits are collapsed
        ranked = "collapse" in body and "search_after" not in body and _by_score(body.get("sort"))
        query = rewriting.query_alone(ranked)
        return Rewritten(body if query is None else {**body, "query": query}, reason)
    stages, query = rewriting.stages(), rewriting.rewritten_query()
    if not stages and not (rewriting.hidden or rewriting.meaning.terms):
        return Rewritten(body, NOTHING_TO_ADD)
    own = body.get("rescore") or []
    rescores = [*(own if isinstance(own, list) else [own]), *stages]
    return Rewritten({**body, "query": query, **({"rescore": rescores} if rescores else {})})


def score_factor(meaning: Meaning, settings: RewriteSettings, id: str, similarity: float) -> float:
    """What a rescored hit's own score was multiplied with, if its similarity with the meaning's vector is this."""
    beta = _beta(meaning, settings)
    if settings.judged == "keep" and id in meaning.kept:
        return _kept_factor(meaning, id, beta)
    factor = PROMOTED if settings.judged == "demote" and meaning.judged and id not in meaning.judged else 1.0
    return factor * similarity_factor(meaning.similarity, similarity, beta)


def _beta(meaning: Meaning, settings: RewriteSettings) -> float:
    return 0.0 if meaning.vector is None else beta_of(settings.alpha)


def _kept_factor(meaning: Meaning, id: str, beta: float) -> float:
    """The same of a judged document that keeps its place."""
    return meaning.share * similarity_factor(meaning.similarity, meaning.kept[id], beta)


def _untouchable(body: Body) -> str:
    """Why nothing can be added to a search; "" if something can."""
    query = body.get("query", {"match_all": {}})
    if not isinstance(query, Mapping) or len(query) != 1:
        return "the query is malformed"
    if not query.keys().isdisjoint(_TOP_ONLY):
        return f"the query is {next(iter(query))!r}"
    if body.get("size", 10) == 0:
        return "no hits were asked for"
    if "slice" in body and "pit" not in body:
        return "OpenSearch rescores no scroll"
    if "query" not in body and "suggest" in body:
        return "there is no query"
    if _is_rewritten(query):
        return "it is rewritten already"  # by the service, where the index has our pipeline as its default
    return ""


def _is_rewritten(query: Mapping[str, Any]) -> bool:
    """Whether a query is one of :func:`_bool`; OpenSearch has filled in the defaults of one that comes back to us."""
    inner = query.get("bool")
    conditions = inner.get("filter") if isinstance(inner, Mapping) else None
    clauses = conditions if isinstance(conditions, list) else []
    everything = [one.get("match_all") for one in clauses if isinstance(one, Mapping)]
    return any(isinstance(one, Mapping) and one.get("_name") == NAME for one in everything)


def _unrescorable(body: Body) -> str:
    """Why OpenSearch would refuse to rescore a search's hits, or make nothing of it; "" if it can."""
    if "collapse" in body:
        return "the search has 'collapse'"
    if "search_after" in body:
        return "the search has 'search_after'"
    return "" if _by_score(body.get("sort")) else "the search has 'sort'"


def _by_score(sort: Any) -> bool:
    """Whether hits are sorted by their scores alone, best first."""
    parts = sort if isinstance(sort, list) else [] if sort is None else [sort]
    # OpenSearch takes more than one part, whatever they are, for a sort that it cannot rescore
    return len(parts) <= 1 and all(
        part in ("_score", {"_score": "desc"}, {"_score": {"order": "desc"}}) for part in parts
    )


class _Rewriting:
    """What one meaning adds to a query under some settings."""

    def __init__(self, body: Body, fields: Sequence[str], meaning: Meaning, settings: RewriteSettings) -> None:
        self.meaning, self.settings = meaning, settings
        self.beta = _beta(meaning, settings)
        query = body.get("query", {"match_all": {}})
        self.query: Body = query
        # a hit's score with the words says nothing of what it has without them, which min_score is about
        self.min_score = body.get("min_score")
        self.parts = text_parts(query) if settings.widen and self.min_score is None else None
        # the terms' weights are for a query of length 1: this scales them to the query's own length
        length = _length(meaning.text)
        width = len(fields) or _UNKNOWN_FIELDS
        self.words = word_clauses(meaning.terms, fields, length)[: CLAUSES // width]
        # what the query's own words leave
        self.most_in_query = max(0, CLAUSES // width - len(tokenize(meaning.text)))
        self.in_query = 0 if self.parts is None else min(ALTERNATIVES, self.most_in_query)
        self.kept = dict(meaning.kept) if settings.judged == "keep" else {}
        self.hidden = list(meaning.judged) if settings.judged == "hide" else []
        self.demoted = list(meaning.judged) if settings.judged == "demote" else []

    def rewritten_query(self) -> Body:
        """The query under our name: widened if it may be, and without the documents that are hidden."""
        alternatives = [] if self.parts is None else self._alternatives(self.parts)
        if self.parts is None or not alternatives:
            return _bool(must=[self.query], must_not=self._documents(self.hidden))
        scoring, conditions, excluded = self.parts
        widened = {"bool": {"should": [scoring, *alternatives], "minimum_should_match": 1}}
        return _bool(must=[widened], filter=conditions, must_not=excluded + self._documents(self.hidden))

    def _alternatives(self, parts: Parts) -> list[Body]:
        """What else a widened query finds documents by."""
        found = self._words(self.words[: self.in_query])
        meaning, vector, count = self.meaning, self.meaning.vector, self.settings.knn
        if count and vector is not None:
            conditions = {"bool": {"filter": parts.filter, "must_not": parts.must_not}}
            wanted = conditions if parts.filter or parts.must_not else None
            near = nearest_clauses(meaning.similarity, meaning.vector_fields, vector, meaning.mask, count, wanted)
            found += near
        return found

    def _words(self, words: list[Body]) -> list[Body]:
        """Clauses for words, which do not count for documents that keep their places."""
        if not self.kept or not words:
            return words
        return [{"bool": {"should": words, "must_not": self._documents(list(self.kept))}}]

    def query_alone(self, ranked: bool) -> Body | None:
        """The query of hits that cannot be rescored: with the session's words if they are ``ranked`` by their scores,
        and without the documents that are hidden; None where it stays as it is."""
        words = self.words[: min(_WORDS_IN_QUERY, self.most_in_query)]
        words = self._words(words) if ranked and self.min_score is None else []
        if not words and not self.hidden:
            return None
        query = self._in_place() if words else self.query
        return _bool(must=[query], should=words, must_not=self._documents(self.hidden))

    def _in_place(self) -> Body:
        """The query, whose score for documents that keep their places counts for their share of the words, too."""
        kept = self._documents(list(self.kept))
        if not kept:
            return self.query
        functions = [{"filter": documents, "weight": self.meaning.share} for documents in kept]
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
            others = {
                "constant_score": {"filter": {"bool": {"must_not": self._documents(self.demoted)}}, "boost": PROMOTED}
            }
            stages.append(rescore(window, others, "multiply"))
        return stages

    def _factors(self) -> list[Body]:
        """Clauses for what scores are multiplied with: by the similarity, and of documents that keep their places."""
        meaning, factors = self.meaning, []
        if self.beta and meaning.vector is not None:
            others = {"bool": {"must_not": self._documents(list(self.kept))}} if self.kept else None
            factors.append(
                similarity_clause(
                    meaning.similarity, meaning.vector_fields, meaning.vector, meaning.mask, self.beta, others
                )
            )
        if self.beta or meaning.terms:
            factors += [fixed_score(self._documents([id])[0], _kept_factor(meaning, id, self.beta)) for id in self.kept]
        return factors

    def _documents(self, ids: Sequence[str]) -> list[Body]:
        """Clauses for judged documents: of several indices each may have another document of the same id."""
        if not self.meaning.homes:
            return [ids_clause(ids)] if ids else []
        by_home: dict[str, list[str]] = {}
        for id in ids:
            by_home.setdefault(self.meaning.homes[id], []).append(id)
        return [
            {"bool": {"filter": [ids_clause(those), {"term": {"_index": home}}]}} for home, those in by_home.items()
        ]


def _length(text: str) -> float:
    """The length (l2) of a text's counts of words, at least 1, without those that the analyser ``english`` leaves out:
    they would be most of a long question, and blow the session's words up."""
    counts = Counter(word for word in tokenize(text) if word not in ANALYZER_STOP_WORDS)
    return float(sum(count**2 for count in counts.values()) ** 0.5) or 1.0


def as_it_is(body: Body) -> Body:
    """The query of a body, unchanged, but named as one that is rewritten."""
    return _bool(must=[body.get("query", {"match_all": {}})])


def _bool(
    must: Sequence[Body], should: Sequence[Body] = (), filter: Sequence[Any] = (), must_not: Sequence[Any] = ()
) -> Body:
    """A ``bool`` query with our name in it, without the parts that are empty."""
    # OpenSearch looks for each hit whether it matches what has a name, which costs least of what all match
    named = [*filter, {"match_all": {"_name": NAME}}]
    parts = {"must": must, "should": should, "filter": named, "must_not": must_not}
    return {"bool": {name: list(clauses) for name, clauses in parts.items() if clauses}}
