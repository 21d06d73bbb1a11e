"""Tests of ``resift.rewrite``, ``resift.mark`` and ``resift.forget``, the client of the service."""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from uuid import UUID

import numpy as np
import pytest
from clock import Clock
from opensearchpy.serializer import JSONSerializer

import resift
from resift.circuit_breaker import FAILURES, PAUSE
from resift.client import _breaker
from resift.errors import (
    BadInput,
    NotFound,
    ResiftError,
    ServiceUnavailable,
    SessionsUnavailable,
    Unauthorized,
)

BODY: dict[str, Any] = {"query": {"match": {"text": "wing"}}}


class Service(BaseHTTPRequestHandler):
    """A server that answers every request with the same status and body.

    Attributes:
        clients: The address of the client's end of the connection, for each request.
        requests: The method, path, key and JSON body of each request.
        port: The port of the server.
    """

    protocol_version = "HTTP/1.1"  # keeps connections open
    status, body = 200, b'{"body": {}, "resift": {"rewritten": false, "outcome": "nothing_to_add", "reason": ""}}'
    clients: ClassVar[list[Any]]
    requests: ClassVar[list[tuple[str, str, str | None, Any]]]
    port: ClassVar[int]

    def do_POST(self) -> None:
        """Answer."""
        content = self.rfile.read(int(self.headers["Content-Length"] or 0))
        self.clients.append(self.client_address)
        self.requests.append(
            (self.command, self.path, self.headers["Authorization"], json.loads(content) if content else None)
        )
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    do_DELETE = do_POST

    def log_message(self, format: str, *arguments: object) -> None:
        """Log nothing."""


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Service]]:
    """Start the server, and let ``resift.rewrite`` send requests to it."""

    class Recorder(Service):
        clients: ClassVar[list[Any]] = []
        requests: ClassVar[list[tuple[str, str, str | None, Any]]] = []

    with ThreadingHTTPServer(("127.0.0.1", 0), Recorder) as server:
        Recorder.port = server.server_port
        _breaker.cache_clear()  # an earlier test may have used the same port
        server.daemon_threads = True  # a thread waits for the next request of a connection
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        monkeypatch.setenv("RESIFT_URL", f"http://127.0.0.1:{server.server_port}")
        yield Recorder
        server.shutdown()


