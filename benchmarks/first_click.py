"""Measure other ways to choose the expansion words of a session, with simulated clicks and with marks.

    RESIFT_DATA=… python benchmarks/first_click.py [COLLECTION...] [--hybrid]

No cluster is needed: hits are ranked by BM25, as in an index without vectors, over title and text together. With
``--hybrid``, hits are ranked as in the ``hybrid`` searches of benchmarks/hybrid.py, with min-max normalisation and
vectors from all-MiniLM-L6-v2. For a collection without stored vectors, $RESIFT_ST must name a folder of this model.
Users see the first ten hits:

- ``clicks``: The user looks at the hit at rank r with the probability 1 / √r, and clicks one to three of these hits,
  relevant ones first. One click in ten is on an irrelevant hit. Hits above the lowest click that the user looked at but
  did not click are skipped. Three users per query.
- ``1``, ``2``, ``10``: The user marks the first hits as the collection judges them.

The ways are

- ``default``: the words and weights of :mod:`resift.feedback.expansion`.
- ``titles``: words of titles have twice the weight in relevant documents.
- ``stronger``: all expansion words have 1.5 times the weight.
- ``near``: weights are multiplied by 1/2 + the largest cosine of the word and a word of the query.
- ``DIY``: the 25 words of the relevant documents with the largest tf · idf, which count as the query's own words in
  other documents that contain three tenths of the 25 words, as in ``more_like_this``.
- ``Bo1``: the 60 words of the relevant documents with the largest weight of the Bose-Einstein model (Amati 2003).

With ``--hybrid``, all ways move the query vector, too. DIY and Bo1 move it by Rocchio's formula, as in
benchmarks/held_out.py. The default, DIY and Bo1 are compared with a single other way:

- ``broader``: up to 40 expansion words with 1.2 times the weight. The vector moves half of the way with the evidence
  1.5 instead of 0.6. These constants were chosen on the collections TUNED_ON.

The table shows the gain in nDCG@10 x 100 of the hits that were not clicked or marked, with a 95 % bootstrap interval
over queries, and the share of queries that lose more than 5. In the means, all collections count alike. For the
collections CONDENSED, which have shallow pools, only hits with a judgement are seen and counted. Nothing was chosen on
the collections HELD_OUT.
"""

from __future__ import annotations

import gzip
import json
import os
import sys
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from held_out import IRRELEVANT_WEIGHT, RELEVANT_WEIGHT
from hybrid import CONDENSED, residual, vectors_of
from hybrid import DEPTH as LIST_LENGTH
from numpy.typing import NDArray

from resift.embedded.analysis import terms_of
from resift.feedback.expansion import expansion_terms
from resift.feedback.feedback import Feedback
from resift.feedback.field_feedback import FieldFeedback, blend_queries, evidence_share
from resift.feedback.ridge import Background
from resift.rewriting.knowledge import LEXICAL_WORD_WEIGHT
from resift.rewriting.words import query_word_norm
from resift.sessions.samples import MAX_EXPANSION_WORDS, SMALLEST_WEIGHT
from resift.text import FUNCTION_WORDS, bag_of_words, tokenize
from resift.vectors.packaged import load_vectors
from resift.vectors.similarity import unit_rows
from resift_lab.evaluation.baselines.bm25 import BM25
from resift_lab.evaluation.data import read_collection

TUNED_ON = ("cranfield", "cisi", "medline", "vaswani", "chorus")
HELD_OUT = ("cacm", "dl19-pool", "csfcube")
USERS = ("clicks", "1", "2", "10")
PAGE, DEPTH, LOSS, DRAWS = 10, 500, -5, 1000
CLICKING_USERS, WRONG_CLICKS = 3, 0.1
TITLE_FACTOR = 2.0
WORD_FACTORS = {"stronger": 1.5, "broader": 1.2}
LIKE_SHARE = 0.3  # default of ``minimum_should_match`` in ``more_like_this``
BROADER_WORDS, BROADER_HALF_EVIDENCE = 40, 1.5
BACKGROUND = 300  # random documents that Resift compares with the judged documents
# See docs/rewriting.md, "Requests that rank by meaning already".
SMALLEST_WORD_SHARE, REJECTING_GRADE, REJECTED_FACTOR = 0.3, -0.5, 0.001
Judged = list[tuple[str, float]]
Scores = NDArray[np.float64]


