"""Stop early: after a signal, nothing more is read, and everything that was read is still indexed."""

from __future__ import annotations

import io
import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
_POLL_SECONDS = 0.2  # how often a wait checks whether a stop was requested


class Stop:
    """A flag that asks a running operation to stop early. Readers and waiting threads check the flag regularly.

    The class uses no lock. A signal handler can set the flag at any time, and could block forever if it had to wait for
    a lock of the interrupted thread.

    Attributes:
        requested: Whether a stop was requested.
        signal: The number of the signal that requested the stop, or None.
    """

    def __init__(self) -> None:
        self.requested = False
        self.signal: int | None = None

    def wait(self, seconds: float) -> None:
        """Sleep for a number of seconds, or until a stop is requested."""
        deadline = time.monotonic() + seconds
        while not self.requested and (remaining := deadline - time.monotonic()) > 0:
            time.sleep(min(remaining, _POLL_SECONDS))

    @contextmanager
    def at_signals(self) -> Iterator[None]:
        """Return a context manager that requests a stop when the process receives SIGINT, SIGTERM or SIGHUP.

        A second signal raises KeyboardInterrupt. Signals that the process ignored before remain ignored. At the end,
        the earlier signal handlers are restored. The context manager can only be used in the main thread.
        """

        def request(number: int, _: Any) -> None:
            self.requested, self.signal = True, number
            for handled in previous:
                signal.signal(handled, signal.default_int_handler)

        handlers = {number: signal.getsignal(number) for number in _SIGNALS}
        previous = {number: handler for number, handler in handlers.items() if handler != signal.SIG_IGN}
        for number in previous:
            signal.signal(number, request)
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)


class _StoppableStream(io.RawIOBase):
    """A readable stream around a pipe or terminal. It ends when a stop is requested, even if no data arrives.

    Args:
        descriptor: The file descriptor of the pipe or terminal.
        stop: The flag that requests the stop.
    """

    def __init__(self, descriptor: int, stop: Stop) -> None:
        self._descriptor, self._stop = descriptor, stop

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read available bytes into a buffer. Return the number of bytes, which is 0 at the end or after a stop."""
        while not self._stop.requested:
            # A blocking read would continue after a signal, so read only when data is available.
            if select.select([self._descriptor], [], [], _POLL_SECONDS)[0]:
                return os.readv(self._descriptor, [buffer])
        return 0


def stoppable(stream: BinaryIO, stop: Stop) -> BinaryIO:
    """Wrap a pipe or terminal in a stream that ends when a stop is requested, even if no data arrives.

    Objects without a file descriptor, such as ``io.BytesIO``, are returned unchanged.

    Args:
        stream: The stream to wrap. After the call, read only from the returned stream.
        stop: The flag that requests the stop.
    """
    try:
        descriptor = stream.fileno()
    except OSError:  # not a file of the operating system, as in tests
        return stream
    if sys.platform == "win32":  # select supports only sockets there
        return stream
    return io.BufferedReader(_StoppableStream(descriptor, stop), 2**16)
