"""Processes of ``resift serve`` that a benchmark can kill, freeze, and query."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from ports import free_port

_LINE = re.compile(r"^(resift_\w+?_total)\{(.*)\} ([\d.e+]+)$", re.MULTILINE)


@dataclass
class ServiceProcess:
    """A process of ``resift serve``.

    Attributes:
        folder: Folder for logs.
        engine: Address of the cluster.
        sessions: Name of the session index.
        workers: Number of worker processes.
        port: Port.
        process: The main process, None before :meth:`start`.
    """

    folder: Path
    engine: str
    sessions: str
    workers: int = 2
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        """Address of the service."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start the service (again), and wait until it responds."""
        options = ["--port", str(self.port), "--engine", self.engine, "--workers", str(self.workers)]
        settings = {"RESIFT_STORE": self.engine, "RESIFT_SESSION_INDEX": self.sessions}
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("RESIFT_")}
        with (self.folder / f"reranker-{self.port}.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "resift", "serve", *options],
                cwd=self.folder,
                env=inherited | settings,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError, http.client.HTTPException):
                if self.ask("/healthz", timeout=5)[0] == 200:
                    return
            time.sleep(0.1)
        raise RuntimeError(f"the service at {self.url} does not respond")

    def signal(self, number: int) -> None:
        """Send a signal to all processes of the service."""
        if self.process is not None:
            os.killpg(self.process.pid, number)

    def freeze(self) -> None:
        """Stop all processes, so that the service neither responds nor closes connections."""
        self.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Continue after :meth:`freeze`."""
        self.signal(signal.SIGCONT)

    def kill(self) -> None:
        """Kill all processes."""
        if self.process is not None and self.process.poll() is None:
            self.signal(signal.SIGKILL)
            self.process.wait()

    def kill_worker(self) -> None:
        """Kill a worker process, as Linux does when memory runs out."""
        os.kill(self.processes()[0], signal.SIGKILL)

    def processes(self) -> list[int]:
        """Return the ids of the worker processes."""
        assert self.process is not None
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(number) for number in children.read_text().split()]

    def ask(self, path: str, body: Any = None, timeout: float = 30) -> tuple[int, Any]:
        """Send a request on a new connection: POST with a body, otherwise GET.

        Returns:
            The status and the response, parsed if it is JSON.
        """
        parts = urlsplit(self.url)
        with contextlib.closing(
            http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=timeout)
        ) as connection:
            text = None if body is None else json.dumps(body)
            connection.request("GET" if body is None else "POST", path, text, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            raw = answer.read()
        is_json = (answer.headers.get("Content-Type") or "").startswith("application/json")
        return answer.status, json.loads(raw) if is_json else raw.decode()

    def counted(self, metric: str, **labels: str) -> int:
        """Return the sum of a counter of /metrics over all processes, for the given labels."""
        pairs = {f'{name}="{value}"' for name, value in labels.items()}
        rows = _LINE.findall(self.ask("/metrics")[1])
        return round(sum(float(value) for name, had, value in rows if name == metric and pairs <= set(had.split(","))))
