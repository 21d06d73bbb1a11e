"""Clients of `make chaos`, which send requests at regular intervals and record their outcomes."""

from __future__ import annotations

import http.client
import itertools
import json
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from chaos_cluster import FIELDS, INDEX, TWIN, TWIN_SESSIONS, Cluster
from opensearchpy import OpenSearch
from opensearchpy.exceptions import ConnectionError as ConnectionFailed
from opensearchpy.exceptions import ConnectionTimeout, OpenSearchException, TransportError

QUERIES = (
    "bible church",
    "windows drivers",
    "space shuttle",
    "encryption key",
    "hockey game",
    "car engine",
    "gun laws",
)
FIRST = 400  # number of documents that are indexed before the first request
MARKS_PER_SESSION = 20  # a session stores a hundred judgements, and each step of the benchmark has two

# kinds of faults
CALM = "calm"
NODES = "nodes"
SERVICE = "service"
GUARDED = "guarded service"

# classes of errors
PARTIAL = "partial"  # the response lacks the hits of some shards
UNAVAILABLE = "unavailable"  # a client should retry: no connection, timeout, or status 429, 502, 503 or 504

_away: dict[int, float] = {}  # times until which services that did not respond are called last
_RETRIED = (429, 502, 503, 504)
_LOST_NODE = ("node_not_connected_exception", "node_disconnected_exception")


@dataclass(frozen=True)
class Outcome:
    """The outcome of a request.

    Attributes:
        error: Class of the error, "" without an error.
        detail: Description of the error.
        degraded: Reason why the response lacks a part of Resift's work, "" if it is complete.
        by: Number of the service that responded, -1 if the service is not known.
    """

    error: str = ""
    detail: str = ""
    degraded: str = ""
    by: int = -1


@dataclass(frozen=True)
class Event:
    """A request of a client.

    Attributes:
        client: Name of the client.
        kind: Kind of the fault during the request.
        seconds: Duration.
        outcome: Outcome.
        at: Start, by the monotonic clock.
    """

    client: str
    kind: str
    seconds: float
    outcome: Outcome
    at: float


@dataclass
class Log:
    """The records of all clients.

    Attributes:
        kind: Kind of the current fault.
        began: Start of the benchmark, by the monotonic clock.
        events: All requests.
        acknowledged: Ids of writes that were acknowledged, by name of the client.
    """

    kind: str = CALM
    began: float = field(default_factory=time.monotonic)
    events: list[Event] = field(default_factory=list)
    acknowledged: dict[str, set[str]] = field(default_factory=dict)

    def acknowledge(self, client: str, *ids: str) -> None:
        """Record ids whose writes were acknowledged to a client."""
        self.acknowledged.setdefault(client, set()).update(ids)


class Client(threading.Thread):
    """A thread that calls a function with 0, 1, … at regular intervals and records the outcomes.

    Args:
        log: Log for the outcomes.
        name: Name of the client.
        once: Function that sends a request.
        period: Seconds between the starts of two requests. If a request takes longer, the next request follows at once.
    """

    def __init__(self, log: Log, name: str, once: Callable[[int], Outcome], period: float) -> None:
        super().__init__(name=name, daemon=True)
        self.log, self.once, self.period = log, once, period
        self.ends, self.may_go, self.idle = threading.Event(), threading.Event(), threading.Event()
        self.may_go.set()

    def run(self) -> None:
        """Send requests until :meth:`end` is called."""
        for number in itertools.count():
            self.idle.set()
            self.may_go.wait()
            if self.ends.is_set():
                return
            self.idle.clear()
            before, started = self.log.kind, time.monotonic()
            outcome = _outcome_of(self.once, number)
            taken = time.monotonic() - started
            # a request that overlaps with a fault counts as a request during the fault
            kind = before if before != CALM else self.log.kind
            self.log.events.append(Event(self.name, kind, taken, outcome, started))
            self.ends.wait(max(0.0, self.period - taken))

    def pause(self) -> None:
        """Wait for the response of the current request, and send no request until :meth:`go_on` is called."""
        self.may_go.clear()
        self.idle.wait(60)

    def go_on(self) -> None:
        """Continue after :meth:`pause`."""
        self.may_go.set()

    def end(self) -> None:
        """Stop the thread after the current request."""
        self.ends.set()
        self.may_go.set()
        self.join(60)


def _outcome_of(once: Callable[[int], Outcome], number: int) -> Outcome:
    """Send a request and return its outcome. Exceptions become outcomes with an error."""
    try:
        return once(number)
    except ConnectionTimeout as error:
        return Outcome(UNAVAILABLE, f"timeout: {error.error}")
    except ConnectionFailed as error:
        return Outcome(UNAVAILABLE, f"no connection: {type(error.info).__name__}")
    except TransportError as error:
        status, causes = int(error.status_code), str(error.info)
        # OpenSearch reports status 500 if nodes lose their connection during a search
        is_away = status in _RETRIED or any(cause in causes for cause in _LOST_NODE)
        return Outcome(UNAVAILABLE if is_away else f"status {status}", f"{status} {error.error}: {causes}")
    except (OpenSearchException, OSError, http.client.HTTPException) as error:
        return Outcome(UNAVAILABLE, type(error).__name__)
    except Exception as error:  # the response is invalid
        return Outcome("unreadable", f"{type(error).__name__}: {error}")


