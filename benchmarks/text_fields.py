"""Evaluate lexical search of several fields: ``RESIFT_DATA=DIR python benchmarks/text_fields.py [boosts | phrases]``.

Prints nDCG@10 x 100 of lexical searches in the embedded engine, with title and text as a single field and as two
fields. The score of two fields is s + t · s', where s is the higher of the two scores, s' the other, and t the tie
breaker. The tie breaker of Resift was chosen on these collections. Two variants were tried and rejected:

- ``boosts``: another weight for the title, with the sum of both scores or with the tie breaker of Resift. The best
  value for a collection is an upper limit for weights learned from its queries.
- ``phrases``: the first hundred hits get a fifth of the score of ``match_phrase`` for each two neighbouring content
  words of the query, computed here because the embedded engine has no such query.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

import numpy as np

from resift import load_model
from resift.contracts.documents import Document
from resift.embedded.analysis import terms_of
from resift.embedded.engine import SqliteEngine
from resift.query import questions
from resift.text import FUNCTION_WORDS
from resift_lab.corpus import lucene_idf
from resift_lab.evaluation.data import Collection, read_collection
from resift_lab.evaluation.data.collection import corpus_file, with_queries
from resift_lab.evaluation.data.lines import json_objects
from resift_lab.evaluation.protocol import graded_metrics
from resift_lab.evaluation.served import RANKED, ranking_to_scores

COLLECTIONS = ("cranfield", "cisi", "mtrag-govt")
QUESTIONS, FIRST_QUESTIONS = "squad-train-part", 2000  # queries of the training block; documents have no titles
PARTS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 1.0)
TITLE_WEIGHTS = (0.25, 0.5, 1.0, 2.0)
FIELDS = ("title", "text")
PHRASES, PHRASE_WEIGHT, PHRASE_WINDOW = 10, 0.2, 100
Ranking = tuple[np.ndarray, np.ndarray]  # positions of the documents, best first, and their scores


class Index:
    """Documents in an embedded engine.

    Args:
        rows: Text fields of each document.
        fields: Fields to search.
    """

    def __init__(self, rows: Sequence[Mapping[str, str]], fields: Sequence[str]) -> None:
        self.fields, self.count = fields, len(rows)
        self._engine, model = SqliteEngine(":memory:"), load_model()
        self._engine.create("documents", list(fields), model)
        nothing = np.zeros(model.dim, np.float32)
        self._engine.bulk("documents", [Document(str(place), dict(row), nothing) for place, row in enumerate(rows)])

    def ranking(self, query: str, fields: Sequence[str] = (), part: float = questions.TIE_BREAKER) -> Ranking:
        """Return the ranking of a query in ``fields``, with ``part`` as tie breaker."""
        with patch.object(questions, "TIE_BREAKER", part):
            clause = questions.question_clause(query, fields or self.fields)
        hits = self._engine.search("documents", {"query": clause, "size": RANKED, "_source": False}).hits
        return np.array([int(hit["_id"]) for hit in hits], np.int64), np.array([hit["_score"] for hit in hits])

    def figure(self, collection: Collection, fields: Sequence[str] = (), part: float = questions.TIE_BREAKER) -> float:
        """Return the mean nDCG@10 x 100 of the collection's queries."""
        return mean_of(collection, [self.ranking(query, fields, part)[0] for query in collection.queries])


class Phrases:
    """Scores of ``match_phrase`` (Lucene's BM25) for each two neighbouring content words of queries.

    Args:
        documents: Texts of the documents.
    """

    def __init__(self, documents: Sequence[str]) -> None:
        self._documents = [_places(text) for text in documents]
        lengths = np.array([len(words) - words.count("") for words in self._documents])
        self._norms = 1.2 * (0.25 + 0.75 * lengths / lengths.mean())
        self._frequency = Counter(word for words in self._documents for word in set(words))

    def rescored(self, query: str, ranking: Ranking) -> np.ndarray:
        """Return the documents of a ranking, with the first hundred reordered by their phrase scores."""
        rows, scores = ranking[0], ranking[1].copy()
        weights = {phrase: self._weight(phrase) for phrase in list(dict.fromkeys(_phrases(query)))[:PHRASES]}
        for place, row in enumerate(rows[:PHRASE_WINDOW].tolist()):
            for phrase, weight in weights.items():
                times = _occurrences(phrase, self._documents[row])
                scores[place] += PHRASE_WEIGHT * weight * times / (times + self._norms[row])
        return rows[np.argsort(-scores, kind="stable")]

    def _weight(self, phrase: Sequence[str]) -> float:
        frequencies = np.array([self._frequency[word] for word in phrase if word], np.float64)
        return float(lucene_idf(frequencies, len(self._documents)).sum())


