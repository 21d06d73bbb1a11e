"""``resift prove`` and ``resift tune``: what sessions are worth on a team's own traffic, and what suits it."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click

from resift.cli.failures import NOT_RIGHT
from resift.cli.lab.options import WholeNumber, option_of
from resift.cli.lab.proving import SEARCHES, TEXT, UBI
from resift.cli.lab.proving import prove as run
from resift.cli.lab.tuning import tune as choose
from resift.cli.options import engine_option, json_option, model_option, store_option
from resift.cli.output import print_report, print_table, progress_bar
from resift.errors import BadInput


def _read_body(context: click.Context, parameter: click.Parameter, value: str | None) -> Any:
    """Option callback: the search body in a file."""
    if value is None:
        return None
    try:
        body = json.loads(Path(value).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise BadInput(f"--body {value}: {error}", value=value, expected="a file with a search body") from error
    if not isinstance(body, dict):
        raise BadInput(f"--body {value} holds no object", value=value, expected="a file with a search body")
    return body


@click.command(epilog="Example: resift prove news --replay ubi --engine http://127.0.0.1:9200")
@click.argument("index", metavar="INDEX")
@click.option(
    "--replay",
    default=UBI,
    show_default=True,
    metavar="ubi|FILE",
    help="ubi, the log beside the documents; or a CSV file with the columns query, shown, clicked, client, time.",
)
@click.option(
    "--body",
    metavar="FILE",
    callback=_read_body,
    help=f"Your own search, as JSON, with {TEXT} for the query's text; by default that of /v1/search.",
)
@option_of(run, "id_field", "The index's field that has the ids of a CSV file.", metavar="FIELD", show_default="_id")
@click.option(
    "--searches",
    type=WholeNumber(1),
    default=SEARCHES,
    show_default=True,
    help="So many searches with a click at most, of clients that are drawn at random.",
)
@model_option
@engine_option
@store_option
@json_option
def prove(index: str, replay: str, engine: str, store: str, as_json: bool, **options: Any) -> None:
    """Replay a log of clicks: where would clicked documents have stood with their client's session, and without?

    At each search of a client with earlier clicks, the session is what the service would have made of these clicks, and
    both rankings are asked for now. Intervals are bootstrapped over clients. Nothing is written.
    """
    with progress_bar("replaying", "clients") as progress:
        report = run(index, replay, engine, sessions=store, progress=progress, **options)
    if as_json:
        print_report(report.to_dict(), as_json)
        return
    head, *rows = report.table()
    print_table(head, rows)
    for line in report.lines:
        click.echo(line)


@click.command("tune", epilog="Example: resift tune news ubi --engine http://127.0.0.1:9200")
@click.argument("index", metavar="INDEX")
@click.argument("source", required=False, metavar="[documents|ubi|FILE|DIR]")
@click.option("--undo", is_flag=True, help="Go back to the usual constants.")
@model_option
@engine_option
def tune(index: str, source: str | None, undo: bool, model: str, engine: str) -> None:
    """Choose the few constants of an index's searches, which it keeps if they are better; alone, show what it has.

    "documents" chooses the vectors' weight, by searches for documents in part of their own words. A log of clicks (ubi,
    or a CSV file as for "resift prove") or a folder of judged queries in BEIR's layout chooses, for sessions, how much
    their words count, the vectors, and what is carried over from other queries: one half of the clients or queries
    chooses, the other judges by a paired test, and in turn. The exit status is 3 if nothing is better.
    """
    with progress_bar("trying constants", "trials") if source else nullcontext(lambda done, total: None) as progress:
        found = choose(index, source, engine, model=model, undo=undo, progress=progress)
    for line in found.lines:
        click.echo(line)
    if source is not None and not found.new:
        sys.exit(NOT_RIGHT)
