"""Measure the cost of a session in OpenSearch's hybrid search, in the engine and through the search pipeline.

    RESIFT_DATA=… python benchmarks/hybrid_pipeline.py [--documents 400000] [--rounds 15]

Documents are pieces of newsgroup messages: twelve words and the subject. Their vectors are by the packaged model, with
64 dimensions after a random projection (seed 0), in a field of the user. Ten hybrid queries combine a lexical query and
a k-NN query (100 neighbours) with equal weights, and return ten hits. Each query has its own session with five marked
hits. All variants are measured in turn. Results are medians and quartiles, over the rounds, of the ratio to the
original search. The empty pipeline calls a server that returns each body unchanged, which is the minimum cost of any
``ml_inference`` processor. OPENSEARCH_URL is the address of a cluster. By default the benchmark starts a node.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from opensearchpy import OpenSearch
from speed_cluster import ROOT, Client, free_ports, opensearch_url, serve
from speed_data import pieces
from speed_search import QUERIES
from speed_timing import Spread, seconds

from resift import Model, load_model
from resift.plugin.cluster.client import Cluster
from resift.plugin.cluster.install import Installer
from resift.plugin.cluster.installation import Installation
from resift.plugin.cluster.remote_model import RemoteModel
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.plugin.operations.attach_searches import SearchAttachment

DIM, DEPTH, WARM, BATCH = 64, 100, 3, 2000
MIXED = {"phase_results_processors": [{"normalization-processor": {}}]}
WAYS = {
    "engine": "in a session, the rewritten body sent to the engine",
    "empty": "through an empty pipeline",
    "no session": "through the attached pipeline, without a session",
    "session": "through the attached pipeline, in a session",
    "rewrite": "/v1/rewrite in a session, alone",
}
Body = dict[str, Any]


class Corpus:
    """Documents with vectors in a new index.

    Args:
        url: Address of the cluster.
        count: Number of documents.
        name: Prefix of the index's name.
        model: The model that encodes texts.
    """

    def __init__(self, url: str, count: int, name: str, model: Model) -> None:
        self.client, self.index, self.model = OpenSearch(url, timeout=600), f"{name}-docs", model
        self.projection = np.random.default_rng(0).normal(size=(model.dim, DIM)) / DIM**0.5
        method = {"name": "hnsw", "engine": "lucene", "space_type": "cosinesimil"}
        text, vector = {"type": "text"}, {"type": "knn_vector", "dimension": DIM, "method": method}
        mappings = {"properties": {"title": text, "text": text, "embedding": vector}}
        settings = {"index.knn": True, "number_of_shards": 1, "number_of_replicas": 0, "refresh_interval": "-1"}
        self.client.indices.create(index=self.index, body={"settings": settings, "mappings": mappings})
        documents = pieces(count)
        for start in range(0, len(documents), BATCH):
            self._write(documents[start : start + BATCH], start)
        self.client.indices.refresh(index=self.index)
        self.count = len(documents)

    def _write(self, documents: Sequence[tuple[str, str]], start: int) -> None:
        vectors = self.vectors([" ".join(document) for document in documents])
        lines: list[str] = []
        for number, (title, text) in enumerate(documents):
            embedding = {"embedding": vectors[number]} if any(vectors[number]) else {}
            lines += [json.dumps({"index": {"_id": str(start + number)}})]
            lines += [json.dumps({"title": title, "text": text, **embedding})]
        answer = self.client.bulk(body="\n".join(lines) + "\n", index=self.index)
        if answer["errors"]:
            raise RuntimeError(f"{answer['items'][0]}")

    def vectors(self, texts: Sequence[str]) -> list[list[float]]:
        """Return the projected vectors of texts as lists of numbers."""
        rows: list[list[float]] = np.round(self.model.encode(texts) @ self.projection, 5).tolist()
        return rows

    def body(self, query: str) -> Body:
        """Return the body of the user's hybrid search."""
        two = [
            {"multi_match": {"query": query, "fields": ["title", "text"]}},
            {"knn": {"embedding": {"vector": self.vectors([query])[0], "k": DEPTH}}},
        ]
        return {"query": {"hybrid": {"queries": two, "pagination_depth": DEPTH}}, "_source": ["title"]}


@dataclass
class Setting:
    """An index of documents with vectors, and a service with one worker.

    Attributes:
        name: The prefix of all names.
        corpus: The index.
        cluster: The cluster with the index.
        model: The model of the service.
        service: The URL of the service.
        folder: A temporary folder.
        environment: The environment variables of the service.
        undone: An exit stack for functions that clean up after the measurements.
    """

    name: str
    corpus: Corpus
    cluster: Cluster
    model: Model
    service: str
    folder: Path
    environment: dict[str, str]
    undone: contextlib.ExitStack


@contextlib.contextmanager
def served_index(url: str, count: int) -> Iterator[Setting]:
    """Index documents, and start a service. Clean up afterwards.

    Args:
        url: The address of the cluster.
        count: The number of documents.
    """
    name, folder, model = f"bench-{uuid.uuid4().hex[:8]}", Path(tempfile.mkdtemp(prefix="resift-bench-")), load_model()
    engine = OpenSearchEngine(url, timeout=120)
    with contextlib.ExitStack() as undone:
        undone.callback(shutil.rmtree, folder, ignore_errors=True)
        undone.callback(engine.close)
        undone.callback(engine.drop_if_exists, f"{name}-docs")
        corpus, cluster = Corpus(url, count, name, model), Cluster(engine)
        (port,) = free_ports(1)
        environment = {**os.environ, "RESIFT_STORE": str(folder / "sessions.db")}
        serve(undone, port, ["-m", "resift", "serve", "--workers", "1", "--engine", url], environment, folder / "a")
        yield Setting(name, corpus, cluster, model, f"http://127.0.0.1:{port}", folder, environment, undone)


