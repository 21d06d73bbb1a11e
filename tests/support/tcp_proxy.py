"""A TCP proxy in a separate process, which tests freeze and kill by signals to simulate failing nodes.

python tests/support/tcp_proxy.py PORT TARGET_HOST TARGET_PORT
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import suppress
from urllib.parse import urlsplit

from ports import free_port


class Proxy:
    """A second address of a server, which can be killed, frozen and restarted.

    Args:
        target: The URL of the server.
    """

    def __init__(self, target: str) -> None:
        self.port = free_port()
        parts = urlsplit(target)
        self.target = (str(parts.hostname), str(parts.port))
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        """Start to forward connections, always on the same port."""
        command = [sys.executable, "-S", __file__, str(self.port), *self.target]  # needs no installed package
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        self.process.stdout.readline()

    def freeze(self) -> None:
        """Accept connections without answering, like a machine that is swapping or paused."""
        os.kill(self.process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Resume after :meth:`freeze`."""
        os.kill(self.process.pid, signal.SIGCONT)

    def kill(self) -> None:
        """Stop at once. New connections are refused."""
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(2**16):
            writer.write(data)
            await writer.drain()
    writer.close()


async def _serve(port: int, host: str, target: int) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection(host, target)
        except OSError:
            writer.close()
            return
        await asyncio.gather(_copy(reader, back), _copy(there, writer))

    server = await asyncio.start_server(connected, "127.0.0.1", port)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
