"""What `make chaos` breaks: a cluster of nodes, an index with Resift and its twin without, and two rerankers."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

import node
from served_reranker import ServiceProcess

from resift import Model, load_model
from resift.plugin.cluster.install import Installer
from resift.plugin.cluster.installation import Installation
from resift.plugin.cluster.search_pipelines import pipeline_name
from resift.plugin.opensearch.engine import OpenSearchEngine

FIELDS = ["title", "text"]
NAME = "chaos"
INDEX, TWIN, LATER = f"{NAME}-docs", f"{NAME}-twin", f"{NAME}-later"
SESSIONS, TWIN_SESSIONS = "resift_sessions_chaos", f"{NAME}-notes"
SHARDS = {"number_of_shards": 3, "number_of_replicas": 1}


@dataclass
class Cluster:
    """The nodes, the rerankers, of which the first is asked by the search pipeline, and what was installed."""

    folder: Path
    nodes: list[node.Node]
    engine: OpenSearchEngine
    model: Model
    rerankers: list[ServiceProcess] = field(default_factory=list)
    attaching: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def urls(self) -> list[str]:
        """The addresses of all nodes."""
        return [one.url for one in self.nodes]

    @property
    def address(self) -> str:
        """The same as Resift's commands take them."""
        return ",".join(self.urls)

    def manager(self) -> node.Node:
        """The node that manages the cluster."""
        rows = self.engine.client.transport.perform_request("GET", "/_cat/cluster_manager?format=json")
        return next(one for number, one in enumerate(self.nodes) if rows[0]["node"] == f"node-{number}")

    def another(self) -> node.Node:
        """A node that does not."""
        manager = self.manager()
        return next(one for one in self.nodes if one is not manager)

    def attach(self, index: str) -> subprocess.Popen[bytes]:
        """``resift attach`` of an index, with all that it can do by default, in a process of its own."""
        options = ["--no-adapt", "--default-pipelines", "--yes", "--engine", self.address]
        command = [sys.executable, "-m", "resift", "attach", index, "--vectors", *options]
        with (self.folder / f"attach-{index}.log").open("ab") as log:
            return subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log)

    def recover(self, status: str = "green") -> None:
        """Wait until all nodes and rerankers are there and all shards have their replicas."""
        path = f"/_cluster/health?wait_for_status={status}&wait_for_nodes={len(self.nodes)}&timeout=5s"
        deadline = time.monotonic() + 180
        while time.monotonic() < deadline:
            with contextlib.suppress(Exception):
                if not self.engine.client.transport.perform_request("GET", path, timeout=10)["timed_out"]:
                    break
            time.sleep(0.2)
        else:
            raise RuntimeError(f"the cluster did not become {status} again within three minutes")

    def failed_open(self) -> int:
        """How many searches the index's pipeline let pass as they were, as the cluster counts them.

        These are calls of remote models that failed, and searches for which none was called. The former are counted for
        all models together: those of the index's ingest pipeline are among them.
        """
        ask = self.engine.client.transport.perform_request
        name = pipeline_name(INDEX)
        pipeline = ask("GET", f"/_search/pipeline/{name}")[name]
        model = pipeline["request_processors"][0]["ml_inference"]["model_id"]
        nodes = ask("GET", "/_nodes/stats/search_pipeline")["nodes"].values()
        searches = sum(_number(node, "search_pipeline", "pipelines", name, "request", "count") for node in nodes)
        failed = asked = 0
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "this request accesses system indices")  # of ML Commons' own doing
            stats = ask("GET", "/_plugins/_ml/stats")
        for one in stats["nodes"].values():
            failed += _number(one, "algorithms", "remote", "predict", "ml_action_failure_count")
            asked += _number(one, "models", model, "predict", "ml_action_request_count")
        return failed + searches - asked


def _number(tree: dict[str, Any], *path: str) -> int:
    """A number in a tree of JSON, 0 where there is none."""
    found: Any = tree
    for name in path:
        found = found.get(name, {})
    return found or 0


@contextlib.contextmanager
def set_up(documents: list[tuple[str, str]], later: list[tuple[str, str]], nodes: int) -> Iterator[Cluster]:
    """So many nodes and two rerankers, indices made by hand, of which one is attached; everything ends with the block.

    ``documents`` of a title and a text are in the index and its twin, ``later`` in one that is not attached yet.
    """
    folder = Path(tempfile.mkdtemp(prefix="resift-chaos-"))
    with contextlib.ExitStack() as undone:
        undone.callback(shutil.rmtree, folder, ignore_errors=True)
        started = node.start_cluster(nodes)
        for one in started:
            undone.callback(one.stop)
        engine = OpenSearchEngine(",".join(one.url for one in started), timeout=60)
        undone.callback(engine.close)
        cluster = Cluster(folder, started, engine, load_model())
        for _ in range(2):
            cluster.rerankers.append(ServiceProcess(folder, cluster.address, SESSIONS))
            undone.callback(cluster.rerankers[-1].kill)
            cluster.rerankers[-1].start()
        _create(cluster)
        for index, rows in ((INDEX, documents), (TWIN, documents), (LATER, later)):
            _write(cluster, index, rows)
        Installer(engine, Installation(NAME, cluster.model, tuple(FIELDS), cluster.rerankers[0].url)).install()
        if cluster.attach(INDEX).wait(120) != 0:
            raise RuntimeError(f"resift attach: {(folder / f'attach-{INDEX}.log').read_text()[-500:]}")
        # of texts that are made up vectors may be weighed 0, and then nothing is rewritten
        cluster.engine.tune(INDEX, None)
        cluster.recover()
        _warm(cluster)
        yield cluster


def _create(cluster: Cluster) -> None:
    """The index, its twin, one that is attached later, and the twin of the sessions, all made by hand."""
    indices = cluster.engine.client.indices
    texts = {"properties": {name: {"type": "text", "analyzer": "english"} for name in FIELDS}}
    for index in (INDEX, TWIN, LATER):
        indices.create(index=index, body={"settings": SHARDS, "mappings": texts})
    notes = {"number_of_shards": 1, "auto_expand_replicas": "0-1"}
    indices.create(index=TWIN_SESSIONS, body={"settings": notes})


def _warm(cluster: Cluster) -> None:
    """Have each node search and write through the pipelines, which takes seconds at first on a machine that is busy."""
    for url in cluster.urls:
        engine = OpenSearchEngine(url, timeout=60)
        for _ in range(3):
            engine.client.search(index=INDEX, body={"query": {"match": {"text": "space"}}}, request_timeout=60)
            engine.client.index(index=INDEX, id="d0", body={"title": "space", "text": "shuttle"}, request_timeout=60)
        engine.close()


def _write(cluster: Cluster, index: str, rows: list[tuple[str, str]]) -> None:
    """Documents that are there from the start."""
    for start in range(0, len(rows), 500):
        lines: list[dict[str, Any]] = []
        for number, (title, text) in enumerate(rows[start : start + 500], start):
            lines += [{"index": {"_id": f"d{number}"}}, {"title": title, "text": text}]
        cluster.engine.client.bulk(index=index, body=lines)
    cluster.engine.refresh(index)
