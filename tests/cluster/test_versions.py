"""Tests of OpenSearch 2.19.1 from installing to uninstalling, and of other versions and products."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from cluster_snapshot import snapshot
from listening import running
from opensearchpy import OpenSearch
from secured_node import EVERYTHING, SecuredNode
from served import Server, serving
from waiting import until

from resift.cli.main import main
from resift.errors import UnsupportedCluster
from resift.plugin.cluster.client import Cluster
from resift.plugin.opensearch.client import supported_version
from resift.plugin.opensearch.engine import OpenSearchEngine

DOCUMENTS = [
    {"_id": "plant", "title": "Strike at the power plant", "text": "Workers stopped work over wages and job security."},
    {"_id": "air", "title": "Air strike", "text": "Warplanes bombed a camp; the army said that soldiers died."},
    {"_id": "bank", "title": "Bank staff to strike", "text": "The union says that employees want higher wages."},
    {"_id": "rocket", "title": "Rocket strike", "text": "Helicopters fired missiles at soldiers."},
    {"_id": "storm", "title": "Lightning strike", "text": "A storm set a barn on fire."},
]
STRIKE = {"multi_match": {"query": "strike", "fields": ["title", "text"]}}


@pytest.fixture(scope="module")
def old_node(secured_node: SecuredNode) -> Iterator[str]:
    """Yield a node of the older version, next to the node of the other tests, with a user who has all rights."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("OPENSEARCH_CA_CERTS", str(secured_node.folder / "ca.pem"))
        yield secured_node.as_user(EVERYTHING)


