"""Run HTTP servers in threads of the tests' process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import HTTPServer

from flask import Flask
from werkzeug.serving import make_server


@contextmanager
def running(server: HTTPServer) -> Iterator[str]:
    """Let a server answer requests inside a ``with`` block, and yield its URL on this machine.

    A server checks 20 times a second whether it must stop. By default, stopping a server takes up to half a second.
    """
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def listening(app: Flask, host: str = "127.0.0.1") -> Iterator[str]:
    """Serve an application on a free port, and yield its URL for nodes that know this machine as ``host``."""
    server = make_server("127.0.0.1" if host == "127.0.0.1" else "0.0.0.0", 0, app, threaded=True)
    with running(server):
        yield f"http://{host}:{server.server_port}"
