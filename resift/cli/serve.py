"""The command ``resift serve``, which runs the HTTP service under gunicorn.

The model is loaded once and shared by all workers.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module

import click

from resift.cli.options import engine_option, model_option, port_option
from resift.errors import BadInput
from resift.memory import limit_arenas


@click.command(epilog="Example: resift serve --engine http://127.0.0.1:9200 --workers 4")
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on. 0.0.0.0 stands for all addresses and requires keys (see resift keys).",
)
@port_option
@click.option(
    "--workers",
    type=click.IntRange(1, 1000),
    default=2,
    show_default=True,
    help="Number of processes. They share the model's memory.",
)
@engine_option
@model_option
def serve(host: str, port: int, workers: int, engine: str, model: str) -> None:
    """Run the HTTP service until you press Ctrl-C.

    The environment variables RESIFT_* contain further settings (see docs/settings.md).
    """
    with shared_metrics():
        run({"RESIFT_ENGINE": engine, "RESIFT_MODEL": model}, host, port, workers)


@contextmanager
def shared_metrics() -> Iterator[None]:
    """Return a context manager that lets worker processes share their Prometheus metrics.

    It creates a temporary folder for the metrics, and deletes the folder at the end of the ``with`` block. Enter the
    block before prometheus_client is imported, because prometheus_client reads the name of the folder when it is
    imported.
    """
    folder, creator = tempfile.mkdtemp(prefix="resift-metrics-"), os.getpid()
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
    try:
        yield
    finally:
        # Workers execute this as well when they exit, but other workers still need the folder.
        if os.getpid() == creator:
            del os.environ["PROMETHEUS_MULTIPROC_DIR"]
            shutil.rmtree(folder, ignore_errors=True)


def _limit_blas_to_one_thread() -> None:
    """Make NumPy's OpenBLAS use a single thread, unless OPENBLAS_NUM_THREADS or OMP_NUM_THREADS is set.

    The matrix products of a search take only 0.1 ms. When other processes use the CPU cores, waiting for a second
    thread would take a hundred times as long.
    """
    if not {"OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"} & os.environ.keys():
        # NumPy has no function for this, so call OpenBLAS. Other BLAS libraries, as on macOS, lack this function.
        with suppress(AttributeError, OSError):
            ctypes.CDLL(import_module("numpy.linalg._umath_linalg").__file__).scipy_openblas_set_num_threads64_(1)


def run(settings: Mapping[str, str], host: str, port: int, workers: int) -> None:
    """Run the HTTP service until a signal stops it.

    Args:
        settings: Names and values of RESIFT_* variables, which override the environment variables.
        host: The host name or IP address to listen on.
        port: The port to listen on.
        workers: The number of worker processes.

    Raises:
        BadInput: If a setting is invalid, if the address is not available, or if other machines can connect although no
            API keys are set.
        ModelNotFound: If the model does not exist.
        CorruptModel: If the model is damaged.
    """
    os.environ.update(settings)
    _limit_blas_to_one_thread()
    limit_arenas()
    _require_keys_beyond_this_machine(host)

    from resift.cli.http_server import HttpServer, bind

    # Bind before the model is loaded, so that a wrong port fails at once.
    HttpServer(bind(host, port), workers).run()


def _require_keys_beyond_this_machine(host: str) -> None:
    from resift.plugin.addresses import is_loopback
    from resift.reranker.access.requests import ApiKeys
    from resift.service.config import Config

    if not is_loopback(host.strip("[]")) and not ApiKeys.from_config(Config.from_environment()).required:
        raise BadInput(
            f"without keys the service only serves this machine, but other machines can reach {host}",
            value=host,
            expected="127.0.0.1, or a key: resift keys create NAME --scopes search,feedback, or RESIFT_API_KEY",
        )
