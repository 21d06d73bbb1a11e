"""Tests of the search pipeline of an index: a body is sent and a body is returned, and searches fail open.

The service is replaced by a small HTTP server whose responses a test determines.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from engine_documents import documents
from opensearch_fixture import service_host

from resift import Model
from resift.plugin.cluster.install import Installer
from resift.plugin.cluster.installation import Installation
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.plugin.operations.doctor import status_rows
from resift.plugin.operations.status_row import StatusRow
from resift.reranker.api import escaped_text

BIG = 2**63 - 1
FIRE = {"multi_match": {"query": "fire", "fields": ["title", "text"]}}
RIVER = {"match": {"text": "river"}}
Answer = Callable[[dict[str, Any]], tuple[int, str]]  # the response of the server to a request: status and text


def rewritten(change: Callable[[dict[str, Any]], Any]) -> Answer:
    """Return a function that answers as ``/v1/rewrite``, with a changed body."""
    return lambda asked: (200, json.dumps({"body": escaped_text(json.dumps(change(asked["body"])).encode())}))


class Rewriter(ThreadingHTTPServer):
    """A server whose responses come from ``answer``, and that records its requests."""

    daemon_threads = True

    def __init__(self, host: str) -> None:
        super().__init__((host, 0), Handler)
        self.answer: Answer = rewritten(lambda body: body)
        self.asked: list[tuple[str, str | None, dict[str, Any]]] = []  # path, Authorization, body


class Handler(BaseHTTPRequestHandler):
    """Handler of the requests to a :class:`Rewriter`."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # otherwise the body of a response waits 40 ms for an acknowledgement
    server: Rewriter

    def do_POST(self) -> None:
        """Answer a request."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((self.path, self.headers["Authorization"], asked))
        status, text = self.server.answer(asked)
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest) -> Iterator[Rewriter]:
    """Yield the server at an address that the cluster reaches."""
    with Rewriter("127.0.0.1" if service_host(request.config) == "127.0.0.1" else "0.0.0.0") as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def rewriter(server: Rewriter) -> Rewriter:
    """Return the server without recorded requests, which returns bodies unchanged."""
    server.answer = rewritten(lambda body: body)
    server.asked.clear()
    return server


@pytest.fixture(scope="module")
def installed(
    cluster: OpenSearchEngine, packaged: Model, server: Rewriter, request: pytest.FixtureRequest
) -> Iterator[str]:
    """Yield the names of an installation with that server as its service, and of an index."""
    name = f"resift-{uuid.uuid4().hex[:8]}"
    cluster.create(name, ["title", "text"], packaged)
    assert cluster.bulk(name, documents(packaged)) == []
    for n, title in enumerate(['quotes " and \\ of ${body} $.body', "東京 é", "line\nbreak"]):
        document = {"title": title, "text": "river", "code": BIG - n}
        cluster.client.index(index=name, id=f"odd-{n}", body=document)
    cluster.refresh(name)
    address = f"http://{service_host(request.config)}:{server.server_port}"
    installer = Installer(cluster, Installation(name, packaged, ("title", "text"), address), "rsf_" + "k" * 43)
    installer.install()
    yield name
    installer.uninstall()
    cluster.drop(name)


def search(cluster: OpenSearchEngine, name: str, body: Any, pipeline: str | None = None) -> dict[str, Any]:
    """Return the response to a plain ``_search`` request through the index's pipeline, without its duration."""
    params = {"search_pipeline": pipeline or f"resift-{name}"}
    answer: dict[str, Any] = cluster.client.search(index=name, body=body, params=params)
    return {key: value for key, value in answer.items() if key != "took"}


def plainly(cluster: OpenSearchEngine, name: str, body: Any) -> dict[str, Any]:
    """Return the response of the engine without the pipeline."""
    return search(cluster, name, body, "_none")


BODIES: list[dict[str, Any]] = [
    {},
    {"query": FIRE, "ext": {"ml_inference": {"query": "fire", "session": "anna", "alpha": 0.5}}},
    {"query": {"term": {"code": BIG - 1}}, "sort": [{"code": "asc"}], "search_after": [BIG - 2]},
    {"query": {"range": {"code": {"gte": BIG - 1}}}, "fields": ["code"], "_source": False},
    {"query": {"match": {"title": 'quotes " and \\ of ${body} $.body'}}, "highlight": {"fields": {"title": {}}}},
    {"query": {"match": {"title": "東京 é \u2028 \x7f"}}, "version": True, "explain": True},
    {"query": {"match_phrase": {"title": "line\nbreak"}}, "track_total_hits": False},
    {"query": FIRE, "size": 0, "aggs": {"${x}": {"terms": {"field": "code", "size": 3}}}},
    {"suggest": {"s": {"text": "fier", "term": {"field": "text"}}}},
    {"query": FIRE, "script_fields": {"n": {"script": {"source": "'\"' + params.p", "params": {"p": '\\"${x}'}}}}},
    {"query": FIRE, "rescore": {"window_size": 3, "query": {"rescore_query": RIVER, "score_mode": "multiply"}}},
    {"query": {"bool": {"should": [FIRE, RIVER], "_name": "resift"}}, "min_score": 0.1, "from": 1, "size": 2},
]


@pytest.mark.parametrize("body", BODIES, ids=[", ".join(body) or "nothing" for body in BODIES])
def test_bodies_pass_through_the_pipeline_unchanged(
    cluster: OpenSearchEngine, installed: str, rewriter: Rewriter, body: dict[str, Any]
) -> None:
    assert search(cluster, installed, body) == plainly(cluster, installed, body)
    assert len(rewriter.asked) == 1


