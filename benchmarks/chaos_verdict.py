"""What `make chaos` judges: nothing lost, no new kinds of errors, nothing degraded in silence; and what it cost."""

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
CLUSTERS_OWN = {UNAVAILABLE, PARTIAL}  # what a cluster that loses a node answers
PIPELINE = ("search by pipeline", "the same in a session")
SERVED = ("/v1/search", "/v1/search in a session")


@dataclass(frozen=True)
class Line:
    """One line of the verdict."""

    holds: bool
    text: str

    def __str__(self) -> str:
        return f"{'ok    ' if self.holds else 'FAILED'}  {self.text}"


@dataclass
class Counts:
    """Degraded answers: how many the clients saw, and how many the cluster and the second reranker counted."""

    seen: int = 0
    counted: int = 0
    seen_served: int = 0
    counted_served: int = 0
    after: Counter[str] = field(default_factory=Counter)
    _before: tuple[int, int] = (0, 0)

    def begin(self, cluster: Cluster, log: Log) -> None:
        """Before something breaks that is no node."""
        self._before = (seen_by(log, PIPELINE), cluster.failed_open())

    def end_of_pipeline(self, cluster: Cluster, log: Log) -> None:
        """After it."""
        seen, counted = self._before
        self.seen += seen_by(log, PIPELINE) - seen
        self.counted += cluster.failed_open() - counted

    def finish(self, cluster: Cluster, log: Log) -> None:
        """At the end: what the reranker counted that nothing happened to."""
        self.seen_served = sum(bool(event.outcome.degraded) and event.outcome.by == 1 for event in log.events)
        for outcome in ("in_part", "engine_order"):
            self.counted_served += cluster.rerankers[1].counted("resift_searches_total", outcome=outcome)


def seen_by(log: Log, clients: tuple[str, ...]) -> int:
    """How many degraded answers some clients have seen."""
    return sum(bool(event.outcome.degraded) for event in log.events if event.client in clients)


def latencies(log: Log) -> Iterator[str]:
    """What each client met under each kind of fault."""
    kinds = list(dict.fromkeys(event.kind for event in log.events))
    yield f"\n{'client':26} {'under':17} requests    p50     p95     p99     max ms  degraded  errors"
    for client in dict.fromkeys(event.client for event in log.events):
        for kind in kinds:
            seconds, errors, details, degraded = tally(log.events, client, kind)
            if not seconds:
                continue
            p50, p95, p99, most = (1000 * np.percentile(seconds, [50, 95, 99, 100])).round().astype(int)
            said = ", ".join(f"{count} {name}" for name, count in errors.items()) or "none"
            row = f"{len(seconds):8} {p50:6} {p95:7} {p99:7} {most:7}     {degraded.total():8}  {said}"
            yield f"{client:26} {kind:17} {row}"
            own = [event for event in log.events if (event.client, event.kind) == (client, kind)]
            moments = [event for event in own if event.outcome.error]
            if moments and kind != NODES:
                yield f"{'':44} at {', '.join(f'{event.at - log.began:.0f}' for event in moments[:20])} s"
            for what, count in [*details.most_common(3), *degraded.most_common(3)]:
                yield f"{'':44} {count} x {what[:140]}"
            for what in {
                event.outcome.detail for event in own if event.outcome.error not in ("", UNAVAILABLE, PARTIAL)
            }:
                yield f"{'':44} {what[:2000]}"


def verdict(cluster: Cluster, log: Log, indexing: Indexing, status: int, counts: Counts, short: bool) -> list[Line]:
    """All lines."""
    cluster.engine.client.indices.refresh(index=f"{INDEX},{TWIN},{TWIN_SESSIONS}")
    return [*_kept(cluster, log, indexing, status), *_errors(log, short), *_degraded(cluster, log, counts)]


def _kept(cluster: Cluster, log: Log, indexing: Indexing, status: int) -> Iterator[Line]:
    ids, read, letters = _ids(cluster, INDEX), set(indexing.read), indexing.letters()
    lost = read - ids - letters
    text = f"{len(read)} documents were read by resift index: {len(read & ids)} are in the index, {len(letters)} in the"
    yield Line(not lost and status in (0, 3), f"{text} dead-letter file, {len(lost)} lost")
    for name, index in (("bulk", INDEX), ("bare bulk", TWIN)):
        told = log.acknowledged.get(name, set())
        missing = told - (ids if index == INDEX else _ids(cluster, index))
        yield Line(not missing, f"{len(told)} documents were acknowledged to a client's {name}, {len(missing)} lost")
    told = log.acknowledged.get("mark", set())
    missing = told - _marks(cluster, {one.partition("/")[0] for one in told})
    yield Line(not missing, f"{len(told)} marks were acknowledged, {len(missing)} lost")
    told, found = log.acknowledged.get("bare mark", set()), set()
    for hit in cluster.engine.client.search(index=TWIN_SESSIONS, body={"size": 1000})["hits"]["hits"]:
        found |= set(hit["_source"]["steps"])
    yield Line(not told - found, f"{len(told)} notes without Resift were acknowledged, {len(told - found)} lost")
    yield from _vectors(cluster)


