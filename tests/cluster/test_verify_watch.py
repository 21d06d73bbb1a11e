"""`resift verify --watch`: what was written since is mended within an interval, and little else is read."""

from __future__ import annotations

import json
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from opensearchpy.exceptions import ConflictError
from tcp_proxy import Proxy
from wrong_vectors import PEACE, TEXTS, WAYS, body, hits, script_update, update_by_query, wrong

from resift import Model
from resift.cli.main import main
from resift.ingest.stopping import Stop
from resift.ingest.verify import Verification, verify
from resift.ingest.watching import Watch
from resift.plugin.cluster.client import Cluster
from resift.plugin.opensearch.engine import OpenSearchEngine


class Watched:
    """A watch of one index by rounds, and what it read, found and told."""

    def __init__(self, engine: OpenSearchEngine, model: Model, index: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.found: list[Verification] = []
        self.told: list[str] = []
        self.read: list[str] = []
        self.watch = Watch(engine, model, [index], Stop(), self.found.append, self.told.append)
        scan = engine._scan

        def noted(*arguments: Any, **named: Any) -> Iterator[Any]:
            for document in scan(*arguments, **named):
                self.read.append(document.id)
                yield document

        monkeypatch.setattr(engine, "_scan", noted)

    def round(self) -> tuple[list[str], int]:
        """The ids that one round reads, and how many documents it mends."""
        self.read.clear()
        before = len(self.found)
        self.watch.round()
        return sorted(self.read, key=int), sum(one.repaired for one in self.found[before:])


def test_a_watch_reads_what_was_written_since(
    cluster: OpenSearchEngine,
    rest: Cluster,
    hand_made: str,
    model: Model,
    other_model: Model,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watched = Watched(cluster, model, hand_made, monkeypatch)
    everything = [str(i) for i in range(40)]
    assert watched.round() == (everything, 0)
    assert [one.checked for one in watched.found] == [40]
    assert watched.round() == ([], 0)
    for way in WAYS:
        expected = sorted(way(rest, hand_made), key=int)
        assert watched.round() == (expected, len(expected)), way.__name__
        # what was mended was written too
        assert watched.round() == (expected, 0)
        assert watched.round() == ([], 0)
    assert wrong(cluster, model, hand_made) == []
    cluster.drop(hand_made)
    assert watched.round() == ([], 0)
    assert watched.round() == ([], 0)
    assert watched.told == [f"no such hand_made [{hand_made}]; it is tried again"] or len(watched.told) == 1
    rest.request("PUT", f"/{hand_made}", body(model, other_model))
    rest.request("PUT", f"/{hand_made}/_doc/1", PEACE, refresh="true")
    assert watched.round() == (["1"], 1)
    assert watched.told[1:] == ["the cluster can be checked again"]


def test_an_index_that_may_not_be_written_is_told_once(
    cluster: OpenSearchEngine, rest: Cluster, hand_made: str, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched(cluster, model, hand_made, monkeypatch)
    watched.round()
    stale = update_by_query(rest, hand_made)
    rest.request("PUT", f"/{hand_made}/_settings", {"index.blocks.write": True})
    assert [watched.round(), watched.round()] == [(stale, 0), (stale, 0)]
    (told,) = watched.told
    assert "FORBIDDEN/8/index write (api)" in told
    rest.request("PUT", f"/{hand_made}/_settings", {"index.blocks.write": None})
    assert watched.round() == (stale, 3)
    assert watched.told[1:] == [f"index {hand_made} can be checked again"]


def test_what_a_snapshot_brings_back_is_verified_as_a_whole(
    cluster: OpenSearchEngine, rest: Cluster, hand_made: str, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = rest.request("GET", "/_nodes/settings", filter_path="nodes.*.settings.path.repo")
    if not nodes:
        pytest.skip("this cluster has no path.repo")
    repository = f"/_snapshot/{hand_made}"
    rest.request("PUT", repository, {"type": "fs", "settings": {"location": hand_made}})
    try:
        stale = update_by_query(rest, hand_made)  # which are in the snapshot
        rest.request("PUT", f"{repository}/1", {"indices": hand_made}, wait_for_completion="true")
        watched = Watched(cluster, model, hand_made, monkeypatch)
        assert watched.round() == ([str(i) for i in range(40)], len(stale))
        assert watched.round()[1] == 0
        rest.request("POST", f"/{hand_made}/_close")
        rest.request("POST", f"{repository}/1/_restore", {"indices": hand_made}, wait_for_completion="true")
        assert wrong(cluster, model, hand_made) == stale
        assert watched.round() == ([str(i) for i in range(40)], len(stale))
        assert wrong(cluster, model, hand_made) == []
    finally:
        with suppress(Exception):
            rest.request("DELETE", f"{repository}/1")
        rest.request("DELETE", repository)


@pytest.mark.since(3, "shards without index.knn fail when the mapping changes")
def test_writers_beside_repairs_and_a_watch_lose_nothing(
    cluster: OpenSearchEngine, rest: Cluster, hand_made: str, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched(cluster, model, hand_made, monkeypatch)
    ended, counts = threading.Event(), dict.fromkeys(range(3), 0)

    def write(writer: int) -> None:
        """Count up in documents of its own and in one that all share, and change their texts."""
        script = {
            "lang": "painless",
            "source": "ctx._source.n = (ctx._source.n ?: 0) + 1; ctx._source.title = params.t",
        }
        while not ended.is_set():
            for id in (str(1 + 3 * writer), "20"):
                text = {"params": {"t": TEXTS[counts[writer] % 4]}}
                with suppress(ConflictError):
                    cluster.client.update(
                        index=hand_made, id=id, body={"script": {**script, **text}}, retry_on_conflict=50
                    )
            counts[writer] += 1

    writers = [threading.Thread(target=write, args=(one,)) for one in counts]
    for one in writers:
        one.start()
    try:
        while min(counts.values()) < 15:
            watched.round()
            verify(cluster, model, hand_made, repair=True)
    finally:
        ended.set()
        for one in writers:
            one.join()
    for _ in range(2):
        watched.round()
    assert wrong(cluster, model, hand_made) == []
    found = {hit["_id"]: hit["_source"] for hit in hits(rest, hand_made)}
    assert [found[str(1 + 3 * writer)]["n"] for writer in counts] == list(counts.values())
    assert found["20"]["n"] == sum(counts.values())
    assert not watched.told


class Lines:
    """The lines that a process writes, as they come."""

    def __init__(self, stream: Any) -> None:
        self.queue: queue.Queue[str] = queue.Queue()
        self.thread = threading.Thread(target=lambda: [self.queue.put(line) for line in stream], daemon=True)
        self.thread.start()

    def next(self) -> str:
        """The next line."""
        return self.queue.get(timeout=60)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_watch_mends_within_its_interval_until_a_signal_and_waits_for_the_cluster(
    rest: Cluster, cluster: OpenSearchEngine, hand_made: str, model: Model, tmp_path: Path, number: int, status: int
) -> None:
    host = cluster.client.transport.hosts[0]
    proxy = Proxy(f"http://{host['host']}:{host['port']}")
    options = ["--watch", "1", "--model", str(model.save(tmp_path / "model")), "--engine", proxy.url, "--json"]
    command = [sys.executable, "-m", "resift", "verify", hand_made, *options]
    process = subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        out, errors = Lines(process.stdout), Lines(process.stderr)
        assert json.loads(out.next())["checked"] == 40
        stale = update_by_query(rest, hand_made)
        found = json.loads(out.next())
        assert (found["index"], sorted(found["stale_ids"]), found["repaired"]) == (hand_made, stale, 3)
        proxy.kill()
        assert "no answer from OpenSearch" in errors.next()
        (missing,) = script_update(rest, hand_made)
        proxy.start()
        assert errors.next() == "the cluster can be checked again\n"
        assert json.loads(out.next())["stale_ids"] == [missing]
        process.send_signal(number)
        assert process.wait(60) == status
        assert errors.queue.empty()
        assert wrong(cluster, model, hand_made) == []
    finally:
        process.kill()
        process.wait()
        proxy.kill()
        for stream in (process.stdout, process.stderr):
            assert stream is not None
            stream.close()


def test_the_embedded_engine_is_not_watched(here: Path, model: Model) -> None:
    result = CliRunner().invoke(main, ["verify", "--watch", "--engine", "docs.db", "--model", str(model.save("m"))])
    assert (result.exit_code, "the embedded engine cannot be watched" in result.output) == (2, True)
