"""Tests of attaching while clients write and search, and of attaching that is killed repeatedly."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest
from attached_index import Index, assert_right, other, own, routed, run, shop, source

from resift import Model
from resift.ingest.verify import verify
from resift.plugin.opensearch.engine import OpenSearchEngine

__all__ = ["other", "own", "shop"]

COUNT = 400
PAUSE = 0.03  # time between two requests of a client, in seconds
# number of kills while attaching, and the same number while detaching
KILLS = int(os.environ.get("RESIFT_TEST_KILLS", "2"))
# Forks a process for each command line that it reads, so that the modules are imported only once.
STARTER = """
import os, sys
import resift.plugin.operations.attach
from resift.cli.main import main
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        os.dup2(2, 1)
        main(line.split())
    if sys.stdin.readline() == "kill\\n":
        os.kill(child, 9)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Traffic:
    """Clients that search, and write the same documents to several indices, inside a ``with`` block."""

    def __init__(self, *indices: Index) -> None:
        self.indices, self.searches, self.failed, self.writes = indices, 0, [], 0
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=one) for one in (self._write, self._search)]

    def __enter__(self) -> Traffic:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _write(self) -> None:
        chance, new = random.Random(5), COUNT
        while not self._stop.is_set():
            n, lines = chance.randrange(COUNT), []
            kind = chance.choice(["index", "update", "delete", "create", "script"])
            if kind == "create":
                n = new = new + 1
            head = {"_id": str(n), **routed(n)}
            if kind in ("index", "create"):
                lines = [json.dumps({"index": head}), json.dumps(source(n + 7))]
            elif kind == "update":
                lines = [json.dumps({"update": head}), json.dumps({"doc": {"text": f"river {source(n)['n']}"}})]
            elif kind == "script":
                script = {"source": "ctx._source.price = 3.25", "lang": "painless"}
                lines = [json.dumps({"update": head}), json.dumps({"script": script})]
            else:
                lines = [json.dumps({"delete": head})]
            # no response may show a client that the index is being attached
            answers = [index.bulk(lines)[0]["status"] for index in self.indices]
            if len(set(answers)) > 1 or answers[0] >= 500:
                self.failed.append((kind, n, answers))
            self.writes += 1
            time.sleep(PAUSE)

    def _search(self) -> None:
        index = self.indices[0]
        while not self._stop.is_set():
            try:
                body = {"query": {"match": {"text": "river forest"}}}
                answer = index.cluster.request("POST", f"/{index.name}/_search", body)
                assert answer["_shards"]["failed"] == 0
                self.searches += 1
                time.sleep(PAUSE)
            except Exception as error:
                self.failed.append(error)


def without_vectors(index: Index) -> dict[str, str]:
    """Return all documents as clients wrote them, without vectors."""
    found = {id: json.loads(text) for id, text in index.documents().items()}
    for _, fields in found.values():
        fields.pop("resift_vector_int8", None)
    return {id: json.dumps(value) for id, value in found.items()}


@pytest.fixture
def pair(cluster: OpenSearchEngine) -> Iterator[tuple[Index, Index]]:
    """Yield two indices with the same documents. The second is never attached."""
    indices = [Index(cluster, count=COUNT), Index(cluster, count=COUNT)]
    yield indices[0], indices[1]
    for index in indices:
        index.close()


def test_documents_written_during_attaching_are_not_lost(
    pair: tuple[Index, Index], own: tuple[Model, str], opensearch_url: str
) -> None:
    index, twin = pair
    model, folder = own
    with Traffic(index, twin) as traffic:
        time.sleep(0.2)
        run("attach", index.name, opensearch_url, "--model", folder, status=None)
        attached = traffic.writes
        time.sleep(0.2)
    assert not traffic.failed
    assert min(traffic.searches, attached) > 0
    assert without_vectors(index) == without_vectors(twin)
    # repair the vectors of documents that clients wrote without the index's pipeline
    verify(index.engine, model, index.name, repair=True)
    found = verify(index.engine, model, index.name)
    assert (found.checked, found.missing, found.stale) == (len(twin.documents()), 0, 0)
    with Traffic(index, twin) as traffic:
        time.sleep(0.2)
        run("detach", index.name, opensearch_url)
    assert not traffic.failed
    assert index.documents() == twin.documents()


class Killed:
    """A runner of commands that kills them after some time."""

    def __init__(self) -> None:
        self._starter = subprocess.Popen(
            [sys.executable, "-c", STARTER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, *command: str, after: float | None = None) -> int:
        """Run a command, kill it ``after`` some seconds, and return its exit status (negative if it was killed)."""
        assert self._starter.stdin is not None
        assert self._starter.stdout is not None
        self._starter.stdin.write(" ".join(command) + "\n")
        self._starter.stdin.flush()
        time.sleep(after or 0)
        self._starter.stdin.write("wait\n" if after is None else "kill\n")
        self._starter.stdin.flush()
        return int(self._starter.stdout.readline())

    def __enter__(self) -> Killed:
        return self

    def __exit__(self, *_: object) -> None:
        self._starter.communicate()


def test_attaching_and_detaching_continue_after_kills(
    pair: tuple[Index, Index], own: tuple[Model, str], opensearch_url: str
) -> None:
    index, twin = pair
    model, folder = own
    chance = random.Random(3)
    where = [index.name, "--engine", opensearch_url, "--yes"]

    def often(killed: Killed, *command: str) -> int:
        """Run a command until it finishes, and return the number of kills before."""
        ended = [killed.run(*command, after=chance.uniform(0.05, 0.6)) for _ in range(KILLS)]
        # nothing may be left to do, except that documents from clients may have stale vectors
        assert killed.run(*command) in (0, 2, 3)
        return ended.count(-signal.SIGKILL)

    before = index.mapping(), index.settings()
    with Killed() as killed, Traffic(index, twin) as traffic:
        kills = often(killed, "attach", *where, "--vectors", "--force", "--model", folder)
    assert not traffic.failed
    assert without_vectors(index) == without_vectors(twin)
    assert index.engine.info(index.name).model == model.hash
    assert verify(index.engine, model, index.name, repair=True).is_correct
    assert_right(index, model, list(index.engine.info(index.name).fields))
    with Killed() as killed, Traffic(index, twin) as traffic:
        kills += often(killed, "detach", *where)
    assert kills >= KILLS
    assert not traffic.failed
    assert index.documents() == twin.documents()
    mapping = index.mapping()
    del mapping["properties"]["resift_vector_int8"]
    assert (mapping, index.settings()) == before
