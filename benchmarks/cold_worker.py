"""Measure the first search in a worker that did not receive the marks: ``python benchmarks/cold_worker.py``.

A mark is loaded in the background by the worker that answers it. Another worker of ``resift serve --workers N`` loads
the session when it gets a search. Here two services with one worker each share a session store, like two workers.

Each of 120 sessions marks three hits of a search in the first service, and repeats the search half a second later, once
in each service, in alternating order. Then it is repeated again in each service. Prints the median durations with their
quartiles, and the median and quartiles of the ratio of the second service to the first. The first 20 sessions are not
counted. The index has 6,000 messages of 20 Newsgroups ($RESIFT_DATA) with the packaged vectors. OpenSearch runs at
OPENSEARCH_URL, or in a node of tests/support/node.py.
"""

import contextlib
import os
import random
import tempfile
import time
import uuid
from pathlib import Path

from speed_cluster import FIELDS, Client, hits_body, opensearch_url, records, serve
from speed_data import messages
from speed_search import QUERIES
from speed_timing import Spread, ratio, seconds

from resift import load_model
from resift.ingest.indexing import DeadLetters, Indexer
from resift.plugin.opensearch.engine import OpenSearchEngine

DOCUMENTS, SESSIONS, WARM_UPS, MARKS = 6000, 120, 20, 3
PAUSE = 0.5  # seconds between a mark and the next search
NAMES = ("the worker that received the marks", "another worker")


def measure(services: list[Client], index: str) -> list[list[list[float]]]:
    """Return the milliseconds of the first and of the second search of each session, for each service."""
    order = random.Random(0)
    taken: list[list[list[float]]] = [[[], []], [[], []]]
    for number in range(SESSIONS):
        session, query = f"session-{number}", order.choice(QUERIES)
        body = {"index": index, "query": hits_body(query), "session": session}
        hits = services[0].post("/v1/search", {**body, "session": None})["hits"]["hits"]
        marked = [hit["_id"] for hit in order.sample(hits[:20], MARKS)]
        marks = {"index": index, "session": session, "query": query, "relevant": marked}
        services[0].post("/v1/feedback", marks)
        time.sleep(PAUSE)
        for repetition in range(2):
            for position in (0, 1) if number % 2 else (1, 0):
                duration = seconds(services[position].post, "/v1/search", body) * 1000
                if number >= WARM_UPS:
                    taken[position][repetition].append(duration)
    return taken


def main() -> None:
    """Index the documents, start both services, and print the durations."""
    url, index, model = opensearch_url(), f"bench-{uuid.uuid4().hex[:8]}", load_model()
    engine = OpenSearchEngine(url, timeout=120)
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as undone:
        folder = Path(name)
        undone.callback(engine.close)
        undone.callback(engine.drop_if_exists, index)
        Indexer(engine, model, index, DeadLetters(folder / "dead")).run(records(messages(DOCUMENTS)), FIELDS)
        environment = {**os.environ, "RESIFT_STORE": str(folder / "sessions.db")}
        services = []
        for port in (8318, 8319):
            command = ["-m", "resift", "serve", "--workers", "1", "--engine", url]
            serve(undone, port, command, environment, folder / f"log-{port}")
            services.append(Client(f"http://127.0.0.1:{port}"))
        taken = measure(services, index)
    print("| | first search, ms | second search, ms |\n|---|---|---|")
    for name, durations in zip(NAMES, taken, strict=True):
        print(f"| {name} | {' | '.join(map(cell, map(Spread.of, durations)))} |")
    print(f"| ratio | {' | '.join(cell(ratio(there, here), 2) for here, there in zip(*taken, strict=True))} |")


def cell(spread: Spread, digits: int = 1) -> str:
    """Return a median with its quartiles, for a table."""
    return f"{spread.median:.{digits}f} ({spread.low:.{digits}f}–{spread.high:.{digits}f})"


if __name__ == "__main__":
    main()
