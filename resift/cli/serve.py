"""``resift serve`` and ``resift reranker``: the service, and the trained reranker in it."""

from __future__ import annotations

import click

from resift.cli import serving
from resift.cli.options import (
    engine_option,
    port_option,
    search_models,
)


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
@search_models
def serve(host: str, port: int, workers: int, engine: str, model: str, static_queries: str) -> None:
    """Serve the reranker over HTTP. Other settings are RESIFT_* variables (docs/serving.md)."""
    with serving.shared_metrics():
        settings = {"RESIFT_ENGINE": engine, "RESIFT_MODEL": model, "RESIFT_STATIC_QUERIES": static_queries}
        serving.run(settings, host, port, workers)
