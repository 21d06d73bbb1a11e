"""Free ports for servers in tests."""

from __future__ import annotations

import os
import random
import socket
from contextlib import suppress

# Below the range from which operating systems choose ephemeral ports, so that other tests and their connections cannot
# take a port before a slow server uses it. For the same reason, each of up to four processes of pytest-xdist has ports
# of its own, and returns a port only once. The order is random, because other test suites may run on the same machine.
_PROCESSES = 4
_PROCESS = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _PROCESSES
_UNUSED = list(range(20_000 + _PROCESS, 32_000, _PROCESSES))
random.SystemRandom().shuffle(_UNUSED)


def free_ports(count: int) -> list[int]:
    """Return different free ports."""
    return [free_port() for _ in range(count)]


def free_port() -> int:
    """Return a free port."""
    while True:
        port = _UNUSED.pop()
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
