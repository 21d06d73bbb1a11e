"""Tests of request ids: their sources, the requests that carry them, and the logs."""

from __future__ import annotations

import json
import logging
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import urllib3
from clock import Clock
from flask.testing import FlaskClient
from served import JSON, Client, serving
from service_app import config as config
from service_app import plain as plain

from resift import Model
from resift.contracts.documents import Document
from resift.contracts.engine import REQUEST_ID
from resift.embedded.engine import SqliteEngine
from resift.errors import BadInput
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.reranker import Config, create_app
from resift.reranker.request_log import JsonLines, TextLines

NEW = re.compile("[0-9a-f]{32}")


def test_the_callers_id_comes_back(plain: FlaskClient) -> None:
    for headers in (
        {"X-Request-Id": "r-1"},
        {"X-Opaque-Id": "r-1"},
        {"X-Opaque-Id": "r-1", "X-Request-Id": "another"},
        {"X-Opaque-Id": "two words", "X-Request-Id": "r-1"},
    ):
        assert plain.get("/healthz", headers=headers).headers["X-Request-Id"] == "r-1"
    assert REQUEST_ID.get() is None  # the thread may serve other requests


@pytest.mark.parametrize("id", ["", "two words", "x" * 129, "ü", 'a"b c', "\x7f"])
def test_a_request_without_a_valid_id_gets_an_id(plain: FlaskClient, id: str) -> None:
    found = {plain.get("/healthz", headers={"X-Opaque-Id": id}).headers["X-Request-Id"] for _ in range(2)}
    assert len(found) == 2
    assert all(NEW.fullmatch(one) for one in found)


