"""The reranker under gunicorn: the model is loaded once and shared by all workers."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any


@contextmanager
def shared_metrics() -> Iterator[None]:
    """Let the metrics of all workers be counted together.

    This must begin before prometheus_client is imported, which reads the folder's name then.
    """
    with tempfile.TemporaryDirectory(prefix="resift-metrics-") as folder:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
        try:
            yield
        finally:
            del os.environ["PROMETHEUS_MULTIPROC_DIR"]


def run(settings: Mapping[str, str], host: str, port: int, workers: int) -> None:
    """Serve with this many ``workers`` (processes) until a signal ends it.

    ``settings`` are RESIFT_* variables that win over the environment's. Raises BadInput, ModelNotFound or CorruptModel
    where these cannot be served.
    """
    os.environ.update(settings)
    _application(host, port, workers).run()


def _application(host: str, port: int, workers: int) -> Any:
    from gunicorn.app.base import BaseApplication
    from prometheus_client import multiprocess

    from resift.reranker import create_app

    class Application(BaseApplication):  # type: ignore[misc]
        """gunicorn, configured by code; ``preload_app`` loads the model before the workers fork."""

        def load_config(self) -> None:
            options = {
                "bind": f"{host}:{port}",
                "workers": workers,
                "worker_class": "gthread",
                "threads": 8,
                "preload_app": True,
                "keepalive": 30,
                "control_socket_disable": True,
                "child_exit": lambda server, worker: multiprocess.mark_process_dead(worker.pid),  # type: ignore[no-untyped-call]
            }
            for name, value in options.items():
                # older versions of gunicorn lack some of these
                if name in self.cfg.settings:
                    self.cfg.set(name, value)

        def load(self) -> Any:
            return create_app()

    return Application()
