"""Measure how much marks for one query help a refined query of the same session.

    RESIFT_DATA=… python benchmarks/refined_queries.py [COLLECTION...]   # gains of the session
    RESIFT_DATA=… python benchmarks/refined_queries.py choose            # weight of the marks, by cross-validation

A user marks the first three hits of one query, as the collection judges them, and then searches for another query:

- ``added``: The first query consists of two content words of the second one, drawn at random. The second query is a
  query of the collection with at least three content words.
- ``removed``: The same two queries in the opposite order.
- ``another need``: The first query consists of one or two content words that the second query has in common with a
  query of the collection that shares no relevant document with it. The marks follow that other query. A session should
  not change the second search.

The table shows nDCG@10 x 100 of the second query without a session, of the hits that were not marked, and the gain in
the session with its 95 % bootstrap interval over queries. For the collections with irrelevant judgements, hits without
a judgement are left out (condensed nDCG). Searches combine BM25 with the packaged vectors, or use BM25 alone
(``words``), as in an index without vectors. Nothing was chosen on the collections HELD_OUT.

``choose`` prints the gains for other weights of a mark. It leaves out each of the collections TUNED_ON in turn, and
prints the weight with the largest mean gain of ``added`` and ``removed`` on the other collections, among those whose
mean loss with ``another need`` is at most MAX_LOSS.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
from carry_over import LexicalSearch, interval
from numpy.typing import NDArray

import resift.feedback.feedback
from resift.porter import stem
from resift.text import bag_of_words
from resift_lab.commands.served_search import ServedSearch
from resift_lab.commands.systems import SystemChoice
from resift_lab.evaluation.data import Collection, read_collection
from resift_lab.evaluation.feedback.bench import FeedbackBench
from resift_lab.evaluation.feedback.graded import GradedFeedback
from resift_lab.evaluation.feedback.options import FeedbackOptions
from resift_lab.evaluation.protocol import CONDENSED

TUNED_ON = ("cranfield", "cisi", "medline", "vaswani")
HELD_OUT = ("cacm", "dl19-pool", "csfcube")
KINDS = {"packaged": ServedSearch, "words": LexicalSearch}
WEIGHTS = (0.25, 0.5, 0.75, 1.0)
MARKS, MAX_QUERIES, MAX_LOSS = 3, 100, 0.3
ADDED, REMOVED, OTHER_NEED = "added", "removed", "another need"


class Sessions:
    """Pairs of queries of a collection: one whose hits are marked, and one that is searched afterwards.

    Args:
        collection: The collection.
        rng: Random generator that draws the queries.

    Attributes:
        collection: The collection with the queries of all pairs, each with the judgements that its user has in mind.
        pairs: For each relation of the two queries, pairs of their positions in ``collection``.
    """

    def __init__(self, collection: Collection, rng: np.random.Generator) -> None:
        self.texts: list[str] = []
        self.grades: list[dict[int, float]] = []
        self.pairs: dict[str, list[tuple[int, int]]] = {ADDED: [], REMOVED: [], OTHER_NEED: []}
        long = [row for row, query in enumerate(collection.queries) if len(bag_of_words(query)) >= 3]
        chosen = rng.permutation(long)[:MAX_QUERIES].tolist()
        for row in chosen:
            words = list(bag_of_words(collection.queries[row]))
            drawn = " ".join(words[position] for position in sorted(rng.choice(len(words), 2, replace=False)))
            short, full = (
                self._add(drawn, collection.grades[row]),
                self._add(collection.queries[row], collection.grades[row]),
            )
            self.pairs[ADDED].append((short, full))
            self.pairs[REMOVED].append((full, short))
            for other in chosen:
                common = self._common(collection, row, other)
                if common:
                    first = self._add(" ".join(common[:2]), collection.grades[other])
                    self.pairs[OTHER_NEED].append((first, full))
                    break
        self.collection = replace(collection, queries=self.texts, grades=self.grades)

    def _add(self, text: str, grades: dict[int, float]) -> int:
        self.texts.append(text)
        self.grades.append(grades)
        return len(self.texts) - 1

    @staticmethod
    def _common(collection: Collection, row: int, other: int) -> list[str]:
        """Return the content words of a query that another query has, if they have no relevant document in common."""
        relevant = [
            {document for document, grade in collection.grades[query].items() if grade > 0} for query in (row, other)
        ]
        if relevant[0] & relevant[1]:
            return []
        stems = set(map(stem, bag_of_words(collection.queries[other])))
        return [word for word in bag_of_words(collection.queries[row]) if stem(word) in stems]


def measure(
    name: str, kind: str, weights: tuple[float, ...]
) -> dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Measure the second queries without and in a session.

    Args:
        name: Name of the collection.
        kind: A kind of search, a key of KINDS.
        weights: W weights of marks for other queries.

    Returns:
        For each relation of the queries, nDCG@10 x 100 of n queries without a session, shape (n,), and the gains of the
        session for each weight, shape (n, W). NaN if all relevant documents were marked.
    """
    sessions = Sessions(read_collection(Path(os.environ["RESIFT_DATA"]) / name), np.random.default_rng(0))
    protocol = GradedFeedback(sessions.collection)
    metric = CONDENSED[0] if CONDENSED[0] in protocol.metrics else "ndcg@10"
    column = protocol.metrics.index(metric)
    system = SystemChoice("mean", "resift-en", None, 0, True).system()
    bench = FeedbackBench(system, protocol.documents, protocol.queries, KINDS[kind])
    options, measured = FeedbackOptions(judgements=MARKS), {}
    for relation, pairs in sessions.pairs.items():
        plain, gains = [], []
        for first, second in pairs:
            marks = protocol.judge(first, protocol.initial_scores(bench, first), [], options, np.random.default_rng(0))
            documents = [document for document, _ in marks]
            judged = bench.judged_documents(bench.queries[first], marks)
            plain.append(100 * protocol.measure(second, bench.search_scores(second), documents)[column])
            line = []
            for resift.feedback.feedback.SCOPE_WEIGHT in weights:
                line.append(
                    100 * protocol.measure(second, bench.search_scores(second, judged), documents)[column] - plain[-1]
                )
            gains.append(line)
        measured[relation] = np.array(plain), np.array(gains)
    return measured


