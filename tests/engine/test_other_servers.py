"""What is said where the address of a cluster is another server's."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from listening import running

from resift.errors import EngineError, NotFound
from resift.service.connect import open_engine

PAGE = b"<html><head><title>It works</title></head><body><h1>A page</h1></body></html>"


class OtherServer(BaseHTTPRequestHandler):
    """Answers with what its class says."""

    status, kind, body = 200, "text/html", PAGE

    def do_GET(self) -> None:
        """Answer."""
        self.send_response(self.status)
        self.send_header("Content-Type", self.kind)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    do_POST = do_GET

    def log_message(self, format: str, *arguments: object) -> None:
        """Log nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    """Where such a server listens."""
    with running(ThreadingHTTPServer(("127.0.0.1", 0), OtherServer)) as url:
        yield url


@pytest.mark.parametrize(
    ("status", "kind", "body", "told"),
    [
        (200, "text/html", PAGE, ""),
        (404, "text/html", PAGE, "It works A page"),
        (404, "application/json", b'{"error": {"code": "no_such_path", "message": "Not Found"}}', "no_such_path"),
        (413, "text/html", PAGE, "A page"),
    ],
)
def test_other_servers_are_named_in_the_error(
    url: str, status: int, kind: str, body: bytes, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("status", status), ("kind", kind), ("body", body)):
        monkeypatch.setattr(OtherServer, name, value)
    engine = open_engine(url)
    with pytest.raises(EngineError, match="is not from OpenSearch") as caught:
        engine.info("news")
    assert told in caught.value.message
    assert "<" not in caught.value.message
    assert caught.value.status == (status if status != 200 else 503)
    assert "cluster" in str(caught.value.expected)
    engine.close()


@pytest.mark.parametrize("body", [b"{}", b'{"error": "no handler found for uri"}'])
def test_other_answers_of_opensearch_are_its_own(url: str, body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("status", 404), ("kind", "application/json"), ("body", body)):
        monkeypatch.setattr(OtherServer, name, value)
    engine = open_engine(url)
    with pytest.raises(NotFound):
        engine.info("news")
    engine.close()
