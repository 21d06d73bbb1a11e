"""The clients of `make chaos`: each does one thing in a rhythm, and notes what came of it, with Resift and without."""

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
FIRST = 400  # documents that are there before the first request
MARKS_PER_SESSION = 20  # a session holds a hundred judgements, and each step of ours has two
CALM, NODES, RERANKER, GUARDED = "calm", "nodes", "reranker", "guarded reranker"  # what is broken
PARTIAL = "partial"  # an answer without some of the shards
UNAVAILABLE = "unavailable"  # what a client has to try again: no connection, no answer in time, 429, 502, 503, 504
_away: dict[int, float] = {}  # until when a reranker that did not answer is not asked first
_AGAIN = (429, 502, 503, 504)
_LOST_NODE = ("node_not_connected_exception", "node_disconnected_exception")


@dataclass(frozen=True)
class Outcome:
    """What came of one request: ``error`` is its class, "" for none, and ``detail`` says more; ``degraded``: it was
    answered, and not as it would have been with all of Resift at work; ``by``: which of the rerankers answered."""

    error: str = ""
    detail: str = ""
    degraded: str = ""
    by: int = -1


@dataclass(frozen=True)
class Event:
    """A request of a client, under what kind of fault it was, how long it took, and when it began."""

    client: str
    kind: str
    seconds: float
    outcome: Outcome
    at: float


@dataclass
class Log:
    """What all clients note, and under what kind of fault they are just now."""

    kind: str = CALM
    began: float = field(default_factory=time.monotonic)
    events: list[Event] = field(default_factory=list)
    acknowledged: dict[str, set[str]] = field(default_factory=dict)

    def keep(self, what: str, *ids: str) -> None:
        """Note what a client was told is stored."""
        self.acknowledged.setdefault(what, set()).update(ids)


class Client(threading.Thread):
    """Calls ``once`` with 0, 1, … every ``period`` seconds, or as fast as the answers come where those take longer."""

    def __init__(self, log: Log, name: str, once: Callable[[int], Outcome], period: float) -> None:
        super().__init__(name=name, daemon=True)
        self.log, self.once, self.period = log, once, period
        self.ends, self.may_go, self.idle = threading.Event(), threading.Event(), threading.Event()
        self.may_go.set()

    def run(self) -> None:
        for number in itertools.count():
            self.idle.set()
            self.may_go.wait()
            if self.ends.is_set():
                return
            self.idle.clear()
            before, started = self.log.kind, time.monotonic()
            outcome = _noted(self.once, number)
            taken = time.monotonic() - started
            # a request that began before a fault and came back during it, or the other way round, met the fault
            kind = before if before != CALM else self.log.kind
            self.log.events.append(Event(self.name, kind, taken, outcome, started))
            self.ends.wait(max(0.0, self.period - taken))

    def pause(self) -> None:
        """Wait until it has its answer, and have it ask nothing until :meth:`go_on`."""
        self.may_go.clear()
        self.idle.wait(60)

    def go_on(self) -> None:
        """Ask again."""
        self.may_go.set()

    def end(self) -> None:
        """Have it stop after its answer."""
        self.ends.set()
        self.may_go.set()
        self.join(60)


def _noted(once: Callable[[int], Outcome], number: int) -> Outcome:
    """The outcome of a request, its exceptions among them."""
    try:
        return once(number)
    except ConnectionTimeout as error:
        return Outcome(UNAVAILABLE, f"timeout: {error.error}")
    except ConnectionFailed as error:
        return Outcome(UNAVAILABLE, f"no connection: {type(error.info).__name__}")
    except TransportError as error:
        status, causes = int(error.status_code), str(error.info)
        # the nodes lost each other in the middle of a search, which OpenSearch tells as a 500
        is_away = status in _AGAIN or any(cause in causes for cause in _LOST_NODE)
        return Outcome(UNAVAILABLE if is_away else f"status {status}", f"{status} {error.error}: {causes}")
    except (OpenSearchException, OSError, http.client.HTTPException) as error:
        return Outcome(UNAVAILABLE, type(error).__name__)
    except Exception as error:  # an answer that no client could read
        return Outcome("unreadable", f"{type(error).__name__}: {error}")


def clients(cluster: Cluster, log: Log, texts: Iterator[tuple[str, str]]) -> list[Client]:
    """Pairs of clients that do the same in the same rhythm: on the twin, and on the index with Resift."""

    def plain() -> OpenSearch:
        return OpenSearch(cluster.urls)  # as it comes: ten seconds a try, three more nodes where one refuses

    numbers, marks = itertools.count(), Marks(cluster, log)
    searches = {
        "bare search": SearchLoad(plain(), TWIN),
        "search by pipeline": SearchLoad(plain(), INDEX, {}),
        "the same in a session": SearchLoad(plain(), INDEX, {"session": "s-0"}),
    }
    made = [Client(log, name, search, 0.25) for name, search in searches.items()]
    made.append(Client(log, "/v1/search", lambda n: served(cluster, n, {}), 0.25))
    made.append(Client(log, "/v1/search in a session", lambda n: served(cluster, n, {"session": "s-0"}), 0.25))
    for name, index in (("bare bulk", TWIN), ("bulk", INDEX)):
        made.append(Client(log, name, Bulk(plain(), index, log, name, texts, numbers), 0.5))
    notes = plain()
    made.append(Client(log, "bare mark", lambda n: note(notes, log, n), 0.5))
    made.append(Client(log, "mark", marks, 0.5))
    return made