class Searched:
    """A collection that is ranked by BM25.

    Args:
        folder: The folder of the collection in BEIR's layout.

    Attributes:
        ways: The ways to use judgements.
    """

    ways: tuple[str, ...] = ("default", "titles", "stronger", "near", "DIY", "Bo1")

    def __init__(self, folder: Path) -> None:
        self.collection = collection = read_collection(folder)
        self.queries, self.documents = collection.queries, collection.documents
        self.grades = [
            {collection.document_ids[row]: grade for row, grade in grades.items()} for grades in collection.grades
        ]
        self.is_condensed = folder.name in CONDENSED
        with gzip.open(folder / "corpus.jsonl.gz", "rt", encoding="utf-8") as lines:
            self.titles = {document["_id"]: document.get("title") or "" for document in map(json.loads, lines)}
        self.ids = list(collection.document_ids)
        self.rows = {id: row for row, id in enumerate(self.ids)}
        self.bm25, self.table = BM25(analyze=partial(terms_of, analyzer="english")), load_vectors()
        self.weights = self.bm25.fit(self.documents).tocsc()
        self.counts = self.bm25.terms.counts(self.documents)
        self.documents_with = np.asarray((self.counts > 0).sum(axis=0)).ravel()
        self.occurrences = np.asarray(self.counts.sum(axis=0)).ravel()
        self._usefulness_by_word: dict[str, float] = {}

    def scores(self, terms: Scores) -> Scores:
        """Return the BM25 scores of all documents for weighted terms, shape (N,)."""
        columns = np.flatnonzero(terms)
        return np.asarray(self.weights[:, columns] @ terms[columns], np.float64)

    def terms(self, weights: dict[str, float]) -> Scores:
        """Return the weights of analysed terms, shape (V,), for the weights of words."""
        counts = self.bm25.encode_queries(list(weights))
        return np.asarray(counts.T @ np.array(list(weights.values())), np.float64) if weights else self.no_terms

    @property
    def no_terms(self) -> Scores:
        """Weights of 0 for all terms."""
        return np.zeros(len(self.bm25.idf))

    def hits(self, query: int, judged: Judged, way: str) -> list[str]:
        """Return the hits of a query, best first, whose order follows judgements in one of :attr:`ways`."""
        own = self.terms({self.queries[query]: 1.0})
        scores = self.scores(own)
        relevant = self.rows_of(judged, 1)
        hits = first_rows(scores, DEPTH)
        if relevant and way in ("DIY", "Bo1"):
            hits = first_rows(self.expanded_scores(own, relevant, way), DEPTH)
        elif relevant:
            scores = scores + self.added_scores(query, judged, way)
            hits = hits[np.argsort(-scores[hits], kind="stable")]
        return [self.ids[row] for row in hits]

    def rows_of(self, judged: Judged, sign: int) -> list[int]:
        """Return the rows of the documents whose grades have a sign."""
        return [self.rows[id] for id, grade in judged if grade * sign > 0]

    def expanded_scores(self, own: Scores, relevant: Sequence[int], way: str) -> Scores:
        """Return the scores of all documents, shape (N,), for a query that DIY or Bo1 has expanded.

        Args:
            own: The term weights of the query.
            relevant: The rows of the relevant documents, whose terms expand the query.
            way: ``DIY`` or ``Bo1``.
        """
        counts = np.asarray(self.counts[relevant].sum(axis=0)).ravel()
        if way == "Bo1":
            return self.scores(own / max(own.max(), 1.0) + self._bo1_terms(counts))
        like = self._like_terms(counts)
        columns = np.flatnonzero(like)
        matched = np.asarray((self.counts[:, columns] > 0).sum(axis=1)).ravel()
        likeness = np.where(matched >= int(LIKE_SHARE * len(columns)), self.scores(like), 0)
        likeness[relevant] = 0
        return self.scores(own) + likeness

    def added_scores(self, query: int, judged: Judged, way: str) -> Scores:
        """Return the scores that Resift's expansion words add to all documents, shape (N,)."""
        added = self.scores(self.terms(self._words(query, judged, way)))
        added[self.rows_of(judged, -1)] = 0
        return LEXICAL_WORD_WEIGHT * query_word_norm(self.queries[query]) * added

    def _words(self, query: int, judged: Judged, way: str) -> dict[str, float]:
        bags = []
        for id, grade in judged:
            bag = bag_of_words(self.documents[self.rows[id]], self.table.idf)
            title = bag_of_words(self.titles[id]) if way == "titles" and grade > 0 else {}
            bags.append({word: weight * (TITLE_FACTOR if word in title else 1) for word, weight in bag.items()})
        candidates = expansion_terms(bags, np.array([grade for _, grade in judged]), [True] * len(judged))
        if way == "near":
            candidates = {word: weight * self._nearness(word, query) for word, weight in candidates.items()}
        values = {word: weight * self._usefulness(word) for word, weight in candidates.items()}
        best = sorted((word for word in values if values[word] > 0), key=lambda word: -values[word])
        best = best[: BROADER_WORDS if way == "broader" else MAX_EXPANSION_WORDS]
        smallest = SMALLEST_WEIGHT * max((candidates[word] for word in best), default=0)
        factor = WORD_FACTORS.get(way, 1.0)
        return {word: factor * candidates[word] for word in best if candidates[word] >= smallest}

    def _usefulness(self, word: str) -> float:
        """Return idf · log(1 + n) of a word, as :class:`resift.sessions.samples.WordSelector` does."""
        if word not in self._usefulness_by_word:
            columns = self.bm25.encode_queries([word]).indices
            n = self.documents_with[columns].max() if len(columns) else 0
            value = float(np.log((len(self.ids) + 1) / (n + 0.5)) * np.log1p(n)) if n > 1 else 0.0
            self._usefulness_by_word[word] = value
        return self._usefulness_by_word[word]

    def _nearness(self, word: str, query: int) -> float:
        rows = [self.table.index[own] for own in tokenize(self.queries[query]) if own not in FUNCTION_WORDS]
        rows = [row for row in rows if row >= 0]
        if not rows or self.table.index[word] < 0:
            return 0.8  # the mean of words with vectors
        vectors = unit_rows(self.table.rows([self.table.index[word], *rows]))
        return 0.5 + max(0.0, float((vectors[1:] @ vectors[0]).max()))

    def _like_terms(self, counts: Scores) -> Scores:
        values = np.where(self.documents_with > 1, counts * self.bm25.idf, 0)
        terms = self.no_terms
        terms[np.argsort(-values)[:25]] = 1
        return terms * (values > 0)

    def _bo1_terms(self, counts: Scores) -> Scores:
        chance = self.occurrences / len(self.ids)
        values = np.where(counts > 0, counts * np.log2((1 + chance) / chance) + np.log2(1 + chance), 0)
        terms = self.no_terms
        largest = np.argsort(-values)[:60]
        terms[largest] = values[largest] / values.max()
        return terms


