"""Relevance feedback by a simulated user: what a few judged documents do to the rest of a ranking.

Same-class retrieval follows Passalis and Tefas (2018, section 4.5 and Table 5): of the first 30 documents at most five
relevant and five irrelevant ones are judged. In a retrieval collection the first ten of the mix with BM25 are. Figures
named ``residual`` and all those of retrieval collections are of the ranking without the judged documents, so that
nothing is gained by moving these up.

==================  ================================================================================================
a method            see :mod:`resift.ranking.feedback`: ``mask``, ``rocchio``, ``mask+rocchio`` and ``ridge`` rank by
                    similarity alone, ``lexical`` by BM25 alone, ``ridge+lexical`` by both, as the reranker does
``whitened``        Rocchio (1, 2, 1) in the half-whitened space of the documents' vectors: V / s^½ of their SVD
``none``            the ranking that was judged
``rm3``             BM25 of .3 · query + .7 · the 60 likeliest words of the relevant documents (Lavrenko and Croft
                    2001; Abdul-Jaleel et al. 2004), each document weighing the same
``more_like_this``  BM25 of the query and the 25 words of the relevant documents with the highest tf · idf (Lucene)
==================  ================================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_matrix, csr_matrix

from resift.arrays import Floats
from resift.errors import BadInput, at_least
from resift.evaluation.baselines.bm25 import BM25
from resift.evaluation.data import Classes, Collection
from resift.evaluation.metrics import interpolated_precision_at, map11, precision_at
from resift.evaluation.pairwise import Matrix
from resift.evaluation.protocol import Run, graded_metrics
from resift.evaluation.systems import System
from resift.ranking.feedback import DEFAULT_METHOD, METHODS, Bag, Feedback, bag_of_words
from resift.ranking.fusion import combine
from resift.vectors.similarity import SIMILARITIES, unit_rows

BASELINES = ("rocchio", "rm3", "more_like_this")
NAMES = (*METHODS, "whitened", "rm3", "more_like_this", "none")
ALPHA = 0.3
_CANDIDATES, _TOP = 100, 30
_RM3 = (0.3, 60)
_MORE, _WHITENED = 25, (2.0, 1.0)
Scores = NDArray[np.float64]


@dataclass(frozen=True)
class FeedbackOptions:
    """``queries`` drawn by ``seed`` (all if there are fewer); ``judgements`` a round; ``rounds``; ``noise``, the chance
    that a mark is wrong."""

    queries: int = 300
    judgements: int = 10
    rounds: int = 1
    noise: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        at_least(1, self, "queries", "judgements", "rounds")
        if not 0 <= self.noise <= 1:
            raise BadInput(f"noise is {self.noise}", value=self.noise, expected="a number from 0 to 1")


class Bench:
    """Documents and queries as the methods see them: vectors, and words counted for BM25.

    ``alpha`` is the weight of the similarity against BM25 before any feedback.
    """

    def __init__(
        self,
        system: System,
        documents: Sequence[str],
        queries: Sequence[str],
        idf: Callable[[str], float],
        alpha: float = ALPHA,
    ) -> None:
        self.documents, self.queries, self.idf, self.alpha = documents, queries, idf, alpha
        self.vectors, self.asked = (_dense(rows) for rows in (system.fit(documents), system.queries(queries)))
        self.max_alpha: float = getattr(system, "max_alpha", 0.6)
        self.similarity = SIMILARITIES["cosine" if system.similarity == "dot" else system.similarity]
        self.bm25 = BM25()
        self._rows = csc_matrix(self.bm25.fit(documents))
        self._bags: dict[int, Bag] = {}

    @cached_property
    def counts(self) -> csr_matrix:
        """Words of the documents, (N, V)."""
        return self.bm25.terms.counts(self.documents)

    @cached_property
    def whitened(self) -> tuple[Floats, Floats]:
        """Documents and queries in the half-whitened space: (x - μ) · V / s^½, at length 1."""
        mean = self.vectors.mean(axis=0)
        values, axes = np.linalg.eigh(np.cov((self.vectors - mean).T.astype(np.float64)) * len(self.vectors))
        scale = np.sqrt(np.maximum(values, values.max() * 1e-8)) ** 0.5
        found = [unit_rows((side - mean) @ (axes / scale).astype(np.float32)) for side in (self.vectors, self.asked)]
        return found[0], found[1]

    def bag(self, document: int) -> Bag:
        """A document's weighted words."""
        if document not in self._bags:
            self._bags[document] = bag_of_words(self.documents[document], self.idf)
        return self._bags[document]

    def words(self, query: int) -> NDArray[np.float64]:
        """A query's word counts as a vector of length 1, (V,); zeros without known words."""
        counts = self.bm25.queries([self.queries[query]]).toarray()[0].astype(np.float64)
        return np.asarray(counts / (np.linalg.norm(counts) or 1.0))

    def lexical(self, weights: NDArray[Any]) -> Scores:
        """BM25 (N,) of words weighted by ``weights`` (V,)."""
        columns = np.flatnonzero(weights)
        return np.asarray(self._rows[:, columns] @ weights[columns], np.float64)

    def similar(self, query: NDArray[Any], mask: NDArray[Any] | float = 1.0) -> Scores:
        """Similarity (N,) of the documents with a vector (K,), both masked."""
        return np.asarray(self.similarity(query * mask, self.vectors * mask), np.float64)

    def hybrid(self, query: int) -> Scores:
        """(1 - alpha) · z(BM25) + alpha · z(similarity), (N,)."""
        return self.both(query, None)

    def both(self, query: int, feedback: Feedback | None) -> Scores:
        """The reranker's score of all documents, (N,): the engine's and the vectors', each as the feedback moves it."""
        asked, words = self.asked[query], self.words(query)
        if feedback is None:
            return _mixed(self.lexical(words), self.similar(asked), self.alpha)
        return _mixed(
            self.lexical(words + self._terms(feedback.expansion_terms)),
            self.similar(feedback.transform_query(asked), feedback.mask),
            feedback.adjusted_alpha(self.alpha, self.max_alpha),
        )

    def _terms(self, terms: Bag) -> NDArray[np.float64]:
        found = np.zeros(len(self.bm25.terms.index))
        for word, weight in terms.items():
            for term in self.bm25.analyze(word):
                if term in self.bm25.terms.index:
                    found[self.bm25.terms.index[term]] += weight
        return found

    def feedback(self, judged: Sequence[tuple[int, float]], method: str = DEFAULT_METHOD) -> Feedback:
        """What judgements, (document, grade) each, teach."""
        ordered = sorted(judged, key=lambda one: one[1] < 0)
        rows = [document for document, _ in ordered]
        split = sum(grade > 0 for _, grade in ordered)
        bags = [self.bag(document) for document in rows] if METHODS[method].lexical else []
        sides = self.vectors[rows[:split]], self.vectors[rows[split:]]
        return Feedback.learn(*sides, method, [grade for _, grade in ordered], bags)

    def ranked(self, method: str, query: int, judged: Sequence[tuple[int, float]], first: Scores) -> Scores:
        """Scores (N,) of all documents after the judgements; ``first`` are those of the ranking that was judged."""
        if method == "none":
            return first
        if method not in METHODS:
            return self._baseline(method, query, [document for document, grade in judged if grade > 0], judged)
        feedback = self.feedback(judged, method)
        if not METHODS[method].lexical:
            return self.similar(feedback.transform_query(self.asked[query]), feedback.mask)
        if METHODS[method].transform:
            return self.both(query, feedback)
        return self.lexical(self.words(query) + self._terms(feedback.expansion_terms))

    def _baseline(
        self, method: str, query: int, relevant: Sequence[int], judged: Sequence[tuple[int, float]]
    ) -> Scores:
        if method == "whitened":
            return self._whitened(query, judged)
        words = self.words(query)
        if not relevant:
            return self.lexical(words)
        counts = self.counts[list(relevant)]
        if method == "rm3":
            share, size = _RM3
            lengths = np.maximum(np.asarray(counts.sum(axis=1)).ravel(), 1)
            model = np.asarray(counts.multiply(1 / lengths[:, None]).mean(axis=0)).ravel()
            chosen = _largest(model, size)
            return self.lexical(share * words / max(words.sum(), 1e-9) + (1 - share) * chosen / max(chosen.sum(), 1e-9))
        if method == "more_like_this":
            weights = np.asarray(counts.sum(axis=0)).ravel() * self.bm25.idf
            return self.lexical((words > 0) + 1.0 * (_largest(weights, _MORE) > 0))
        raise BadInput(f"unknown method {method!r}", value=method, expected=" | ".join(NAMES))

    def _whitened(self, query: int, judged: Sequence[tuple[int, float]]) -> Scores:
        documents, queries = self.whitened
        moved = queries[query].copy()
        for weight, sign in zip(_WHITENED, (1, -1), strict=True):
            if rows := [document for document, grade in judged if grade * sign > 0]:
                moved += sign * weight * documents[rows].mean(axis=0)
        return np.asarray(documents @ moved, np.float64)


