"""Tests of a service that is frozen, dead, slow or replaced by another.

Searches go on in the engine's order, and writes go on without vectors, within a second or two.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import threading
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from attached_index import remove_pipelines
from engine_documents import documents
from opensearch_fixture import service_host
from opensearchpy import OpenSearch, TransportError
from served import Server, serving
from service_app import post
from waiting import until

from resift import Model
from resift.ingest.verify import verify
from resift.plugin.cluster.index_pipelines import update_pipelines
from resift.plugin.cluster.install import Installer
from resift.plugin.cluster.installation import Installation
from resift.plugin.cluster.resources import PIPELINES
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.plugin.operations.doctor import status_rows
from resift.plugin.operations.install import Guard
from resift.plugin.operations.plan import Step
from resift.reranker import Config, create_app
from resift.stopping import Stop

SECONDS = 8  # with its default timeouts, ML Commons would wait for 10 to 60 seconds
FIRE = {"multi_match": {"query": "fire", "fields": ["title", "text"]}}


@dataclass
class Installed:
    """An impatient client, an installation, the name of the installation and of its index, and its service."""

    client: OpenSearch
    name: str
    installer: Installer
    server: Server
    store: Path

    def hits(self, pipeline: str, **body: Any) -> list[tuple[str, float]]:
        """Return ids and scores of the hits of a plain ``_search`` request."""
        # the pipelines of an index are named resift-INDEX, whatever the name of the installation
        owner = self.name if pipeline in PIPELINES else "resift"
        params = {"search_pipeline": pipeline if pipeline == "_none" else f"{owner}-{pipeline}"}
        answer = self.client.search(index=self.name, body={"query": FIRE, **body}, params=params)
        return [(hit["_id"], hit["_score"]) for hit in answer["hits"]["hits"]]

    def is_rewritten(self) -> bool:
        """Return whether a search through the index's pipeline is rewritten. Check that it has the same hits."""
        found, plain = self.hits(self.name), self.hits("_none")
        assert {id for id, _ in found} == {id for id, _ in plain}
        return found != plain

    def processes(self) -> list[int]:
        """Return the processes of the service, beginning with the workers."""
        parent = self.server.process.pid
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        return [*map(int, children), parent]


@pytest.fixture(scope="module")
def patience() -> None:
    """Override the patient timeouts of other tests, because these tests measure how long the cluster waits."""


