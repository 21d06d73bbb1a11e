"""A real OpenSearch node with Resift's own plugin (``plugin/native``), an index, and a service."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from flask import Flask, request
from listening import listening, running
from opensearch_fixture import ENVIRONMENT, NEEDS, required
from service_app import TEXTS

from resift import Model
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.reranker import Config, create_app

Json = dict[str, Any]
PATIENT = "60s"  # a timeout for tests that are not about timeouts


@dataclass(frozen=True)
class NativeNode:
    """The node.

    Attributes:
        url: Its address.
        home: The folder of its distribution, or None if it was not started by the tests.
        config: The folder of its configuration, or None if it was not started by the tests.
    """

    url: str
    home: Path | None = None
    config: Path | None = None


@dataclass
class Searches:
    """An index of seven short texts on the node, and a pipeline that sends the searches in sessions to a service."""

    engine: OpenSearchEngine
    index: str
    pipelines: list[str] = field(default_factory=list)

    @property
    def version(self) -> tuple[int, ...]:
        """The version of OpenSearch."""
        return tuple(int(number) for number in self.engine.client.info()["version"]["number"].split("."))

    def has_plugin(self, name: str) -> bool:
        """Return whether all nodes have a plugin."""
        nodes = self.ask("GET", "/_nodes/plugins")["nodes"].values()
        return all(name in [plugin["name"] for plugin in node["plugins"]] for node in nodes)

    def delete(self) -> None:
        """Delete the index and the pipelines."""
        self.ask("DELETE", f"/{self.index}")
        for name in self.pipelines:
            self.ask("DELETE", f"/_search/pipeline/{name}")

    def ask(self, method: str, path: str, body: Any = None, **params: Any) -> Any:
        """Return the node's response to a request."""
        params = {**params, "request_timeout": 120}
        return self.engine.client.transport.perform_request(method, path, params=params, body=body)

    def pipeline(self, url: str | list[str], **config: Any) -> str:
        """Create a search pipeline with the processor ``resift``, and return its name."""
        name = f"{self.index}-{len(self.pipelines)}"
        processor = {"resift": {"url": url, "timeout": PATIENT, **config}}
        self.ask("PUT", f"/_search/pipeline/{name}", {"request_processors": [processor]})
        self.pipelines.append(name)
        return name

    def hits(self, pipeline: str = "_none", session: str | None = None, **body: Any) -> list[str]:
        """Return the ids of the hits of a search for ``fire``, or of another search body."""
        ext = {"ext": {"resift": {"session": session}}} if session else {}
        body = {"query": {"match": {"text": "fire"}}, **ext, **body}
        answer = self.ask("POST", f"/{self.index}/_search", body, search_pipeline=pipeline)
        return ids(answer)

    def counts(self, url: str) -> tuple[Json, Json]:
        """Return the node's counters of searches in sessions, and what it knows about one address of the service."""
        stats = self.ask("GET", "/_plugins/_resift/stats")
        return stats["searches"], stats["services"].get(url, {})

    @contextmanager
    def counting(self) -> Iterator[Callable[[], Json]]:
        """Yield a function that returns how often each kind of search occurred inside the ``with`` block."""
        before = _flat(self.counts("")[0])
        yield lambda: {name: n - before[name] for name, n in _flat(self.counts("")[0]).items() if n != before[name]}


def _flat(searches: Json) -> dict[str, int]:
    return {"rewritten": searches["rewritten"], "unchanged": searches["unchanged"], **searches["failed"]}


def ids(answer: Json) -> list[str]:
    """Return the ids of the hits of a response."""
    return [hit["_id"] for hit in answer["hits"]["hits"]]


@dataclass
class RealService:
    """Resift's service in this process, and the requests for rewriting that it has received."""

    app: Flask
    url: str
    requests: list[Json]


@contextmanager
def real_service(engine: OpenSearchEngine, model: Model, store: Path, /, **settings: Any) -> Iterator[RealService]:
    """Serve the API of Resift for an engine."""
    app, requests = create_app(Config(store=str(store), **settings), engine=engine, model=model), list[Json]()

    @app.before_request
    def keep() -> None:
        if request.path == "/v1/rewrite":
            requests.append(request.get_json())

    with listening(app) as url:
        yield RealService(app, url, requests)


@contextmanager
def faulty_service(respond: Callable[[Json], tuple[int, bytes]]) -> Iterator[str]:
    """Yield the address of an HTTP server that misbehaves.

    Args:
        respond: Returns status and body of the response to a request for rewriting.
    """

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Otherwise the body of a response waits 40 ms until the node acknowledges the headers.
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            status, body = respond(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            try:
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
            except OSError:
                self.close_connection = True  # the node did not wait

        def log_message(self, format: str, *arguments: object) -> None:
            """Log nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 256

    with running(Server(("127.0.0.1", 0), Handler)) as url:
        yield url


@pytest.fixture(scope="session")
def native_node() -> Iterator[NativeNode]:
    """Yield the cluster at OPENSEARCH_URL if it has the plugin, or else a node assembled from Maven artefacts."""
    if (url := ENVIRONMENT.get("OPENSEARCH_URL")) and _has_plugin(url):
        yield NativeNode(url)
        return
    node = pytest.importorskip("node", reason="nodes are started on systems with file locks")
    from node_releases import NodeUnavailable

    try:
        started = node.start(quick=True, native=True, heap="768m")
    except NodeUnavailable as error:
        if required():
            raise
        pytest.skip(f"{NEEDS} with Resift's plugin: {error}")
    yield NativeNode(started.url, started.how.home, started.run / "config")
    started.stop()


def _has_plugin(url: str) -> bool:
    engine = OpenSearchEngine(url, timeout=10)
    try:
        return Searches(engine, "").has_plugin("resift")
    finally:
        engine.close()


@pytest.fixture(scope="session")
def native_engine(native_node: NativeNode) -> Iterator[OpenSearchEngine]:
    """Return the node as an engine."""
    engine = OpenSearchEngine(native_node.url, timeout=60)
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def searches(native_engine: OpenSearchEngine) -> Iterator[Searches]:
    """Return an index on the node, whose documents have no vectors."""
    made = Searches(native_engine, f"native-{uuid.uuid4().hex[:8]}")
    settings = {"number_of_shards": 2, "number_of_replicas": 0}
    native_engine.client.indices.create(index=made.index, body={"settings": settings, "mappings": MAPPINGS})
    for id, text in TEXTS.items():
        native_engine.client.index(index=made.index, id=id, body={"text": text, "tag": id})
    native_engine.refresh(made.index)
    yield made
    made.delete()


MAPPINGS = {"properties": {"text": {"type": "text"}, "tag": {"type": "keyword"}}}