def clients(cluster: Cluster, log: Log, texts: Iterator[tuple[str, str]]) -> list[Client]:
    """Return clients that send the same requests to the twin and to the index with Resift."""

    def plain() -> OpenSearch:
        return OpenSearch(cluster.urls)  # with the defaults: ten seconds per attempt, and up to three retries

    numbers, marks = itertools.count(), Marks(cluster, log)
    searches = {
        "bare search": SearchLoad(plain(), TWIN),
        "search by pipeline": SearchLoad(plain(), INDEX, {}),
        "the same in a session": SearchLoad(plain(), INDEX, {"session": "s-0"}),
    }
    threads = [Client(log, name, search, 0.25) for name, search in searches.items()]
    threads.append(Client(log, "/v1/search", lambda n: served(cluster, n, {}), 0.25))
    threads.append(Client(log, "/v1/search in a session", lambda n: served(cluster, n, {"session": "s-0"}), 0.25))
    for name, index in (("bare bulk", TWIN), ("bulk", INDEX)):
        threads.append(Client(log, name, Bulk(plain(), index, log, name, texts, numbers), 0.5))
    notes = plain()
    threads.append(Client(log, "bare mark", lambda n: note(notes, log, n), 0.5))
    threads.append(Client(log, "mark", marks, 0.5))
    return threads


def body(number: int) -> dict[str, Any]:
    """Return the body of a search that always has hits."""
    return {"query": {"multi_match": {"query": QUERIES[number % len(QUERIES)], "fields": FIELDS}}, "_source": ["title"]}


@dataclass
class SearchLoad:
    """Function that sends ``_search`` requests.

    Attributes:
        client: Client of the cluster.
        index: Name of the index.
        options: Options for Resift, or None if the index has no pipeline that rewrites searches.
    """

    client: OpenSearch
    index: str
    options: dict[str, Any] | None = None

    def __call__(self, number: int) -> Outcome:
        extra = {"ext": {"ml_inference": self.options}} if self.options else {}
        answer = self.client.search(index=self.index, body={**body(number), **extra})
        if answer["timed_out"] or answer["_shards"]["failed"]:
            return Outcome(PARTIAL, str(answer["_shards"].get("failures", ""))[:200])
        flagged = all("resift" in hit.get("matched_queries", ()) for hit in answer["hits"]["hits"])
        return Outcome(degraded="" if self.options is None or flagged else "not rewritten")


@dataclass
class Bulk:
    """Function that sends bulk requests of ten documents with opensearch-py.

    Attributes:
        client: Client of the cluster.
        index: Name of the index.
        log: Log for acknowledged writes.
        name: Name of the client.
        texts: Titles and texts.
        numbers: Numbers of the documents.
    """

    client: OpenSearch
    index: str
    log: Log
    name: str
    texts: Iterator[tuple[str, str]]
    numbers: Iterator[int]

    def __call__(self, number: int) -> Outcome:
        lines, ids = [], []
        for title, text in itertools.islice(self.texts, 10):
            ids.append(f"b{next(self.numbers)}")
            lines += [json.dumps({"index": {"_id": ids[-1]}}), json.dumps({"title": title, "text": text})]
        answer = self.client.bulk(index=self.index, body="\n".join(lines) + "\n")
        statuses = [item["index"]["status"] for item in answer["items"]]
        written = [id for id, status in zip(ids, statuses, strict=True) if status < 300]
        self.log.acknowledge(self.name, *written)
        refused = sorted({status for status in statuses if status >= 300})
        if not refused:
            return Outcome()
        return Outcome(UNAVAILABLE if set(refused) <= set(_RETRIED) else f"status {refused[-1]}", f"items: {refused}")


def served(cluster: Cluster, number: int, options: dict[str, Any]) -> Outcome:
    """Send a search to ``/v1/search`` of a service that responds."""
    by, status, answer = call_service(cluster, number, "/v1/search", {"index": INDEX, "query": body(number), **options})
    if status != 200:
        return _refused(status, answer)
    if answer["timed_out"] or answer["_shards"]["failed"]:
        return Outcome(PARTIAL, str(answer["_shards"].get("failures", ""))[:200])
    summary = answer["resift"]
    if summary["reranked"] and "reason" not in summary:
        return Outcome()
    return Outcome(degraded=summary.get("reason") or "without a reason", by=by)


