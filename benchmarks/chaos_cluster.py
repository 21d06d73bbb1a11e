"""Setup of `make chaos`: a cluster, an index with Resift, its twin without Resift, and two services."""

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
    """A cluster with Resift.

    Attributes:
        folder: Folder for logs and other files.
        nodes: The nodes.
        engine: Client of the cluster.
        model: The embedding model.
        services: The Resift services. The search pipeline calls the first service.
        attaching: Processes of ``resift attach``.
    """

    folder: Path
    nodes: list[node.Node]
    engine: OpenSearchEngine
    model: Model
    services: list[ServiceProcess] = field(default_factory=list)
    attaching: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def urls(self) -> list[str]:
        """The addresses of all nodes."""
        return [node.url for node in self.nodes]

    @property
    def address(self) -> str:
        """The addresses of all nodes, separated by commas, for options of Resift's commands."""
        return ",".join(self.urls)

    def manager(self) -> node.Node:
        """Return the cluster manager."""
        rows = self.engine.client.transport.perform_request("GET", "/_cat/cluster_manager?format=json")
        return next(node for number, node in enumerate(self.nodes) if rows[0]["node"] == f"node-{number}")

    def another(self) -> node.Node:
        """Return a node that is not the cluster manager."""
        manager = self.manager()
        return next(node for node in self.nodes if node is not manager)

    def attach(self, index: str) -> subprocess.Popen[bytes]:
        """Start a process of ``resift attach`` with vectors and default pipelines for an index."""
        options = ["--force", "--no-adapt", "--default-pipelines", "--yes", "--engine", self.address]
        command = [sys.executable, "-m", "resift", "attach", index, "--vectors", *options]
        with (self.folder / f"attach-{index}.log").open("ab") as log:
            return subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log)

    def recover(self, status: str = "green") -> None:
        """Wait until all nodes are in the cluster and its health has the given status."""
        path = f"/_cluster/health?wait_for_status={status}&wait_for_nodes={len(self.nodes)}&timeout=5s"
        deadline = time.monotonic() + 180
        while time.monotonic() < deadline:
            with contextlib.suppress(Exception):
                if not self.engine.client.transport.perform_request("GET", path, timeout=10)["timed_out"]:
                    break
            time.sleep(0.2)
        else:
            raise RuntimeError(f"the health of the cluster did not become {status} within three minutes")

    def failed_open(self) -> int:
        """Return the number of searches that the index's pipeline did not rewrite, by the cluster's counters.

        The number is the sum of failed calls of remote models and of searches without a call. OpenSearch counts failed
        calls for all models together, so that failures of the ingest pipeline are included.
        """
        ask = self.engine.client.transport.perform_request
        name = pipeline_name(INDEX)
        pipeline = ask("GET", f"/_search/pipeline/{name}")[name]
        model = pipeline["request_processors"][0]["ml_inference"]["model_id"]
        nodes = ask("GET", "/_nodes/stats/search_pipeline")["nodes"].values()
        searches = sum(_number(node, "search_pipeline", "pipelines", name, "request", "count") for node in nodes)
        failed = calls = 0
        with warnings.catch_warnings():
            # the statistics API of ML Commons itself reads a system index
            warnings.filterwarnings("ignore", "this request accesses system indices")
            stats = ask("GET", "/_plugins/_ml/stats")
        for node_stats in stats["nodes"].values():
            failed += _number(node_stats, "algorithms", "remote", "predict", "ml_action_failure_count")
            calls += _number(node_stats, "models", model, "predict", "ml_action_request_count")
        return failed + searches - calls


def _number(tree: dict[str, Any], *path: str) -> int:
    """Return the number at a path of keys in JSON, or 0 if there is none."""
    value: Any = tree
    for name in path:
        value = value.get(name, {})
    return value or 0


@contextlib.contextmanager
def set_up(documents: list[tuple[str, str]], later: list[tuple[str, str]], nodes: int) -> Iterator[Cluster]:
    """Start nodes and two services, create the indices, and attach one of them. Stop everything after the block.

    Args:
        documents: Titles and texts of the documents in the index and in its twin.
        later: Titles and texts of the documents in an index that is attached during the benchmark.
        nodes: Number of nodes.
    """
    folder = Path(tempfile.mkdtemp(prefix="resift-chaos-"))
    with contextlib.ExitStack() as undone:
        undone.callback(shutil.rmtree, folder, ignore_errors=True)
        started = node.start_cluster(nodes)
        for started_node in started:
            undone.callback(started_node.stop)
        engine = OpenSearchEngine(",".join(started_node.url for started_node in started), timeout=60)
        undone.callback(engine.close)
        cluster = Cluster(folder, started, engine, load_model())
        for _ in range(2):
            cluster.services.append(ServiceProcess(folder, cluster.address, SESSIONS))
            undone.callback(cluster.services[-1].kill)
            cluster.services[-1].start()
        _create(cluster)
        for index, rows in ((INDEX, documents), (TWIN, documents), (LATER, later)):
            _write(cluster, index, rows)
        Installer(engine, Installation(NAME, cluster.model, tuple(FIELDS), cluster.services[0].url)).install()
        if cluster.attach(INDEX).wait(120) != 0:
            raise RuntimeError(f"resift attach failed: {(folder / f'attach-{INDEX}.log').read_text()[-500:]}")
        # attach may choose the weight 0 for the vectors of generated texts, and then searches are not rewritten
        cluster.engine.tune(INDEX, None)
        cluster.recover()
        _warm(cluster)
        yield cluster


def _create(cluster: Cluster) -> None:
    """Create the index, its twin, the index that is attached later, and the twin of the session index."""
    indices = cluster.engine.client.indices
    texts = {"properties": {name: {"type": "text", "analyzer": "english"} for name in FIELDS}}
    for index in (INDEX, TWIN, LATER):
        indices.create(index=index, body={"settings": SHARDS, "mappings": texts})
    notes = {"number_of_shards": 1, "auto_expand_replicas": "0-1"}
    indices.create(index=TWIN_SESSIONS, body={"settings": notes})


def _warm(cluster: Cluster) -> None:
    """Search and write through the pipelines on each node, because the first requests can take seconds."""
    for url in cluster.urls:
        engine = OpenSearchEngine(url, timeout=60)
        for _ in range(3):
            engine.client.search(index=INDEX, body={"query": {"match": {"text": "space"}}}, request_timeout=60)
            engine.client.index(index=INDEX, id="d0", body={"title": "space", "text": "shuttle"}, request_timeout=60)
        engine.close()


def _write(cluster: Cluster, index: str, rows: list[tuple[str, str]]) -> None:
    """Write documents to an index and refresh it."""
    for start in range(0, len(rows), 500):
        lines: list[dict[str, Any]] = []
        for number, (title, text) in enumerate(rows[start : start + 500], start):
            lines += [{"index": {"_id": f"d{number}"}}, {"title": title, "text": text}]
        cluster.engine.client.bulk(index=index, body=lines)
    cluster.engine.refresh(index)