def _vectors(cluster: Cluster) -> Iterator[Line]:
    """Whether each document has its vector, at the latest after ``resift verify --repair``."""
    missing = len(_ids(cluster, INDEX, _LACKING))
    command = [sys.executable, "-m", "resift", "verify", INDEX, "--repair", "--engine", cluster.address]
    done = subprocess.run(command, capture_output=True, text=True, cwd=cluster.folder)
    left = len(_ids(cluster, INDEX, _LACKING))
    text = f"{missing} documents were written while nobody encoded them; resift verify --repair leaves {left}"
    yield Line(left == 0, f"{text} without a vector ({(done.stdout or done.stderr).strip().splitlines()[-1]})")
    if cluster.attaching:
        ended, left = cluster.attaching[-1].returncode, len(_ids(cluster, LATER, _LACKING))
        yield Line(
            ended == 0 and left == 0, f"resift attach ended with {ended}, and left {left} documents without a vector"
        )


def _ids(cluster: Cluster, index: str, query: object = None) -> set[str]:
    """The ids of all documents of an index that match a query."""
    client, found = cluster.engine.client, set()
    body = {"query": query or {"match_all": {}}, "size": 5000, "_source": False}
    answer = client.search(index=index, body=body, params={"scroll": "1m", "search_pipeline": "_none"})
    while answer["hits"]["hits"]:
        found |= {hit["_id"] for hit in answer["hits"]["hits"]}
        answer = client.scroll(body={"scroll_id": answer["_scroll_id"], "scroll": "1m"})
    client.clear_scroll(body={"scroll_id": [answer["_scroll_id"]]})
    return found


def _marks(cluster: Cluster, sessions: set[str]) -> set[str]:
    """The marks of some sessions, as the reranker tells them that nothing happened to."""
    found: set[str] = set()
    for session in sessions:
        status, answer = cluster.rerankers[1].ask(f"/v1/sessions/{session}")
        found |= {f"{session}/{one['document']}" for one in answer["judgements"]} if status == 200 else set()
    return found


def _errors(log: Log, short: bool) -> Iterator[Line]:
    """For each kind of fault: did a client with Resift meet a class of error that none met without it?

    In a ``short`` run too few requests meet a node's end to tell which client happens to.
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
        new = set(ours) - bare - (CLUSTERS_OWN if kind == NODES and short else set())
        told = ", ".join(sorted(bare)) or "none"
        text = f"under {kind!r}: errors without Resift: {told}; with it: {', '.join(sorted(ours)) or 'none'}"
        yield Line(not new, text)


def _degraded(cluster: Cluster, log: Log, counts: Counts) -> Iterator[Line]:
    said = Counter(event.outcome.degraded for event in log.events if event.client in SERVED)
    silent = said["without a reason"]
    yield Line(
        not silent, f"{said.total() - said['']} answers of /v1/search were degraded, {silent} of them without a reason"
    )
    text = (
        f"the reranker that nothing happened to gave {counts.seen_served} of them, and counted {counts.counted_served}"
    )
    yield Line(counts.counted_served >= counts.seen_served, text)
    text = f"while only rerankers broke {counts.seen} searches came back without the pipeline's flag"
    # OpenSearch 2.19 has counters of failed calls, and counts no call of a remote model in them
    is_counting = not cluster.engine.ping().startswith("opensearch 2.")
    told = f"counted {counts.counted}" if is_counting else "does not count them in this version"
    yield Line(counts.counted >= counts.seen or not is_counting, f"{text}, and the cluster {told}")
    calm = [event for event in log.events if event.kind == CALM and event.client in PIPELINE]
    plain = sum(bool(event.outcome.degraded) for event in calm)
    text = f"{plain} of {len(calm)} searches by the pipeline were not rewritten while all was well (a slow machine)"
    yield Line(plain <= len(calm) // 4, text)
    yield Line(_is_whole(cluster), "at the end searches by the pipeline are rewritten again")


def _is_whole(cluster: Cluster) -> bool:
    """Whether ten searches in a row come back rewritten, within half a minute."""
    row, deadline = 0, time.monotonic() + 30
    while row < 10 and time.monotonic() < deadline:
        answer = cluster.engine.client.search(index=INDEX, body={"query": {"match": {"text": "space"}}})
        row = row + 1 if all("resift" in hit.get("matched_queries", ()) for hit in answer["hits"]["hits"]) else 0
    return row >= 10
