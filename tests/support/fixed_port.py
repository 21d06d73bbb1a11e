"""A fixed port, which commands of the documentation use."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest


@contextmanager
def alone_at(port: int) -> Iterator[None]:
    """Reserve a port of this machine inside a ``with`` block. Processes of ``pytest -n`` take turns.

    The test is skipped if another program uses the port.
    """
    fcntl = pytest.importorskip("fcntl", reason="takes turns by file locks")
    lock_file = Path(tempfile.gettempdir()) / f"resift-port-{port}-{os.getuid()}.lock"
    with lock_file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with closing(socket.socket()) as client:
            if not client.connect_ex(("127.0.0.1", port)):
                pytest.skip(f"needs the port {port}, which is in use")
        yield
