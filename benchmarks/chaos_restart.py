"""Many clients in sessions at a service of `make chaos` that has just restarted.

The caches of a service that has restarted are empty. Searches in sessions are then slow, because the judged documents
are read and learned from again. They must not delay other searches, nor wait for each other for long.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

import numpy as np
from chaos_cluster import INDEX, TWIN, Cluster
from chaos_load import FIRST, QUERIES, body
from chaos_verdict import Line

CLIENTS = 50
MARKS = 6
SLOWEST = 0.5  # seconds: aim for the slowest search
IN_SESSION, WITHOUT, BARE = "in a session", "without a session", "without Resift"
_PERIOD = 0.5  # seconds between two searches of a client in a session
_OTHERS = 3  # number of clients without a session, and without Resift


@dataclass(frozen=True)
class Timed:
    """A search.

    Attributes:
        kind: Kind of the client.
        at: Start, in seconds since the clients began.
        seconds: Duration.
        is_rewritten: Whether Resift rewrote the search.
    """

    kind: str
    at: float
    seconds: float
    is_rewritten: bool


def prepare(cluster: Cluster) -> None:
    """Mark documents in each client's session."""
    for number in range(CLIENTS):
        ids = [f"d{(7 * number + 3 * offset) % FIRST}" for offset in range(MARKS)]
        marks = {"relevant": ids[::2], "irrelevant": ids[1::2]}
        request = {"session": f"restart-{number}", "index": INDEX, "query": QUERIES[number % len(QUERIES)], **marks}
        status, answer = cluster.services[0].ask("/v1/feedback", request)
        if status != 200:
            raise RuntimeError(f"marks were refused: {answer}")


def restart(cluster: Cluster) -> None:
    """Restart the service that the search pipeline calls."""
    cluster.services[0].kill()
    cluster.services[0].start()


def searches(cluster: Cluster, seconds: float, period: float = _PERIOD) -> list[Timed]:
    """Let all clients search for some seconds.

    Args:
        cluster: The cluster.
        seconds: Duration.
        period: Seconds between the starts of two searches of a client in a session. If a search takes longer, the next
            search follows at once.
    """
    timed: list[Timed] = []
    began, ends = time.monotonic(), threading.Event()
    kinds = [IN_SESSION] * CLIENTS + [WITHOUT] * _OTHERS + [BARE] * _OTHERS
    threads = [
        threading.Thread(target=_client, args=(cluster, kind, number, period, began, ends, timed), daemon=True)
        for number, kind in enumerate(kinds)
    ]
    for thread in threads:
        thread.start()
    ends.wait(seconds)
    ends.set()
    for thread in threads:
        thread.join(30)
    return timed


def _client(
    cluster: Cluster, kind: str, number: int, period: float, began: float, ends: threading.Event, timed: list[Timed]
) -> None:
    parts = urlsplit(cluster.urls[number % len(cluster.urls)])
    period = period if kind == IN_SESSION else _PERIOD / 3
    index = TWIN if kind == BARE else INDEX
    options = {"ext": {"ml_inference": {"session": f"restart-{number}"}}} if kind == IN_SESSION else {}
    text = json.dumps({**body(number), **options})
    connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=30)
    with contextlib.closing(connection):
        ends.wait(period * number / CLIENTS)
        while not ends.is_set():
            started = time.monotonic()
            connection.request("POST", f"/{index}/_search", text, {"Content-Type": "application/json"})
            hits = json.loads(connection.getresponse().read())["hits"]["hits"]
            taken = time.monotonic() - started
            is_rewritten = all("resift" in hit.get("matched_queries", ()) for hit in hits)
            timed.append(Timed(kind, started - began, taken, is_rewritten))
            ends.wait(max(0.0, period - taken))


def verdict(cluster: Cluster, say: Callable[[str], None]) -> Iterator[Line]:
    """Let all clients search before and after a restart, and yield the lines of the verdict.

    On a busy machine, the cluster alone takes longer than the aim. Then the restart must not make searches slower than
    they were before.

    Args:
        cluster: The cluster.
        say: Function that prints a line of the table.
    """
    prepare(cluster)
    before = searches(cluster, 4.0)
    restart(cluster)
    after = searches(cluster, 8.0)
    for row in (*_rows("before a restart", before), *_rows("after it", after)):
        say(row)
    for kind in (IN_SESSION, WITHOUT):
        (usual, _), (p95, slowest) = _p95_and_slowest(before, kind), _p95_and_slowest(after, kind)
        text = f"after a restart with {CLIENTS} clients, the slowest search {kind} took {1000 * slowest:.0f} ms"
        text = f"{text}, and 95 % of them {1000 * p95:.0f} ms ({1000 * usual:.0f} ms before)"
        yield Line(slowest <= SLOWEST or p95 <= usual + SLOWEST, text)


def _p95_and_slowest(timed: list[Timed], kind: str) -> tuple[float, float]:
    p95, slowest = np.percentile([search.seconds for search in timed if search.kind == kind], [95, 100])
    return float(p95), float(slowest)


def _rows(title: str, timed: list[Timed]) -> Iterator[str]:
    """Yield a line for each kind of client with its latencies, and the share of searches that were rewritten."""
    for kind in (IN_SESSION, WITHOUT, BARE):
        selected = [search for search in timed if search.kind == kind]
        p50, p95, slowest = np.percentile([1000 * search.seconds for search in selected], [50, 95, 100])
        share = sum(search.is_rewritten for search in selected) / len(selected)
        times = f"p50 {p50:5.0f}  p95 {p95:5.0f}  slowest {slowest:5.0f} ms"
        line = f"{title:16} {kind:18} {len(selected):5} searches  {times}"
        yield line if kind == BARE else f"{line}, {share:.0%} rewritten"