def run_feedback(
    bench: Bench,
    task: FeedbackProtocol,
    options: FeedbackOptions,
    methods: Sequence[str] = (DEFAULT_METHOD,),
) -> dict[str, list[tuple[Run, Run]]]:
    """Rounds of judging and ranking: for each method a pair a round, (after, before) over the same queries.

    ``before`` is the ranking that was judged first; where a figure leaves out judged documents, it leaves out those
    that the method's session has judged. Raises BadInput for an unknown method.
    """
    for method in methods:
        if method not in NAMES:
            raise BadInput(f"unknown method {method!r}", value=method, expected=" | ".join(NAMES))
    queries = _drawn(task.count, options)
    found: dict[str, list[tuple[Run, Run]]] = {}
    for method in methods:
        tables = np.full((options.rounds, 2, len(queries), len(task.names)), np.nan)
        for row, query in enumerate(queries):
            chance = np.random.default_rng([options.seed, query])
            first = scores = task.first(bench, query)
            judged: list[tuple[int, float]] = []
            for number in range(options.rounds):
                judged += task.judge(query, scores, judged, options, chance)
                scores = bench.ranked(method, query, judged, first)
                out = [document for document, _ in judged]
                for side, ranking in enumerate((scores, first)):
                    tables[number, side, row] = task.measure(query, ranking, out)
        found[method] = [
            (Run(_columns(task, after), {"queries": len(queries)}), Run(_columns(task, before)))
            for after, before in tables
        ]
    return found


