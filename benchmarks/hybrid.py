"""Measure sessions in OpenSearch's hybrid search, on an index with vectors that was not attached.

    RESIFT_DATA=… python benchmarks/hybrid.py [COLLECTION...] [--quick]     # quality
    RESIFT_DATA=… python benchmarks/hybrid.py cost [--quick]                # search times

$RESIFT_DATA contains collections in BEIR's layout and ``minilm/COLLECTION.npz``, their vectors by all-MiniLM-L6-v2.
$RESIFT_ST, a folder of this model, is needed for a collection without such a file.
OPENSEARCH_URL is the address of a cluster. By default the benchmark starts a node. The indices
resift-benchmark-hybrid-COLLECTION have a text field (analyzer ``english``) and a ``knn_vector`` field.

A hybrid query combines a lexical query and a k-NN query, with 100 hits and a weight of one half each. The first k hits
of the search without a session are marked by the judgements of the collection. Then the body that ``/v1/rewrite``
returns is searched. Values are nDCG@10 x 100 without the marked documents (in the ranking and in the ideal ranking),
over queries with another relevant document. For the collections CONDENSED, which have shallow pools, only hits with a
judgement are marked and counted (condensed ranking: Sakai 2007). "page one" is the share of relevant marks among the
first ten hits that stay there. Intervals are 95 % bootstrap intervals over queries (seed 0). ``--quick`` uses MEDLINE
only, or fewer rounds.
"""

from __future__ import annotations

import os
import sys
import tempfile
import uuid
from collections.abc import Collection as Ids
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from opensearchpy import OpenSearch, helpers
from speed_cluster import Client, opensearch_url
from speed_timing import Spread, seconds

from resift.reranker import Config, create_app
from resift_lab.evaluation.data import Collection, read_collection
from resift_lab.evaluation.metrics import ndcg_at
from resift_lab.evaluation.registry import build_system
from resift_lab.evaluation.significance import bootstrap_mean
from resift_lab.training.systems import system_builders

COLLECTIONS = ("cranfield", "cisi", "medline", "vaswani", "chorus")
CONDENSED = ("chorus", "dl19-pool", "csfcube")
MARKS, DEPTH, PAGE = (1, 2, 5, 10), 100, 10
TECHNIQUES = ("min_max", "z_score", "rrf")
COST_MARKS, WARM, ROUNDS, QUICK_ROUNDS = 5, 8, 25, 5
Body = dict[str, Any]
Grades = dict[str, float]


def pipeline(technique: str) -> Body:
    """Return a search pipeline that combines two lists of hits with equal weights."""
    if technique == "rrf":
        processor: Body = {"score-ranker-processor": {"combination": {"technique": "rrf"}}}
    else:
        mean = {"technique": "arithmetic_mean", "parameters": {"weights": [0.5, 0.5]}}
        processor = {"normalization-processor": {"normalization": {"technique": technique}, "combination": mean}}
    return {"phase_results_processors": [processor]}


def search_body(text: str, vector: list[float], technique: str, size: int) -> Body:
    """Return the body of a hybrid search for a text and its vector."""
    queries = [{"match": {"text": text}}, {"knn": {"embedding": {"vector": vector, "k": DEPTH}}}]
    hybrid = {"hybrid": {"queries": queries, "pagination_depth": DEPTH}}
    return {"query": hybrid, "size": size, "_source": False, "search_pipeline": pipeline(technique)}


