"""Measure sessions: stored bytes, a million sessions in a file, and searches in a session.

    OPENSEARCH_URL=http://127.0.0.1:9200 RESIFT_DATA=… python benchmarks/sessions.py [bytes] [million] [searches]

Indexes the train split of 20 Newsgroups ($RESIFT_DATA/20ng.train.jsonl.gz) as resift-benchmark-20ng unless the index
exists. Prints a JSON object per line. Times are milliseconds in a single thread. Only their ratios are comparable
between machines.
"""

from __future__ import annotations

import gzip
import json
import os
import sqlite3
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from resift.contracts.documents import Document
from resift.embedded.database import SqliteSessionStore
from resift.encoders.model import Model
from resift.encoders.registry import load_model
from resift.feedback.judgements import Judgement
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.plugin.opensearch.sessions import OpenSearchSessionStore
from resift.reranker import Config, create_app
from resift.sessions.sessions import Sessions

INDEX = "resift-benchmark-20ng"
QUERIES = 200
SEED = 0
WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "plain, knn 25": {"knn": 25},
    "in a session, knn 0": {"session": True, "knn": 0},
    "in a session": {"session": True},
}


def print_line(what: str, **values: Any) -> None:
    """Print a line of JSON."""
    print(json.dumps({"what": what, **values}), flush=True)


def percentiles(milliseconds: Sequence[float], digits: int) -> dict[str, float]:
    """Return the median and the 95th percentile."""
    p50, p95 = np.percentile(milliseconds, [50, 95])
    return {"p50": round(float(p50), digits), "p95": round(float(p95), digits)}


def timed(work: Callable[[int], Any], times: int) -> dict[str, float]:
    """Call a function repeatedly, and return the median and the 95th percentile in milliseconds."""
    taken = []
    for i in range(times):
        started = time.perf_counter()
        work(i)
        taken.append((time.perf_counter() - started) * 1000)
    return percentiles(taken, 2)


def ten_judgements(number: int) -> list[Judgement]:
    """Return ten judgements of documents with ids like in 20 Newsgroups."""
    rng = np.random.default_rng(number)
    groups = ("comp.sys.mac.hardware", "rec.sport.hockey", "sci.space", "talk.politics.mideast", "alt.atheism")
    names = [f"{groups[rng.integers(5)]}/{rng.integers(10_000, 200_000)}" for _ in range(10)]
    return [Judgement("news", name, int(rng.choice([1, -1]))) for name in names]


