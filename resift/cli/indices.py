"""The commands ``resift indices``, ``resift drop`` and ``resift verify``."""

from __future__ import annotations

import signal
import sys

import click

from resift.cli.failures import PROBLEMS_FOUND
from resift.cli.options import (
    engine_at,
    engine_option,
    index_model,
    json_option,
    model_option,
    service_settings,
    yes_option,
)
from resift.cli.output import print_report, print_table, require_confirmation, terminal_progress
from resift.contracts.documents import IndexInfo
from resift.contracts.engine import Engine
from resift.encoders.registry import load_model
from resift.errors import IndexNotFound
from resift.plugin.operations.plan import count_documents
from resift.service import index_operations as operations
from resift.stopping import Stop


@click.command(epilog="Example: resift indices --engine http://127.0.0.1:9200")
@engine_option
@model_option
def indices(engine: str, model: str) -> None:
    """List all indices with their number of documents, their text fields and their model.

    The column MODEL is "ok" if the documents have vectors of --model, "other" if the vectors belong to another model,
    and "none" if the index has no vectors.
    """
    hash = load_model(model).hash
    with engine_at(engine) as target:
        rows = [row for info in target.indices() if (row := _index_row(target, info, hash)) is not None]
    if not rows:
        click.echo("no indices; create one with: resift index FILE --index NAME")
        return
    print_table(["INDEX", "DOCUMENTS", "MODEL", "NAME", "FIELDS"], rows)


def _index_row(engine: Engine, info: IndexInfo, model_hash: str) -> list[str] | None:
    """Return the table row that describes an index, or None if the index was deleted in the meantime.

    Args:
        engine: The engine that contains the index.
        info: The description of the index.
        model_hash: The hash of the model that the user selected. The row shows whether the index has vectors of this
            model ("ok"), of another model ("other") or no vectors ("none").
    """
    try:
        documents = count_documents(engine, info.name)
    except IndexNotFound:
        return None
    model = "none" if info.model is None else "ok" if info.model == model_hash else "other"
    return [info.name, str(documents), model, info.model_name or "", ",".join(info.fields)]


@click.command(epilog="Example: resift drop news")
@click.argument("index")
@yes_option
@engine_option
def drop(index: str, yes: bool, engine: str) -> None:
    """Delete INDEX with all its documents and pipelines. The command asks for confirmation first.

    You can only delete indices that `resift indices` lists.
    """
    plan = operations.drop(engine, index, service_settings().session_index)
    require_confirmation(yes, plan.question)
    with terminal_progress() as progress:
        dropped = plan.run(progress)
    click.echo(str(dropped))


@click.command(epilog="Example: resift verify news --repair")
@click.argument("index", nargs=-1, metavar="[INDEX]...")
@click.option("--repair", is_flag=True, help="Replace vectors that are missing or belong to another text.")
@engine_option
@model_option
@json_option
def verify(index: tuple[str, ...], repair: bool, engine: str, model: str, as_json: bool) -> None:
    """Check that each vector belongs to the current text of its document.

    The command encodes all texts again with --model, and compares the results with the stored vectors. INDEX is the
    name of an index, alias or data stream, or a pattern. You can pass several. If you pass none, all indices with
    vectors of the model are checked.

    The exit status is 3 if vectors are missing or out of date, and were not repaired.
    """
    stop = Stop()
    with stop.at_signals(), terminal_progress("documents") as progress:
        with engine_at(engine) as target:
            encoder = index_model(target, index[0], model) if len(index) == 1 else model
        result = operations.verify(engine, *index, model=encoder, repair=repair, progress=progress, stop=stop)
    print_report(result.to_dict(), as_json, *result.lines)
    for name, why in result.not_checked.items():
        click.echo(f"not checked: index {name} has {why}", err=True)
    if stop.signal is not None:
        click.echo(f"ended by {signal.Signals(stop.signal).name}: not all documents were checked", err=True)
        sys.exit(128 + stop.signal)
    if not result.in_order:
        sys.exit(PROBLEMS_FOUND)
