"""``resift serve`` and ``resift reranker``: the service, and the trained reranker in it."""

from __future__ import annotations

import click

from resift.cli import serving
from resift.cli.options import (
    engine_option,
    model_option,
    port_option,
    search_models,
    service_settings,
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


@click.group("reranker", epilog="Example: resift reranker use trained-reranker")
def reranker_group() -> None:
    """Put a trained reranker into service, or take it out again.

    The service looks for it in the folder that RESIFT_RERANKER names, or "reranker".
    """


@reranker_group.command("use", epilog="Example: resift reranker use trained-reranker")
@click.argument("source", metavar="DIR")
@click.option(
    "--index",
    "indices",
    multiple=True,
    metavar="NAME",
    show_default="those that it learned from, else all",
    help="An index whose searches it orders. May be repeated.",
)
@model_option
def use_reranker(source: str, indices: tuple[str, ...], model: str) -> None:
    """Serve the trained reranker in DIR. Running services load it within seconds; indices stay as they are.

    --model and RESIFT_STATIC_QUERIES are those of the service: beside others than it was judged with it is an unknown.
    """
    from resift.encoders.registry import load_model, load_queries, search_model
    from resift.reranker.late_reranker import doubts, put_into_service

    settings = service_settings()
    folder, hash = settings.reranker, search_model(load_model(model), load_queries(settings.static_queries)).hash
    found = put_into_service(source, folder, indices)
    of = ", ".join(found.indices) or "all indices"
    click.echo(f"{found.name}, hash {found.hash}, is in service from {folder}, for {of}")
    for doubt in doubts(found, hash):
        click.echo(f"warning: {doubt}", err=True)


@reranker_group.command("drop", epilog="Example: resift reranker drop")
def drop_reranker() -> None:
    """Take the trained reranker out of service."""
    from resift.reranker.late_reranker import take_out_of_service

    folder = service_settings().reranker
    take_out_of_service(folder)
    click.echo(f"nothing is in service from {folder}")
