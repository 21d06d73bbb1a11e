"""The command group ``resift reranker``, which puts a trained reranker into service or removes it."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from resift.cli.options import service_settings
from resift.contracts.documents import check_name
from resift.encoders.late_interaction import RERANKER_FILE, LateInteraction
from resift.encoders.registry import load_model
from resift.errors import BadInput, ModelNotFound


@click.group("reranker", epilog="Example: resift reranker use trained-reranker")
def reranker_group() -> None:
    """Put a trained reranker into service, or take it out of service.

    The service reads the reranker from the folder that the environment variable RESIFT_RERANKER names, by default
    'reranker'.
    """


@reranker_group.command("use", epilog="Example: resift reranker use trained-reranker")
@click.argument("source", metavar="DIR")
@click.option(
    "--index",
    "indices",
    multiple=True,
    metavar="NAME",
    show_default="the indices that it was trained on, or else all indices",
    help="An index to use the reranker for. May be repeated.",
)
def use_reranker(source: str, indices: tuple[str, ...]) -> None:
    """Put the trained reranker in DIR into service.

    The service reads the reranker when it starts. Indices are not changed. A warning is printed if the reranker was
    evaluated with a model that is not the service's model (RESIFT_MODEL).
    """
    settings = service_settings()
    folder = settings.reranker
    reranker = put_into_service(source, folder, indices)
    index_names = ", ".join(reranker.indices) or "all indices"
    click.echo(f"{reranker.name}, hash {reranker.hash}, is in service from {folder}, for {index_names}")
    for warning in reranker_warnings(reranker, load_model(settings.model).hash):
        click.echo(f"warning: {warning}", err=True)


@reranker_group.command("drop", epilog="Example: resift reranker drop")
def drop_reranker() -> None:
    """Take the trained reranker out of service. A running service uses it until the next restart."""
    folder = service_settings().reranker
    remove_from_service(folder)
    click.echo(f"the reranker in {folder} was removed")


def put_into_service(source: str, folder: str, indices: Sequence[str] = ()) -> LateInteraction:
    """Copy a trained reranker to the folder from which the service reads it.

    Args:
        source: The folder with the trained reranker.
        folder: The service's folder. It is left unchanged if an error is raised.
        indices: The names of the indices whose searches are reranked. If empty, the indices that the reranker was
            trained on are used. A reranker that was trained on a folder of judged queries is then used for all indices.

    Returns:
        The reranker.

    Raises:
        ModelNotFound: If ``source`` contains no reranker.
        CorruptModel: If the reranker is damaged.
        BadInput: If the reranker did not improve searches when it was evaluated, or the name of an index is invalid.
    """
    names = [check_name(index) for index in indices]
    reranker = LateInteraction.load(source)
    if not _training_report(reranker).get("better", True):
        message = f"the reranker in {source} did not improve searches when it was evaluated"
        raise BadInput(
            message, value=source, expected="a reranker that improves searches: train on more judged queries"
        )
    if names:
        reranker.info["indices"] = names
    reranker.save(folder)
    return reranker


def reranker_warnings(reranker: LateInteraction, model_hash: str) -> list[str]:
    """Return warnings for a reranker that may improve searches in the service less than its evaluation suggests.

    Args:
        reranker: The reranker to check.
        model_hash: The hash of the model that the service searches with.

    Returns:
        A warning if the reranker was never evaluated, or was evaluated together with another model; otherwise an empty
        list.
    """
    if "better" not in _training_report(reranker):
        return ["the reranker was not evaluated on held-out queries"]
    evaluated_with = reranker.info.get("beside")
    if evaluated_with != model_hash:
        return [
            f"the reranker was evaluated with the vectors of model {evaluated_with}, but the service uses model "
            f"{model_hash}: train the reranker with --model set to the model of the service"
        ]
    return []


def _training_report(reranker: LateInteraction) -> dict[str, Any]:
    """Return the report of the reranker's training, or an empty dictionary if the reranker was not trained."""
    report: dict[str, Any] = reranker.info.get("report", {})
    return report


def remove_from_service(folder: str) -> None:
    """Delete the folder from which the service reads a trained reranker.

    Raises:
        ModelNotFound: If the folder contains no reranker.
    """
    if not (Path(folder) / RERANKER_FILE).is_file():
        raise ModelNotFound(
            f"there is no trained reranker in {folder}", value=folder, expected="the folder of a reranker in service"
        )
    shutil.rmtree(folder)
