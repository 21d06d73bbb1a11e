"""``resift prove`` and ``resift tune``: what sessions are worth on a team's own traffic, and what suits it."""

from __future__ import annotations

import json
import math
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click

from resift.cli.failures import PROBLEMS_FOUND
from resift.cli.options import engine_option, json_option, model_option, store_option
from resift.cli.output import print_report, print_table, progress_bar
from resift.cli.paths import ParameterType
from resift.errors import BadInput
from resift_lab.commands.options import option_of
from resift_lab.commands.proving import TEXT, UBI, live_trial
from resift_lab.commands.proving import prove as run
from resift_lab.commands.tuning import tune as choose


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


class Live(ParameterType):
    """What is to be done with a trial: its share of the clients, 0 to 1, of a new one; ``status``; or ``stop``."""

    name = "share"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str | float:
        """The share, or the word. Fails for anything else."""
        if value in ("status", "stop"):
            return str(value)
        number, percent = (value[:-1], 100) if value.endswith("%") else (value, 1)
        try:
            share = float(number) / percent
        except ValueError:
            share = math.nan
        if not 0 < share <= 1:
            self.fail(
                f"{value!r} is no share above 0 and at most 1, such as 10%, and neither status nor stop.", param, ctx
            )
        return share


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
    "--live",
    type=Live(),
    metavar="SHARE|status|stop",
    help="Begin a trial of plain against session results for so large a share of the clients, as 10%; look; or end it.",
)
@model_option
@engine_option
@store_option
@json_option
def prove(
    index: str, replay: str, live: str | float | None, engine: str, store: str, as_json: bool, **options: Any
) -> None:
    """Replay a log of clicks: where would clicked documents have stood with their client's session, and without?

    At each search of a client with earlier clicks, the session is what the service would have made of these clicks, and
    both rankings are asked for now. Intervals are bootstrapped over clients. Nothing is written.

    With --live a trial runs in the service instead, whose /v1/search interleaves both rankings for a share of the
    clients, until their clicks have told which one they prefer, or 28 days are over.
    """
    if live is not None:
        trial = live_trial(index, live, engine, store)
        print_report(trial.to_dict(), as_json) if as_json else click.echo(trial)
        return
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
        sys.exit(PROBLEMS_FOUND)
