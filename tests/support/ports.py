"""Free ports for servers of the tests."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack

# Below those that a system gives to whoever asks for any: a server that takes a while to start still finds its own
# free then, whatever other tests and their connections do meanwhile.
_ASKED_FOR = range(20_000, 32_000)
_RANDOM = random.SystemRandom()  # tests that run side by side, with the same seeds, are to draw different ones


def free_ports(count: int) -> list[int]:
    """Different ports that nothing uses."""
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
    """A port that nothing uses."""
    return free_ports(1)[0]