class Searched:
    """A collection in an index that is not attached, and a Resift service.

    Args:
        url: Address of the cluster.
        name: Name of the collection.
        store: Path of the session store.
    """

    def __init__(self, url: str, name: str, store: str) -> None:
        self.collection: Collection = read_collection(Path(os.environ["RESIFT_DATA"]) / name)
        self.name, self.index = name, f"resift-benchmark-hybrid-{name}"
        self.document_vectors, queries = vectors_of(name, self.collection)
        self.vectors = [numbers(queries[id]) for id in self.collection.query_ids]
        self.client = OpenSearch(url, timeout=60)
        if not self.client.indices.exists(index=self.index):
            self._fill(self.document_vectors)
        self.reranker = create_app(Config(engine=url, store=store)).test_client()

    def _fill(self, vectors: dict[str, Any]) -> None:
        method = {"name": "hnsw", "engine": "lucene", "space_type": "cosinesimil"}
        properties = {
            "text": {"type": "text", "analyzer": "english"},
            "embedding": {"type": "knn_vector", "dimension": len(next(iter(vectors.values()))), "method": method},
        }
        settings = {"index.knn": True, "number_of_shards": 1, "number_of_replicas": 0}
        self.client.indices.create(
            index=self.index, body={"settings": settings, "mappings": {"properties": properties}}
        )
        helpers.bulk(self.client, self._documents(vectors), chunk_size=500)
        self.client.indices.forcemerge(index=self.index, max_num_segments=1, request_timeout=600)
        self.client.indices.refresh(index=self.index)

    def _documents(self, vectors: dict[str, Any]) -> Iterator[Body]:
        for id, text in zip(self.collection.document_ids, self.collection.documents, strict=True):
            vector = {"embedding": numbers(vectors[id])} if np.any(vectors[id]) else {}  # empty texts have no vector
            yield {"_index": self.index, "_id": id, "text": text, **vector}

    def body(self, query: int, technique: str = "min_max", size: int = 2 * DEPTH) -> Body:
        """Return the body of the search for the query at a position."""
        return search_body(self.collection.queries[query], self.vectors[query], technique, size)

    def grades(self, query: int) -> Grades:
        """Return the grades of documents for a query, by document id."""
        return {self.collection.document_ids[row]: grade for row, grade in self.collection.grades[query].items()}

    def hits(self, body: Body) -> list[str]:
        """Run a search and return the ids of its hits, best first."""
        return [hit["_id"] for hit in self.client.search(index=self.index, body=body)["hits"]["hits"]]

    def in_session(self, query: int, body: Body, marked: Sequence[str], grades: Grades) -> Body:
        """Mark documents in a new session, and return the body of the search rewritten for this session."""
        session, text = uuid.uuid4().hex, self.collection.queries[query]
        relevant = [id for id in marked if grades.get(id, 0) > 0]
        marks = {"relevant": relevant, "irrelevant": [id for id in marked if id not in relevant]}
        self._post("feedback", session=session, index=self.index, query=text, **marks)
        request = {**body, "ext": {"ml_inference": {"query": text, "session": session}}}
        answer = self._post("rewrite", index=self.index, body=request)
        # documents without a text have no vector, so the query vector cannot be moved by them
        unmoved = not any(np.any(self.document_vectors[id]) for id in marked)
        if answer["resift"]["outcome"] != ("no_vectors" if unmoved else "rewritten"):
            raise RuntimeError(f"{self.name}, {text!r}: {answer['resift']}")
        return {name: value for name, value in answer["body"].items() if name != "ext"}

    def _post(self, path: str, **body: Any) -> Any:
        answer = self.reranker.post(f"/v1/{path}", json=body)
        if answer.status_code != 200:
            raise RuntimeError(f"/v1/{path}: {answer.status_code} {answer.get_data(as_text=True)[:300]}")
        return answer.get_json()