@pytest.fixture(scope="module")
def installed(
    cluster: OpenSearchEngine,
    opensearch_url: str,
    packaged: Model,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Iterator[Installed]:
    """Yield a service with two processes, and an installation of it."""
    host, name = service_host(request.config), f"resift-{uuid.uuid4().hex[:8]}"
    if host != "127.0.0.1" or not Path("/proc/self/task").is_dir():
        pytest.skip("the cluster has to reach this machine's loopback, and /proc has to list processes")
    impatient, folder = OpenSearchEngine(opensearch_url, timeout=SECONDS), tmp_path_factory.mktemp("frozen")
    options = ("--engine", opensearch_url, "--workers", "2")
    with serving(folder, *options, RESIFT_STORE=str(folder / "sessions.db")) as server:
        installer = Installer(cluster, Installation(name, packaged, ("title", "text"), f"http://{host}:{server.port}"))
        cluster.create(name, ["title", "text"], packaged)
        cluster.bulk(name, documents(packaged))
        cluster.refresh(name)
        installer.install()
        yield Installed(impatient.client, name, installer, server, folder / "sessions.db")
        installer.uninstall()
        cluster.drop(name)
    impatient.close()


@contextmanager
def frozen(processes: list[int]) -> Iterator[None]:
    """Freeze some processes inside a ``with`` block."""
    for process in processes:
        os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            os.kill(process, signal.SIGCONT)


def test_another_process_rewrites_searches_if_one_is_frozen(installed: Installed) -> None:
    assert until(installed.is_rewritten)
    with frozen(installed.processes()[:1]):
        # each search gives up a connection to the frozen worker, and new connections go to the other worker
        assert until(lambda: all(installed.is_rewritten() for _ in range(5)))


@pytest.mark.parametrize("which", ["of the index", "rerank"])
def test_searches_have_the_engines_order_if_all_processes_are_frozen(installed: Installed, which: str) -> None:
    ext: dict[str, Any] = {"rerank": {"query_context": {"query_text": "fire"}}}
    if which == "of the index":
        ext = {"ml_inference": {"query": "fire", "session": "anna"}}
    with frozen(installed.processes()):
        found = installed.hits(installed.name if which == "of the index" else which, ext=ext)
    assert found == installed.hits("_none")


def test_documents_are_indexed_without_vectors_if_all_processes_are_frozen(
    cluster: OpenSearchEngine, packaged: Model, installed: Installed
) -> None:
    name = f"{installed.name}-attached"
    settings = {"index.final_pipeline": f"resift-{name}"}  # as resift attach --default-pipelines sets it

    def write(*ids: str) -> set[str]:
        """Write documents as a client does, and return the ids of those without a vector."""
        lines = [line for id in ids for line in ({"index": {"_id": id}}, {"title": "fire", "text": f"forest {id}"})]
        items = installed.client.bulk(index=name, body=lines, params={"refresh": "true"})["items"]
        assert {item["index"]["status"] for item in items} <= {200, 201}
        return {one.id for one in cluster.scan(name, ids=ids) if one.vector is None}

    cluster.create(name, ["title", "text"], packaged)
    try:
        update_pipelines(installed.installer.cluster, name)
        installed.client.indices.put_settings(index=name, body=settings)
        assert until(lambda: write("1", "2", "3") == set())
        with frozen(installed.processes()):
            # the stale vector of a replaced document is removed, too
            assert write("3", "4", "5") == {"3", "4", "5"}
        assert until(lambda: write("6") == set())
        assert verify(cluster, packaged, name, repair=True).repaired == 3
    finally:
        cluster.drop(name)
        remove_pipelines(installed.installer.cluster, name)


def test_a_query_that_must_be_encoded_is_refused_by_a_frozen_service(installed: Installed) -> None:
    neural = {"neural": {"resift_vector": {"query_text": "fire", "k": 5}}}
    with frozen(installed.processes()), pytest.raises(TransportError, match="Read timed out") as refused:
        installed.hits("hybrid", query={"hybrid": {"queries": [FIRE, neural]}})
    assert refused.value.status_code == 500


def test_the_guard_disables_a_frozen_service(installed: Installed, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    guard = Guard(installed.installer.cluster, installed.name, installed.installer.url)
    monkeypatch.setattr("resift.plugin.operations.install._SECONDS", 30.0)
    assert guard.check() == ""
    with frozen(installed.processes()), monkeypatch.context() as impatient:
        impatient.setattr("resift.plugin.operations.install._SECONDS", 1.0)
        told += [guard.check() for _ in range(3)]
        assert not installed.is_rewritten()
        another = Guard(installed.installer.cluster, installed.name, installed.installer.url)
        assert [another.check(), another.check()] == ["", ""]  # the models are disabled already
    # The rows also test the connection from the cluster to the service, for 20 seconds if the service is frozen.
    rows = {row.name: row.state for row in status_rows(installed.installer) if row.kind == "remote model"}
    assert {rows[f"{installed.name}-{which}"] for which in ("rewrite", "rerank", "query")} == {"switched off"}
    assert rows[f"{installed.name}-embed"] == "ok"
    told.append(guard.check())
    url = installed.installer.url
    off, on = f"{url} does not answer: searches go on without it", f"{url} answers: searches are rewritten"
    assert told == ["", off, "", on]
    assert until(installed.is_rewritten)


class Health(BaseHTTPRequestHandler):
    """A health check that says whether the service is overloaded."""

    overloaded = True

    def do_GET(self) -> None:
        """Answer."""
        body = json.dumps({"status": "ok", "overloaded": self.overloaded}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Log nothing."""


def test_a_guard_lets_an_overloaded_service_rest(installed: Installed, monkeypatch: pytest.MonkeyPatch) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Health) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setattr("resift.plugin.operations.install._SECONDS", 30.0)
        guard = Guard(installed.installer.cluster, installed.name, url)
        assert [guard.check() for _ in range(5)] == ["", "", "", "", f"{url} is overloaded: searches go on without it"]
        assert not installed.is_rewritten()
        monkeypatch.setattr(Health, "overloaded", False)
        assert [guard.check() for _ in range(10)] == [""] * 9 + [f"{url} answers: searches are rewritten"]
        server.shutdown()
    assert until(installed.is_rewritten)


def test_the_guard_restores_what_it_disabled(installed: Installed) -> None:
    told, stop = list[str](), Stop()

    def end(step: Step) -> None:
        told.append(step.text)
        stop.requested = True

    with frozen(installed.processes()):
        Guard(installed.installer.cluster, installed.name, installed.installer.url).watch(end, stop)
    url = installed.installer.url
    assert told == [f"{url} does not answer: searches go on without it", f"the guard stops: searches call {url}"]
    assert until(installed.is_rewritten)


def test_a_service_that_starts_anew_leaves_no_search_without_an_answer(installed: Installed) -> None:
    os.kill(installed.server.process.pid, signal.SIGHUP)
    for _ in range(20):
        installed.is_rewritten()
    assert until(installed.is_rewritten)


def test_another_model_rewrites_nothing(installed: Installed) -> None:
    client, name = installed.client, f"resift-{installed.name}"
    pipeline = client.transport.perform_request("GET", f"/_search/pipeline/{name}")[name]
    pipeline["request_processors"][0]["ml_inference"]["model_config"]["model"] = "0123456789abcdef"
    client.transport.perform_request("PUT", f"/_search/pipeline/{name}-other", body=pipeline)
    try:
        assert installed.hits(f"{installed.name}-other") == installed.hits("_none")
    finally:
        client.transport.perform_request("DELETE", f"/_search/pipeline/{name}-other")


def other_hits(installed: Installed, *known: list[tuple[str, float]], **body: Any) -> list[tuple[str, float]]:
    """Repeat a search through the pipeline of the index until its hits differ from known hits, and return them.

    The cluster does not wait long for the service, and the service does not wait long for a session. On a busy machine,
    the first searches may therefore go on without one of them.
    """
    found: list[tuple[str, float]] = []

    def is_other() -> bool:
        found[:] = installed.hits(installed.name, **body)
        return found not in known

    assert until(is_other)
    return found


def test_searches_work_while_the_session_file_is_locked(installed: Installed) -> None:
    marks = {"session": "anna", "index": installed.name, "query": "fire", "relevant": ["3"]}
    assert installed.server.request("POST /v1/feedback", marks).status == 200
    asked = {"ext": {"ml_inference": {"query": "fire", "session": "anna"}}}
    plain = installed.hits("_none")
    in_session = other_hits(installed, plain, other_hits(installed, plain), **asked)
    with closing(sqlite3.connect(installed.store, isolation_level=None)) as db:
        db.execute("BEGIN EXCLUSIVE")
        assert until(lambda: installed.hits(installed.name, **asked) == in_session)


def test_a_closed_index_of_sessions_costs_only_the_session(
    cluster: OpenSearchEngine,
    opensearch_url: str,
    packaged: Model,
    installed: Installed,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("_TIMEOUT", "SEARCH_TIMEOUT"):  # a closed index is reported at once
        monkeypatch.setattr(f"resift.plugin.opensearch.sessions.{name}", 30.0)
    sessions = f"resift_sessions_{uuid.uuid4().hex[:12]}"
    config = Config(store=opensearch_url, session_index=sessions)
    client = create_app(config, engine=cluster, model=packaged).test_client()
    post(client, "/v1/feedback", session="anna", index=installed.name, query="fire", relevant=["3"])
    body = {"query": FIRE, "ext": {"ml_inference": {"session": "anna"}}}
    try:
        with_session = post(client, "/v1/rewrite", index=installed.name, body=body)
        cluster.client.indices.close(index=sessions)
        without = post(client, "/v1/rewrite", index=installed.name, body=body)
    finally:
        cluster.client.indices.delete(index=sessions)
    alone = post(client, "/v1/rewrite", index=installed.name, body={"query": FIRE})
    assert with_session["body"]["rescore"] != without["body"]["rescore"] == alone["body"]["rescore"]
    assert "closed" in without["resift"]["reason"]
