"""``resift attach`` and ``resift detach``: an index that exists gets vectors in place, and is given back as it was."""

from __future__ import annotations

import sys
from typing import Any

import click

from resift.cli.cluster import cluster_option, dry_run_option, opened_cluster
from resift.cli.options import field_names, json_option
from resift.cli.paths import NewFolder
from resift.errors import BadInput, EngineError, IndexNotFound
from resift.plugin.documents import check_name

_PLANS = 5  # at most, of an alias or a data stream that gets other indices meanwhile
yes_option = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")


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
@click.option(
    "--field", "own", metavar="NAME", help="A knn_vector field of the index that already holds the vectors of --model."
)
@click.option(
    "--out",
    type=NewFolder(),
    metavar="DIR",
    show_default="INDEX-model",
    help="Where to save the model that is learned.",
)
@click.option(
    "--default-pipelines",
    is_flag=True,
    help="Rewrite all searches of the index and encode all writes, unless it has other default pipelines.",
)
@click.option(
    "--copy-to",
    "to",
    metavar="NEW",
    help="Copy INDEX into a new index whose vectors have a graph, and put that in its place behind --alias.",
)
@click.option(
    "--alias", "aliases", metavar="NAME", multiple=True, help="With --copy-to: the name that clients use for INDEX."
)
@click.option(
    "--raise-versions", is_flag=True, help="Attach even an index whose clients set versions (version_type=external)."
)
@dry_run_option
@yes_option
@cluster_option
@json_option
def attach(
    index: str,
    to: str | None,
    aliases: tuple[str, ...],
    url: str,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Add vectors to the documents of INDEX, in place: an index, an alias, a pattern or a data stream.

    Clients go on writing and searching meanwhile. It first shows what it will do. If it is interrupted, run it again
    and it continues where it was; resift detach undoes everything. With --copy-to INDEX stays as it is, and a copy
    takes its place that can be asked for the nearest vectors among all documents.

    The exit status is 3 if documents were refused, or if settings could not be made as they were wanted.
    """
    from resift.cli.attaching import Attaching, Options
    from resift.cli.copying import Copying

    if options["no_adapt"] and options["model"]:
        raise BadInput("--no-adapt with --model", value=options["model"], expected="one of them")
    if to is None and aliases:
        message = f"--alias {', '.join(aliases)} without --copy-to"
        raise BadInput(message, value=list(aliases), expected="--copy-to NEW, or no --alias")
    if to is not None:
        _check_copy_options(to, aliases, options["own"])
    with opened_cluster(url) as engine:
        if to is not None:
            copying = Copying(engine, index, to, aliases, Options(**options), as_json, dry_run)
            copying.tell_plan(dry_run)
            if not dry_run and confirmed(yes, copying.question):
                sys.exit(copying.run())
            return
        for _ in range(_PLANS):
            try:
                attaching = Attaching(engine, index, Options(**options), as_json)
                attaching.tell_plan(dry_run)
                if dry_run or not confirmed(yes, f"Attach {attaching.names}?"):
                    return
                if attaching.is_current:
                    sys.exit(attaching.run())
            except IndexNotFound:  # of an index that has gone since its alias was looked up, or of the alias itself
                if not engine.resolve(index):
                    raise
            click.echo(f"{index} stands for other indices by now, as after a rollover: planned again", err=True)
        raise EngineError(f"{index!r} stands for other indices each time it is planned", value=index)


@click.command(epilog="Example: resift detach products --dry-run")
@click.argument("index")
@click.option("--model", metavar="DIR|HASH", help="Remove only the vectors of this model.")
@click.option("--no-copy-back", is_flag=True, help="For a copy: do not copy back what was written to it.")
@dry_run_option
@yes_option
@cluster_option
@json_option
def detach(
    index: str, model: str | None, no_copy_back: bool, url: str, dry_run: bool, yes: bool, as_json: bool
) -> None:
    """Undo resift attach: settings, pipelines, vectors and what INDEX records of them.

    OpenSearch takes no field out of a mapping, so that of the vectors stays there, empty. Where INDEX is a copy that
    attach --copy-to has made, the aliases go back to what it is a copy of, and what was written to it since is copied
    back.

    The exit status is 3 if documents kept their vectors.
    """
    from resift.cli.copying import Returning
    from resift.cli.detaching import Detaching
    from resift.plugin.cluster.client import Cluster
    from resift.plugin.cluster.copying import Copy

    with opened_cluster(url) as engine:
        copy = Copy.find(Cluster(engine), index) if model is None else None
        if copy is not None:
            returning = Returning(engine, copy, not no_copy_back, as_json, dry_run)
            returning.tell_plan(dry_run)
            if not dry_run and confirmed(yes, returning.question):
                sys.exit(returning.run())
            return
        detaching = Detaching(engine, index, model, as_json)
        detaching.tell_plan(dry_run)
        if not dry_run and confirmed(yes, f"Detach {detaching.names}?"):
            sys.exit(detaching.run())


def _check_copy_options(to: str, aliases: tuple[str, ...], own: str | None) -> None:
    if not aliases:
        raise BadInput("--copy-to without --alias", value=to, expected="--alias NAME, by which clients find the index")
    if own is not None:
        raise BadInput("--field with --copy-to", value=own, expected="one of them")
    for name in (to, *aliases):
        check_name(name)


def confirmed(yes: bool, question: str) -> bool:
    """True if the user says yes. Raises BadInput if nobody is there to be asked, or does not say so."""
    if yes:
        return True
    if not sys.stdin.isatty():
        raise BadInput("no terminal to ask for confirmation", value="no terminal", expected="--yes")
    if not click.confirm(question, err=True):
        raise BadInput("not confirmed: nothing was changed", value="no", expected="y, or --yes")
    return True