class HybridSearched(Searched):
    """A collection that is ranked by ``hybrid`` searches of BM25 and vectors, with min-max normalisation.

    Args:
        folder: The folder of the collection in BEIR's layout.
    """

    ways = ("default", "broader", "DIY", "Bo1")

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        documents, queries = vectors_of(folder.name, self.collection)
        self.vectors = unit_rows(np.array([documents[id] for id in self.ids], np.float32))
        self.query_vectors = np.array([queries[id] for id in self.collection.query_ids], np.float32)
        self.has_vector = np.any(self.vectors, axis=1)
        rows = np.flatnonzero(self.has_vector)
        sample = np.random.default_rng(0).choice(rows, min(BACKGROUND, len(rows)), replace=False)
        self.background = Background(self.vectors[sample])

    def hits(self, query: int, judged: Judged, way: str) -> list[str]:
        """Return the hits of a query, best first, whose order follows judgements in one of :attr:`ways`."""
        vector, distinction = self._moved(query, judged, way)
        similarities = np.where(self.has_vector, 1 + self.vectors @ unit_rows(vector), 0)
        total = np.zeros(len(self.ids))
        for scores in (self._text_scores(query, judged, way, distinction), similarities):
            rows = first_rows(scores, LIST_LENGTH)
            low, high = scores[rows].min(initial=np.inf), scores[rows].max(initial=-np.inf)
            # OpenSearch gives the last hit of a list 0.001 instead of 0.
            total[rows] += np.maximum((scores[rows] - low) / (high - low), 0.001) if high > low else 1.0
        return [self.ids[row] for row in first_rows(total, 2 * LIST_LENGTH)]

    def _text_scores(self, query: int, judged: Judged, way: str, distinction: float) -> Scores:
        """Return the scores of all documents in the text clause, shape (N,), 0 for documents that do not match."""
        own = self.terms({self.queries[query]: 1.0})
        scores, relevant = self.scores(own), self.rows_of(judged, 1)
        if way in ("DIY", "Bo1"):
            return self.expanded_scores(own, relevant, way) if relevant else scores
        share = evidence_share(sum(abs(grade) for _, grade in judged))
        if relevant:
            added = self.added_scores(query, judged, way)
            added[relevant] *= max(SMALLEST_WORD_SHARE, distinction) * share
            return np.where(scores > 0, scores + added, 0)
        for id, grade in judged:
            scores[self.rows[id]] *= REJECTED_FACTOR if grade <= REJECTING_GRADE else 1 - share
        return scores

    def _moved(self, query: int, judged: Judged, way: str) -> tuple[NDArray[np.floating[Any]], float]:
        """Return the moved query vector, and how well the vectors distinguish the topic of the query, 0 to 1."""
        vector = self.query_vectors[query]
        with_vector = [(id, grade) for id, grade in judged if self.has_vector[self.rows[id]]]
        relevant, irrelevant = self.rows_of(with_vector, 1), self.rows_of(with_vector, -1)
        if way in ("DIY", "Bo1"):
            moved = vector.astype(np.float64)
            for rows, weight in ((relevant, RELEVANT_WEIGHT), (irrelevant, -IRRELEVANT_WEIGHT)):
                moved += weight * self.vectors[rows].mean(axis=0) if rows else 0
            return moved, 1.0
        if not with_vector:
            return vector, 1.0
        grades = [grade for sign in (1, -1) for _, grade in with_vector if grade * sign > 0]
        feedback = Feedback.learn(self.vectors[relevant], self.vectors[irrelevant], grades=grades)
        feedback = feedback.with_background(self.background)
        field_feedback = FieldFeedback(feedback, np.ones(len(grades)))
        distinction = field_feedback.topic_separation(vector)
        if way == "broader":
            share = distinction * evidence_share(feedback.evidence, BROADER_HALF_EVIDENCE)
            return blend_queries(vector, feedback.transform_query(vector), share), distinction
        return field_feedback.move_query(vector, distinction), distinction


