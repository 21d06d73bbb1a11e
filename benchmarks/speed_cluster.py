"""Setup of the speed benchmarks: OpenSearch with documents, a Resift service and a proxy."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from ports import free_ports
from speed_peers import Missing

from resift import Model
from resift.ingest.indexing import DeadLetters, Indexer
from resift.ingest.readers import Record
from resift.plugin.cluster.install import Installer
from resift.plugin.cluster.installation import Installation
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.plugin.opensearch.mappings import ANALYSIS, mappings
from resift.query.dsl import VECTOR_FIELD

ROOT = Path(__file__).resolve().parents[1]
FIELDS = ["title", "text"]
HITS = 100
MARKED = "space shuttle launch"


def opensearch_url() -> str:
    """Return OPENSEARCH_URL, or start a node that ends with this process, and return its URL."""
    if os.environ.get("OPENSEARCH_URL"):
        return os.environ["OPENSEARCH_URL"]
    import node

    try:
        return node.start().url
    except node.NodeUnavailable as error:
        raise Missing(f"no OpenSearch: {str(error).splitlines()[0]}") from error


@dataclass
class Client:
    """An HTTP client with a keep-alive connection, which parses JSON responses."""

    url: str
    _connection: http.client.HTTPConnection | None = field(default=None, repr=False)

    def get(self, path: str) -> Any:
        """Send a GET request and return the JSON response. Raises RuntimeError if the status is not 200."""
        return self._answer("GET", path, None)

    def post(self, path: str, body: Any) -> Any:
        """Send a POST request and return the JSON response. Raises RuntimeError if the status is not 200."""
        return self._answer("POST", path, json.dumps(body))

    def _answer(self, method: str, path: str, body: str | None) -> Any:
        if self._connection is None:
            parts = urlsplit(self.url)
            self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
        self._connection.request(method, path, body, {"Content-Type": "application/json"})
        answer = self._connection.getresponse()
        raw = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{path}: {answer.status} {raw[:300]!r}")
        return json.loads(raw)


@dataclass
class Setup:
    """A cluster with documents and pipelines, and a service.

    Attributes:
        url: URL of the cluster.
        reranker: URL of the service.
        proxy: URL of a server that rewrites nothing (:mod:`speed_proxy`).
        index: Name of the index.
        name: Name of the installation.
        pid: Process id of the service.
    """

    url: str
    reranker: str
    proxy: str
    index: str
    name: str
    pid: int

    def plain(self, client: Client, query: str, pipeline: str = "", **options: Any) -> Any:
        """Search lexically, or through a search pipeline with these options."""
        body = {**hits_body(query), **({"ext": {"ml_inference": options}} if options else {})}
        return client.post(f"/{self.index}/_search{pipeline and '?search_pipeline='}{pipeline}", body)

    def search(self, client: Client, query: str, **options: Any) -> Any:
        """Search with ``/v1/search`` and these options."""
        return client.post("/v1/search", {"index": self.index, "query": hits_body(query), **options})

    def pipeline(self, client: Client, query: str, **options: Any) -> Any:
        """Search through the index's search pipeline with these options."""
        return self.plain(client, query, f"resift-{self.index}", **options)

    def rewrite(self, client: Client, query: str, **options: Any) -> Any:
        """Send the request ``/v1/rewrite`` that the pipeline sends to the service."""
        body = {**hits_body(query), "ext": {"ml_inference": options}}
        return client.post("/v1/rewrite", {"index": self.index, "body": body})

    def hybrid(self, client: Client, query: str, vector: Sequence[float]) -> Any:
        """Run OpenSearch's hybrid search of BM25 and k-NN with the vector of the query."""
        two = [hits_body(query)["query"], {"knn": {"resift_vector": {"vector": vector, "k": HITS}}}]
        body = {**hits_body(query), "query": {"hybrid": {"queries": two}}}
        return client.post(f"/{self.index}/_search?search_pipeline={self.name}-hybrid", body)

    def mark(self, session: str, query: str, marked: str = MARKED) -> None:
        """Mark the first ten hits of the query ``marked`` in a session, for another query. Six marks are relevant."""
        ids = [hit["_id"] for hit in self.plain(Client(self.url), marked)["hits"]["hits"][:10]]
        marks = {"query": query, "relevant": ids[:6], "irrelevant": ids[6:]}
        Client(self.reranker).post("/v1/feedback", {"session": session, "index": self.index, **marks})


