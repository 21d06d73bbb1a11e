"""``resift serve``: the reranker under gunicorn; the model is loaded once and shared by all workers."""

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


@click.command(epilog="Example: resift serve --engine http://127.0.0.1:9200 --workers 4")
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on; 0.0.0.0 is all of them, which needs keys (resift keys).",
)
@port_option
@click.option(
    "--workers",
    type=click.IntRange(1, 1000),
    default=2,
    show_default=True,
    help="Processes, which share the model's memory.",
)
@engine_option
@model_option
def serve(host: str, port: int, workers: int, engine: str, model: str) -> None:
    """Serve the reranker over HTTP. Other settings are RESIFT_* variables (docs/settings.md)."""
    with shared_metrics():
        run({"RESIFT_ENGINE": engine, "RESIFT_MODEL": model}, host, port, workers)


@contextmanager
def shared_metrics() -> Iterator[None]:
    """Let the metrics of all workers be counted together.

    This must begin before prometheus_client is imported, which reads the folder's name then.
    """
    folder, maker = tempfile.mkdtemp(prefix="resift-metrics-"), os.getpid()
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
    try:
        yield
    finally:
        # a worker that ends comes by here too, and the others go on counting
        if os.getpid() == maker:
            del os.environ["PROMETHEUS_MULTIPROC_DIR"]
            shutil.rmtree(folder, ignore_errors=True)


def _multiply_in_one_thread() -> None:
    """Have NumPy's OpenBLAS start no threads of its own, unless OPENBLAS_NUM_THREADS or OMP_NUM_THREADS name a number.

    A search multiplies small matrices: that takes a tenth of a millisecond, and where other processes have the cores,
    a hundred times as long to wait for a second thread.
    """
    if not {"OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"} & os.environ.keys():
        # by name, as NumPy has no function for it; other libraries, as on macOS, have no such name
        with suppress(AttributeError, OSError):
            ctypes.CDLL(import_module("numpy.linalg._umath_linalg").__file__).scipy_openblas_set_num_threads64_(1)


def run(settings: Mapping[str, str], host: str, port: int, workers: int) -> None:
    """Serve with this many ``workers`` (processes) until a signal ends it.

    ``settings`` are RESIFT_* variables that win over the environment's. Raises BadInput, ModelNotFound or CorruptModel
    where these cannot be served or nobody can listen on the port, and BadInput if other machines would be served and
    there are no keys.
    """
    os.environ.update(settings)
    _multiply_in_one_thread()
    _require_keys_beyond_this_machine(host)

    from resift.cli.http_server import HttpServer, bind

    # before the model is loaded: whoever mistyped the port need not wait for it
    HttpServer(bind(host, port), workers).run()


def _require_keys_beyond_this_machine(host: str) -> None:
    from resift.plugin.addresses import is_loopback
    from resift.reranker.access.requests import Keys
    from resift.service.config import Config

    config = Config.from_environment()
    if Keys.from_config(config).required:
        return
    if not is_loopback(host.strip("[]")):
        raise BadInput(
            f"without keys only this machine is served, and {host} is for others too",
            value=host,
            expected="127.0.0.1, or a key: resift keys create NAME --scopes search,feedback, or RESIFT_API_KEY",
        )
    click.echo("no keys: everybody on this machine may do everything, and other machines are not served", err=True)