def rewritten() -> dict[str, Any]:
    return resift.rewrite("papers", BODY, session="anna", timeout=60)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, b"<html>It works</html>"),
        (200, b"[1]"),
        (200, b'{"acknowledged": true}'),
        (200, b'{"body": [], "resift": {"rewritten": true}}'),
        (200, b'{"body": {}, "resift": {"rewritten": "yes"}}'),
        (302, b""),
        (401, b'{"error": {"type": "security_exception"}}'),
        (404, b"null"),
        (405, b'{"error": "Incorrect HTTP method", "status": 405}'),
        (502, b"<html>Bad Gateway</html>"),
    ],
)
def test_the_answer_of_another_server_only_causes_a_warning(
    service: type[Service], status: int, body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    service.status, service.body = status, body
    assert rewritten() is BODY
    assert f"/127.0.0.1:{service.port} answers with status {status}" in caplog.text
    assert ("but not as Resift" in caplog.text) == (status != 502)


def refuse(service: type[Service], status: int, code: str, message: str, expected: str | None = None) -> None:
    """Let the server refuse all requests with an error of Resift."""
    error = {"code": code, "message": message, "expected": expected}
    service.status, service.body = status, json.dumps({"error": error}).encode()


@pytest.mark.parametrize(
    ("status", "code", "remedy"),
    [
        (401, "unauthorized", "Set RESIFT_API_KEY"),
        (403, "forbidden", "resift keys create NAME --scopes embed"),
        (403, "host_not_allowed", "set RESIFT_HOSTS"),
        (413, "too_large", "set RESIFT_MAX_BODY"),
        (404, "from_a_later_version", ""),
    ],
)
def test_a_refused_search_keeps_its_body_and_logs_an_error(
    service: type[Service], status: int, code: str, remedy: str, caplog: pytest.LogCaptureFixture
) -> None:
    refuse(service, status, code, "no", "something else")
    body = {**BODY, "ext": {"resift": {"alpha": 0.2}}}
    assert resift.rewrite("papers", body, session="anna", timeout=60) == BODY
    [record] = caplog.records
    assert record.levelno == logging.ERROR
    assert "searching without the session: no (expected something else)" in record.getMessage()
    assert remedy in record.getMessage()


@pytest.mark.parametrize(
    ("report", "level", "message"),
    [
        ({"outcome": "index_unavailable", "reason": "no papers"}, logging.ERROR, "no papers. Check its name"),
        ({"outcome": "overloaded", "reason": "busy"}, logging.WARNING, "searching without the session: busy"),
        (
            {"outcome": "session_not_loaded", "reason": "not loaded", "warning": True},
            logging.WARNING,
            "searching without the session: not loaded",
        ),
        (
            {"outcome": "in_part", "reason": "the unknown key 'bogus'", "warning": True},
            logging.WARNING,
            "the search of 'papers' is not rewritten completely: the unknown key 'bogus'",
        ),
    ],
)
def test_problems_in_the_answer_are_logged(
    service: type[Service], report: dict[str, Any], level: int, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    service.body = json.dumps({"body": {}, "resift": {"rewritten": False, **report}}).encode()
    assert rewritten() is BODY
    [record] = caplog.records
    assert record.levelno == level
    assert message in record.getMessage()


def test_other_outcomes_are_not_logged(service: type[Service], caplog: pytest.LogCaptureFixture) -> None:
    service.body = b'{"body": {}, "resift": {"rewritten": false, "outcome": "sorted", "reason": "a sort"}}'
    assert rewritten() is BODY
    assert not caplog.records


class Timestamp(datetime):
    """A time like those of pandas."""


@pytest.mark.parametrize(
    "value",
    [
        Decimal("19.99"),
        date(2025, 1, 31),
        datetime(2025, 1, 31, 12),
        Timestamp(2025, 1, 31),
        UUID(int=7),
        np.float32(0.5),
        np.int64(3),
        np.array([0.5, 2]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_are_sent_as_opensearch_py_sends_them(service: type[Service], value: Any) -> None:
    body = {"query": {"range": {"price": {"gte": value}}}}
    resift.rewrite("papers", body, session="anna", timeout=60)
    ((_, _, _, sent),) = service.requests
    assert sent["body"]["query"] == json.loads(JSONSerializer().dumps(body))["query"]


def test_a_body_of_the_wrong_type_is_refused() -> None:
    with pytest.raises(BadInput, match="body is not a search body"):
        resift.rewrite("papers", "wing", session="anna")  # type: ignore[arg-type]


def test_a_service_that_fails_is_called_rarely_and_logged_once(
    service: type[Service], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    breaker, clock = _breaker(f"http://127.0.0.1:{service.port}"), Clock()
    monkeypatch.setattr(breaker, "_clock", clock)
    service.status, body = 503, service.body
    for _ in range(10):
        assert rewritten() is BODY
    assert len(service.requests) == FAILURES
    assert [record.getMessage().partition("127")[0] for record in caplog.records] == [
        *["searching without the session: http://"] * (FAILURES - 1),
        "http://",
    ]
    assert "failed 3 times in a row" in caplog.text
    caplog.clear()
    with pytest.raises(ServiceUnavailable, match="not called now"):
        resift.mark("papers", "wing", session="anna", relevant=["1"])
    clock.now += PAUSE
    for _ in range(2):
        assert rewritten() is BODY
    assert len(service.requests) == FAILURES + 1
    assert not caplog.records
    clock.now += PAUSE
    service.status, service.body = 200, body
    for _ in range(2):
        assert rewritten() is BODY
    assert len(service.requests) == FAILURES + 3
    assert [record.getMessage() for record in caplog.records] == [f"http://127.0.0.1:{service.port} answers again"]


def test_failures_that_are_not_in_a_row_do_not_stop_calls(service: type[Service]) -> None:
    for status in (503, 503, 200) * FAILURES:
        service.status = status
        rewritten()
    assert len(service.requests) == 3 * FAILURES


@pytest.mark.parametrize("code", ["engine_unavailable", "sessions_unavailable", "too_busy"])
def test_a_failure_that_the_service_reports_does_not_stop_other_calls(service: type[Service], code: str) -> None:
    refuse(service, 503, code, "no")
    for _ in range(2 * FAILURES):
        with pytest.raises(ResiftError, match="no"):
            resift.mark("papers", "wing", session="anna", clicked=["1"], timeout=60)
    del service.status, service.body
    assert rewritten() is BODY
    assert len(service.requests) == 2 * FAILURES + 1


def test_a_mark_is_one_request(service: type[Service], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RESIFT_API_KEY", "rsf_1")
    summary = {"session": "anna", "created": 1.0, "expires": 2.0, "steps": 1}
    service.body = json.dumps(summary).encode()
    marks = {"relevant": ["a"], "irrelevant": ("b",), "clicked": [7], "skipped": {"c"}, "neutral": iter("d")}
    assert resift.mark("papers", "wing", session="anna", **marks, scores={"e": 0.5}, timeout=60) == summary
    sent = {**marks, "irrelevant": ["b"], "clicked": ["7"], "skipped": ["c"], "neutral": ["d"], "scores": {"e": 0.5}}
    content = {"index": "papers", "query": "wing", "session": "anna", **sent}
    assert service.requests == [("POST", "/v1/feedback", "Bearer rsf_1", content)]
    with pytest.raises(BadInput, match="relevant is not a list"):
        resift.mark("papers", "wing", session="anna", relevant="a")
    for scores in (["e"], 0.5):
        with pytest.raises(BadInput, match="scores is not a mapping"):
            resift.mark("papers", "wing", session="anna", scores=scores)  # type: ignore[arg-type]


def test_a_session_is_deleted(service: type[Service]) -> None:
    service.body = b'{"session": "anna", "deleted": true}'
    assert resift.forget("anna/1", key="rsf_1", timeout=60)
    assert service.requests == [("DELETE", "/v1/sessions/anna%2F1", "Bearer rsf_1", None)]
    refuse(service, 404, "session_not_found", "no session 'anna'")
    assert not resift.forget("anna", timeout=60)
    with pytest.raises(BadInput, match="session is not the id"):
        resift.forget("")
    with pytest.raises(BadInput, match="lone surrogate"):
        resift.forget("anna\ud800")


@pytest.mark.parametrize(
    ("status", "code", "error"),
    [
        (401, "unauthorized", Unauthorized),
        (404, "not_found", NotFound),
        (503, "sessions_unavailable", SessionsUnavailable),
        (418, "from_a_later_version", ResiftError),
    ],
)
def test_marks_and_deletions_that_are_refused_raise_errors(
    service: type[Service], status: int, code: str, error: type[ResiftError]
) -> None:
    refuse(service, status, code, "no", "a key")
    for call in (
        lambda: resift.mark("papers", "wing", session="anna", clicked=["1"], timeout=60),
        lambda: resift.forget("anna", timeout=60),
    ):
        with pytest.raises(error, match="no") as caught:
            call()
        assert (caught.value.status, caught.value.expected) == (status, "a key")


@pytest.mark.parametrize("body", [b"<html>It works</html>", b'{"acknowledged": true}'])
def test_marks_and_deletions_that_another_server_answers_raise_errors(service: type[Service], body: bytes) -> None:
    service.body = body
    with pytest.raises(ServiceUnavailable, match="not as Resift"):
        resift.mark("papers", "wing", session="anna", clicked=["1"], timeout=60)
    with pytest.raises(ServiceUnavailable, match="not as Resift"):
        resift.forget("anna", timeout=60)


def test_a_service_that_is_switched_off_is_not_called(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("RESIFT_URL", "off")
    assert resift.rewrite("papers", {**BODY, "ext": {"resift": {"alpha": 0.2}}}, session="anna") == BODY
    assert resift.mark("papers", "wing", session="anna", clicked=["1"]) is None
    assert resift.forget("anna") is False
    assert not caplog.records


def test_the_service_decides_which_body_is_searched(service: type[Service], caplog: pytest.LogCaptureFixture) -> None:
    service.body = b'{"body": {"size": 1}, "resift": {"rewritten": true, "outcome": "rewritten"}}'
    assert rewritten() == {"size": 1}
    assert not caplog.text
    service.body = b'{"body": {"size": 1}, "resift": {"rewritten": false, "outcome": "failed", "reason": "failed: x"}}'
    assert rewritten() is BODY
    assert "searching without the session: x" in caplog.text


@pytest.mark.parametrize("key", ["rsk_secret\n", "rsk_se\ncret", "rsk_sécret€"])
def test_a_malformed_key_is_not_logged(service: type[Service], key: str, caplog: pytest.LogCaptureFixture) -> None:
    assert resift.rewrite("papers", BODY, session="anna", key=key, timeout=60) is BODY
    assert "cret" not in caplog.text
    is_valid = key.strip() == "rsk_secret"  # a line end behind the key does no harm
    assert ("the API key contains" in caplog.text, bool(service.clients)) == (not is_valid, is_valid)


@pytest.mark.parametrize("argument", [{"key": 5}, {"key": b"rsk_1"}, {"url": 5}])
def test_an_argument_of_the_wrong_type_only_causes_an_error_message(
    service: type[Service], argument: Any, caplog: pytest.LogCaptureFixture
) -> None:
    assert resift.rewrite("papers", BODY, session="anna", timeout=60, **argument) is BODY
    [record] = caplog.records
    assert record.levelno == logging.ERROR
    assert "rsk_1" not in caplog.text
    assert not service.clients
    with pytest.raises(BadInput):
        resift.mark("papers", "wing", session="anna", clicked=["1"], **argument)


@pytest.mark.parametrize("section", ["x", [1], 5])
def test_the_service_reports_a_malformed_section_of_options(service: type[Service], section: Any) -> None:
    body = {**BODY, "ext": {"resift": section}}
    assert resift.rewrite("papers", body, session="anna", timeout=60) == BODY
    [(_, _, _, content)] = service.requests
    assert content["body"] == body


@pytest.mark.parametrize("timeout", [0, -1, "soon", True, float("inf"), float("nan")])
def test_an_invalid_timeout_only_causes_a_warning(
    service: type[Service], timeout: Any, caplog: pytest.LogCaptureFixture
) -> None:
    assert resift.rewrite("papers", BODY, session="anna", timeout=timeout) is BODY
    assert f"timeout is {timeout!r}" in caplog.text
    assert not service.clients


@pytest.mark.skipif(not hasattr(os, "fork"), reason="only Unix forks")
def test_a_forked_process_opens_connections_of_its_own(service: type[Service]) -> None:
    rewritten()
    rewritten()
    assert len(set(service.clients)) == 1
    child = os.fork()
    if not child:
        try:
            rewritten()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    rewritten()
    of_parent, of_child = {*service.clients[:2], service.clients[3]}, service.clients[2]
    assert of_child not in of_parent
    assert len(of_parent) == 1