@pytest.fixture(scope="module")
def service(old_node: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Yield the address of ``resift serve`` for that node."""
    with serving(tmp_path_factory.mktemp("served"), "--engine", old_node) as server:
        yield server


def run(*arguments: str, status: int = 0) -> str:
    """Run a command, check its exit status, and return its output."""
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == status, result.output
    return result.output


def ids(hits: dict[str, Any]) -> list[str]:
    """Return the ids of the hits of a response."""
    return [hit["_id"] for hit in hits["hits"]["hits"]]


def assert_follows_session(
    client: OpenSearch, index: str, body: dict[str, Any], serve: Callable[[], dict[str, Any]]
) -> None:
    """Assert that a search through the pipeline of an index has the hits of the same search of the service.

    The service does not wait long for a session. On a busy machine, the first searches may therefore go on without the
    session.

    Args:
        client: The client of the cluster.
        index: The index.
        body: The search body, with the session.
        serve: Returns the response of ``/v1/search``.
    """

    def is_equal() -> bool:
        expected = {hit["_id"]: hit["_score"] for hit in serve()["hits"]["hits"]}
        hits = client.search(index=index, body=body, params={"search_pipeline": f"resift-{index}"})["hits"]["hits"]
        is_rewritten = all(hit.get("matched_queries") == ["resift"] for hit in hits)
        scores = {hit["_id"]: hit["_score"] for hit in hits}
        return is_rewritten and list(scores) == list(expected) and scores == pytest.approx(expected, rel=1e-6)

    assert until(is_equal)


@pytest.mark.usefixtures("here")
def test_from_installing_to_uninstalling(old_node: str, service: Server, tmp_path: Path) -> None:
    engine = OpenSearchEngine(old_node, timeout=60)
    before = snapshot(Cluster(engine))
    to = ("--engine", old_node)
    run("install", *to, "--yes", "--service", f"http://127.0.0.1:{service.port}")
    file = tmp_path / "documents.jsonl"
    file.write_text("".join(json.dumps(document) + "\n" for document in DOCUMENTS))
    run("index", str(file), *to, "--index", "news", "--fields", "title,text")
    assert "ok" in run("doctor", *to)

    marks = {"session": "anna", "index": "news", "query": "strike", "relevant": ["bank"], "irrelevant": ["air"]}
    assert service.request("POST /v1/feedback", marks).status == 200
    body = {"query": STRIKE, "ext": {"ml_inference": {"session": "anna"}}}
    client: OpenSearch = engine.client
    plain = client.search(index="news", body={"query": STRIKE})

    def serve(search: dict[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] = service.request("POST /v1/search", search).json()
        return answer

    asked = {"index": "news", "query": STRIKE, "session": "anna"}
    assert_follows_session(client, "news", body, lambda: serve(asked))
    assert ids(serve(asked))[0] == "bank" != ids(plain)[0]

    # a client's write through the ingest pipeline, and a write that leaves a stale vector
    client.index(index="news", id="late", body={"title": "Dockers on strike"}, params={"pipeline": "resift-ingest"})
    client.update(index="news", id="storm", body={"doc": {"text": "A ship sank."}}, params={"refresh": "true"})
    run("verify", "news", *to, status=3)
    run("verify", "news", *to, "--repair")
    run("verify", "news", *to)
    client.indices.delete(index="news")
    # of an index without index.knn, which stays unchanged
    client.indices.create(index="theirs", body={"mappings": {"properties": {"text": {"type": "text"}}}})
    for number, document in enumerate(DOCUMENTS):
        client.index(index="theirs", id=str(number), body={"text": document["text"]}, params={"refresh": "true"})
    there = client.indices.get(index="theirs")
    run("attach", "theirs", "--yes", *to)
    marks = {"session": "anna", "index": "theirs", "query": "strike", "relevant": ["0"]}
    assert service.request("POST /v1/feedback", marks).status == 200
    body = {"query": {"match_all": {}}, "ext": {"ml_inference": {"session": "anna", "query": "strike"}}}
    asked = {"index": "theirs", "query": {"query": {"match_all": {}}, "ext": body["ext"]}}
    assert_follows_session(client, "theirs", body, lambda: serve(asked))
    assert client.indices.get(index="theirs") == there
    run("detach", "theirs", "--yes", *to)
    client.indices.delete(index="theirs")
    run("uninstall", "--yes", *to)
    assert snapshot(Cluster(engine)) == before
    engine.close()


def test_attaching(old_node: str, here: Path) -> None:
    engine = OpenSearchEngine(old_node, timeout=60)
    client: OpenSearch = engine.client
    for index, knn in (("own", True), ("plain", False)):
        mapped = {"properties": {"text": {"type": "text"}}}
        client.indices.create(index=index, body={"settings": {"index.knn": knn}, "mappings": mapped})
        for number, document in enumerate(DOCUMENTS):
            client.index(index=index, id=str(number), body={"text": document["text"]}, params={"refresh": "true"})
    attach = ("--vectors", "--model", "resift-en", "--yes", "--engine", old_node)
    for index in ("own", "plain"):
        before = client.indices.get(index=index)[index]
        run("attach", index, *attach)
        run("verify", index, "--engine", old_node)
        # a knn_vector field in an index without index.knn would make its shards fail when the mapping changes
        client.index(index=index, id="new", body={"text": "new", f"field_of_{index}": 1}, params={"refresh": "true"})
        assert client.search(index=index, body={"query": {"match_all": {}}})["_shards"]["failed"] == 0
        run("detach", index, "--yes", "--engine", old_node)
        after = client.indices.get(index=index)[index]
        for field in ("resift_vector_int8", f"field_of_{index}"):
            del after["mappings"]["properties"][field]  # the vector field stays, without values
        assert {**after["mappings"], "_meta": {}} == {**before["mappings"], "_meta": {}}
        assert not after["mappings"].get("_meta")
        assert after["settings"] == before["settings"]
    client.indices.delete(index="own,plain")
    engine.close()


def answer(number: str, **version: str) -> dict[str, Any]:
    """Return the response to ``GET /`` of a cluster of some version."""
    return {"name": "n", "version": {"number": number, "lucene_version": "9.12.1", **version}}


@pytest.mark.parametrize("number", ["2.18.0", "2.19.1", "3.0.0-beta1", "3.6.0", "4.0.0", "7.10.2"])
def test_supported_versions_are_accepted(number: str) -> None:
    assert supported_version(answer(number, distribution="opensearch")) == f"opensearch {number}"


@pytest.mark.parametrize(
    ("info", "message"),
    [
        (answer("1.3.20", distribution="opensearch"), "OpenSearch 1.3.20 is too old"),
        (answer("2.17.1", distribution="opensearch"), "OpenSearch 2.17.1 is too old"),
        (answer("7.17.28", build_flavor="default"), "the server is Elasticsearch 7.17.28, not OpenSearch"),
        (answer("9.0.1", build_flavor="default"), "the server is Elasticsearch 9.0.1, not OpenSearch"),
        ({"version": "1"}, "the server is not OpenSearch"),
        ({}, "the server is not OpenSearch"),
    ],
)
def test_unsupported_versions_are_refused(info: dict[str, Any], message: str) -> None:
    with pytest.raises(UnsupportedCluster, match=re.escape(message)) as caught:
        supported_version(info)
    assert "2.18 or later" in str(caught.value.expected)


@pytest.fixture
def answering() -> Iterator[Callable[[dict[str, Any]], str]]:
    """Return a function that starts a server with a fixed JSON response, and returns its address."""
    given: dict[str, Any] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            data = json.dumps(given).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *arguments: Any) -> None:
            """Log nothing."""

    with running(HTTPServer(("127.0.0.1", 0), Handler)) as url:

        def serve(info: dict[str, Any]) -> str:
            given.update(info)
            return url

        yield serve


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("command", ["install", "uninstall"])
def test_commands_refuse_old_versions(answering: Callable[[dict[str, Any]], str], command: str) -> None:
    url = answering(answer("2.11.1", distribution="opensearch"))
    lines = run(command, "--engine", url, status=2).splitlines()
    assert lines[0].startswith("Error: OpenSearch 2.11.1 is too old")
    assert lines[1].startswith("  expected: OpenSearch 2.18 or later")


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("command", [("install",), ("doctor",), ("attach", "news", "--dry-run")])
def test_commands_recognise_elasticsearch(answering: Callable[[dict[str, Any]], str], command: tuple[str, ...]) -> None:
    url = answering(answer("8.15.0", build_flavor="default"))
    status = 3 if command == ("doctor",) else 2  # doctor reports the error as a row
    assert "the server is Elasticsearch 8.15.0, not OpenSearch" in run(*command, "--engine", url, status=status)