TEXTS = [
    "${parameters.body}",
    "river ${parameters.body} and ${parameters.index}",
    "${parameters.model}",
    "${parameters.other}",
    "${parameters.other:-river}",
    "$${parameters.model} $ $$ \\\\ \\$ \\u0024{parameters.model} $1",
    "${${parameters.model}}",
    "${body} ${body:-river} $${body}",
]


@pytest.mark.parametrize("text", TEXTS)
def test_what_stands_for_a_parameter_elsewhere_is_plain_text_in_a_query(
    cluster: OpenSearchEngine, installed: str, rewriter: Rewriter, text: str
) -> None:
    """ML Commons replaces the connector's parameters everywhere, even within the search body."""
    rewriter.answer = rewritten(lambda body: {**body, "size": 1})
    body = {"query": {"match": {"title": {"query": text, "_name": text}}}, "suggest": {text: BODIES[8]["suggest"]["s"]}}
    answer = search(cluster, installed, body)
    ((_, _, asked),) = rewriter.asked
    assert asked["body"]["query"]["match"]["title"]["query"] == text
    assert list(asked["body"]["suggest"]) == [text]
    assert answer == plainly(cluster, installed, {**body, "size": 1})


def test_the_service_is_told_index_and_model_and_what_it_answers_is_run(
    cluster: OpenSearchEngine, installed: str, rewriter: Rewriter, packaged: Model
) -> None:
    changes = {"query": RIVER, "size": 2, "aggs": {"n": {"max": {"field": "code"}}}}
    rewriter.answer = rewritten(lambda body: {**body, **changes})
    ext = {"ml_inference": {"session": "anna", "query": "fire"}}
    answer = search(cluster, installed, {"query": FIRE, "ext": ext, "size": 7, "_source": ["title"]})
    ((path, key, asked),) = rewriter.asked
    assert (path, key) == ("/v1/rewrite", "Bearer rsf_" + "k" * 43)
    assert (asked["index"], asked["model"]) == (installed, packaged.hash)
    assert asked["as_text"] is asked["hide_vectors"] is True
    assert (asked["body"]["ext"], asked["body"]["size"]) == (ext, 7)
    assert answer == plainly(cluster, installed, {**changes, "_source": ["title"]})
    assert answer["aggregations"] == {"n": {"value": float(BIG)}}


def test_pages_of_one_request_and_the_default_of_an_index(
    cluster: OpenSearchEngine, installed: str, rewriter: Rewriter
) -> None:
    rewriter.answer = rewritten(lambda body: {**body, "query": RIVER})
    wanted = plainly(cluster, installed, {"query": RIVER})["hits"]
    body = {"query": FIRE, "search_pipeline": f"resift-{installed}"}
    lines = [{"index": installed}, body, {"index": installed}, {"query": FIRE}]
    found = cluster.client.msearch(body=lines)["responses"]
    assert found[0]["hits"] == wanted != found[1]["hits"]
    setting = {"index.search.default_pipeline": f"resift-{installed}"}
    cluster.client.indices.put_settings(index=installed, body=setting)
    try:
        assert cluster.client.search(index=installed, body={"query": FIRE})["hits"] == wanted
    finally:
        cluster.client.indices.put_settings(index=installed, body=dict.fromkeys(setting))


WRONG: dict[str, Answer] = {
    "an error": lambda asked: (500, '{"error": {"code": "internal_error"}}'),
    "a refusal": lambda asked: (404, '{"error": {"code": "model_not_found"}}'),
    "too busy": lambda asked: (503, ""),
    "nothing": lambda asked: (200, ""),
    "no JSON": lambda asked: (200, "<html>"),
    "half of it": lambda asked: (200, '{"body": {"query": '),
    "a list": lambda asked: (200, "[]"),
    "no body": lambda asked: (200, "{}"),
    "a body of null": lambda asked: (200, '{"body": null}'),
    "a body of text": lambda asked: (200, '{"body": "fire"}'),
    "a body of a list": lambda asked: (200, '{"body": []}'),
    "an unknown query": rewritten(lambda body: {"query": {"nonsense": {}}}),
    "an unknown key": rewritten(lambda body: {**body, "nonsense": 1}),
}


@pytest.mark.parametrize("answer", WRONG.values(), ids=WRONG)
def test_a_wrong_answer_leaves_the_engines_own(
    cluster: OpenSearchEngine, installed: str, rewriter: Rewriter, answer: Answer
) -> None:
    rewriter.answer = answer
    body = {"query": FIRE, "aggs": {"n": {"max": {"field": "code"}}}}
    assert search(cluster, installed, body) == plainly(cluster, installed, body)
    assert rewriter.asked


def test_status_says_where_searches_fail_open(
    cluster: OpenSearchEngine, installed: str, rewriter: Rewriter, packaged: Model, request: pytest.FixtureRequest
) -> None:
    address = f"http://{service_host(request.config)}:{rewriter.server_port}"
    installer = Installer(cluster, Installation(installed, packaged, ("title", "text"), address))

    def row() -> StatusRow:
        return next(
            row for row in status_rows(installer) if (row.kind, row.name) == ("search pipeline", f"resift-{installed}")
        )

    assert (row().state, row().fix) == ("ok", "")
    asked = {"index": installed, "model": packaged.hash, "body": {}, "as_text": True, "hide_vectors": True}
    assert ("/v1/rewrite", "Bearer rsf_" + "k" * 43, asked) in rewriter.asked
    rewriter.answer = WRONG["a refusal"]
    assert row().state == "fails open"
    assert f"let the nodes reach {address}, or resift install --service URL" in row().fix
    assert "model_not_found" in row().fix
    rewriter.answer = lambda asked: (401, '{"error":{"code":"unauthorized","message":"this API key is unknown"}}')
    assert row().fix.startswith("resift install --key KEY, with an API key of the scope embed (")