def body(number: int) -> dict[str, Any]:
    """A search that always finds something."""
    return {"query": {"multi_match": {"query": QUERIES[number % len(QUERIES)], "fields": FIELDS}}, "_source": ["title"]}


@dataclass
class SearchLoad:
    """A plain ``_search``; with ``options``, even empty ones, of an index whose default pipeline rewrites it."""

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
    """Bulk requests of ten documents, by opensearch-py, of the same texts on either side."""

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
        taken = [id for id, status in zip(ids, statuses, strict=True) if status < 300]
        self.log.keep(self.name, *taken)
        refused = sorted({status for status in statuses if status >= 300})
        if not refused:
            return Outcome()
        return Outcome(UNAVAILABLE if set(refused) <= set(_AGAIN) else f"status {refused[-1]}", f"items: {refused}")


def served(cluster: Cluster, number: int, options: dict[str, Any]) -> Outcome:
    """``/v1/search`` at one of the rerankers, or at the other one where the first does not answer."""
    by, status, answer = at_one_of(cluster, number, "/v1/search", {"index": INDEX, "query": body(number), **options})
    if status != 200:
        return _refused(status, answer)
    if answer["timed_out"] or answer["_shards"]["failed"]:
        return Outcome(PARTIAL, str(answer["_shards"].get("failures", ""))[:200])
    told = answer["resift"]
    if told["reranked"] and "reason" not in told:
        return Outcome()
    return Outcome(degraded=told.get("reason") or "without a reason", by=by)


def at_one_of(cluster: Cluster, number: int, path: str, asked: Any) -> tuple[int, int, Any]:
    """Which reranker answers, its status and answer: as behind a load balancer the next one where one does not, and
    that one is left alone for three seconds."""
    count, now = len(cluster.rerankers), time.monotonic()
    turns = sorted(((number + turn) % count for turn in range(count)), key=lambda one: _away.get(one, 0.0) > now)
    for by in turns:
        try:
            return by, *cluster.rerankers[by].ask(path, asked, 12)
        except (OSError, http.client.HTTPException):
            _away[by] = time.monotonic() + 3
            if by == turns[-1]:
                raise
    raise AssertionError("the loop returns or raises")


def _refused(status: int, answer: Any) -> Outcome:
    error = answer.get("error", {}) if isinstance(answer, dict) else {}
    detail = f"{status} {error.get('code')}: {error.get('message')}"
    return Outcome(UNAVAILABLE if status in _AGAIN else f"status {status}", detail)


@dataclass
class Marks:
    """Marks of two documents each, at one reranker and the other in turn."""

    cluster: Cluster
    log: Log

    def __call__(self, number: int) -> Outcome:
        session = f"s-{number // MARKS_PER_SESSION}"
        good, bad = (f"d{(2 * number + one) % FIRST}" for one in (0, 1))
        asked = {"session": session, "index": INDEX, "query": "space", "relevant": [good], "irrelevant": [bad]}
        _, status, answer = at_one_of(self.cluster, number, "/v1/feedback", asked)
        if status != 200:
            return _refused(status, answer)
        self.log.keep("mark", f"{session}/{good}", f"{session}/{bad}")
        return Outcome()


def note(client: OpenSearch, log: Log, number: int) -> Outcome:
    """What a mark costs the cluster without Resift: a document is read and written over."""
    id = f"s-{number // MARKS_PER_SESSION}"
    found = client.get(index=TWIN_SESSIONS, id=id, ignore=404)
    seen = {"if_seq_no": found["_seq_no"], "if_primary_term": found["_primary_term"]} if found.get("found") else {}
    steps = [*found.get("_source", {}).get("steps", []), str(number)]
    answer = client.index(index=TWIN_SESSIONS, id=id, body={"steps": steps}, params=seen, ignore=409)
    if answer.get("status") == 409:  # an earlier try, whose answer was lost, was there first
        return Outcome()
    log.keep("bare mark", str(number))
    return Outcome()


class Indexing:
    """``resift index -`` in a process of its own, which is given some documents a second; and how it ended."""

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
        """Give it no more, and wait for it; its exit status."""
        self._ends.set()
        self._thread.join(150)
        return self.process.wait(150)

    def said(self) -> str:
        """Its last line."""
        self.errors.seek(0)
        lines = self.errors.read().strip().splitlines()
        return lines[-1] if lines else ""

    def letters(self) -> set[str]:
        """The ids in its dead-letter file."""
        if not self.dead.exists():
            return set()
        rows = map(json.loads, self.dead.read_text().splitlines())
        return {row["document"]["_id"] for row in rows if isinstance(row["document"], dict)}


def tally(events: list[Event], client: str, kind: str) -> tuple[list[float], Counter[str], Counter[str], Counter[str]]:
    """Of a client under a kind of fault: seconds of its requests, its classes of errors, their details, and what was
    degraded."""
    own = [event for event in events if (event.client, event.kind) == (client, kind)]
    errors = Counter(event.outcome.error for event in own if event.outcome.error)
    details = Counter(event.outcome.detail for event in own if event.outcome.error)
    degraded = Counter(event.outcome.degraded for event in own if event.outcome.degraded)
    return [event.seconds for event in own], errors, details, degraded
