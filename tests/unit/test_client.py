"""Tests of ``resift.rewrite``, the client of the service."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest

import resift
from resift.errors import ResiftError, Unauthorized

BODY: dict[str, Any] = {"query": {"match": {"text": "wing"}}}


class Service(BaseHTTPRequestHandler):
    """A server that answers every request with the same status and body.

    Attributes:
        clients: The address of the client's end of the connection, for each request.
        port: The port of the server.
    """

    protocol_version = "HTTP/1.1"  # keeps connections open
    status, body = 200, b'{"body": {}, "resift": {"rewritten": false, "outcome": "nothing_to_add", "reason": ""}}'
    clients: ClassVar[list[Any]]
    port: ClassVar[int]

    def do_POST(self) -> None:
        """Answer."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self.clients.append(self.client_address)
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Log nothing."""


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Service]]:
    """Start the server, and let ``resift.rewrite`` send requests to it."""

    class Recorder(Service):
        clients: ClassVar[list[Any]] = []

    with ThreadingHTTPServer(("127.0.0.1", 0), Recorder) as server:
        Recorder.port = server.server_port
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


def test_errors_of_the_service_are_raised(service: type[Service]) -> None:
    error = {"code": "unauthorized", "message": "no API key", "expected": "a key"}
    service.status, service.body = 401, json.dumps({"error": error}).encode()
    with pytest.raises(Unauthorized, match="no API key") as caught:
        rewritten()
    assert caught.value.expected == "a key"
    service.body = b'{"error": {"code": "from_a_later_version", "message": "no"}}'
    with pytest.raises(ResiftError, match="no"):
        rewritten()


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


@pytest.mark.parametrize("timeout", [0, -1, "soon", True])
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
