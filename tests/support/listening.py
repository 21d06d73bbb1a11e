"""Serve an application on a free port that the nodes of a cluster can reach."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from flask import Flask
from werkzeug.serving import make_server


@contextmanager
def listening(app: Flask, host: str) -> Iterator[str]:
    """Serve an application, and return its URL for nodes that know this machine as ``host``."""
    server = make_server("127.0.0.1" if host == "127.0.0.1" else "0.0.0.0", 0, app, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://{host}:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
