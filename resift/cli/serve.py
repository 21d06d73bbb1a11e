"""``resift serve`` and ``resift reranker``: the service, and the trained reranker in it."""

from __future__ import annotations

import click

from resift.cli import serving
from resift.cli.options import engine_option, model_option


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", default=8080, show_default=True)
@click.option("--workers", default=2, show_default=True, help="Processes; they share the model's memory.")
@engine_option
@model_option
def serve(host: str, port: int, workers: int, engine: str, model: str) -> None:
    """Serve the reranker. Other settings: RESIFT_* variables (see the guide)."""
    with serving.shared_metrics():
        serving.run({"RESIFT_ENGINE": engine, "RESIFT_MODEL": model}, host, port, workers)


@click.group("reranker")
def reranker_group() -> None:
    """Put a trained reranker into service, and take it out again."""


_service_folder = click.option(
    "--folder",
    default="reranker",
    envvar="RESIFT_RERANKER",
    show_default=True,
    metavar="DIR",
    help="Where the service looks for it (RESIFT_RERANKER).",
)


@reranker_group.command("use")
@click.argument("source", metavar="DIR")
@_service_folder
def use_reranker(source: str, folder: str) -> None:
    """Serve the trained reranker in DIR; running services take it up within seconds, indices stay as they are."""
    from resift.reranker.late_reranker import put_into_service

    found = put_into_service(source, folder)
    click.echo(f"{found.name}, hash {found.hash}, is in service from {folder}")


@reranker_group.command("drop")
@_service_folder
def drop_reranker(folder: str) -> None:
    """Take the trained reranker out of service."""
    from resift.reranker.late_reranker import take_out_of_service

    take_out_of_service(folder)
    click.echo(f"nothing is in service from {folder}")