def first_rows(scores: Scores, count: int) -> NDArray[np.intp]:
    """Return the rows with the largest scores above 0, best first."""
    return np.argsort(-scores, kind="stable")[: min(count, int((scores > 0).sum()))]


def clicks(page: Sequence[str], grades: dict[str, float], rng: np.random.Generator) -> Judged:
    """Return the hits that a simulated user clicks or skips, with the grades of clicks and of skipped hits."""
    count = int(rng.integers(1, 4))
    seen = [id for rank, id in enumerate(page, 1) if rng.random() < rank**-0.5]
    relevant = [id for id in seen if grades.get(id, 0) > 0]
    irrelevant = [id for id in seen if id not in relevant]
    clicked: list[str] = []
    for _ in range(count):
        is_wrong = rng.random() < WRONG_CLICKS
        if is_wrong and irrelevant:
            clicked.append(irrelevant.pop(int(rng.integers(len(irrelevant)))))
        elif relevant and not is_wrong:
            clicked.append(relevant.pop(0))
    lowest = max((seen.index(id) for id in clicked), default=0)
    return [(id, 0.5) for id in clicked] + [(id, -0.25) for id in seen[:lowest] if id not in clicked]


def judgements(user: str, page: Sequence[str], grades: dict[str, float], query: int) -> list[Judged]:
    """Return the judgements of each user of a kind."""
    if user == "clicks":
        return [clicks(page, grades, np.random.default_rng([query, number])) for number in range(CLICKING_USERS)]
    return [[(id, 1.0 if grades.get(id, 0) > 0 else -1.0) for id in page[: int(user)]]]