def run_carry(bench: Bench, task: FeedbackProtocol, options: FeedbackOptions) -> dict[str, dict[str, Run]]:
    """Two-topic sessions: one query is judged, and the next is about the same (``related``) or not (``unrelated``).

    For each there is the ranking without a session (``before``), with what the session's scope lets through
    (``after``), and with all that was judged (``whole``). Judged documents are left out of all rankings.
    """
    queries = _drawn(task.count, options)
    tables: dict[str, dict[str, list[list[float]]]] = {
        kind: {name: [] for name in ("before", "after", "whole")} for kind in ("related", "unrelated")
    }
    for query in queries:
        chance = np.random.default_rng([options.seed, query])
        judged = task.judge(query, task.first(bench, query), [], options, chance)
        feedback = bench.feedback(judged)
        for kind, pool in zip(tables, task.others(query), strict=True):
            if not len(pool):
                continue
            other = int(chance.choice(pool))
            candidates = np.argsort(-bench.lexical(bench.words(other)), kind="stable")[:_CANDIDATES]
            scoped = feedback.scoped(bench.asked[other], bench.vectors[candidates])
            out = [document for document, _ in judged]
            for name, learned in (("before", None), ("after", scoped), ("whole", feedback)):
                tables[kind][name].append(task.measure(other, bench.both(other, learned), out))
    return {
        kind: {
            name: Run(_columns(task, np.array(rows).reshape(-1, len(task.names))), {"queries": len(rows)})
            for name, rows in entry.items()
        }
        for kind, entry in tables.items()
    }