def vectors_of(name: str, collection: Collection) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the vectors of the documents and of the queries of a collection by id, from all-MiniLM-L6-v2.

    If $RESIFT_DATA/minilm has no file of the collection, the model in $RESIFT_ST encodes the texts. The vectors are
    stored in .resift/minilm.
    """
    files = [folder / "minilm" / f"{name}.npz" for folder in (Path(os.environ["RESIFT_DATA"]), Path(".resift"))]
    path = next((file for file in files if file.exists()), files[1])
    if not path.exists():
        model = build_system(f"st:{os.environ['RESIFT_ST']}", system_builders=system_builders())
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(
            path,
            documents=model.fit(collection.documents),
            document_ids=collection.document_ids,
            queries=model.encode_queries(collection.queries),
            query_ids=collection.query_ids,
        )
    with np.load(path) as file:
        documents = dict(zip(file["document_ids"].tolist(), file["documents"], strict=True))
        return documents, dict(zip(file["query_ids"].tolist(), file["queries"], strict=True))


def numbers(row: Any) -> list[float]:
    """Return a vector as a list of rounded numbers for JSON."""
    return [round(float(value), 6) for value in row]


def residual(hits: Sequence[str], grades: Grades, marked: Ids[str], condensed: bool) -> float:
    """Return nDCG@10 x 100 of the hits without the marked documents. NaN if no other document is relevant."""
    left = [id for id in hits if id not in marked and (id in grades or not condensed)]
    return 100 * ndcg_at(
        [grades.get(id, 0) for id in left], [grade for id, grade in grades.items() if id not in marked], PAGE
    )


@dataclass
class Figures:
    """Results of the queries with a number of marks.

    Attributes:
        before: nDCG without a session, by query.
        after: nDCG in the session, by query.
        shown: Number of relevant marks among the first ten hits without a session.
        stayed: Number of these marks that are among the first ten hits in the session.
    """

    before: list[float] = field(default_factory=list)
    after: list[float] = field(default_factory=list)
    shown: int = 0
    stayed: int = 0

    def add(self, searched: Searched, query: int, plain: Sequence[str], count: int, technique: str) -> None:
        """Mark the first ``count`` hits of the ``plain`` search, search in the session, and record the results."""
        grades, condensed = searched.grades(query), searched.name in CONDENSED
        marked = [id for id in plain if id in grades or not condensed][:count]
        before = residual(plain, grades, marked, condensed)
        if not marked or np.isnan(before):
            return
        hits = searched.hits(searched.in_session(query, searched.body(query, technique), marked, grades))
        self.before.append(before)
        self.after.append(residual(hits, grades, marked, condensed))
        shown = {id for id in marked if grades.get(id, 0) > 0} & set(plain[:PAGE])
        self.shown += len(shown)
        self.stayed += len(shown & set(hits[:PAGE]))

    def cells(self) -> list[str]:
        """Return table cells: mean without a session, mean gain, its interval, and the share of marks that stayed."""
        gains = np.subtract(self.after, self.before)
        low, high = bootstrap_mean(gains, np.random.default_rng(0))
        return [
            f"{np.mean(self.before):.1f}",
            f"{gains.mean():+.1f}",
            f"[{low:+.1f}, {high:+.1f}]",
            f"{100 * self.stayed / max(1, self.shown):.0f} %",
        ]


def print_worth(url: str, names: Sequence[str], store: str) -> None:
    """Print a table with a row for each normalisation technique, collection and number of marks."""
    print("| technique | collection | marks | unmarked | gain | 95 % | page one |\n|---|---|---|---|---|---|---|")
    collections = [Searched(url, name, store) for name in names]
    for technique, searched in product(TECHNIQUES, collections):
        figures = {count: Figures() for count in MARKS}
        for query in range(len(searched.collection.queries)):
            plain = searched.hits(searched.body(query, technique))
            for count, results in figures.items():
                results.add(searched, query, plain, count, technique)
        for count, results in figures.items():
            print("|", " | ".join((technique, searched.name, str(count), *results.cells())), "|", flush=True)


def print_cost(url: str, name: str, rounds: int, store: str) -> None:
    """Print the times of original and rewritten hybrid searches in the engine, without the service."""
    searched, client = Searched(url, name, store), Client(url)
    plain = [searched.body(query, size=PAGE) for query in range(len(searched.collection.queries))]
    rewritten = []
    for query, body in enumerate(plain):
        rewritten.append(searched.in_session(query, body, searched.hits(body)[:COST_MARKS], searched.grades(query)))
    path, times = f"/{searched.index}/_search", np.zeros((WARM + rounds, len(plain), 2))
    for turn, query, way in np.ndindex(times.shape):
        # The two searches alternate, so that other load on the machine affects both in the same way.
        times[turn, query, way] = 1000 * seconds(client.post, path, (plain, rewritten)[way][query])
    times = times[WARM:]
    medians, fastest = np.median(times, axis=1), np.median(times.min(axis=0), axis=0)
    ratio = Spread.of(list(medians[:, 1] / medians[:, 0]))
    print(
        f"{name}, {len(searched.collection.documents)} documents, {len(plain)} queries, {COST_MARKS} marks each, "
        f"{DEPTH} hits of each list\n"
        f"hybrid, p50: {np.median(medians[:, 0]):.1f} ms; of each query's fastest: {fastest[0]:.1f} ms\n"
        f"in a session, p50: {ratio.median:.2f} times that ({ratio.low:.2f} to {ratio.high:.2f}, quartiles of {rounds} "
        f"rounds); of each query's fastest: {fastest[1] / fastest[0]:.2f}"
    )


def main(arguments: Sequence[str]) -> None:
    """Run the benchmark that the arguments select."""
    quick, names = "--quick" in arguments, [argument for argument in arguments if not argument.startswith("-")]
    with tempfile.TemporaryDirectory() as folder:
        url, store = opensearch_url(), f"{folder}/sessions.db"
        if names[:1] == ["cost"]:
            print_cost(url, "vaswani", QUICK_ROUNDS if quick else ROUNDS, store)
        else:
            print_worth(url, names or (["medline"] if quick else COLLECTIONS), store)


if __name__ == "__main__":
    main(sys.argv[1:])
