"""``resift attach`` and ``resift detach``: an index that exists gets vectors in place, and is given back as it was."""

from __future__ import annotations

import sys
from typing import Any

import click

from resift.cli.cluster import cluster_option, dry_run_option, opened_cluster
from resift.cli.options import field_names, json_option
from resift.cli.paths import NewFolder
from resift.errors import BadInput

yes_option = click.option("--yes", is_flag=True, help="Do not ask.")


@click.command(epilog="Example: resift attach products --dry-run")
@click.argument("index")
@click.option(
    "--fields",
    metavar="NAMES",
    callback=field_names,
    show_default="the mapping's texts that hold some",
    help="The text fields to encode, separated by commas.",
)
@click.option(
    "--model",
    envvar="RESIFT_MODEL",
    show_envvar=True,
    metavar="DIR",
    show_default="one that is learned from the index",
    help="The folder of a saved model, or resift-en, the packaged one.",
)
@click.option("--no-adapt", is_flag=True, help="Learn nothing from the documents: use the packaged model.")
@click.option("--field", "own", metavar="NAME", help="A knn_vector field of the index that has the vectors of --model.")
@click.option(
    "--out",
    type=NewFolder(),
    metavar="DIR",
    show_default="INDEX-model",
    help="Where the model that is learned is saved.",
)
@click.option(
    "--default-pipelines",
    is_flag=True,
    help="Have all searches of the index rewritten, and all that is written encoded, where no other pipeline does so.",
)
@dry_run_option
@yes_option
@cluster_option
@json_option
def attach(index: str, url: str, dry_run: bool, yes: bool, as_json: bool, **options: Any) -> None:
    """Give the documents of INDEX vectors where they are: an index, an alias, a pattern or a data stream.

    Its clients write and search on meanwhile. What it will do is shown first. Interrupted, it goes on where it was when
    it is run again; resift detach takes everything back.

    The exit status is 3 if documents were refused, or settings are not as they were wanted.
    """
    from resift.cli.attaching import Attaching, Options

    if options["no_adapt"] and options["model"]:
        raise BadInput("--no-adapt with --model", value=options["model"], expected="one of them")
    with opened_cluster(url) as engine:
        attaching = Attaching(engine, index, Options(**options), as_json)
        attaching.tell_plan(dry_run)
        if not dry_run and confirmed(yes, f"Attach {attaching.names}?"):
            sys.exit(attaching.run())


@click.command(epilog="Example: resift detach products --dry-run")
@click.argument("index")
@click.option("--model", metavar="DIR|HASH", help="Take back the vectors of this model alone.")
@dry_run_option
@yes_option
@cluster_option
@json_option
def detach(index: str, model: str | None, url: str, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Take back what resift attach did to INDEX: settings, pipelines, vectors and what the index records of them.

    OpenSearch takes no field out of a mapping, so that of the vectors stays there, empty.

    The exit status is 3 if documents kept their vectors.
    """
    from resift.cli.detaching import Detaching

    with opened_cluster(url) as engine:
        detaching = Detaching(engine, index, model, as_json)
        detaching.tell_plan(dry_run)
        if not dry_run and confirmed(yes, f"Detach {detaching.names}?"):
            sys.exit(detaching.run())


def confirmed(yes: bool, question: str) -> bool:
    """True if the user says yes. Raises BadInput if nobody is there to be asked, or does not say so."""
    if yes:
        return True
    if not sys.stdin.isatty():
        raise BadInput("nobody is there to be asked", value="no terminal", expected="--yes")
    if not click.confirm(question, err=True):
        raise BadInput("nobody said yes: nothing was changed", value="no", expected="y, or --yes")
    return True
