"""The reranker, the stock pipelines and indexing beside a plain client, on a real OpenSearch."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from opensearchpy import OpenSearch
from opensearchpy.helpers import bulk
from speed_peers import Missing
from speed_timing import Spread, free_cores, seconds

from resift import Model, WordVectors, build_model, load_model
from resift.ingest.indexing import DeadLetters, Indexer
from resift.ingest.readers import Record
from resift.plugin.cluster.install import Installer
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.plugin.opensearch.mappings import mappings
from resift.plugin.vector_code import encode_vector

WAYS = {
    "plain": "plain _search",
    "search": "/v1/search without a session",
    "numbers": "_search for the hits' sequence numbers alone",
    "mask": "/v1/search with a session's mask",
    "cold": "/v1/search with a session's mask, no hit's fields known",
    "session": "/v1/search in a session by default",
    "pipeline": "resift-session",
    "quick": "resift-quick",
    "score": "/v1/score alone, of as many codes",
    "hybrid": "OpenSearch's hybrid of BM25 and k-NN",
    "rescore": "OpenSearch's rescore by the stored script",
}
PARTS = {
    "filled": "vectors filled in by the client",
    "pipeline": "ingest pipeline",
    "ml": "ML Commons asked by the client for the pipeline's vectors",
    "reranker": "reranker asked for them",
}
ROOT = Path(__file__).resolve().parents[1]
FIELDS = ["title", "text"]
HITS = 100
QUERIES = (
    "bible church",
    "windows drivers",
    "space shuttle launch",
    "encryption key government",
    "hockey game season",
    "car engine oil",
    "gun laws",
    "israel war",
    "graphics image file",
    "mac monitor price",
)


def cluster() -> str:
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
    """A cluster with documents, and two rerankers of one worker with a session that has judged some of them, whatever
    is asked: one learns by default, the other (``masked``) masks alone."""

    url: str
    reranker: str
    masked: str
    index: str
    name: str
    pid: int

    def plain(self, client: Client, query: str) -> Any:
        """BM25 alone."""
        return client.post(f"/{self.index}/_search", self._body(query, ["title"]))

    def numbers(self, client: Client, query: str) -> Any:
        """BM25 alone, the hits without ids and fields."""
        bare = {"_source": False, "stored_fields": "_none_", "seq_no_primary_term": True}
        return client.post(f"/{self.index}/_search", {**self._body(query, []), **bare})

    def codes(self, client: Client, query: str) -> list[str]:
        """The codes of the same hits."""
        found = client.post(f"/{self.index}/_search", self._body(query, ["resift_code"]))
        return [hit["_source"]["resift_code"] for hit in found["hits"]["hits"]]

    def scored(self, client: Client, query: str, codes: Sequence[str]) -> Any:
        """What the session pipelines ask of the reranker."""
        return client.post("/v1/score", {"line": f"bench\n{query}", "vectors": codes})

    def reranked(self, client: Client, query: str, session: str | None = "bench", also: str = "") -> Any:
        """The same hits by ``/v1/search``, reranked in a session; ``also``: one more field of theirs."""
        body = {"index": self.index, "query": self._body(query, ["title", *filter(None, [also])]), "window": HITS}
        return client.post("/v1/search", {**body, "session": session})

    def staged(self, client: Client, query: str, pipeline: str) -> Any:
        """The same hits through one of our search pipelines: OpenSearch calls the reranker."""
        body = self._body(query, ["title", "resift_code"])
        parts = {"ml_inference": {"query": query, "session": "bench"}}
        line = {"rerank": {"query_context": {"query_text": f"bench\n{query}"}}}
        extra = {"ext": line if pipeline == "quick" else parts}
        return client.post(f"/{self.index}/_search?search_pipeline={self.name}-{pipeline}", {**body, **extra})

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
def setup(url: str, model: Model, texts: Sequence[str], workers: int = 1) -> Iterator[Setup]:
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


def latencies(made: Setup, rounds: int, ways: Iterable[str]) -> dict[str, list[float]]:
    """p50 in ms of each way of searching in each round, all queries of a round in turn."""
    plain, ours, masked = Client(made.url), Client(made.reranker), Client(made.masked)
    never = itertools.count()
    model = load_model()
    vectors = {query: model.encode_one(query).tolist() for query in QUERIES}
    codes = {query: made.codes(plain, query) for query in QUERIES}
    functions = {
        "numbers": lambda query: made.numbers(plain, query),
        "score": lambda query: made.scored(ours, query, codes[query]),
        "plain": lambda query: made.plain(plain, query),
        "search": lambda query: made.reranked(masked, query, None),
        "mask": lambda query: made.reranked(masked, query),
        "cold": lambda query: made.reranked(masked, query, also=f"no field {next(never)}"),
        "session": lambda query: made.reranked(ours, query),
        "pipeline": lambda query: made.staged(plain, query, "session"),
        "quick": lambda query: made.staged(plain, query, "quick"),
        "hybrid": lambda query: made.hybrid(plain, query, vectors[query]),
        "rescore": lambda query: made.rescored(plain, query, vectors[query]),
    }
    found: dict[str, list[float]] = {way: [] for way in ways}
    for turn in range(rounds + 2):
        taken: dict[str, list[float]] = {way: [] for way in ways}
        for query in QUERIES:
            for way in ways:
                taken[way].append(seconds(functions[way], query) * 1000)
        for way in ways if turn >= 2 else ():
            found[way].append(float(np.median(taken[way])))
    return found


def concurrent(made: Setup, clients: int, each: int) -> tuple[float, float, float]:
    """p50 and p99 in ms of ``/v1/search`` with so many clients at a time, and searches a second."""

    def one(number: int) -> list[float]:
        client = Client(made.reranker)
        made.reranked(client, QUERIES[number % len(QUERIES)])
        return [seconds(made.reranked, client, QUERIES[(number + i) % len(QUERIES)]) * 1000 for i in range(each)]

    start = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        taken = [value for values in pool.map(one, range(clients)) for value in values]
    p50, p99 = np.percentile(taken, [50, 99])
    return float(p50), float(p99), clients * (each + 1) / (time.perf_counter() - start)


def memory(made: Setup) -> float:
    """MiB of a worker that it shares with nobody: what one more worker costs."""
    children = Path(f"/proc/{made.pid}/task/{made.pid}/children")
    if not children.exists():
        raise Missing("no /proc here")
    workers = children.read_text().split()
    lines = Path(f"/proc/{workers[0]}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1024


def small_model(dim: int) -> Model:
    """The packaged words in their first ``dim`` dimensions: what counts is the time."""
    table = load_model().table
    return build_model("mean", WordVectors(table.words, np.ascontiguousarray(table.rows()[:, :dim]), table.weights))


def bulk_seconds(url: str, texts: Sequence[str], rounds: int, dim: int = 64) -> tuple[list[float], list[float]]:
    """Seconds of indexing the texts with vectors by ``resift index``'s code, and without by opensearch-py's helper.

    Both want a second core: of twice as many rounds the half counts that had most of it, before and after.
    """
    engine, model, found = OpenSearchEngine(url, timeout=120), small_model(dim), []
    model.encode(texts[:500])
    client = OpenSearch(url, timeout=120)
    mapping = {"properties": {name: {"type": "text", "analyzer": "english"} for name in FIELDS}}
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(2 * rounds + 1):
            index, free = f"bench-{uuid.uuid4().hex[:8]}", free_cores()
            client.indices.create(index=index, body={"mappings": mapping})
            lines = ({"_index": index, "_id": one.id, **one.source} for one in records(texts))
            theirs = seconds(bulk, client, lines) + seconds(engine.refresh, index)
            client.indices.delete(index=index)
            indexer = Indexer(engine, model, index, DeadLetters(Path(folder) / f"{turn}.jsonl"))
            ours = seconds(indexer.run, records(texts), FIELDS)
            engine.drop(index)
            found.append((min(free, free_cores()), ours, theirs))
    engine.close()
    client.close()
    _, with_vectors, text_only = zip(*sorted(found[1:])[rounds:], strict=True)
    return list(with_vectors), list(text_only)


def pipeline_seconds(url: str, texts: Sequence[str], rounds: int, dim: int = 64) -> dict[str, list[float]]:
    """Seconds of indexing by opensearch-py's helper: the text only, with vectors that it fills in, and through the
    ingest pipeline; and of what the pipeline asks for, as many texts at a time as it does, when a client asks."""
    rows, model, found = list(records(texts)), small_model(dim), {way: [] for way in ("text", *PARTS)}
    lines = [f"{row.source['title']}\n{row.source['text']}\n" for row in rows]
    batches = [lines[i : i + 128] for i in range(0, len(lines), 128)]
    vectors = model.encode(lines)
    with setup(url, model, texts[:10]) as made, contextlib.closing(OpenSearch(url, timeout=120)) as client:
        pipeline = f"{made.name}-ingest"
        processors = client.ingest.get_pipeline(id=pipeline)[pipeline]["processors"]
        ml = f"/_plugins/_ml/_predict/text_embedding/{processors[1]['text_embedding']['model_id']}"
        ours, theirs, index = Client(made.reranker), Client(url), f"parts-{made.name}"
        plain = {"mappings": {"properties": {name: {"type": "text", "analyzer": "english"} for name in FIELDS}}}
        whole = {"settings": {"index.knn": True}, "mappings": mappings(FIELDS, model)}

        def send(body: dict[str, Any], filled: bool = False, **named: str) -> float:
            client.indices.create(index=index, body=body)
            actions = [
                {
                    "_index": index,
                    "_id": row.id,
                    **row.source,
                    **({"resift_vector": vector.tolist(), "resift_code": encode_vector(vector)} if filled else {}),
                }
                for row, vector in zip(rows, vectors, strict=True)
            ]
            taken = seconds(lambda: bulk(client, actions, **named))
            client.indices.delete(index=index)
            return taken

        ways = {
            "text": lambda: send(plain),
            "filled": lambda: send(whole, filled=True),
            "pipeline": lambda: send(whole, pipeline=pipeline),
            "ml": lambda: seconds(lambda: [theirs.post(ml, {"text_docs": batch}) for batch in batches]),
            "reranker": lambda: seconds(lambda: [ours.post("/v1/embeddings", {"input": batch}) for batch in batches]),
        }
        for turn in range(rounds + 2):
            for way, work in ways.items():
                taken = work()
                if turn >= 2:
                    found[way].append(taken)
    return found


def quotients(ours: Sequence[float], theirs: Sequence[float]) -> Spread:
    """Ours over theirs, round by round."""
    return Spread.of([a / b for a, b in zip(ours, theirs, strict=True)])
