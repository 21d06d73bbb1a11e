"""``resift reranker``: what was trained is put into service, if it helps, and taken out again."""

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
def use_reranker(source: str, indices: tuple[str, ...]) -> None:
    """Serve the trained reranker in DIR. A service reads it when it starts; indices stay as they are.

    RESIFT_MODEL names the model that the service searches with. The gain is unknown with any other model than the one
    that the reranker was judged with.
    """
    settings = service_settings()
    folder = settings.reranker
    found = put_into_service(source, folder, indices)
    of = ", ".join(found.indices) or "all indices"
    click.echo(f"{found.name}, hash {found.hash}, is in service from {folder}, for {of}")
    for doubt in doubts(found, load_model(settings.model).hash):
        click.echo(f"warning: {doubt}", err=True)


@reranker_group.command("drop", epilog="Example: resift reranker drop")
def drop_reranker() -> None:
    """Take the trained reranker out of service, for services that start from now on."""
    folder = service_settings().reranker
    take_out_of_service(folder)
    click.echo(f"nothing is in service from {folder}")


def put_into_service(source: str, folder: str, indices: Sequence[str] = ()) -> LateInteraction:
    """Copy the trained reranker in the folder ``source`` to ``folder``, and return it.

    It is for the ``indices`` of these names alone; without them for those that it learned from, if that is known.
    Raises ModelNotFound if there is none, CorruptModel if it is damaged, and BadInput if searches were found no better
    with it when it was judged, and for a name that no index can have; then ``folder`` stays as it is.
    """
    names = [check_name(index) for index in indices]
    reranker = LateInteraction.load(source)
    if not _judgement(reranker).get("better", True):
        message = f"the reranker in {source} made searches no better when it was judged"
        raise BadInput(message, value=source, expected="one that helps: more judged queries, or none in service")
    if names:
        reranker.info["indices"] = names
    reranker.save(folder)
    return reranker


def doubts(reranker: LateInteraction, model_hash: str) -> list[str]:
    """Why a reranker may do less than it should beside the vectors of the search model of this hash."""
    judgement = _judgement(reranker)
    if "better" not in judgement:
        return ["it was not judged by queries that it was not trained on"]
    found = []
    if (other := reranker.info.get("beside")) != model_hash:
        found.append(
            f"it was judged beside the vectors of model {other}, and not of {model_hash}: train it with the "
            "--model of the service"
        )
    return found


def _judgement(reranker: LateInteraction) -> dict[str, Any]:
    """What the training found out; empty for a reranker that was made in another way."""
    report: dict[str, Any] = reranker.info.get("report", {})
    return report


def take_out_of_service(folder: str) -> None:
    """Delete ``folder``, where a trained reranker is in service. Raises ModelNotFound if none is."""
    if not (Path(folder) / RERANKER_FILE).is_file():
        raise ModelNotFound(f"no trained reranker in {folder}", value=folder, expected="one that is in service")
    shutil.rmtree(folder)
