"""Measure searches of an API key while another key sends costly requests: ``python benchmarks/fairness.py [CASE...]``.

The service runs in one process with two embedded indices: 60,000 documents of 100 words for reviews, and 1,000
documents for searches. It is started again for each case. A key with the scope `search` sends up to five searches a
second. For each case, prints the median and the longest time of these searches, and how many failed. The exit status
is 1 if a search failed, or if a median is 0.5 s or more.

    calm     nobody else sends requests
    fields   eight requests at a time start reviews with 20,000 fields
    reviews  ten readers judge documents and ask for the next ones, in six reviews of all documents
    searches 50 connections search all documents, for 10,000 hits with reasons and highlights
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from resift.contracts.documents import Document
from resift.embedded.engine import SqliteEngine
from resift.encoders.registry import load_model
from resift.reranker.access.keys import KeyFile
from resift.vectors.packaged import DEFAULT_MODEL

INDEX, SEARCHED, PORT = "big", "news", 8317
WORDS, LENGTH = 20_000, 100  # number of different words, and number of words in a document
BATCH, FEW = 1000, 1000  # number of documents that are indexed at once, and number of documents that are searched
PAUSE = 0.2  # seconds between two searches
MAX_MEDIAN = 0.5  # seconds
REVIEWS, READERS = 6, 10


class Answer(NamedTuple):
    """The answer to a request.

    Attributes:
        status: The HTTP status, or 0 if there was no answer.
        seconds: The time until the answer.
    """

    status: int
    seconds: float


class Client:
    """A client that sends requests with an API key.

    Args:
        key: The key.
    """

    def __init__(self, key: str) -> None:
        self._key = key

    def send(self, method: str, path: str, body: Any = None) -> Answer:
        """Send a request, and return the answer."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"X-Api-Key": self._key, "Content-Type": "application/json"}
        request = urllib.request.Request(f"http://127.0.0.1:{PORT}{path}", data, headers, method=method)
        started = time.monotonic()
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                response.read()
                status = response.status
        except urllib.error.HTTPError as error:
            status = error.code
        except OSError:
            status = 0
        return Answer(status, time.monotonic() - started)


def fields(client: Client, round: int, number: int) -> Answer:
    """Start a review with 20,000 fields."""
    body = {"index": INDEX, "fields": [f"f{field}" for field in range(20_000)]}
    return client.send("PUT", f"/v1/reviews/fields-{round}-{number}", body)


def reviews(client: Client, round: int, number: int) -> Answer:
    """Read the next two documents of a review of all documents. The first requests start the reviews."""
    review, by = f"/v1/reviews/r{(round + number) % REVIEWS}", f"reader{number}"
    if round == 0:
        client.send("PUT", review, {"index": INDEX, "topic": "w7 w90"})
    first = 2 * (round * READERS + number)  # any documents, so that judging does not depend on the answer
    client.send("POST", f"{review}/judgements", {"relevant": [str(first)], "irrelevant": [str(first + 1)], "by": by})
    return client.send("POST", f"{review}/next", {"size": 2, "by": by})


def searches(client: Client, round: int, number: int) -> Answer:
    """Search all documents with all costly options."""
    costly = {"size": 10_000, "window": 1000, "reasons": True, "highlight": True}
    return client.send("POST", "/v1/search", {"index": INDEX, "query": "w7 w90", **costly})


CASES: dict[str, tuple[int, Callable[[Client, int, int], Answer] | None]] = {
    "calm": (0, None),
    "fields": (8, fields),
    "reviews": (READERS, reviews),
    "searches": (50, searches),
}
"""Cases: the number of concurrent requests of the costly key, and the function that sends one of them."""


def fill(engine: SqliteEngine, index: str, number: int) -> None:
    """Index generated documents whose words have Zipf's distribution."""
    random = np.random.default_rng(5)
    engine.create(index, ["text"], load_model(DEFAULT_MODEL))
    for start in range(0, number, BATCH):
        ranks = np.minimum(random.zipf(1.3, (BATCH, LENGTH)), WORDS)
        sources = [{"text": " ".join(f"w{rank}" for rank in row)} for row in ranks.tolist()]
        rejected = engine.bulk(index, [Document(str(start + n), source, None) for n, source in enumerate(sources)])
        assert not rejected, rejected


@contextmanager
def serving(folder: Path) -> Iterator[Client]:
    """Start the service, and return a client without a key."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RESIFT_")}
    command = [sys.executable, "-m", "resift", "serve", "--port", str(PORT), "--workers", "1"]
    process = subprocess.Popen(command, cwd=folder, env=environment)
    try:
        client = Client("")
        while client.send("GET", "/healthz").status != 200:
            assert process.poll() is None, "the service ended"
            time.sleep(0.5)
        yield client
    finally:
        process.terminate()
        process.wait()


def memory(folder: Path) -> int:
    """Return the largest resident memory of a process of the service so far, in MiB."""
    peaks = [0]
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            if os.readlink(status.parent / "cwd") == str(folder):
                lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
                peaks.append(int(lines["VmHWM"].split()[0]) // 1024)
        except (OSError, KeyError):
            continue
    return max(peaks)


def measure(name: str, seconds: float, costly: Client, searching: Client, folder: Path) -> bool:
    """Run a case, print its line, and return whether it passed."""
    workers, send = CASES[name]
    answers, stop = list[Answer](), threading.Event()

    def attack(number: int) -> None:
        for round in count():
            if stop.is_set():
                return
            answers.append(send(costly, round, number))  # type: ignore[misc]

    threads = [threading.Thread(target=attack, args=(number,), daemon=True) for number in range(workers)]
    for thread in threads:
        thread.start()
    end, searches = time.monotonic() + seconds, list[Answer]()
    while time.monotonic() < end:
        searches.append(
            searching.send("POST", "/v1/search", {"index": SEARCHED, "query": f"w{len(searches) % 50} w400"})
        )
        time.sleep(PAUSE)
    stop.set()  # the requests in progress are not waited for
    times = [search.seconds for search in searches]
    failed, median = sum(search.status != 200 for search in searches), statistics.median(times)
    statuses = ", ".join(
        f"{number} × {status}" for status, number in sorted(Counter(a.status for a in answers).items())
    )
    slowest = max((answer.seconds for answer in answers), default=0.0)
    print(
        f"{name:8} {len(searches):4} searches: median {median:.3f} s, longest {max(times):.2f} s, {failed} failed; "
        f"costly: {statuses or 'none'}, longest {slowest:.1f} s; peak memory {memory(folder)} MiB",
        flush=True,
    )
    return failed == 0 and median < MAX_MEDIAN


def main() -> None:
    """Measure the cases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help="names of cases, by default all")
    parser.add_argument("--documents", type=int, default=60_000)
    parser.add_argument("--seconds", type=float, default=40.0, help="duration of a case")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary).resolve()
        engine = SqliteEngine(str(folder / "resift.db"))
        fill(engine, INDEX, options.documents)
        fill(engine, SEARCHED, FEW)
        engine.close()
        keys = KeyFile(str(folder / "keys.jsonl"))
        searching = Client(keys.create("shop", ["search", "feedback"]))
        costly = Client(keys.create("costly", ["search", "feedback", "review"]))
        passed = []
        for name in options.cases or CASES:
            with serving(folder):
                searching.send("POST", "/v1/search", {"index": SEARCHED, "query": "w1"})  # load the caches
                passed.append(measure(name, options.seconds, costly, searching, folder))
    sys.exit(not all(passed))


if __name__ == "__main__":
    main()
