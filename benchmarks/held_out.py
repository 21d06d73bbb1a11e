"""Measure sessions inside hybrid searches beside other ways to use the same marks.

    RESIFT_DATA=… RESIFT_ST=… python benchmarks/held_out.py [COLLECTION...] [--table]

Index, hybrid searches, marks and nDCG are those of benchmarks/hybrid.py, with min-max normalisation. Nothing in Resift
was chosen on the collections HELD_OUT. Constants were chosen on the collections TUNED_ON. $RESIFT_ST is a folder of
all-MiniLM-L6-v2, which encodes a collection that has no vectors in $RESIFT_DATA/minilm.

The same marks are used in four ways. All of them change both clauses of the hybrid query:

- ``Resift``: the body that ``/v1/rewrite`` returns for a session with the marks.
- ``DIY``: a ``more_like_this`` clause of the relevant documents beside the text clause, and Rocchio's formula for the
  query vector (q + 0.8 · mean of the relevant vectors - 0.2 · mean of the irrelevant vectors).
- ``Bo1``: the 60 words of the relevant documents with the largest weight of the Bose-Einstein model (Amati 2003) as
  weighted terms of the text clause, and the same query vector as DIY.
- ``RM3``: 0.3 · query + 0.7 · the 60 most probable words of the relevant documents (Abdul-Jaleel et al. 2004), and the
  same query vector as DIY.

The gains of each query are stored in .resift/held_out. ``--table`` prints the tables of stored results.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from hybrid import CONDENSED, MARKS, Body, Searched, numbers, residual
from speed_cluster import opensearch_url

from resift_lab.evaluation.significance import bootstrap_mean

HELD_OUT = ("cacm", "dl19-pool", "csfcube")
TUNED_ON = ("cranfield", "cisi", "medline", "vaswani", "chorus")
WAYS = ("Resift", "DIY", "Bo1", "RM3")
COMPARED = ("DIY", "Bo1")  # ways whose difference from Resift is shown
RESULTS = Path(".resift/held_out")
RELEVANT_WEIGHT, IRRELEVANT_WEIGHT = 0.8, 0.2  # factors of the mean vectors in Rocchio's formula
TERMS = 60  # number of words that Bo1 and RM3 add to the query
QUERY_WEIGHT = 0.3  # factor of the original query in RM3
# Options of ``more_like_this``: OpenSearch's default number of words, all with the same weight. Words that occur only
# once in a document are used, too.
LIKE = {"min_term_freq": 1, "min_doc_freq": 2, "max_query_terms": 25}
Weights = dict[str, float]


class Ways:
    """The ways to change a hybrid search of a collection by marks.

    Args:
        searched: The collection in its index, and a Resift service.
    """

    def __init__(self, searched: Searched) -> None:
        self.searched = searched
        self.count = len(searched.collection.documents)

    def body(self, way: str, query: int, marked: Sequence[str]) -> Body:
        """Return the body of the search for a query that uses the marks in one of WAYS.

        Args:
            way: Name of the way.
            query: Position of the query.
            marked: Ids of the marked documents, which are relevant if they have a grade above 0.
        """
        searched, grades = self.searched, self.searched.grades(query)
        body = searched.body(query)
        if way == "Resift":
            return searched.in_session(query, body, marked, grades)
        relevant = [id for id in marked if grades.get(id, 0) > 0]
        text, vector = body["query"]["hybrid"]["queries"]
        irrelevant = [id for id in marked if id not in relevant]
        vector["knn"]["embedding"]["vector"] = self.move_query_vector(searched.vectors[query], relevant, irrelevant)
        if relevant:
            text = {"DIY": self.add_more_like_this, "Bo1": self.bo1, "RM3": self.rm3}[way](text, relevant)
        body["query"]["hybrid"]["queries"] = [text, vector]
        return body

    def move_query_vector(
        self, vector: Sequence[float], relevant: Sequence[str], irrelevant: Sequence[str]
    ) -> list[float]:
        """Return a query vector that Rocchio's formula has moved, scaled to unit length.

        Args:
            vector: The query vector.
            relevant: The ids of the documents that were marked as relevant.
            irrelevant: The ids of the documents that were marked as irrelevant.
        """
        moved = np.array(vector)
        for ids, weight in ((relevant, RELEVANT_WEIGHT), (irrelevant, -IRRELEVANT_WEIGHT)):
            rows = [self.searched.document_vectors[id] for id in ids]
            if rows:
                moved = moved + weight * np.mean(rows, axis=0)
        return numbers(moved / np.linalg.norm(moved))

    def add_more_like_this(self, text: Body, relevant: Sequence[str]) -> Body:
        """Add a ``more_like_this`` clause of the relevant documents to a text clause."""
        like = [{"_index": self.searched.index, "_id": id} for id in relevant]
        return {"bool": {"should": [text, {"more_like_this": {"fields": ["text"], "like": like, **LIKE}}]}}

    def bo1(self, text: Body, relevant: Sequence[str]) -> Body:
        """Return a text clause with the words that Bo1 chooses from the relevant documents."""
        frequencies, in_collection = self.terms(relevant)
        weights = {}
        for term, frequency in frequencies.items():
            chance = in_collection[term] / self.count
            weights[term] = frequency * np.log2((1 + chance) / chance) + np.log2(1 + chance)
        return weighted_terms(self.query_terms(text), scaled(largest(weights), max(weights.values())))

    def rm3(self, text: Body, relevant: Sequence[str]) -> Body:
        """Return a text clause with the words that RM3 chooses from the relevant documents."""
        model: Counter[str] = Counter()
        for id in relevant:
            frequencies, _ = self.terms([id])
            model.update(scaled(frequencies, sum(frequencies.values()) * len(relevant)))
        chosen = largest(model)
        query = self.query_terms(text)
        return weighted_terms(
            scaled(query, sum(query.values()) / QUERY_WEIGHT),
            scaled(chosen, sum(chosen.values()) / (1 - QUERY_WEIGHT)),
        )

    def terms(self, ids: Sequence[str]) -> tuple[Weights, Weights]:
        """Return the analysed terms of documents, with their frequencies in the documents and in the collection."""
        request = {"ids": list(ids), "parameters": {"fields": ["text"], "term_statistics": True, "offsets": False}}
        answer = self.searched.client.mtermvectors(index=self.searched.index, body=request)
        within: Counter[str] = Counter()
        total: Weights = {}
        for document in answer["docs"]:
            for term, facts in document["term_vectors"].get("text", {"terms": {}})["terms"].items():
                within[term] += facts["term_freq"]
                total[term] = facts["ttf"]
        return dict(within), total

    def query_terms(self, text: Body) -> Weights:
        """Return the analysed terms of a ``match`` clause, with their frequencies divided by the largest frequency."""
        request = {"field": "text", "text": text["match"]["text"]}
        tokens = self.searched.client.indices.analyze(index=self.searched.index, body=request)["tokens"]
        counts = Counter(token["token"] for token in tokens)
        return scaled(counts, max(counts.values(), default=1))


def largest(weights: Weights) -> Weights:
    """Return the TERMS terms with the largest weights."""
    return dict(sorted(weights.items(), key=lambda item: -item[1])[:TERMS])


def scaled(weights: Weights, divisor: float) -> Weights:
    """Divide weights by a number."""
    return {term: weight / divisor for term, weight in weights.items()}


def weighted_terms(*parts: Weights) -> Body:
    """Return a query with the sum of weighted terms."""
    total: Counter[str] = Counter()
    for part in parts:
        total.update(part)
    return {"bool": {"should": [{"term": {"text": {"value": term, "boost": w}}} for term, w in total.items() if w > 0]}}


def measure(url: str, name: str, store: str) -> dict[str, Any]:
    """Return nDCG@10 x 100 of each query without marks and with marks, by number of marks and way."""
    searched = Searched(url, name, store)
    ways, condensed = Ways(searched), name in CONDENSED
    figures: dict[str, Any] = {str(count): {"unmarked": [], **{way: [] for way in WAYS}} for count in MARKS}
    for query in range(len(searched.collection.queries)):
        grades, plain = searched.grades(query), searched.hits(searched.body(query))
        for count in MARKS:
            marked = [id for id in plain if id in grades or not condensed][:count]
            before = residual(plain, grades, marked, condensed)
            if not marked or np.isnan(before):
                continue
            values = figures[str(count)]
            values["unmarked"].append(before)
            for way in WAYS:
                hits = searched.hits(ways.body(way, query, marked))
                values[way].append(residual(hits, grades, marked, condensed))
    return figures


def cell(values: Sequence[float]) -> str:
    """Return a mean with its 95 % interval."""
    low, high = bootstrap_mean(np.array(values), np.random.default_rng(0))
    return f"{np.mean(values):.1f} ({low:.1f} to {high:.1f})"


def print_table(names: Sequence[str]) -> None:
    """Print a table of the gains of each collection that has stored results."""
    differences = [f"Resift − {way}" for way in COMPARED]
    head = ["", "marks", "queries", "unmarked", *WAYS, *differences]
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for name in names:
        path = RESULTS / f"{name}.json"
        for count, values in json.loads(path.read_text("utf-8")).items() if path.exists() else ():
            before = np.array(values["unmarked"])
            gains = [cell(np.array(values[way]) - before) for way in WAYS]
            ahead = [cell(np.array(values["Resift"]) - np.array(values[way])) for way in COMPARED]
            cells = [name, count, str(len(before)), f"{before.mean():.1f}", *gains, *ahead]
            print(f"| {' | '.join(cells)} |", flush=True)


def main(arguments: Sequence[str]) -> None:
    """Run the benchmark on the collections that the arguments name, or print the tables."""
    names = [argument for argument in arguments if not argument.startswith("-")] or [*HELD_OUT, *TUNED_ON]
    if "--table" not in arguments:
        RESULTS.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            url = opensearch_url()
            for name in names:
                figures = measure(url, name, f"{folder}/sessions.db")
                (RESULTS / f"{name}.json").write_text(json.dumps(figures), "utf-8")
    print_table(names)


if __name__ == "__main__":
    main(sys.argv[1:])
