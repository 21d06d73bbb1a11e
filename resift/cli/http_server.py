"""The processes of ``resift serve``: gunicorn, configured by code, with workers of our own kind."""

from __future__ import annotations

import gc
import logging
import os
import signal
import socket
import sys
from typing import Any

import numpy as np
from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter
from gunicorn.glogging import Logger
from prometheus_client import multiprocess

from resift.cli.failures import INTERRUPTED
from resift.cli.http_worker import ENDING
from resift.errors import BadInput
from resift.plugin.addresses import is_cluster, without_credentials
from resift.reranker import Config, create_app
from resift.reranker.request_log import formatter, log_to_stderr


class HttpServer(BaseApplication):  # type: ignore[misc]
    """Serves on the address of a socket that is bound; ``workers`` processes share the model's memory.

    The application is made when this is run. It is configured by the environment.
    """

    def __init__(self, bound: socket.socket, workers: int) -> None:
        self._descriptor, self._workers = bound.detach(), workers
        super().__init__()

    def load_config(self) -> None:
        """Tell gunicorn its settings."""
        options = {
            "bind": f"fd://{self._descriptor}",
            "workers": self._workers,
            "worker_class": "resift.cli.http_worker.HttpWorker",
            "preload_app": True,  # the model is loaded before the workers fork
            "control_socket_disable": True,
            "logger_class": _Log,
            "child_exit": lambda server, worker: multiprocess.mark_process_dead(worker.pid),  # type: ignore[no-untyped-call]
        }
        for name, value in options.items():
            # older versions of gunicorn lack some of these
            if name in self.cfg.settings:
                self.cfg.set(name, value)

    def load(self) -> Any:
        """The application."""
        config = Config.from_environment()
        log_to_stderr(config.log)
        app = create_app(config)
        model = app.extensions["resift"].model
        told = f"{_shown(config.engine)}, sessions in {_shown(config.store)}, model {model.name} ({model.hash})"
        # gunicorn's log, since ours tells of faults alone
        logging.getLogger("gunicorn.error").info("Documents in %s", told)
        # The frequent words' rows, which explanations compare: what is in memory now is shared by all workers.
        app.extensions["resift"].model.nearest_words(np.zeros(model.dim))
        # Else each full collection would go through all of it, copy what is shared, and have searches wait for 80 ms.
        gc.collect()
        gc.freeze()
        return app

    def run(self) -> None:
        """Serve until a signal ends it. Raises SystemExit, of 130 after Ctrl-C, and what ``create_app`` raises."""
        arbiter = _Arbiter(self)
        try:
            arbiter.run()
        except SystemExit as end:
            sys.exit(INTERRUPTED if arbiter.interrupted else end.code)


class _Log(Logger):  # type: ignore[misc]
    """gunicorn's log, whose lines look like all others."""

    def setup(self, cfg: Any) -> None:
        """Set up what gunicorn says, which waitress says too."""
        super().setup(cfg)
        for handler in self.error_log.handlers:
            handler.setFormatter(formatter(Config.from_environment().log))


class _Arbiter(Arbiter):  # type: ignore[misc]
    """gunicorn's parent process, which says afterwards whether Ctrl-C ended it."""

    interrupted = False

    def handle_int(self) -> None:
        self.interrupted = True
        super().handle_int()

    def spawn_worker(self) -> None:
        """Start a worker. A signal that ends it waits until it listens to signals itself (HttpWorker.init_signals).

        Before that, a new process has the parent's handlers, which put signals into a queue that it never reads: a stop
        then waited half a minute for it.
        """
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        try:
            super().spawn_worker()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)


def _shown(address: str) -> str:
    """Where something is kept, for people: URLs without passwords, or a file's whole path."""
    return without_credentials(address) if is_cluster(address) else os.path.abspath(address)


def bind(host: str, port: int) -> socket.socket:
    """A TCP socket with this address, on which nothing listens yet. Raises BadInput where there can be none.

    gunicorn would try five times, for five seconds, and say so in ten lines.
    """
    bare = host.strip("[]")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(bare, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise BadInput(
            f"{host} is not an address: {reason}", value=host, expected="a name or address of this machine"
        ) from None
    try:
        # connections of a server that has just ended may linger on the same port
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        bound.close()
        message = f"cannot listen on {host} port {port}: {error.strerror}"
        raise BadInput(message, value=port, expected="an address of this machine and a free port") from None
    return bound
