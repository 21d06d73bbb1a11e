"""Restart a service while 50 clients search in sessions: ``python benchmarks/restart.py``, part of ``make chaos``.

The caches of a service that has restarted are empty: the marked documents of each session are read and learned from
again. This must not delay searches without a session, nor let searches in sessions wait for each other.

The setup is a node with Resift's plugin, an index with 8,000 short documents that `resift attach` attached, and a
service with two worker processes and its sessions in the cluster. 50 clients search in sessions, each with six marked
documents, a hundred searches per second together. Three clients search without a session through the same search
pipeline, and three without a pipeline. First, they search until the Java code is compiled. Then the service is killed
and started again, and they go on.

Prints the median, the 95th percentile and the slowest search of each kind of client, before and after the restart. The
exit status is 1 if a search after the restart took longer than half a second, and the 95th percentile is more than half
a second above that before the restart, as a busy machine alone can cause the former. The exit status is 2 if no node
can be started.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

import node
import numpy as np
from chaos_load import QUERIES, body
from scale_data import short_documents
from served_reranker import ServiceProcess

from resift.plugin.cluster.search_pipelines import pipeline_name
from resift.plugin.opensearch.engine import OpenSearchEngine

INDEX, SESSIONS = "restart-docs", "resift_sessions_restart"
DOCUMENTS = 8000
CLIENTS, OTHERS = 50, 3
MARKS = 6
PERIOD = 0.5  # seconds between two searches of a client
WARM_UP, BEFORE, AFTER = 15.0, 5.0, 10.0  # seconds
SLOWEST = 0.5  # seconds: aim for the slowest search
IN_SESSION, WITHOUT, BARE = "in a session", "without a session", "without a pipeline"


@dataclass(frozen=True)
class Timed:
    """A search.

    Attributes:
        kind: Kind of the client.
        seconds: Duration.
        is_rewritten: Whether Resift rewrote the search.
    """

    kind: str
    seconds: float
    is_rewritten: bool


def prepare(url: str, service: ServiceProcess, folder: Path) -> None:
    """Create an index, attach it, and mark documents in each client's session."""
    with contextlib.closing(OpenSearchEngine(url, timeout=60)) as engine:
        texts = {"properties": {name: {"type": "text", "analyzer": "english"} for name in ("title", "text")}}
        settings = {"number_of_shards": 1, "number_of_replicas": 0}
        engine.client.indices.create(index=INDEX, body={"settings": settings, "mappings": texts})
        lines: list[dict[str, Any]] = []
        for number, (title, text) in enumerate(short_documents(DOCUMENTS)):
            lines += [{"index": {"_id": f"d{number}"}}, {"title": title, "text": text}]
        engine.client.bulk(index=INDEX, body=lines, refresh=True)
    command = [sys.executable, "-m", "resift", "attach", INDEX, "--service", service.url, "--engine", url, "--yes"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    for number in range(CLIENTS):
        ids = [f"d{(7 * number + 3 * offset) % DOCUMENTS}" for offset in range(MARKS)]
        marks = {"relevant": ids[::2], "irrelevant": ids[1::2]}
        request = {"session": f"restart-{number}", "index": INDEX, "query": QUERIES[number % len(QUERIES)], **marks}
        status, answer = service.ask("/v1/feedback", request)
        if status != 200:
            raise RuntimeError(f"marks were refused: {answer}")


def searches(url: str, seconds: float) -> list[Timed]:
    """Let all clients search for some seconds."""
    timed: list[Timed] = []
    ends = threading.Event()
    kinds = [IN_SESSION] * CLIENTS + [WITHOUT] * OTHERS + [BARE] * OTHERS
    threads = [
        threading.Thread(target=_client, args=(url, kind, number, ends, timed), daemon=True)
        for number, kind in enumerate(kinds)
    ]
    for thread in threads:
        thread.start()
    ends.wait(seconds)
    ends.set()
    for thread in threads:
        thread.join(30)
    return timed


def _client(url: str, kind: str, number: int, ends: threading.Event, timed: list[Timed]) -> None:
    parts = urlsplit(url)
    options = {"ext": {"resift": {"session": f"restart-{number}"}}} if kind == IN_SESSION else {}
    text = json.dumps({**body(number), **options})
    path = f"/{INDEX}/_search?search_pipeline={'_none' if kind == BARE else pipeline_name(INDEX)}"
    connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=30)
    with contextlib.closing(connection):
        ends.wait(PERIOD * number / CLIENTS)
        while not ends.is_set():
            started = time.monotonic()
            connection.request("POST", path, text, {"Content-Type": "application/json"})
            hits = json.loads(connection.getresponse().read())["hits"]["hits"]
            taken = time.monotonic() - started
            is_rewritten = all("resift" in hit.get("matched_queries", ()) for hit in hits)
            timed.append(Timed(kind, taken, is_rewritten))
            ends.wait(max(0.0, PERIOD - taken))


def run(folder: Path) -> bool:
    """Measure, print the times, and return whether the searches after the restart were fast enough."""
    url = node.start(native=True).url
    service = ServiceProcess(folder, url, SESSIONS)
    service.start()
    try:
        prepare(url, service, folder)
        searches(url, WARM_UP)
        before = searches(url, BEFORE)
        service.kill()
        service.start()
        after = searches(url, AFTER)
    finally:
        service.kill()
    print(f"{CLIENTS} clients in sessions, {CLIENTS / PERIOD:.0f} searches per second\n")
    print("| | searches | rewritten | p50, ms | p95, ms | slowest, ms |\n|---|---|---|---|---|---|")
    for title, timed in (("before the restart", before), ("after it", after)):
        for kind in (IN_SESSION, WITHOUT, BARE):
            print(_row(f"{title}, {kind}", [search for search in timed if search.kind == kind]))
    return all(
        _slowest(after, kind) <= SLOWEST or _p95(after, kind) <= _p95(before, kind) + SLOWEST
        for kind in (IN_SESSION, WITHOUT)
    )


def _row(title: str, timed: list[Timed]) -> str:
    times = [f"{1000 * value:.0f}" for value in np.percentile([search.seconds for search in timed], [50, 95, 100])]
    share = sum(search.is_rewritten for search in timed) / len(timed)
    return f"| {title} | {len(timed)} | {share:.0%} | {' | '.join(times)} |"


def _p95(timed: list[Timed], kind: str) -> float:
    return float(np.percentile([search.seconds for search in timed if search.kind == kind], 95))


def _slowest(timed: list[Timed], kind: str) -> float:
    return max(search.seconds for search in timed if search.kind == kind)


def main() -> None:
    """Run the benchmark in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="resift-restart-") as folder:
        try:
            is_fast = run(Path(folder))
        except node.NodeUnavailable as error:
            print(f"cannot start an OpenSearch node: {str(error).splitlines()[0]}", file=sys.stderr)
            sys.exit(2)
    sys.exit(0 if is_fast else 1)


if __name__ == "__main__":
    main()