def bytes_stored(url: str, count: int = 20_000) -> None:
    """Print the bytes that a session with ten judgements in five steps uses in each store, including indexes."""
    with tempfile.TemporaryDirectory() as folder:
        index = f"resift_sessions_{uuid.uuid4().hex[:8]}"
        print_bytes(SqliteSessionStore(f"{folder}/sessions.db"), count, sqlite_bytes)
        print_bytes(OpenSearchSessionStore(url, index), count // 10, opensearch_bytes)


def print_bytes(store: Any, count: int, size_of: Callable[[Any], int]) -> None:
    """Fill a store with sessions, print its size by ``size_of``, and close it."""
    sessions = Sessions(store)
    for i in range(count):
        judgements, id = ten_judgements(i), "last" if i == count - 1 else uuid.uuid4().hex
        for step in range(0, 10, 2):
            sessions.add(id, f"{judgements[step].document[-5:]} query {step // 2}", judgements[step : step + 2])
    stored = store.read("last")
    print_line(
        "bytes of a session with 10 judgements",
        store=type(store).__name__,
        json=len(json.dumps(stored.body, separators=(",", ":"))),
        all=size_of(store) // count,
    )
    store.close()


def sqlite_bytes(store: SqliteSessionStore) -> int:
    """Return the size of the file after a checkpoint of the write-ahead log."""
    with closing(sqlite3.connect(store.path)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return Path(store.path).stat().st_size


def opensearch_bytes(store: OpenSearchSessionStore) -> int:
    """Return the size of the store's index, merged to a segment, and delete the index."""
    indices, index = store.client.indices, store.index
    indices.forcemerge(index=index, max_num_segments=1)
    indices.refresh(index=index)
    size: int = indices.stats(index=index)["_all"]["primaries"]["store"]["size_in_bytes"]
    indices.delete(index=index)
    return size


def a_million(count: int = 10**6) -> None:
    """Print times for a file with a million sessions, half of them expired."""
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteSessionStore(f"{folder}/sessions.db")
        sessions = Sessions(store)
        sessions.add("first", "query", ten_judgements(0))
        stored = store.read("first")
        assert stored is not None
        body, now = json.dumps(stored.body), time.time()
        rows = ((f"s{i:07}", 1, now + (86400 if i % 2 else -1 - i % 1000), '["news"]', body) for i in range(count))
        with closing(sqlite3.connect(store.path)) as db, db:
            db.executemany("INSERT INTO session_log VALUES (?, ?, ?, ?, ?)", rows)
        picked = np.random.default_rng(SEED).integers(0, count // 2, 2000) * 2 + 1
        find = timed(lambda i: sessions.find(f"s{picked[i]:07}"), 1000)
        add = timed(lambda i: sessions.add(f"s{picked[i]:07}", "q", ten_judgements(1)[:1]), 1000)
        started = time.perf_counter()
        purged = sessions.store.purge(sessions.clock())
        seconds = round(time.perf_counter() - started, 1)
        print_line("a million sessions in a file", find=find, add=add, purged=purged, purge_seconds=seconds)


def newsgroups() -> list[dict[str, Any]]:
    """Return the train split of 20 Newsgroups."""
    path = Path(os.environ["RESIFT_DATA"]) / "20ng.train.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def fill(engine: OpenSearchEngine, model: Model, rows: Sequence[dict[str, Any]]) -> None:
    """Index the documents, unless the index exists."""
    if engine.client.indices.exists(index=INDEX):
        return
    engine.create(INDEX, ["text"], model)
    for start in range(0, len(rows), 200):
        part = rows[start : start + 200]
        vectors = model.encode([row["text"] for row in part])
        documents = zip(part, vectors, strict=True)
        engine.bulk(INDEX, [Document(row["id"], {"text": row["text"]}, vector) for row, vector in documents])
    engine.client.indices.forcemerge(index=INDEX, max_num_segments=1)
    engine.refresh(INDEX)


@contextmanager
def counted_requests(engine: OpenSearchEngine) -> Iterator[list[int]]:
    """Yield a list with a single number, which counts the requests to the cluster."""
    transport, count = engine.client.transport, [0]
    perform = transport.perform_request

    def counted(*arguments: Any, **named: Any) -> Any:
        count[0] += 1
        return perform(*arguments, **named)

    transport.perform_request = counted
    try:
        yield count
    finally:
        transport.perform_request = perform


@dataclass(frozen=True)
class Searcher:
    """A client of the service with a list of queries. Query ``i`` has the session ``s<i>``."""

    client: Any
    queries: list[str]

    def search(self, i: int, **options: Any) -> list[dict[str, Any]]:
        """Return the hits of query ``i``. ``session=True`` stands for the query's session."""
        if "session" in options:
            options["session"] = f"s{i}"
        body = {"index": INDEX, "query": self.queries[i], "size": 10, **options}
        hits: list[dict[str, Any]] = self.client.post("/v1/search", json=body).get_json()["hits"]["hits"]
        return hits

    def mark(self, i: int, label: str, labels: dict[str, str]) -> None:
        """Judge the first hits of query ``i`` in its session. Hits with the label ``label`` are relevant."""
        ids = [hit["_id"] for hit in self.search(i)]
        right = [id for id in ids if labels[id] == label]
        marks = {"relevant": right[:5], "irrelevant": [id for id in ids if id not in right][:5]}
        self.client.post("/v1/feedback", json={"session": f"s{i}", "index": INDEX, "query": self.queries[i], **marks})


def searches(url: str) -> None:
    """Print times and numbers of cluster requests of plain searches and of searches in a session."""
    engine, model, rows = OpenSearchEngine(url), load_model(), newsgroups()
    fill(engine, model, rows)
    labels = {row["id"]: row["label"] for row in rows}
    with tempfile.TemporaryDirectory() as folder:
        app = create_app(Config(store=f"{folder}/sessions.db", index=INDEX), engine=engine, model=model)
        picked = np.random.default_rng(SEED).integers(0, len(rows), QUERIES)
        queries = [" ".join(rows[i]["text"].split("\n\n", 1)[-1].split()[:8]) or "the" for i in picked]
        searcher = Searcher(app.test_client(), queries)
        for i, row in enumerate(picked):
            searcher.mark(i, rows[row]["label"], labels)
        print_times(searcher, engine)
    engine.close()


def print_times(searcher: Searcher, engine: OpenSearchEngine) -> None:
    """Print milliseconds and requests of each way of searching, measured in turn for each query."""
    taken: dict[str, list[float]] = {name: [] for name in WAYS}
    requests: dict[str, list[int]] = {name: [] for name in WAYS}
    with counted_requests(engine) as count:
        for i in [*range(QUERIES)] * 2:  # the first round warms up
            for name, options in WAYS.items():
                count[0] = 0
                started = time.perf_counter()
                searcher.search(i, **options)
                taken[name].append((time.perf_counter() - started) * 1000)
                requests[name].append(count[0])
    for name, times in taken.items():
        figures = percentiles(times[QUERIES:], 1)
        print_line("search of 11,314 documents", how=name, **figures, requests=int(np.median(requests[name])))


if __name__ == "__main__":
    address = os.environ["OPENSEARCH_URL"]
    parts = {"bytes": lambda: bytes_stored(address), "million": a_million, "searches": lambda: searches(address)}
    for part in sys.argv[1:] or parts:
        parts[part]()
