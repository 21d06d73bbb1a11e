"""``resift doctor``: what is wrong with an installation, and how it stands with the vectors of each index."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from resift.cli.cluster import cluster_option, installed_model_option, key_option, name_option
from resift.cli.failures import NOT_RIGHT
from resift.cli.options import json_option
from resift.cli.output import print_report, print_table
from resift.plugin.addresses import without_credentials

if TYPE_CHECKING:
    from resift.operations.doctor import IndexStatus
    from resift.operations.plan import Result
    from resift.plugin.cluster.usage import StatusRow

_HEAD = ["INDEX", "DOCUMENTS", "VECTORS", "STALE", "MODEL", "PIPELINES", "UNENCODED"]


@click.command(epilog="Example: resift doctor --engine http://127.0.0.1:9200")
@json_option
@cluster_option
@installed_model_option
@name_option
@key_option
def doctor(url: str, as_json: bool, **options: Any) -> None:
    """Say in one screen what is wrong with an installation, and how to fix it.

    It asks the cluster and the reranker, has the cluster ask the reranker, and looks at versions, clocks, rights,
    settings, and all that was installed. A second table has a line for each index
    with vectors: how many documents have one, and, where the model is at hand, how many of a hundred random ones
    have one that belongs to another text. A star marks the pipelines that an index uses by default, and UNENCODED is
    how many documents its ingest pipeline has written without a vector since the nodes started. Below stands what was
    chosen for an index by held-back documents, or by resift tune, and why.

    The exit status is 3 unless everything is in order.
    """
    from resift.operations.doctor import doctor as examine

    found = examine(url, **options)
    found.parts = [replace(row, fix=_pasted(row.fix)) for row in found.parts]
    found.indices = [replace(one, fix=_pasted(one.fix, found.model == one.model)) for one in found.indices]
    if as_json:
        print_report({"ok": found.in_order, **found.to_dict()}, as_json)
    else:
        _print_tables(found)
    if not found.in_order:
        sys.exit(NOT_RIGHT)


def _print_tables(found: Result) -> None:
    parts = list(_grouped([row for row in found.parts if row.kind != "index"]))
    notes = [f"fix: {row.fix}" if row.fix else "" for row in parts]
    print_table(["KIND", "NAME", "STATE"], [[row.kind, row.name, row.state] for row in parts], notes)
    if found.indices:
        click.echo()
        cells = [_cells(one, found.model) for one in found.indices]
        print_table(_HEAD, cells, [f"{one.state}\n  fix: {one.fix}" if one.fix else "" for one in found.indices])
    for name, lines in found.tuned.items():
        click.echo(f"index {name}: {'; '.join(lines)}")
    shown = {one.index for one in found.indices}
    for row in found.parts:
        if row.kind == "index" and row.name not in shown:
            click.echo(f"index {row.name}: {row.state}" + (f"\n  fix: {row.fix}" if row.fix else ""))


def _grouped(parts: Sequence[StatusRow]) -> Iterator[StatusRow]:
    """The lines of the parts: those of a kind that are in the same state are one, so that all fits a screen."""
    for _, found in groupby(parts, lambda row: (row.kind, row.state, row.fix)):
        first, *others = found
        name = first.name.removeprefix("plugins.ml_commons.")
        yield replace(first, name=f"{name} and {len(others)} more" if others else name)


def _cells(one: IndexStatus, model: str) -> list[str]:
    """The line of the table; ``model`` is the hash of the one at hand."""
    documents = "closed" if one.documents is None else str(one.documents)
    # rounded down: one that is missing is not to be 100%
    share = f"{one.with_vector * 1000 // one.documents / 10:g}%" if one.documents else "-"
    stale = f"{one.stale} of {one.sampled}" if one.sampled else "-"
    pipelines = [f"{kind}*" if kind in one.default_pipelines else kind for kind in one.pipelines]
    # of another model the hash is what resift detach takes, and two models may have one name
    named = f"{one.model_name}{'' if one.model == model else f' ({one.model})'}"
    return [one.index, documents, share, stale, named, ", ".join(pipelines) or "-", str(one.unencoded)]


def _pasted(fix: str, is_model: bool | None = None) -> str:
    """A fix whose command has the options that this one was given: without them it would be of another installation.

    For an index it has those that mend its vectors, which ``is_model`` tells whether the model at hand has made.
    """
    context = click.get_current_context()
    given = {name: context.params[name] for name in ("model", "name")}
    flags = [f" --{name} {value}" for name, value in given.items() if value]
    # where this command was given it, and not the environment
    named = context.get_parameter_source("url") == ParameterSource.COMMANDLINE
    engine = f" --engine {without_credentials(context.params['url'])}" if named else ""
    more = "".join(flags) + engine
    # what a cluster says of an error may have several lines
    line = re.sub(r"resift (install|guard)\b", lambda found: found[0] + more, " ".join(fix.split()), count=1)
    if is_model is None or not fix.startswith(("resift attach", "resift verify")):
        return line
    # of another model no more is known here than its name
    folder = given["model"] if is_model else "DIR"
    return line + (f" --model {folder}" if folder else "") + engine