@contextlib.contextmanager
def attached(url: str, count: int) -> Iterator[dict[str, Callable[[str], Any]]]:
    """Set up an index and pipelines, and yield functions that search in each variant, by name. Clean up afterwards."""
    with served_index(url, count) as setting:
        name, corpus, cluster, undone = setting.name, setting.corpus, setting.cluster, setting.undone
        (port,) = free_ports(1)
        ours, proxy = setting.service, f"http://127.0.0.1:{port}"
        command = [str(ROOT / "benchmarks/speed_proxy.py"), "--engine", url]
        serve(undone, port, command, setting.environment, setting.folder / "b")
        cluster.request("PUT", f"/_search/pipeline/{name}", MIXED)
        undone.callback(cluster.request, "DELETE", f"/_search/pipeline/{name}")
        for kind, address in (("ours", ours), ("empty", proxy)):
            installer, own = (
                Installer(cluster.engine, Installation(f"{name}-{kind}", setting.model, ("text",), address)),
                f"{name}-{kind}-mixed",
            )
            undone.callback(installer.uninstall)
            installer.install()
            cluster.request("PUT", f"/_search/pipeline/{own}", MIXED)
            undone.callback(cluster.request, "DELETE", f"/_search/pipeline/{own}")
            remote = RemoteModel(cluster, "rewrite", installer.template_values)
            SearchAttachment(cluster, corpus.index, own).run(installer.name, remote.model_id)
        yield _ways(corpus, Client(url), Client(ours), name)


def _ways(corpus: Corpus, plain: Client, ours: Client, name: str) -> dict[str, Callable[[str], Any]]:
    path = f"/{corpus.index}/_search?search_pipeline={name}"
    bodies = {query: corpus.body(query) for query in QUERIES}
    for query, body in bodies.items():
        ids = [hit["_id"] for hit in plain.post(path, body)["hits"]["hits"]]
        marks = {"relevant": ids[:6:2], "irrelevant": ids[1:5:2]}
        ours.post("/v1/feedback", {"session": _session(query), "index": corpus.index, "query": query, **marks})
    requests = {
        query: {**body, "ext": {"ml_inference": {"query": query, "session": _session(query)}}}
        for query, body in bodies.items()
    }

    def rewrite(query: str) -> Any:
        return ours.post("/v1/rewrite", {"index": corpus.index, "body": requests[query]})

    changed = {query: rewritten_body(lambda query=query: rewrite(query)) for query in QUERIES}
    return {
        "plain": lambda query: plain.post(path, bodies[query]),
        "engine": lambda query: plain.post(path, changed[query]),
        "empty": lambda query: plain.post(f"{path}-empty-mixed", bodies[query]),
        "no session": lambda query: plain.post(f"{path}-ours-mixed", bodies[query]),
        "session": lambda query: plain.post(f"{path}-ours-mixed", requests[query]),
        "rewrite": rewrite,
    }


def rewritten_body(rewrite: Callable[[], Any]) -> Body:
    """Return the body that the service returns once it has loaded the session.

    Raises:
        RuntimeError: If the service does not rewrite the body within a minute.
    """
    deadline = time.monotonic() + 60
    while (answer := rewrite())["resift"]["outcome"] != "rewritten":
        if time.monotonic() > deadline:
            raise RuntimeError(f"not rewritten: {answer['resift']}")
        time.sleep(0.1)
    return {name: value for name, value in answer["body"].items() if name != "ext"}


def _session(query: str) -> str:
    return query.replace(" ", "-")


def measured(ways: dict[str, Callable[[str], Any]], rounds: int) -> dict[str, list[float]]:
    """Return the median time in ms of each variant in each round."""
    medians: dict[str, list[float]] = {way: [] for way in ways}
    order, names = random.Random(0), [*ways]
    for turn in range(rounds + WARM):
        taken: dict[str, list[float]] = {way: [] for way in ways}
        for query in QUERIES:
            order.shuffle(names)
            for way in names:
                taken[way].append(1000 * seconds(ways[way], query))
        for way in names if turn >= WARM else ():
            medians[way].append(float(np.median(taken[way])))
    return medians


def main() -> None:
    """Measure and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    with attached(opensearch_url(), options.documents) as ways:
        same = [[hit["_id"] for hit in ways[way](QUERIES[0])["hits"]["hits"]] for way in ("engine", "session", "plain")]
        if same[0] != same[1] or same[0] == same[2]:
            raise RuntimeError(
                f"hits through the pipeline and of the rewritten body differ, or the session has no effect: {same}"
            )
        times = measured(ways, options.rounds)
    print(f"{options.documents} documents; hybrid, p50: {np.median(times['plain']):.1f} ms\n| way | ratio |\n|---|---|")
    for way, title in WAYS.items():
        spread = Spread.of([a / b for a, b in zip(times[way], times["plain"], strict=True)])
        print(f"| {title} | {spread.median:.2f} ({spread.low:.2f}–{spread.high:.2f}) |")


if __name__ == "__main__":
    main()
