"""Verdict of `make chaos`: no lost writes, no new classes of errors, no degraded responses without a reason."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from chaos_cluster import INDEX, LATER, TWIN, TWIN_SESSIONS, Cluster
from chaos_load import CALM, NODES, PARTIAL, UNAVAILABLE, Indexing, Log, tally

from resift.query.dsl import COMPACT_FIELD

_LACKING = {"bool": {"must_not": {"exists": {"field": COMPACT_FIELD}}}}
CLUSTER_ERRORS = {UNAVAILABLE, PARTIAL}  # errors of a cluster that loses a node
PIPELINE = ("search by pipeline", "the same in a session")
SERVED = ("/v1/search", "/v1/search in a session")


@dataclass(frozen=True)
class Line:
    """A line of the verdict.

    Attributes:
        holds: Whether the requirement is met.
        text: Description.
    """

    holds: bool
    text: str

    def __str__(self) -> str:
        return f"{'ok    ' if self.holds else 'FAILED'}  {self.text}"


@dataclass
class Counts:
    """Numbers of degraded responses, as clients counted them and as the cluster and the second service counted them.

    Attributes:
        seen: Searches through a pipeline that were not rewritten while services failed, as clients counted them.
        counted: The number of these searches according to the counters of the cluster.
        seen_served: Degraded responses of the second service, as clients counted them.
        counted_served: The number of these responses according to the counters of the second service.
    """

    seen: int = 0
    counted: int = 0
    seen_served: int = 0
    counted_served: int = 0
    after: Counter[str] = field(default_factory=Counter)
    _before: tuple[int, int] = (0, 0)

    def begin(self, cluster: Cluster, log: Log) -> None:
        """Read the counters before a fault of a service."""
        self._before = (seen_by(log, PIPELINE), cluster.failed_open())

    def end_of_pipeline(self, cluster: Cluster, log: Log) -> None:
        """Read the counters after a fault of a service."""
        seen, counted = self._before
        self.seen += seen_by(log, PIPELINE) - seen
        self.counted += cluster.failed_open() - counted

    def finish(self, cluster: Cluster, log: Log) -> None:
        """Read the counters of the second service, which has no faults, at the end."""
        self.seen_served = sum(bool(event.outcome.degraded) and event.outcome.by == 1 for event in log.events)
        for outcome in ("in_part", "engine_order"):
            self.counted_served += cluster.services[1].counted("resift_searches_total", outcome=outcome)


def seen_by(log: Log, clients: tuple[str, ...]) -> int:
    """Return the number of degraded responses that some clients received."""
    return sum(bool(event.outcome.degraded) for event in log.events if event.client in clients)


def latencies(log: Log) -> Iterator[str]:
    """Yield a table of latencies, errors and degraded responses of each client during each kind of fault."""
    kinds = list(dict.fromkeys(event.kind for event in log.events))
    yield f"\n{'client':26} {'under':17} requests    p50     p95     p99     max ms  degraded  errors"
    for client in dict.fromkeys(event.client for event in log.events):
        for kind in kinds:
            seconds, errors, details, degraded = tally(log.events, client, kind)
            if not seconds:
                continue
            p50, p95, p99, most = (1000 * np.percentile(seconds, [50, 95, 99, 100])).round().astype(int)
            error_counts = ", ".join(f"{count} {name}" for name, count in errors.items()) or "none"
            row = f"{len(seconds):8} {p50:6} {p95:7} {p99:7} {most:7}     {degraded.total():8}  {error_counts}"
            yield f"{client:26} {kind:17} {row}"
            failed = [
                event for event in log.events if (event.client, event.kind) == (client, kind) and event.outcome.error
            ]
            if failed and kind != NODES:
                yield f"{'':44} at {', '.join(f'{event.at - log.began:.0f}' for event in failed[:20])} s"
            for detail, count in [*details.most_common(3), *degraded.most_common(3)]:
                yield f"{'':44} {count} x {detail[:140]}"
            for detail in {event.outcome.detail for event in failed if event.outcome.error not in CLUSTER_ERRORS}:
                yield f"{'':44} {detail[:2000]}"


def verdict(cluster: Cluster, log: Log, indexing: Indexing, status: int, counts: Counts, short: bool) -> list[Line]:
    """Return all lines of the verdict."""
    cluster.engine.client.indices.refresh(index=f"{INDEX},{TWIN},{TWIN_SESSIONS}")
    return [*_lost_writes(cluster, log, indexing, status), *_errors(log, short), *_degraded(cluster, log, counts)]


def _lost_writes(cluster: Cluster, log: Log, indexing: Indexing, status: int) -> Iterator[Line]:
    ids, read, letters = _ids(cluster, INDEX), set(indexing.read), indexing.letters()
    lost = read - ids - letters
    text = f"{len(read)} documents were read by resift index: {len(read & ids)} are in the index, {len(letters)} in the"
    yield Line(not lost and status in (0, 3), f"{text} dead-letter file, {len(lost)} lost")
    for name, index in (("bulk", INDEX), ("bare bulk", TWIN)):
        acknowledged = log.acknowledged.get(name, set())
        missing = acknowledged - (ids if index == INDEX else _ids(cluster, index))
        text = f"{len(acknowledged)} documents were acknowledged to a client's {name}, {len(missing)} lost"
        yield Line(not missing, text)
    marks = log.acknowledged.get("mark", set())
    missing = marks - _marks(cluster, {mark.partition("/")[0] for mark in marks})
    yield Line(not missing, f"{len(marks)} marks were acknowledged, {len(missing)} lost")
    notes, stored = log.acknowledged.get("bare mark", set()), set()
    for hit in cluster.engine.client.search(index=TWIN_SESSIONS, body={"size": 1000})["hits"]["hits"]:
        stored |= set(hit["_source"]["steps"])
    yield Line(not notes - stored, f"{len(notes)} writes without Resift were acknowledged, {len(notes - stored)} lost")
    yield from _vectors(cluster)


def _vectors(cluster: Cluster) -> Iterator[Line]:
    """Check that all documents have vectors after ``resift verify --repair``, and that ``resift attach`` succeeded."""
    missing = len(_ids(cluster, INDEX, _LACKING))
    command = [sys.executable, "-m", "resift", "verify", INDEX, "--repair", "--engine", cluster.address]
    done = subprocess.run(command, capture_output=True, text=True, cwd=cluster.folder)
    left = len(_ids(cluster, INDEX, _LACKING))
    text = f"{missing} documents were written without a vector; after resift verify --repair {left}"
    yield Line(left == 0, f"{text} have no vector ({(done.stdout or done.stderr).strip().splitlines()[-1]})")
    if cluster.attaching:
        status, left = cluster.attaching[-1].returncode, len(_ids(cluster, LATER, _LACKING))
        text = f"resift attach ended with status {status}; {left} documents have no vector"
        yield Line(status == 0 and left == 0, text)


def _ids(cluster: Cluster, index: str, query: object = None) -> set[str]:
    """Return the ids of all documents of an index that match a query."""
    client, ids = cluster.engine.client, set()
    body = {"query": query or {"match_all": {}}, "size": 5000, "_source": False}
    answer = client.search(index=index, body=body, params={"scroll": "1m", "search_pipeline": "_none"})
    while answer["hits"]["hits"]:
        ids |= {hit["_id"] for hit in answer["hits"]["hits"]}
        answer = client.scroll(body={"scroll_id": answer["_scroll_id"], "scroll": "1m"})
    client.clear_scroll(body={"scroll_id": [answer["_scroll_id"]]})
    return ids


def _marks(cluster: Cluster, sessions: set[str]) -> set[str]:
    """Return the marks of some sessions as ``SESSION/DOCUMENT``, read from the service without faults."""
    marks: set[str] = set()
    for session in sessions:
        status, answer = cluster.services[1].ask(f"/v1/sessions/{session}")
        if status == 200:
            marks |= {f"{session}/{judgement['document']}" for judgement in answer["judgements"]}
    return marks


def _errors(log: Log, short: bool) -> Iterator[Line]:
    """Check for each kind of fault that clients of Resift have no class of errors that other clients do not have.

    A ``short`` run allows errors of the cluster, because too few requests coincide with the end of a node.
    """
    for kind in dict.fromkeys(event.kind for event in log.events):
        bare: set[str] = set()
        ours: Counter[str] = Counter()
        for client in {event.client for event in log.events}:
            _, errors, _, _ = tally(log.events, client, kind)
            if client.startswith("bare"):
                bare |= set(errors)
            else:
                ours += errors
        new = set(ours) - bare - (CLUSTER_ERRORS if kind == NODES and short else set())
        text = f"fault {kind!r}: errors without Resift: {', '.join(sorted(bare)) or 'none'}"
        yield Line(not new, f"{text}; with Resift: {', '.join(sorted(ours)) or 'none'}")


def _degraded(cluster: Cluster, log: Log, counts: Counts) -> Iterator[Line]:
    reasons = Counter(event.outcome.degraded for event in log.events if event.client in SERVED)
    silent = reasons["without a reason"]
    text = f"{reasons.total() - reasons['']} responses of /v1/search were degraded, {silent} of them without a reason"
    yield Line(not silent, text)
    text = f"{counts.seen_served} of them came from the service without faults, which counted {counts.counted_served}"
    yield Line(counts.counted_served >= counts.seen_served, text)
    text = f"during faults of services, {counts.seen} searches by the pipeline were not rewritten"
    # OpenSearch 2.19 has counters of failed calls, but does not count calls of remote models
    is_counting = not cluster.engine.ping().startswith("opensearch 2.")
    cluster_counts = f"counted {counts.counted}" if is_counting else "does not count them in this version"
    yield Line(counts.counted >= counts.seen or not is_counting, f"{text}; the cluster {cluster_counts}")
    calm = [event for event in log.events if event.kind == CALM and event.client in PIPELINE]
    plain = sum(bool(event.outcome.degraded) for event in calm)
    text = f"{plain} of {len(calm)} searches by the pipeline were not rewritten without a fault (slow machine)"
    yield Line(plain <= len(calm) // 4, text)
    yield Line(_is_rewriting(cluster), "at the end, searches by the pipeline are rewritten again")


def _is_rewriting(cluster: Cluster) -> bool:
    """Return whether ten searches in a row are rewritten, within half a minute."""
    row, deadline = 0, time.monotonic() + 30
    while row < 10 and time.monotonic() < deadline:
        answer = cluster.engine.client.search(index=INDEX, body={"query": {"match": {"text": "space"}}})
        row = row + 1 if all("resift" in hit.get("matched_queries", ()) for hit in answer["hits"]["hits"]) else 0
    return row >= 10
