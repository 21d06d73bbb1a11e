"""A TCP proxy in a process of its own, which a test stops as the operating system stops a node: by signals.

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
    """A second address of the server at ``target``, a URL; it can be killed, frozen, and brought back."""

    def __init__(self, target: str) -> None:
        self.port = free_port()
        parts = urlsplit(target)
        self.target = (str(parts.hostname), str(parts.port))
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        """Begin to answer, on the same port each time."""
        command = [sys.executable, __file__, str(self.port), *self.target]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        self.process.stdout.readline()

    def freeze(self) -> None:
        """Take connections and answer nothing, as a machine that swaps or a virtual one that is paused."""
        os.kill(self.process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Go on after :meth:`freeze`."""
        os.kill(self.process.pid, signal.SIGCONT)

    def kill(self) -> None:
        """End at once; connections are refused from now on."""
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