def show(names: tuple[str, ...]) -> None:
    """Print the gain of a session for each collection, kind of search and relation of the queries."""
    served = (resift.feedback.feedback.SCOPE_WEIGHT,)
    for name in names:
        for kind in KINDS:
            for relation, (plain, gains) in measure(name, kind, served).items():
                cells = (name, kind, relation, str(len(plain)), f"{np.nanmean(plain):.1f}", interval(gains[:, 0]))
                print("| " + " | ".join(cells) + " |", flush=True)


def choose() -> None:
    """Print the gains of all weights, and for each collection the weight that the other collections choose."""
    means: dict[tuple[str, str, str], NDArray[np.float64]] = {}
    for name in TUNED_ON:
        for kind in KINDS:
            for relation, (_, gains) in measure(name, kind, WEIGHTS).items():
                means[name, kind, relation] = np.nanmean(gains, axis=0)
                cells = zip(WEIGHTS, means[name, kind, relation], strict=True)
                print(f"{name} {kind} {relation}", *(f"{weight}: {mean:+.1f}" for weight, mean in cells), flush=True)
    for name in TUNED_ON:
        losses = np.mean([gains for case, gains in means.items() if case[0] != name and case[2] == OTHER_NEED], axis=0)
        gains = np.mean([gains for case, gains in means.items() if case[0] != name and case[2] != OTHER_NEED], axis=0)
        print(f"without {name}: weight {WEIGHTS[int(np.argmax(np.where(losses >= -MAX_LOSS, gains, -np.inf)))]}")


if __name__ == "__main__":
    if sys.argv[1:] == ["choose"]:
        choose()
    else:
        show(tuple(sys.argv[1:]) or (*TUNED_ON, *HELD_OUT))
