"""Tests of the health check of a service: another program at its address must not end a command."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

from resift.plugin.operations.install import Guard
from resift.plugin.operations.service_status import ServedModel, read_health, served_model, service_rows
from resift.plugin.operations.status_row import StatusRow

CLUSTER: Any = None  # no request is sent
HEAD = b"HTTP/1.1 200 OK\r\nDate: Sun, 29 Nov 2026 12:00:00 GMT\r\nConnection: close\r\n"
OTHER = "the answer is not from a Resift service"
ANSWERS = {
    "SSH banner": (b"SSH-2.0-\x1b[31mOpenSSH\r\n", f"{OTHER}: BadStatusLine('SSH-2.0-\\x1b[31mOpenSSH\\r\\n')"),
    "truncated": (HEAD + b"Content-Length: 9\r\n\r\n{}", f"{OTHER}: IncompleteRead(2 bytes read, 7 more expected)"),
    "text": (HEAD + b"\r\nhello", f"{OTHER}: JSONDecodeError('Expecting value: line 1 column 1 (char 0)')"),
    "list": (HEAD + b"\r\n[]", OTHER),
    "error": (b"HTTP/1.1 404 Not Found\r\nConnection: close\r\n\r\n", "HTTP status 404: Not Found"),
}


@contextmanager
def answering(answer: bytes) -> Iterator[str]:
    """Serve the same bytes to every client, and yield the URL."""

    def serve() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:  # the socket was shut down
                return
            with connection:
                connection.recv(65536)
                connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}"
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.mark.parametrize(("answer", "error"), ANSWERS.values(), ids=list(ANSWERS))
def test_another_service_at_the_address_has_no_model(answer: bytes, error: str) -> None:
    with answering(answer) as url:
        assert (read_health(url).state, read_health(url).error) == (None, error)
        assert served_model(url) is None
        fix = f"resift serve --port {urlsplit(url).port} ({error})"
        assert service_rows(url) == [StatusRow("service", url, "no answer here", fix)]
        assert Guard(CLUSTER, "resift", url).check() == ""  # the first missing answer changes nothing


def test_an_object_of_another_service_has_no_model() -> None:
    with answering(HEAD + b'\r\n{"status": "ok", "model": {}}') as url:
        assert read_health(url).state == {"status": "ok", "model": {}}
        assert served_model(url) is None
        fix = f"resift serve --port {urlsplit(url).port} ({OTHER})"
        assert service_rows(url) == [StatusRow("service", url, "no answer here", fix)]


def test_the_model_of_a_service_is_read() -> None:
    state = {"status": "ok", "version": "0.0.1", "model": "resift-en", "model_hash": "0123"}
    with answering(HEAD + b"\r\n" + json.dumps(state).encode()) as url:
        assert served_model(url) == ServedModel("resift-en", "0123")
        service, clock = service_rows(url)
    assert service.state.startswith("0.0.1, ")
    assert (clock.kind, clock.name) == ("clock", url)


def test_an_answer_without_a_date_is_not_from_resift() -> None:
    state = b'{"version": "0.0.1", "model": "resift-en", "model_hash": "0123"}'
    with answering(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + state) as url:
        assert [row.state for row in service_rows(url)] == ["no answer here"]
