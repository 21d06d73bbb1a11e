"""The commands ``resift prove`` and ``resift tune``."""

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
from resift_lab.commands.options import setting_option
from resift_lab.commands.proving import TEXT, UBI, live_trial
from resift_lab.commands.proving import prove as run
from resift_lab.commands.tuning import tune as choose


def _read_body(context: click.Context, parameter: click.Parameter, value: str | None) -> Any:
    """Read a JSON file with a search body.

    This is a click callback. ``context`` and ``parameter`` are required by click and not used.

    Args:
        context: The context of the command.
        parameter: The option.
        value: The path of the file, or None if the option is not set.

    Returns:
        The search body as a dictionary, or None.

    Raises:
        BadInput: If the file cannot be read or contains no JSON object.
    """
    if value is None:
        return None
    try:
        body = json.loads(Path(value).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise BadInput(
            f"--body {value} cannot be read: {error}", value=value, expected="a JSON file with a search body"
        ) from error
    if not isinstance(body, dict):
        raise BadInput(
            f"--body {value} does not contain a JSON object", value=value, expected="a JSON file with a search body"
        )
    return body


class TrialAction(ParameterType):
    """The click type of the option ``--live``, which starts, shows or stops a trial in the service.

    To start a trial, the value is the share of clients that take part: a number above 0 and at most 1, or a percentage
    such as ``10%``. The other values are ``status`` and ``stop``.
    """

    name = "share"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str | float:
        """Convert the value of the option: ``status``, ``stop``, or a share of the clients such as ``10%`` or ``0.1``.

        If the value is none of these, the command ends with an error message.

        Returns:
            ``"status"``, ``"stop"``, or the share as a number above 0 and at most 1.
        """
        if value in ("status", "stop"):
            return str(value)
        number, percent = (value[:-1], 100) if value.endswith("%") else (value, 1)
        try:
            share = float(number) / percent
        except ValueError:
            share = math.nan
        if not 0 < share <= 1:
            self.fail(
                f"{value!r} is not valid. Give a share above 0 and at most 1, such as 10%, or status, or stop.",
                param,
                ctx,
            )
        return share


@click.command(epilog="Example: resift prove news --replay ubi --engine http://127.0.0.1:9200")
@click.argument("index", metavar="INDEX")
@click.option(
    "--replay",
    default=UBI,
    show_default=True,
    metavar="ubi|FILE",
    help="The click log: 'ubi' for the log of User Behavior Insights, or a CSV file with the columns query, shown, "
    "clicked, client and time.",
)
@click.option(
    "--body",
    metavar="FILE",
    callback=_read_body,
    help=f"A JSON file with the search body to replay, with {TEXT} in place of the query's text. The default is the "
    "search of /v1/search.",
)
@setting_option(
    run,
    "id_field",
    "The field of the index with the document ids of the CSV file.",
    metavar="FIELD",
    show_default="_id",
)
@click.option(
    "--live",
    type=TrialAction(),
    metavar="SHARE|status|stop",
    help="Start a live trial for this share of the clients, for example 10%; or show its status; or stop it.",
)
@model_option
@engine_option
@store_option
@json_option
def prove(
    index: str, replay: str, live: str | float | None, engine: str, store: str, as_json: bool, **options: Any
) -> None:
    """Measure what sessions would change on your own traffic, by replaying a click log.

    Each search of a client with earlier clicks is repeated twice: in a session with these clicks, and without a
    session. The report compares the ranks of the documents that the client clicked. Confidence intervals are
    bootstrapped over clients. Nothing is written.

    With --live, a trial runs in the service instead. /v1/search interleaves the results with and without the session
    for a share of the clients. The trial ends when the clicks show which results are better, or after 28 days.
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
@click.option("--undo", is_flag=True, help="Restore the default constants.")
@model_option
@engine_option
def tune(index: str, source: str | None, undo: bool, model: str, engine: str) -> None:
    """Choose constants for the searches of INDEX, and store them in the index if they are better.

    Without a source, the present constants are printed. 'documents' chooses the weight of the vectors in searches
    without a session, by searches for documents with a few of their words. A click log ('ubi', or a CSV file as for
    'resift prove') or a folder of judged queries in BEIR's layout chooses the constants of sessions: the weights of the
    words, of the vectors, and of judgements from other queries. One half of the clients or queries chooses the
    constants, the other half evaluates them by a paired test, and vice versa. The exit status is 3 if no constants are
    better.
    """
    with progress_bar("trying constants", "trials") if source else nullcontext(lambda done, total: None) as progress:
        result = choose(index, source, engine, model=model, undo=undo, progress=progress)
    for line in result.lines:
        click.echo(line)
    if source is not None and not result.changed:
        sys.exit(PROBLEMS_FOUND)
