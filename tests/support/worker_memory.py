"""A server with one worker process, and measurements of its memory."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ports import free_port


class Server:
    """Run ``resift serve --workers 1`` at a port.

    Attributes:
        worker: The process id of the worker.
    """

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self.process, self.port = process, port
        self.worker = 0

    def wait(self) -> None:
        """Wait until the server answers."""
        for _ in range(600):
            try:
                assert self.post("/v1/embeddings", {"input": "fire"})[0] == 200
                break
            except OSError:
                assert self.process.poll() is None
                time.sleep(0.1)
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        if children.exists():
            self.worker = int(children.read_text().split()[0])

    def post(self, path: str, body: Any) -> tuple[int, Any]:
        """Return the status and JSON response. ``body`` is JSON text, or a value to serialize."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", raw, headers)
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    def send(self, raw: bytes) -> bytes:
        """Send bytes, and return the response until the connection is closed."""
        answer = b""
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as connection:
            connection.sendall(raw)
            while part := connection.recv(65536):
                answer += part
        return answer

    def memory(self, kind: str = "VmRSS") -> int:
        """Return the worker's memory in bytes: ``VmRSS`` (now), or ``VmHWM`` (maximum since :meth:`forget_peak`)."""
        for line in Path(f"/proc/{self.worker}/status").read_text().splitlines():
            if line.startswith(kind):
                return int(line.split()[1]) * 1024
        raise AssertionError(kind)

    def forget_peak(self) -> None:
        """Reset VmHWM."""
        Path(f"/proc/{self.worker}/clear_refs").write_text("5")


@contextmanager
def serving(folder: Path, **settings: str) -> Iterator[Server]:
    """Start a server over the embedded engine ``resift.db`` in a folder. ``settings`` are environment variables."""
    port = free_port()
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("RESIFT_", "OPENSEARCH_"))}
    command = [sys.executable, "-m", "resift", "serve", "--workers", "1", "--port", str(port)]
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, env={**inherited, **settings}, stdout=log, stderr=log)
    try:
        server = Server(process, port)
        server.wait()
        yield server
    finally:
        process.terminate()
        process.wait(30)