def call_service(cluster: Cluster, number: int, path: str, request: Any) -> tuple[int, int, Any]:
    """Send a request to a service, or to the other service if the first does not respond, as a load balancer does.

    For three seconds, a service that did not respond is called only if all others fail too.

    Returns:
        Number of the service that responded, status, and response.
    """
    count, now = len(cluster.services), time.monotonic()
    turns = sorted(
        ((number + turn) % count for turn in range(count)), key=lambda service: _away.get(service, 0.0) > now
    )
    for by in turns:
        try:
            return by, *cluster.services[by].ask(path, request, 12)
        except (OSError, http.client.HTTPException):
            _away[by] = time.monotonic() + 3
            if by == turns[-1]:
                raise
    raise AssertionError("the loop returns or raises")


def _refused(status: int, answer: Any) -> Outcome:
    error = answer.get("error", {}) if isinstance(answer, dict) else {}
    detail = f"{status} {error.get('code')}: {error.get('message')}"
    return Outcome(UNAVAILABLE if status in _RETRIED else f"status {status}", detail)


@dataclass
class Marks:
    """Function that marks two documents in a session, at both services in turn."""

    cluster: Cluster
    log: Log

    def __call__(self, number: int) -> Outcome:
        session = f"s-{number // MARKS_PER_SESSION}"
        relevant, irrelevant = (f"d{(2 * number + offset) % FIRST}" for offset in (0, 1))
        marks = {"relevant": [relevant], "irrelevant": [irrelevant]}
        request = {"session": session, "index": INDEX, "query": "space", **marks}
        _, status, answer = call_service(self.cluster, number, "/v1/feedback", request)
        if status != 200:
            return _refused(status, answer)
        self.log.acknowledge("mark", f"{session}/{relevant}", f"{session}/{irrelevant}")
        return Outcome()


def note(client: OpenSearch, log: Log, number: int) -> Outcome:
    """Read a document and write it again, as a mark does, without Resift."""
    id = f"s-{number // MARKS_PER_SESSION}"
    stored = client.get(index=TWIN_SESSIONS, id=id, ignore=404)
    version = (
        {"if_seq_no": stored["_seq_no"], "if_primary_term": stored["_primary_term"]} if stored.get("found") else {}
    )
    steps = [*stored.get("_source", {}).get("steps", []), str(number)]
    answer = client.index(index=TWIN_SESSIONS, id=id, body={"steps": steps}, params=version, ignore=409)
    if answer.get("status") == 409:  # an earlier attempt, whose response was lost, has written the document
        return Outcome()
    log.acknowledge("bare mark", str(number))
    return Outcome()


class Indexing:
    """A process of ``resift index -`` that receives documents at a constant rate.

    Args:
        cluster: The cluster.
        texts: Titles and texts of the documents.
        rate: Documents per second.

    Attributes:
        read: Ids of the documents that were sent to the process.
    """

    def __init__(self, cluster: Cluster, texts: Iterator[tuple[str, str]], rate: float) -> None:
        self.dead = cluster.folder / "dead.jsonl"
        self.read: list[str] = []
        options = ["--index", INDEX, "--engine", cluster.address, "--dead-letters", str(self.dead)]
        command = [sys.executable, "-m", "resift", "index", "-", *options]
        self.errors = (cluster.folder / "index.log").open("w+")
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=self.errors, stderr=self.errors, text=True, cwd=cluster.folder
        )
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._feed, args=(texts, rate), daemon=True)
        self._thread.start()

    def _feed(self, texts: Iterator[tuple[str, str]], rate: float) -> None:
        assert self.process.stdin is not None
        for number, (title, text) in enumerate(texts):
            if self._ends.wait(1 / rate) or self.process.poll() is not None:
                break
            self.process.stdin.write(json.dumps({"_id": f"r{number}", "title": title, "text": text}) + "\n")
            self.read.append(f"r{number}")
        self.process.stdin.close()

    def end(self) -> int:
        """Send no more documents, wait for the process, and return its exit status."""
        self._ends.set()
        self._thread.join(150)
        return self.process.wait(150)

    def last_line(self) -> str:
        """Return the last line of the output."""
        self.errors.seek(0)
        lines = self.errors.read().strip().splitlines()
        return lines[-1] if lines else ""

    def letters(self) -> set[str]:
        """Return the ids in the dead-letter file."""
        if not self.dead.exists():
            return set()
        rows = map(json.loads, self.dead.read_text().splitlines())
        return {row["document"]["_id"] for row in rows if isinstance(row["document"], dict)}


def tally(events: list[Event], client: str, kind: str) -> tuple[list[float], Counter[str], Counter[str], Counter[str]]:
    """Summarise the requests of a client during a kind of fault.

    Returns:
        Seconds of the requests, and counts of error classes, of error details, and of reasons for degraded responses.
    """
    selected = [event for event in events if (event.client, event.kind) == (client, kind)]
    errors = Counter(event.outcome.error for event in selected if event.outcome.error)
    details = Counter(event.outcome.detail for event in selected if event.outcome.error)
    degraded = Counter(event.outcome.degraded for event in selected if event.outcome.degraded)
    return [event.seconds for event in selected], errors, details, degraded
