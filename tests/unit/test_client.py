"""Tests of ``resift.rewrite``, the client of the service."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest

import resift

BODY: dict[str, Any] = {"query": {"match": {"text": "wing"}}}


class Service(BaseHTTPRequestHandler):
    """A server that answers every request with the same status and body.

    Attributes:
        clients: The address of the client's end of the connection, for each request.
    """

    protocol_version = "HTTP/1.1"  # keeps connections open
    status, body = 200, b'{"body": {}, "resift": {"rewritten": false, "outcome": "nothing_to_add", "reason": ""}}'
    clients: ClassVar[list[Any]]

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
        server.daemon_threads = True  # a thread waits for the next request of a connection
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("RESIFT_URL", f"http://127.0.0.1:{server.server_port}")
        yield Recorder
        server.shutdown()


def rewritten() -> dict[str, Any]:
    return resift.rewrite("papers", BODY, session="anna", timeout=60)


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
