"""The gunicorn server of ``resift serve``, configured in code and with Resift's own worker class."""

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
from resift.reranker.access.requests import ApiKeys
from resift.reranker.request_log import log_formatter, log_to_stderr


class HttpServer(BaseApplication):  # type: ignore[misc]
    """A gunicorn server for the HTTP service, whose worker processes share one copy of the embedding model in memory.

    Call :meth:`run` to start the server. It then creates the Flask application, with settings from environment
    variables.

    Args:
        bound: The socket to listen on. It must already be bound to an address.
        workers: The number of worker processes.
    """

    def __init__(self, bound: socket.socket, workers: int) -> None:
        self._descriptor = bound.detach()
        self._workers = workers
        super().__init__()

    def load_config(self) -> None:
        """Set the settings of gunicorn, which calls this method when the server is created."""
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
            # Older versions of gunicorn lack some of these settings.
            if name in self.cfg.settings:
                self.cfg.set(name, value)

    def load(self) -> Any:
        """Create the Flask application, and load everything into memory that the worker processes share.

        gunicorn calls this method once, before it starts the workers.
        """
        config = Config.from_environment()
        log_to_stderr(config.log)
        warning = engine_warning(config)  # before the file of the embedded engine is created
        app = create_app(config)
        model = app.extensions["resift"].model
        engine, store = _loggable_address(config.engine), _loggable_address(config.store)
        setup = f"{engine}, sessions in {store}, model {model.name} ({model.hash})"
        # Use gunicorn's log, because Resift's own log only contains problems.
        server_log = logging.getLogger("gunicorn.error")
        server_log.info("Documents in %s", setup)
        if warning:
            server_log.warning(warning)
        if not ApiKeys.from_config(config).required:
            server_log.info("No keys: everyone on this machine has all permissions, and other machines are refused")
        # Load the vectors of frequent words, which explanations need, so that all workers share them.
        app.extensions["resift"].model.nearest_words(np.zeros(model.dim))
        # Exclude all objects from garbage collection. Otherwise each full collection would traverse them, copy the
        # shared memory, and delay searches by 80 ms.
        gc.collect()
        gc.freeze()
        return app

    def run(self) -> None:
        """Serve requests until a signal stops the server. This method does not return.

        Raises:
            SystemExit: If the server stops, which is the normal end. The exit status is 130 after Ctrl-C.
            ResiftError: If the application cannot be created, for example because a setting is invalid.
        """
        arbiter = _Arbiter(self)
        try:
            arbiter.run()
        except SystemExit as end:
            sys.exit(INTERRUPTED if arbiter.interrupted else end.code)


class _Log(Logger):  # type: ignore[misc]
    """The logger of gunicorn, with the line format of Resift's own log messages."""

    def setup(self, cfg: Any) -> None:
        """Configure gunicorn's log, and use Resift's line format for its messages.

        Args:
            cfg: The configuration of gunicorn.
        """
        super().setup(cfg)
        for handler in self.error_log.handlers:
            handler.setFormatter(log_formatter(Config.from_environment().log))


class _Arbiter(Arbiter):  # type: ignore[misc]
    """The parent process of the gunicorn workers, which records whether Ctrl-C stopped the server.

    Attributes:
        interrupted: Whether the process has received SIGINT.
    """

    interrupted = False

    def handle_int(self) -> None:
        """Record that Ctrl-C (SIGINT) has stopped the server, and stop all workers."""
        self.interrupted = True
        super().handle_int()

    def spawn_worker(self) -> None:
        """Start a worker process in which SIGTERM, SIGINT and SIGQUIT are blocked.

        A new process first has the signal handlers of its parent, which put signals into a queue that a worker never
        reads. A signal at this moment would be lost, and the server would take 30 seconds to stop. The worker unblocks
        the signals in ``HttpWorker.init_signals``, when its own handlers are ready.
        """
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        try:
            super().spawn_worker()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)


def engine_warning(config: Config) -> str:
    """Return a warning if the service probably should search a cluster, but searches the file of the embedded engine.

    This happens if the variable ``OPENSEARCH_URL`` is missing when the service is restarted.

    Args:
        config: The settings of the service.

    Returns:
        The warning, or an empty string if the engine is a cluster, or a file that exists beside local sessions.
    """
    if is_cluster(config.engine):
        return ""
    advice = "To search an OpenSearch cluster, set OPENSEARCH_URL or use --engine URL"
    if is_cluster(config.store):
        return f"Sessions are in a cluster, but documents are in the file {config.engine}. {advice}"
    if not os.path.exists(config.engine):
        return f"The file {config.engine} is new and contains no documents. {advice}"
    return ""


def _loggable_address(address: str) -> str:
    """Return the address of an engine or session store in a form that can be logged.

    Args:
        address: The URL of a cluster, or the path of a file.

    Returns:
        The URL without user name and password, or the absolute path of the file.
    """
    return without_credentials(address) if is_cluster(address) else os.path.abspath(address)


def bind(host: str, port: int) -> socket.socket:
    """Create a TCP socket and bind it to a host and port. The socket does not listen yet.

    If the port is in use, this function fails at once. gunicorn would try again for five seconds.

    Args:
        host: A host name or an IP address of this machine.
        port: The port number.

    Raises:
        BadInput: If the address is invalid or in use.
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
        # Connections of a server that has just stopped may still occupy the port.
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        bound.close()
        message = f"cannot listen on {host} port {port}: {error.strerror}"
        raise BadInput(message, value=port, expected="an address of this machine and a free port") from None
    return bound