def gains_of(searched: Searched, user: str) -> dict[str, NDArray[np.float64]]:
    """Return the mean gain of each query by each way."""
    gains: dict[str, list[float]] = defaultdict(list)
    for query, grades in enumerate(searched.grades):
        plain = searched.hits(query, [], "default")
        page = [id for id in plain if id in grades or not searched.is_condensed][:PAGE]
        differences = []
        for judged in judgements(user, page, grades, query):
            marked = [id for id, grade in judged if grade != -0.25]
            before = residual(plain, grades, marked, searched.is_condensed)
            if marked and not np.isnan(before):
                after = [searched.hits(query, judged, way) for way in searched.ways]
                differences.append([residual(hits, grades, marked, searched.is_condensed) - before for hits in after])
        if differences:
            for way, gain in zip(searched.ways, np.mean(differences, axis=0).tolist(), strict=True):
                gains[way].append(gain)
    return {way: np.array(values) for way, values in gains.items()}


def mean_gain(collections: Sequence[NDArray[np.float64]]) -> str:
    """Return the mean gain with its 95 % interval as text. Collections count alike.

    Args:
        collections: For each collection the gain of each query.
    """
    rng = np.random.default_rng(0)
    drawn = [[rng.choice(gains, len(gains)).mean() for gains in collections] for _ in range(DRAWS)]
    low, high = np.quantile(np.mean(drawn, axis=1), [0.025, 0.975])
    return f"{np.mean([gains.mean() for gains in collections]):.1f} ({low:.1f} to {high:.1f})"


def share_that_loses(collections: Sequence[NDArray[np.float64]]) -> str:
    """Return the share of queries that lose more than 5 points as text. Collections count alike.

    Args:
        collections: For each collection the gain of each query.
    """
    return f"{100 * np.mean([(gains < LOSS).mean() for gains in collections]):.0f} %"


def print_rows(name: str, user: str, collections: Sequence[dict[str, NDArray[np.float64]]]) -> None:
    """Print the rows of a simulated user: the gain of each way to choose words, and the share of queries that lose.

    Args:
        name: The collection, or the group of collections.
        user: The simulated user, one of USERS.
        collections: For each collection the gain of each query, by way.
    """
    for measure, cell in (("gain", mean_gain), ("queries that lose", share_that_loses)):
        cells = (cell([gains[way] for gains in collections]) for way in collections[0])
        print("|", " | ".join([name, user, measure, *cells]), "|", flush=True)


def main(arguments: Sequence[str]) -> None:
    """Print the table of the collections that the arguments name, and of the means of both groups of collections."""
    names = [argument for argument in arguments if argument != "--hybrid"]
    kind = HybridSearched if "--hybrid" in arguments else Searched
    print(f"| | user | | {' | '.join(kind.ways)} |\n|{'---|' * (3 + len(kind.ways))}")
    measured: dict[tuple[str, str], dict[str, NDArray[np.float64]]] = {}
    for name in names or (*TUNED_ON, *HELD_OUT):
        searched = kind(Path(os.environ["RESIFT_DATA"]) / name)
        for user in USERS:
            measured[name, user] = gains_of(searched, user)
            print_rows(name, user, [measured[name, user]])
    for group, members in (("mean, tuned on", TUNED_ON), ("mean, held out", HELD_OUT)):
        for user in USERS:
            gains_by_name = [measured[name, user] for name in members if (name, user) in measured]
            if gains_by_name:
                print_rows(group, user, gains_by_name)


if __name__ == "__main__":
    main(sys.argv[1:])
