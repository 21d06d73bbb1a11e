"""Compare Resift's own search processor with the ``ml_inference`` processor of ML Commons.

    RESIFT_DATA=… python benchmarks/native.py [--documents 20000] [--rounds 15]

Documents and queries are those of ``hybrid_pipeline.py``. Each query is measured as a lexical (``multi_match``)
and as a hybrid search. All variants are measured in turn. The time of a variant is divided by the time of the same
search without a pipeline for Resift, and medians and quartiles of the ratio over the rounds are printed. Each variant
first runs 600 times, because Java compiles only code that runs often.

``own call`` is the time of the plugin itself, in ms: the time of a search in a session minus those of the rewritten
body and of ``/v1/rewrite``. For a frozen service, the slowest search is printed. It is one of the first searches, which
wait for the service until the plugin's circuit breaker opens.

OPENSEARCH_URL is the address of a cluster with Resift's plugin and ML Commons. By default the benchmark starts a node.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import socket
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from hybrid_pipeline import MIXED, Body, measured, rewritten_body, served_index
from speed_cluster import Client
from speed_search import QUERIES
from speed_timing import Spread, seconds

from resift.plugin.cluster.install import Installer
from resift.plugin.cluster.installation import Installation
from resift.plugin.cluster.remote_model import RemoteModel
from resift.plugin.operations.attach_searches import SearchAttachment

TIMEOUT_MS, PATIENT_MS = 300, 10_000
WARM_UPS = 60  # of each query, before anything is measured
WAYS = {
    "empty": "through a pipeline without a request processor",
    "native": "through the plugin, without a session",
    "ml": "through ml_inference, without a session",
    "engine": "the rewritten body, sent to the engine",
    "native session": "through the plugin, in a session",
    "ml session": "through ml_inference, in a session",
    "rewrite": "/v1/rewrite alone",
    "frozen": "through the plugin, in a session, with an open breaker (frozen service)",
}
Ways = dict[str, Callable[[str], Any]]


@contextlib.contextmanager
def prepared(url: str, count: int) -> Iterator[dict[str, Ways]]:
    """Set up an index and pipelines, and yield the variants of each kind of search. Clean up afterwards."""
    with served_index(url, count) as setting:
        name, corpus, cluster, undone = setting.name, setting.corpus, setting.cluster, setting.undone
        service = setting.service
        frozen = undone.enter_context(socket.create_server(("127.0.0.1", 0), backlog=64))

        def pipeline(kind: str, body: Body) -> str:
            cluster.request("PUT", f"/_search/pipeline/{name}-{kind}", body)
            undone.callback(cluster.request, "DELETE", f"/_search/pipeline/{name}-{kind}")
            return f"{name}-{kind}"

        def native(address: str, timeout: int) -> Body:
            return {**MIXED, "request_processors": [{"resift": {"url": address, "timeout": f"{timeout}ms"}}]}

        installer = Installer(cluster.engine, Installation(f"{name}-ml", setting.model, ("text",), service))
        undone.callback(installer.uninstall)
        installer.install()
        pipelines = {
            "empty": pipeline("empty", MIXED),
            "native": pipeline("native", native(service, PATIENT_MS)),
            "frozen": pipeline("frozen", native(f"http://127.0.0.1:{frozen.getsockname()[1]}", TIMEOUT_MS)),
            "ml": pipeline("ml", MIXED),
        }
        remote = RemoteModel(cluster, "rewrite", installer.template_values)
        SearchAttachment(cluster, corpus.index, pipelines["ml"]).run(installer.name, remote.model_id)
        clients = Client(url), Client(service)
        bodies = {
            "match": lambda query: {
                "query": {"multi_match": {"query": query, "fields": ["title", "text"]}},
                "_source": ["title"],
            },
            "hybrid": corpus.body,
        }
        yield {kind: _ways(corpus.index, clients, pipelines, kind, make) for kind, make in bodies.items()}


def _ways(
    index: str, clients: tuple[Client, Client], pipelines: dict[str, str], kind: str, make: Callable[[str], Body]
) -> Ways:
    plain, service = clients
    bodies = {query: make(query) for query in QUERIES}
    default = "_none" if kind == "match" else pipelines["empty"]

    def search(body: Body, pipeline: str) -> Any:
        return plain.post(f"/{index}/_search?search_pipeline={pipeline}", body)

    sessions = {query: f"{kind}-{query.replace(' ', '-')}" for query in QUERIES}
    for query, body in bodies.items():
        ids = [hit["_id"] for hit in search(body, default)["hits"]["hits"]]
        marks = {"relevant": ids[:6:2], "irrelevant": ids[1:5:2]}
        service.post("/v1/feedback", {"session": sessions[query], "index": index, "query": query, **marks})

    def in_session(query: str, section: str) -> Body:
        return {**bodies[query], "ext": {section: {"query": query, "session": sessions[query]}}}

    def rewrite(query: str) -> Any:
        return service.post("/v1/rewrite", {"index": index, "body": in_session(query, "resift"), "hide_vectors": True})

    changed = {query: rewritten_body(lambda query=query: rewrite(query)) for query in QUERIES}
    return {
        "plain": lambda query: search(bodies[query], default),
        "empty": lambda query: search(bodies[query], pipelines["empty"]),
        "native": lambda query: search(bodies[query], pipelines["native"]),
        "ml": lambda query: search(bodies[query], pipelines["ml"]),
        "engine": lambda query: search(changed[query], default),
        "native session": lambda query: search(in_session(query, "resift"), pipelines["native"]),
        "ml session": lambda query: search(in_session(query, "ml_inference"), pipelines["ml"]),
        "rewrite": rewrite,
        "frozen": lambda query: search(in_session(query, "resift"), pipelines["frozen"]),
    }


def _check_hits(ways: Ways) -> None:
    """Check that both processors return the hits of the rewritten body in the same order.

    Raises:
        RuntimeError: If the hits differ, or if the session has no effect.
    """
    for query in QUERIES:
        hits = {way: [hit["_id"] for hit in ways[way](query)["hits"]["hits"]] for way in ways if way != "rewrite"}
        if not hits["engine"] == hits["native session"] == hits["ml session"] != hits["plain"]:
            raise RuntimeError(f"{query!r}: hits of the variants: {hits}")
        if not hits["frozen"] == hits["native"] == hits["plain"]:
            raise RuntimeError(f"{query!r}: hits without a rewriting differ: {hits}")


def _start() -> str:
    """Return OPENSEARCH_URL, or start a node with the plugin that ends with this process, and return its URL."""
    if os.environ.get("OPENSEARCH_URL"):
        return os.environ["OPENSEARCH_URL"]
    import node

    return node.start(native=True).url


def main() -> None:
    """Measure and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    with prepared(_start(), options.documents) as kinds:
        first = kinds["match"]
        slowest = max(1000 * seconds(first["frozen"], query) for query in QUERIES)
        print(
            f"{options.documents} documents. Frozen service, timeout {TIMEOUT_MS} ms: slowest search {slowest:.0f} ms"
        )
        for kind, ways in kinds.items():
            _check_hits(ways)
            for query, search in itertools.product(QUERIES * WARM_UPS, ways.values()):
                search(query)
            times = measured(ways, options.rounds)
            print(
                f"\n{kind}, p50 of the plain search: {np.median(times['plain']):.1f} ms\n\n| way | ratio |\n|---|---|"
            )
            for way, title in WAYS.items():
                spread = Spread.of([a / b for a, b in zip(times[way], times["plain"], strict=True)])
                print(f"| {title} | {spread.median:.2f} ({spread.low:.2f}–{spread.high:.2f}) |")
            beyond = np.array(times["native session"]) - np.array(times["engine"]) - np.array(times["rewrite"])
            own = Spread.of(beyond.tolist())
            print(f"\nown call: {own.median:.2f} ms ({own.low:.2f} to {own.high:.2f})")


if __name__ == "__main__":
    main()
