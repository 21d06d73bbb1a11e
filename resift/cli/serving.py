"""``resift serve``: the reranker under gunicorn, the model loaded once and shared by all workers."""

from __future__ import annotations

import os
import select
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

STAY_MILLISECONDS = 500


@contextmanager
def shared_metrics() -> Iterator[None]:
    """Let all workers' metrics be counted together. prometheus_client reads the folder's name when it is imported."""
    with tempfile.TemporaryDirectory(prefix="resift-metrics-") as folder:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
        try:
            yield
        finally:
            del os.environ["PROMETHEUS_MULTIPROC_DIR"]


def run(settings: Mapping[str, str], host: str, port: int, workers: int) -> None:
    """Serve until a signal ends it. ``settings`` are RESIFT_* variables that win over the environment's."""
    os.environ.update(settings)
    _application(host, port, workers).run()


def _worker() -> type[Any]:
    """gunicorn's threaded worker, in which connections in use keep their threads, up to half of them, while nobody else
    waits for one. Each request is otherwise handed from the thread that polls to one that answers, and back.
    """
    from gunicorn.workers.gthread import ThreadWorker

    class Worker(ThreadWorker):  # type: ignore[misc]
        """See above."""

        def init_process(self) -> None:
            self.staying = threading.Semaphore(self.cfg.threads // 2)
            super().init_process()

        def handle(self, conn: Any) -> Any:
            kept = super().handle(conn)
            if kept is True and self.staying.acquire(blocking=False):
                try:
                    waiting = select.poll()
                    waiting.register(conn.sock, select.POLLIN)
                    while kept is True and self._stays() and waiting.poll(STAY_MILLISECONDS):
                        kept = super().handle(conn)
                finally:
                    self.staying.release()
            return kept

        def _stays(self) -> bool:
            return bool(self.alive and self.tpool._work_queue.empty())

    return Worker


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
                "worker_class": _worker(),
                "threads": 8,
                "preload_app": True,
                "keepalive": 30,
                "control_socket_disable": True,
                "child_exit": lambda server, worker: multiprocess.mark_process_dead(worker.pid),  # type: ignore[no-untyped-call]
            }
            for name, value in options.items():
                if name in self.cfg.settings:
                    self.cfg.set(name, value)

        def load(self) -> Any:
            return create_app()

    return Application()
