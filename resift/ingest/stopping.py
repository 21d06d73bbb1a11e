"""Ending early: at a signal nothing more is read, and what was read is still indexed."""

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
_SECONDS = 0.2


class Stop:
    """Whether to end early: ``requested``, and ``signal``, the number of the signal that asked for it, or None.

    Whoever reads ends then. It holds no lock, which a signal handler could find taken by the very thread that it
    interrupted.
    """

    def __init__(self) -> None:
        self.requested = False
        self.signal: int | None = None

    def wait(self, seconds: float) -> None:
        """Sleep for so long, or until a stop is requested."""
        deadline = time.monotonic() + seconds
        while not self.requested and (left := deadline - time.monotonic()) > 0:
            time.sleep(min(left, _SECONDS))

    @contextmanager
    def at_signals(self) -> Iterator[None]:
        """Note the first SIGINT, SIGTERM or SIGHUP of the block here; another one raises KeyboardInterrupt.

        Signals that are ignored stay so. The block must run in the main thread.
        """

        def note(number: int, _: Any) -> None:
            self.requested, self.signal = True, number
            for each in before:
                signal.signal(each, signal.default_int_handler)

        before = {each: signal.getsignal(each) for each in _SIGNALS if signal.getsignal(each) != signal.SIG_IGN}
        for each in before:
            signal.signal(each, note)
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)


class _Stoppable(io.RawIOBase):
    """A pipe or terminal that seems to end when a stop is requested, even while nothing comes."""

    def __init__(self, descriptor: int, stop: Stop) -> None:
        self._descriptor, self._stop = descriptor, stop

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._stop.requested:
            # A read that waits goes on waiting after a signal was noted, so it begins only where there is something.
            if select.select([self._descriptor], [], [], _SECONDS)[0]:
                return os.readv(self._descriptor, [buffer])
        return 0


def stoppable(stream: BinaryIO, stop: Stop) -> BinaryIO:
    """The bytes of a pipe or terminal, which end where ``stop`` is requested; other streams are given back.

    Whoever reads it must take no bytes from ``stream`` itself.
    """
    try:
        descriptor = stream.fileno()
    except OSError:  # not a file of the system, as in tests
        return stream
    if sys.platform == "win32":  # select there is for sockets alone
        return stream
    return io.BufferedReader(_Stoppable(descriptor, stop), 2**16)
