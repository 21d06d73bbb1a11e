"""Start ``resift serve`` in separate processes, and clients that misbehave."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ports import free_port

JSON = b"Content-Type: application/json\r\n"


@dataclass
class Answer:
    """An HTTP response: its status, and its body up to its length or the connection's end."""

    status: int
    body: bytes
    head: bytes

    def json(self) -> Any:
        """Return the body as JSON."""
        return json.loads(self.body)


class Client:
    """A raw connection to the server, from a given address of this machine."""

    def __init__(self, port: int, small_window: bool = False, address: str = "127.0.0.1") -> None:
        self.socket = socket.socket()
        if small_window:  # small buffers, so that data for a client that does not read cannot be buffered
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.settimeout(30)
        self._rest = b""
        try:
            self.socket.bind((address, 0))
            self.socket.connect(("127.0.0.1", port))
        except OSError:
            self.socket.close()
            raise

    def send(self, *parts: bytes) -> Client:
        """Send bytes."""
        self.socket.sendall(b"".join(parts))
        return self

    def answer(self) -> Answer | None:
        """Return the next response; None if the connection is closed."""
        while b"\r\n\r\n" not in self._rest:
            if not self._receive():
                return None
        head, _, self._rest = self._rest.partition(b"\r\n\r\n")
        lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        length = int(lengths[0].split(b":")[1])
        while len(self._rest) < length and self._receive():
            pass
        body, self._rest = self._rest[:length], self._rest[length:]
        return Answer(int(head.split()[1]), body, head)

    def _receive(self) -> bool:
        try:
            data = self.socket.recv(65536)
        except ConnectionResetError:  # the server closed the connection with unread data
            return False
        self._rest += data
        return bool(data)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()


@dataclass
class Server:
    """A running ``resift serve``."""

    port: int
    process: subprocess.Popen[str]

    def request(self, head: str, body: Any = None, address: str = "127.0.0.1") -> Answer:
        """Return the response to a request on a new connection. ``head`` is its method and path."""
        data = b"" if body is None else json.dumps(body).encode()
        with Client(self.port, address=address) as client:
            client.send(f"{head} HTTP/1.1\r\nHost: localhost\r\n".encode(), JSON if data else b"")
            answer = client.send(b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(data), data).answer()
        assert answer is not None
        return answer


@contextmanager
def serving(folder: Path, *options: str, port: int = 0, **settings: str) -> Iterator[Server]:
    """Start ``resift serve`` with options and RESIFT_* settings in a folder, by default on a free port.

    It is stopped by SIGTERM.
    """
    port = port or free_port()
    command = [sys.executable, "-m", "resift", "serve", "--port", str(port), *options]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RESIFT_")}
    environment.pop("OPENSEARCH_URL", None)
    process = subprocess.Popen(command, cwd=folder, env={**environment, **settings}, stderr=subprocess.PIPE, text=True)
    server = Server(port, process)
    try:
        _await(server)
        yield server
    finally:
        process.terminate()
        _, log = process.communicate(timeout=60)
    assert "Traceback" not in log, log


def _await(server: Server) -> None:
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline:
        try:
            if server.request("GET /healthz").status == 200:
                return
        except OSError:
            assert server.process.poll() is None, "ended"
            time.sleep(0.05)
    raise AssertionError("not ready")
