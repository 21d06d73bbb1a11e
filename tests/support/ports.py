"""Free ports for servers in tests."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack

# Below the range from which operating systems choose ephemeral ports, so that other tests and their connections cannot
# take a port before a slow server uses it.
_ASKED_FOR = range(20_000, 32_000)
_RANDOM = random.SystemRandom()  # processes of pytest-xdist have the same random seed, and must choose different ports


def free_ports(count: int) -> list[int]:
    """Return different free ports."""
    with ExitStack() as taken:
        ports: list[int] = []
        while len(ports) < count:
            port = _RANDOM.choice(_ASKED_FOR)
            try:
                taken.enter_context(socket.create_server(("127.0.0.1", port)))
            except OSError:
                continue
            ports.append(port)
        return ports


def free_port() -> int:
    """Return a free port."""
    return free_ports(1)[0]