def hits_body(query: str) -> dict[str, Any]:
    """Return the body of a search for a hundred hits with their titles."""
    return {"query": {"multi_match": {"query": query, "fields": FIELDS}}, "size": HITS, "_source": ["title"]}


def records(documents: Sequence[tuple[str, str]]) -> Iterator[Record]:
    """Yield records with titles and texts."""
    for number, (title, text) in enumerate(documents):
        yield Record("bench", number, str(number), {"title": title, "text": text})


def with_first_lines(texts: Sequence[str]) -> list[tuple[str, str]]:
    """Return each text with its first non-empty line as title."""
    return [(next((line for line in text.splitlines() if line.strip()), "")[:80], text) for text in texts]


@contextlib.contextmanager
def set_up(
    url: str, model: Model, documents: Sequence[tuple[str, str]], workers: int = 1, graph: bool = True
) -> Iterator[Setup]:
    """Create everything for a benchmark, and remove it afterwards.

    Args:
        url: URL of the cluster.
        model: The embedding model.
        documents: Titles and texts.
        workers: Number of worker processes of the service.
        graph: Whether to build an HNSW index, which is slow.
    """
    name, folder = f"bench-{uuid.uuid4().hex[:8]}", Path(tempfile.mkdtemp(prefix="resift-bench-"))
    engine, index = OpenSearchEngine(url, timeout=120), f"{name}-docs"
    with contextlib.ExitStack() as undone:
        undone.callback(shutil.rmtree, folder, ignore_errors=True)
        undone.callback(engine.close)
        undone.callback(engine.drop_if_exists, index)
        if not graph:
            bare = {**mappings(FIELDS, model)}
            bare["properties"][VECTOR_FIELD] = {"type": "knn_vector", "dimension": model.dim}
            bare["_meta"]["resift"]["graph"] = False
            engine.client.indices.create(index=index, body={"settings": {"analysis": ANALYSIS}, "mappings": bare})
        Indexer(engine, model, index, DeadLetters(folder / "dead.jsonl")).run(records(documents), FIELDS)
        ports = free_ports(2)
        reranker, proxy = (f"http://127.0.0.1:{port}" for port in ports)
        installer = Installer(engine, Installation(name, model, tuple(FIELDS), reranker))
        undone.callback(installer.uninstall)
        command = ["-m", "resift", "serve", "--workers", str(workers), "--model", str(model.save(folder / "model"))]
        environment = {**os.environ, "RESIFT_STORE": str(folder / "sessions.db")}
        pid = serve(undone, ports[0], [*command, "--engine", url], environment, folder / "log")
        serve(
            undone, ports[1], [str(ROOT / "benchmarks/speed_proxy.py"), "--engine", url], environment, folder / "proxy"
        )
        installer.install()
        setup = Setup(url, reranker, proxy, index, name, pid)
        yield setup


def serve(undone: contextlib.ExitStack, port: int, options: list[str], environment: dict[str, str], log: Path) -> int:
    """Start a Python server that ends with ``undone``, wait until it responds, and return its process id."""
    with log.open("w") as file:
        command = [sys.executable, *options, "--port", str(port)]
        server = subprocess.Popen(command, env=environment, stdout=file, stderr=file)
    undone.callback(server.wait, 30)
    undone.callback(server.terminate)
    _await(f"http://127.0.0.1:{port}", server, log)
    return server.pid


def _await(url: str, server: subprocess.Popen[bytes], log: Path) -> float:
    start = time.perf_counter()
    while time.perf_counter() - start < 60 and server.poll() is None:
        parts = urlsplit(url)
        with contextlib.suppress(OSError):
            connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=5)
            connection.request("GET", "/healthz")
            if connection.getresponse().status == 200:
                return time.perf_counter() - start
        time.sleep(0.02)
    raise RuntimeError(f"the server did not start: {log.read_text()[-500:]}")
