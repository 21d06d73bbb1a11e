"""A real OpenSearch with documents, and rerankers beside it, as the speed benchmarks search them."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import socket
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

from speed_peers import Missing

from resift import Model
from resift.ingest.indexing import DeadLetters, Indexer
from resift.ingest.readers import Record
from resift.plugin.cluster.install import Installer
from resift.plugin.opensearch.engine import OpenSearchEngine

ROOT = Path(__file__).resolve().parents[1]
FIELDS = ["title", "text"]
HITS = 100


def opensearch_url() -> str:
    """The URL of the OpenSearch that OPENSEARCH_URL names, or of a node that ends with this process."""
    if os.environ.get("OPENSEARCH_URL"):
        return os.environ["OPENSEARCH_URL"]
    sys.path.insert(0, str(ROOT / "tests"))
    import node

    try:
        return node.start().url
    except node.NodeUnavailable as error:
        raise Missing(f"no OpenSearch: {str(error).splitlines()[0]}") from error


@dataclass
class Client:
    """One keep-alive connection, as any client has it; the answer's bytes are read and parsed."""

    url: str
    _connection: http.client.HTTPConnection | None = field(default=None, repr=False)

    def post(self, path: str, body: Any) -> Any:
        """The JSON answer; anything but 200 is an error."""
        if self._connection is None:
            parts = urlsplit(self.url)
            self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
        self._connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        answer = self._connection.getresponse()
        raw = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{path}: {answer.status} {raw[:300]!r}")
        return json.loads(raw)


@dataclass
class Setup:
    """A cluster with documents, and two rerankers of one worker that share a session with judgements of some of them.

    The judgements have no query, so that they count for every query. One reranker learns from them by default, the
    other (``masked``) by the mask alone.
    """

    url: str
    reranker: str
    masked: str
    index: str
    name: str
    pid: int

    def plain(self, client: Client, query: str) -> Any:
        """BM25 alone."""
        return client.post(f"/{self.index}/_search", self._body(query, ["title"]))

    def reranked(self, client: Client, query: str, session: str | None = "bench") -> Any:
        """The same hits by ``/v1/search``, reranked in a session."""
        body = {"index": self.index, "query": self._body(query, ["title"]), "window": HITS}
        return client.post("/v1/search", {**body, "session": session})

    def hybrid(self, client: Client, query: str, vector: Sequence[float]) -> Any:
        """OpenSearch's own hybrid of BM25 and k-NN, the query's vector given."""
        two = [self._body(query, [])["query"], {"knn": {"resift_vector": {"vector": vector, "k": HITS}}}]
        body = {"size": HITS, "_source": ["title"], "query": {"hybrid": {"queries": two}}}
        return client.post(f"/{self.index}/_search?search_pipeline={self.name}-hybrid", body)

    def rescored(self, client: Client, query: str, vector: Sequence[float]) -> Any:
        """OpenSearch's own ``rescore`` by the stored script, the query's vector given."""
        script = {"id": f"{self.name}-masked-cosine", "params": {"field": "resift_vector", "query": vector}}
        again = {"rescore_query": {"script_score": {"query": {"match_all": {}}, "script": script}}}
        return client.post(
            f"/{self.index}/_search",
            {**self._body(query, ["title"]), "rescore": {"window_size": HITS, "query": again}},
        )

    @staticmethod
    def _body(query: str, source: list[str]) -> dict[str, Any]:
        return {"query": {"multi_match": {"query": query, "fields": FIELDS}}, "size": HITS, "_source": source}


def records(texts: Sequence[str]) -> Iterator[Record]:
    """Documents with a title, their first line."""
    for number, text in enumerate(texts):
        title = next((line for line in text.splitlines() if line.strip()), "")[:80]
        yield Record("bench", number, str(number), {"title": title, "text": text})


@contextlib.contextmanager
def set_up(url: str, model: Model, texts: Sequence[str], workers: int = 1) -> Iterator[Setup]:
    """Everything made, and removed at the end."""
    name, folder = f"bench-{uuid.uuid4().hex[:8]}", Path(tempfile.mkdtemp(prefix="resift-bench-"))
    engine, index = OpenSearchEngine(url, timeout=120), f"{name}-docs"
    environment = {**os.environ, "RESIFT_STORE": str(folder / "sessions.db")}
    with contextlib.ExitStack() as undone:
        undone.callback(shutil.rmtree, folder, ignore_errors=True)
        undone.callback(engine.close)
        undone.callback(engine.drop_if_exists, index)
        Indexer(engine, model, index, DeadLetters(folder / "dead.jsonl")).run(records(texts), FIELDS)
        ports = [_free_port() for _ in range(2)]
        reranker, masked = (f"http://127.0.0.1:{port}" for port in ports)
        installer = Installer(engine, model, FIELDS, reranker, name)
        undone.callback(installer.uninstall)
        command = ["--workers", str(workers), "--engine", url, "--model", str(model.save(folder / "model"))]
        pid = _serve(undone, ports[0], command, environment, folder / "log")
        _serve(undone, ports[1], command, {**environment, "RESIFT_FEEDBACK": "mask"}, folder / "masked.log")
        installer.install()
        marks = {"relevant": ["0", "1", "2", "3"], "irrelevant": ["4", "5", "6"]}
        Client(reranker).post("/v1/feedback", {"session": "bench", "index": index, **marks})
        yield Setup(url, reranker, masked, index, name, pid)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _serve(undone: contextlib.ExitStack, port: int, options: list[str], environment: dict[str, str], log: Path) -> int:
    """The process of a reranker that ends with ``undone``."""
    command = [sys.executable, "-m", "resift", "serve", "--port", str(port), *options]
    with log.open("w") as file:
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
    raise RuntimeError(f"the reranker did not start: {log.read_text()[-500:]}")