class FeedbackProtocol:
    """A protocol: what is judged first, by whom, and what is measured.

    ``names`` of the figures; ``count`` of queries.
    """

    names: tuple[str, ...]
    count: int

    def first(self, bench: Bench, query: int) -> Scores:
        """Scores (N,) of the ranking that is judged first."""
        raise NotImplementedError

    def judge(
        self,
        query: int,
        scores: Scores,
        judged: Sequence[tuple[int, float]],
        options: FeedbackOptions,
        chance: np.random.Generator,
    ) -> list[tuple[int, float]]:
        """A round's judgements, (document, 1 or -1) each, of documents that are not ``judged`` yet."""
        raise NotImplementedError

    def measure(self, query: int, scores: Scores, judged: Sequence[int]) -> list[float]:
        """The figures of a ranking."""
        raise NotImplementedError

    def others(self, query: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Queries about the same as ``query``, and about something else."""
        raise NotImplementedError


class SameClass(FeedbackProtocol):
    """Table 5 of Passalis and Tefas: a document of the query's class is relevant."""

    names = ("map11", "p@10", "ip@10", "residual_map11", "residual_ip@10")

    def __init__(self, train: Classes, test: Classes) -> None:
        known = {label: number for number, label in enumerate(dict.fromkeys(train.labels))}
        self._database = np.array([known[label] for label in train.labels])
        kept = [row for row, label in enumerate(test.labels) if label in known]
        if not kept:
            raise BadInput("no test document's label is in the training file", expected=" | ".join(list(known)[:20]))
        self.texts = [test.texts[row] for row in kept]
        self.skipped = len(test.labels) - len(kept)
        self._queries = np.array([known[test.labels[row]] for row in kept])
        self._first: Callable[[int], Scores] | None = None
        self.count = len(kept)

    def begin(self, first: Callable[[int], Scores]) -> None:
        """Judge the ranking by ``first`` (query → scores (N,)), not the one by the bench's own similarity."""
        self._first = first

    def first(self, bench: Bench, query: int) -> Scores:
        """By similarity alone."""
        return bench.similar(bench.asked[query]) if self._first is None else self._first(query)

    def judge(
        self,
        query: int,
        scores: Scores,
        judged: Sequence[tuple[int, float]],
        options: FeedbackOptions,
        chance: np.random.Generator,
    ) -> list[tuple[int, float]]:
        """Of the first 30 documents so many relevant and irrelevant ones, half and half."""
        order = np.argsort(-scores, kind="stable")[: _TOP + len(judged)]
        seen = {document for document, _ in judged}
        left = [int(document) for document in order if document not in seen][:_TOP]
        right = [document for document in left if self._database[document] == self._queries[query]]
        wrong = [document for document in left if self._database[document] != self._queries[query]]
        half = -(-options.judgements // 2)
        marks = [(document, 1.0) for document in right[:half]]
        marks += [(document, -1.0) for document in wrong[: options.judgements - half]]
        return _with_noise(marks, options, chance)

    def measure(self, query: int, scores: Scores, judged: Sequence[int]) -> list[float]:
        """Over all documents, and over those not judged."""
        relevant = self._database == self._queries[query]
        left = np.delete(scores, judged), np.delete(relevant, judged)
        return [
            float(value[0])
            for value in (
                map11(scores, relevant),
                precision_at(scores, relevant, 10),
                interpolated_precision_at(scores, relevant, 10),
                map11(*left),
                interpolated_precision_at(*left, 10),
            )
        ]

    def others(self, query: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Queries of the same class, and of another."""
        same = self._queries == self._queries[query]
        same[query] = False
        return np.flatnonzero(same), np.flatnonzero(self._queries != self._queries[query])


class Graded(FeedbackProtocol):
    """A retrieval collection: the first documents of the mix with BM25 are judged as the collection has it."""

    names = ("ndcg@10", "map", "recall@10", "mrr@10")

    def __init__(self, collection: Collection) -> None:
        self._grades, self.count = collection.grades, len(collection.queries)
        self._relevant = [{row for row, grade in grades.items() if grade > 0} for grades in collection.grades]

    def first(self, bench: Bench, query: int) -> Scores:
        """The hybrid's."""
        return bench.hybrid(query)

    def judge(
        self,
        query: int,
        scores: Scores,
        judged: Sequence[tuple[int, float]],
        options: FeedbackOptions,
        chance: np.random.Generator,
    ) -> list[tuple[int, float]]:
        """The first documents that are not judged yet."""
        seen = {document for document, _ in judged}
        order = np.argsort(-scores, kind="stable")[: options.judgements + len(seen)]
        left = [int(document) for document in order if document not in seen][: options.judgements]
        marks = [(document, 1.0 if document in self._relevant[query] else -1.0) for document in left]
        return _with_noise(marks, options, chance)

    def measure(self, query: int, scores: Scores, judged: Sequence[int]) -> list[float]:
        """Over the documents not judged; NaN where no relevant one is left."""
        seen = set(judged)
        kept = {row: grade for row, grade in self._grades[query].items() if row not in seen}
        ranking = scores.copy()
        ranking[list(seen)] = -np.inf
        found = graded_metrics(ranking, kept)
        return [found[name] if any(grade > 0 for grade in kept.values()) else np.nan for name in self.names]

    def others(self, query: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Queries that share three tenths of the relevant documents or more (of the smaller set), and none."""
        mine = self._relevant[query]
        shared = np.array([len(mine & other) / min(len(mine), len(other)) for other in self._relevant])
        shared[query] = 0.1
        return np.flatnonzero(shared >= 0.3), np.flatnonzero(shared == 0)


def _with_noise(
    marks: list[tuple[int, float]], options: FeedbackOptions, chance: np.random.Generator
) -> list[tuple[int, float]]:
    wrong = chance.random(len(marks)) < options.noise
    return [(document, -grade if flip else grade) for (document, grade), flip in zip(marks, wrong, strict=True)]


def _drawn(count: int, options: FeedbackOptions) -> list[int]:
    order = np.random.default_rng(options.seed).permutation(count)
    return [int(query) for query in order[: options.queries]]


def _columns(task: FeedbackProtocol, table: NDArray[Any]) -> dict[str, NDArray[np.float64]]:
    return {name: table[:, column] for column, name in enumerate(task.names)}


def _mixed(lexical: Scores, similar: Scores, alpha: float) -> Scores:
    return np.asarray(combine(lexical, similar, alpha, "z_score"), np.float64)


def _largest(weights: NDArray[Any], count: int) -> NDArray[np.float64]:
    """``weights`` (V,) with all but the ``count`` largest set to 0."""
    found = np.zeros(len(weights))
    rows = np.argpartition(-weights, min(count, len(weights) - 1))[:count]
    found[rows] = weights[rows]
    return found


def _dense(rows: Matrix) -> Floats:
    return np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows, np.float32)
