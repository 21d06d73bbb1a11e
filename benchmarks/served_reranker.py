"""``resift serve`` in processes of its own, which a benchmark kills, freezes, and reads the figures of."""

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
    """``resift serve`` over the cluster ``engine``, which keeps its sessions in ``sessions``, an index of it."""

    folder: Path
    engine: str
    sessions: str
    workers: int = 2
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, or start it again, and wait until it answers."""
        options = ["--port", str(self.port), "--engine", self.engine, "--workers", str(self.workers)]
        settings = {"RESIFT_STORE": self.engine, "RESIFT_SESSION_INDEX": self.sessions}
        kept = {name: value for name, value in os.environ.items() if not name.startswith("RESIFT_")}
        with (self.folder / f"reranker-{self.port}.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "resift", "serve", *options],
                cwd=self.folder,
                env=kept | settings,
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
        raise RuntimeError(f"the reranker at {self.url} does not answer")

    def signal(self, number: int) -> None:
        """Send a signal to all of its processes."""
        if self.process is not None:
            os.killpg(self.process.pid, number)

    def freeze(self) -> None:
        """Have it answer nothing and close no connection."""
        self.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Go on after :meth:`freeze`."""
        self.signal(signal.SIGCONT)

    def kill(self) -> None:
        """End all of its processes at once."""
        if self.process is not None and self.process.poll() is None:
            self.signal(signal.SIGKILL)
            self.process.wait()

    def kill_worker(self) -> None:
        """End one of its processes, as a machine that is out of memory does; the others go on."""
        os.kill(self.processes()[0], signal.SIGKILL)

    def processes(self) -> list[int]:
        """The numbers of the processes that answer."""
        assert self.process is not None
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(number) for number in children.read_text().split()]

    def ask(self, path: str, body: Any = None, timeout: float = 30) -> tuple[int, Any]:
        """Status and answer, JSON where it is such, on a connection of its own; a body is posted."""
        parts = urlsplit(self.url)
        with contextlib.closing(http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=timeout)) as one:
            text = None if body is None else json.dumps(body)
            one.request("GET" if body is None else "POST", path, text, {"Content-Type": "application/json"})
            answer = one.getresponse()
            raw = answer.read()
        is_json = (answer.headers.get("Content-Type") or "").startswith("application/json")
        return answer.status, json.loads(raw) if is_json else raw.decode()

    def counted(self, metric: str, **labels: str) -> int:
        """What /metrics has counted under a name and some labels, for all of its processes together."""
        wanted = {f'{name}="{value}"' for name, value in labels.items()}
        rows = _LINE.findall(self.ask("/metrics")[1])
        return round(sum(float(value) for name, had, value in rows if name == metric and wanted <= set(had.split(","))))