def test_errors_name_the_request(plain: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> None:
    headers = {"X-Opaque-Id": "r-2"}
    for answer in (
        plain.post("/v1/search", json={}, headers=headers),
        plain.get("/nothing", headers=headers),
        plain.delete("/v1/search", headers=headers),
        plain.get("/healthz", headers={**headers, "Host": "evil.example"}),
    ):
        assert answer.status_code >= 400
        assert answer.get_json()["error"]["request_id"] == answer.headers["X-Request-Id"] == "r-2"


def test_an_error_inside_is_logged_with_its_request(
    plain: FlaskClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(plain.application.extensions["resift"].engine, "ping", lambda: {}["nothing"])
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(JsonLines().format(record))  # type: ignore[method-assign]
    logging.getLogger("resift").addHandler(handler)
    try:
        answer = plain.get("/readyz", headers={"X-Opaque-Id": "r-3"})
    finally:
        logging.getLogger("resift").removeHandler(handler)
    assert (answer.status_code, answer.get_json()["error"]["request_id"]) == (500, "r-3")
    (line,) = map(json.loads, lines)
    assert line["request_id"] == "r-3"
    assert line["level"] == "error"
    assert line["logger"] == "resift.reranker.app"
    assert line["message"] == "request to /readyz failed"
    assert "KeyError: 'nothing'" in line["trace"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"])


def test_text_lines_end_with_the_request() -> None:
    record = logging.LogRecord("resift", logging.WARNING, "", 0, "slow %s", ("disk",), None)
    assert TextLines().format(record).endswith("[WARNING] slow disk")
    REQUEST_ID.set("r-4")
    try:
        assert TextLines().format(record).endswith("[WARNING] slow disk [request r-4]")
        record.request_id = "r-5"
        assert json.loads(JsonLines().format(record))["request_id"] == "r-5"
    finally:
        REQUEST_ID.set(None)


@pytest.mark.parametrize("line_break", ["\n", "\r", "\x0b", "\x85", "\u2028"])
def test_a_quoted_text_cannot_forge_or_fill_the_log(line_break: str) -> None:
    text = f"x{line_break}[2026-01-01 00:00:00 +0000] [1] [ERROR] forged"
    record = logging.LogRecord("resift", logging.WARNING, "", 0, "no analyzer [%s]", (text,), None)
    assert len(TextLines().format(record).splitlines()) == len(JsonLines().format(record).splitlines()) == 1
    assert "[ERROR] forged]" in TextLines().format(record)
    record.args = ("x" * 1_000_000,)
    for formatter in (TextLines(), JsonLines()):
        assert 10_000 < len(formatter.format(record)) < 11_000


def test_the_setting() -> None:
    assert Config.from_environment({"RESIFT_LOG": "json"}).log == "json"
    with pytest.raises(BadInput, match="log is 'xml'"):
        Config(log="xml")


def test_a_served_log_is_lines_of_json(tmp_path: Path) -> None:
    with serving(tmp_path, "--workers", "1", RESIFT_LOG="json") as server:
        with Client(server.port) as client:
            client.send(b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nX-Opaque-Id: r-6\r\n", JSON)
            answer = client.send(b'Content-Length: 15\r\n\r\n{"input": "aa"}').answer()
            assert answer is not None
            assert answer.status == 200
            client.send(b"GET /nothing HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: r-7\r\n\r\n")
            answer = client.answer()
            assert answer is not None
            assert answer.json()["error"]["request_id"] == "r-7"
        with Client(server.port) as client:  # a request that is not HTTP is refused before it reaches the application
            answer = client.send(b"GET /healthz HTTP/1.1\r\nX-Opaque-Id: r-8\r\nTransfer-Encoding: x\r\n\r\n").answer()
            assert answer is not None
            assert answer.json()["error"]["request_id"] == "r-8"
        server.process.terminate()
        _, written = server.process.communicate(timeout=60)
    said = [json.loads(line) for line in written.splitlines()]
    assert sum(one["message"].startswith("No keys: everyone on this machine") for one in said) == 1
    assert all({"time", "level", "logger", "message"} <= set(one) for one in said)
    answered = {one.get("request_id"): one for one in said if one["message"] == "answered"}
    first, second = answered["r-6"], answered["r-7"]
    assert (first["method"], first["path"], first["status"]) == ("POST", "/v1/embeddings", 200)
    assert (second["path"], second["status"]) == ("/nothing", 404)
    assert first["seconds"] > 0


def test_warnings_of_opensearch_do_not_break_lines_of_json(
    cluster: OpenSearchEngine, opensearch_url: str, tmp_path: Path
) -> None:
    index = f"resift-test-{uuid.uuid4().hex[:8]}"
    cluster.client.index(index=index, id="1", body={"text": "fire"}, refresh=True)
    # OpenSearch warns of the object format of indices_boost, which is deprecated.
    body = {"query": {"match": {"text": "fire"}}, "indices_boost": {index: 2}}
    content = json.dumps({"index": index, "query": body}).encode()
    try:
        with serving(tmp_path, "--workers", "1", RESIFT_LOG="json", RESIFT_ENGINE=opensearch_url) as server:
            with Client(server.port) as client:
                client.send(b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\n", JSON)
                answer = client.send(b"Content-Length: %d\r\n\r\n" % len(content), content).answer()
            server.process.terminate()
            _, written = server.process.communicate(timeout=60)
    finally:
        cluster.drop_if_exists(index)
    assert answer is not None
    assert answer.status == 200
    assert all(json.loads(line)["message"] for line in written.splitlines())


@contextmanager
def listening(target: str) -> Iterator[tuple[str, list[Any]]]:
    """Return a second address of a node, and a list of the headers of the requests sent to it."""
    heard: list[Any] = []
    pool = urllib3.PoolManager()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            heard.append(self.headers)
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {"Content-Type": self.headers.get("Content-Type", "application/json")}
            answer = pool.request(self.command, f"{target}{self.path}", body=body, headers=headers)
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.headers["Content-Type"])
            self.send_header("Content-Length", str(len(answer.data)))
            self.end_headers()
            self.wfile.write(b"" if self.command == "HEAD" else answer.data)

        do_POST = do_PUT = do_HEAD = do_GET

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", heard
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        pool.clear()


def test_opensearch_receives_the_request_id(opensearch_url: str, model: Model, tmp_path: Path) -> None:
    direct, index = OpenSearchEngine(opensearch_url), "resift-test-request-ids"
    direct.drop_if_exists(index)
    direct.create(index, ["text"], model)
    documents = [Document("1", {"text": "bush fire"}, model.encode_one("bush fire"))]
    assert direct.bulk(index, documents) == []
    try:
        with listening(opensearch_url) as (url, heard):
            engine = OpenSearchEngine(url)
            settings = Config(engine=url, store=str(tmp_path / "sessions.db"))
            client = create_app(settings, engine=engine, model=model).test_client()
            body = {"index": index, "query": "fire", "session": "s"}
            for id in ("r-9", "r-10"):
                heard.clear()
                assert client.post("/v1/search", json=body, headers={"X-Opaque-Id": id}).status_code == 200
                told = {headers["X-Opaque-Id"] for headers in heard}
                assert told <= {id, None}  # background requests have no id
                assert id in told
            heard.clear()
            for headers in ({"X-Request-Id": "r-11"}, {}):  # its log lines would differ with each request
                assert client.post("/v1/search", json=body, headers=headers).status_code == 200
            assert {one["X-Opaque-Id"] for one in heard} == {None}
            engine.close()
    finally:
        direct.drop_if_exists(index)
        direct.close()


def test_what_is_remembered_is_for_all_ids(
    model: Model, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = SqliteEngine(str(tmp_path / "e.db"))
    engine.create("docs", ["text"], model)
    app = create_app(Config(engine=engine.path, store=str(tmp_path / "s.db")), engine=engine, model=model)
    infos = app.extensions["resift"].infos._cache
    monkeypatch.setattr(infos, "clock", clock)  # an entry lives for five seconds
    for id in ("r-11", "r-12"):
        body = {"index": "docs", "query": "fire"}
        assert app.test_client().post("/v1/search", json=body, headers={"X-Opaque-Id": id}).status_code == 200
    assert infos.get(("docs", "None")) is not None
    engine.close()
