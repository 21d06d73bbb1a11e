"""Measure an index of a given size: time of attaching, bytes, and searches with concurrent clients."""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from opensearchpy.helpers import parallel_bulk
from scale_vectors import store_bytes
from served_reranker import ServiceProcess
from speed_cluster import FIELDS, Client, hits_body
from speed_search import QUERIES

from resift.plugin.opensearch.engine import OpenSearchEngine

INDEX = "scale-docs"
WAYS = {
    "plain": "a plain _search",
    "pipeline": "the same, rewritten by the index's default pipeline",
    "session": "that in a session",
    "served": "/v1/search in a session",
}


@dataclass
class Target:
    """A cluster with an installation of Resift, and the service that its pipelines call."""

    folder: Path
    urls: list[str]
    engine: OpenSearchEngine
    reranker: ServiceProcess


def measure(
    target: Target, documents: Sequence[tuple[str, str]], clients: Sequence[int], seconds: float
) -> dict[str, Any]:
    """Create an index, attach it, search it, and drop it."""
    client, nodes = target.engine.client, len(target.urls)
    texts = {name: {"type": "text", "analyzer": "english"} for name in FIELDS}
    settings = {"number_of_shards": nodes, "number_of_replicas": min(1, nodes - 1)}
    target.engine.drop_if_exists(INDEX)
    client.indices.create(index=INDEX, body={"settings": settings, "mappings": {"properties": texts}})
    try:
        started = time.monotonic()
        for done, answer in parallel_bulk(
            client, _lines(documents), thread_count=2, chunk_size=2000, request_timeout=300
        ):
            if not done:
                raise RuntimeError(f"not indexed: {answer}")
        written = time.monotonic() - started
        text_bytes = store_bytes(client, INDEX)
        started = time.monotonic()
        _attach(target)
        attached = time.monotonic() - started
        return {
            "documents": len(documents),
            "nodes": nodes,
            "text seconds": round(written, 1),
            "attach seconds": round(attached, 1),
            "attached a second": round(len(documents) / attached),
            "text bytes a document": round(text_bytes / len(documents)),
            "bytes a document": round(store_bytes(client, INDEX) / len(documents)),
            "p50 ms": _searched(target, clients, seconds),
        }
    finally:
        target.engine.drop_if_exists(INDEX)


def _lines(documents: Sequence[tuple[str, str]]) -> Iterator[dict[str, Any]]:
    for number, (title, text) in enumerate(documents):
        yield {"_index": INDEX, "_id": str(number), "title": title, "text": text}


def _attach(target: Target) -> None:
    """Attach the index with the command ``resift attach``."""
    options = ["--force", "--no-adapt", "--default-pipelines", "--yes", "--engine", ",".join(target.urls)]
    command = [sys.executable, "-m", "resift", "attach", INDEX, "--vectors", *options]
    done = subprocess.run(command, cwd=target.folder, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"resift attach ended with {done.returncode}: {done.stdout[-500:]}{done.stderr[-500:]}")


def _searched(target: Target, clients: Sequence[int], seconds: float) -> dict[str, dict[str, float]]:
    """Return the median time in ms of each way of searching, by number of clients."""
    ids = [hit["_id"] for hit in _plain(Client(target.urls[0]), "space shuttle launch", "_none")["hits"]["hits"][:10]]
    for query in QUERIES:
        marks = {"index": INDEX, "query": query, "relevant": ids[:6], "irrelevant": ids[6:]}
        target.reranker.ask("/v1/feedback", {"session": _session(query), **marks})
    medians: dict[str, dict[str, float]] = {way: {} for way in WAYS}
    for count, way in itertools.product(clients, WAYS):
        taken = _concurrent(target, way, count, seconds)
        medians[way][str(count)] = round(float(np.median(taken)), 1)
    return medians


def _concurrent(target: Target, way: str, clients: int, seconds: float) -> list[float]:
    """Search with concurrent clients for some seconds, and return the milliseconds of all but each client's first."""
    end = time.monotonic() + seconds

    def search(number: int) -> list[float]:
        client = Client(target.reranker.url if way == "served" else target.urls[number % len(target.urls)])
        taken = []
        for turn in itertools.count(number):
            started = time.monotonic()
            _ask(client, way, QUERIES[turn % len(QUERIES)])
            taken.append((time.monotonic() - started) * 1000)
            if time.monotonic() > end and len(taken) > 3:
                return taken[1:]
        raise AssertionError("the loop has no end")

    with ThreadPoolExecutor(clients) as pool:
        return [value for values in pool.map(search, range(clients)) for value in values]


def _ask(client: Client, way: str, query: str) -> None:
    if way == "served":
        client.post("/v1/search", {"index": INDEX, "query": hits_body(query), "session": _session(query)})
    else:
        _plain(client, query, "_none" if way == "plain" else "", _session(query) if way == "session" else None)


def _session(query: str) -> str:
    """Return the session in which documents are marked for a query."""
    return f"scale-{query.replace(' ', '-')}"


def _plain(client: Client, query: str, pipeline: str, session: str | None = None) -> Any:
    extra = {"ext": {"ml_inference": {"session": session}}} if session else {}
    return client.post(f"/{INDEX}/_search{pipeline and '?search_pipeline='}{pipeline}", {**hits_body(query), **extra})