def _places(text: str) -> list[str]:
    """Return the term at each position of a text, "" for words that the analyzer removes."""
    return [_term(word) for word in terms_of(text, "standard")]


@cache
def _term(word: str) -> str:
    return next(iter(terms_of(word, "english")), "")


def _phrases(query: str) -> Iterator[tuple[str, ...]]:
    """Yield a phrase for each two neighbouring content words of a query, including the words between them."""
    words = terms_of(query, "standard")
    content = [place for place, word in enumerate(words) if word not in FUNCTION_WORDS and _term(word)]
    for first, last in pairwise(content):
        yield tuple(map(_term, words[first : last + 1]))


def _occurrences(phrase: Sequence[str], words: Sequence[str]) -> int:
    """Return the number of occurrences of a phrase in a text. "" in the phrase matches any word."""
    starts = (place for place, word in enumerate(words[: len(words) - len(phrase) + 1]) if word == phrase[0])
    return sum(
        all(not term or term == word for term, word in zip(phrase, words[start : start + len(phrase)], strict=True))
        for start in starts
    )


def mean_of(collection: Collection, rankings: Sequence[np.ndarray]) -> float:
    """Return the mean nDCG@10 x 100 of rankings, a ranking per query of the collection."""
    count = len(collection.documents)
    pairs = zip(rankings, collection.grades, strict=True)
    return 100 * float(
        np.mean([graded_metrics(ranking_to_scores(rows, count), grades)["ndcg@10"] for rows, grades in pairs])
    )


def parts(collection: Collection, rows: Sequence[Mapping[str, str]]) -> list[float]:
    """Return the values of joined fields, and of two fields with each tie breaker."""
    index = Index(rows, FIELDS)
    return [Index(_joined(collection), ["text"]).figure(collection), *(index.figure(collection, (), p) for p in PARTS)]


def boosts(collection: Collection, rows: Sequence[Mapping[str, str]]) -> list[float]:
    """Return the values of each weight of the title, with the sum of both scores and with Resift's tie breaker."""
    index = Index(rows, FIELDS)
    return [
        index.figure(collection, [f"title^{weight}", "text"], part)
        for part in (1.0, questions.TIE_BREAKER)
        for weight in TITLE_WEIGHTS
    ]


def phrases(collection: Collection, rows: Sequence[Mapping[str, str]]) -> list[float]:
    """Return the values without and with phrases."""
    index, stage = Index(_joined(collection), ["text"]), Phrases(collection.documents)
    rankings = [index.ranking(query) for query in collection.queries]
    rescored = [stage.rescored(*pair) for pair in zip(collection.queries, rankings, strict=True)]
    return [mean_of(collection, [rows for rows, _ in rankings]), mean_of(collection, rescored)]


def _joined(collection: Collection) -> list[dict[str, str]]:
    return [{"text": text} for text in collection.documents]


TABLES: dict[str, tuple[Callable[[Collection, Sequence[Mapping[str, str]]], list[float]], list[str]]] = {
    "parts": (parts, ["joined", *(f"{part:g}" for part in PARTS)]),
    "boosts": (boosts, [f"{way} {weight:g}" for way in ("sum", "best") for weight in TITLE_WEIGHTS]),
    "phrases": (phrases, ["words", "phrases"]),
}


def main(name: str = "parts") -> None:
    """Print a table with a line for each collection."""
    if "RESIFT_DATA" not in os.environ or name not in TABLES:
        sys.exit(f"set RESIFT_DATA to the folder with the evaluation data, and select a table of {', '.join(TABLES)}")
    measure, columns = TABLES[name]
    print(f"{'nDCG@10':18}" + "".join(f"{column:>10}" for column in columns))
    for folder_name in COLLECTIONS if name != "phrases" else (*COLLECTIONS, QUESTIONS):
        folder = Path(os.environ["RESIFT_DATA"]) / folder_name
        collection = read_collection(folder)
        if folder_name == QUESTIONS:
            collection = with_queries(collection, range(FIRST_QUESTIONS))
        records = [record for _, record in json_objects(corpus_file(folder))]
        rows = [{field: record.get(field) or "" for field in FIELDS} for record in records]
        print(f"{folder_name:18}" + "".join(f"{figure:>10.1f}" for figure in measure(collection, rows)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:2])
