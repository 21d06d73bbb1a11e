"""What several commands print: progress bars, reports as text or JSON, tables, and where a model was saved."""

from __future__ import annotations

import json
import signal
import sys
import time
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import zip_longest
from typing import Any, NoReturn

import click

from resift.cli.failures import PROBLEMS_FOUND
from resift.errors import BadInput, Interrupted
from resift.ingest.stopping import Stop
from resift.plugin.operations.plan import Plan, Progress, as_bars

_NO_WIDTH = ("Mn", "Me", "Cf")  # Unicode's categories
_JOINERS = "\u200c\u200d"  # without which words of Persian or Hindi, and many an emoji, fall apart


@contextmanager
def progress_bar(label: str, unit: str = "") -> Iterator[Callable[[int, int], None]]:
    """A progress bar on standard error. It yields a function to call with the steps that are done and all steps.

    With a ``unit``, which is what the steps are, it shows how many are done a second.
    """
    started = time.perf_counter()

    def rate(done: int | None) -> str | None:
        return f"{done / (time.perf_counter() - started):,.0f} {unit} a second" if unit and done else None

    with click.progressbar(length=1, label=label, file=sys.stderr, item_show_func=rate) as bar:

        def progress(done: int, total: int) -> None:
            bar.length = total
            bar.update(min(done, total) - bar.pos, done)

        yield progress


def terminal_progress(unit: str = "") -> AbstractContextManager[Progress]:
    """What shows an operation's progress on standard error: a bar for each step, and remarks as lines."""
    return as_bars(lambda label: progress_bar(label, unit), lambda text: click.echo(text, err=True))


def execute_plan(plan: Plan, dry_run: bool, yes: bool, as_json: bool = False) -> NoReturn:
    """Show a plan and, unless it is a ``dry_run``, ask, do it and show what came of it; then the command is over."""
    if dry_run:
        print_report({**plan.to_dict(), "dry_run": True}, as_json, str(plan))
        sys.exit()
    click.echo(str(plan), err=True)
    require_confirmation(yes, plan.question)
    stop = Stop()
    try:
        with stop.at_signals(), terminal_progress() as progress:
            result = plan.run(progress, stop)
    except Interrupted as error:
        click.echo(error.message, err=True)
        sys.exit(128 + (stop.signal or signal.SIGINT))
    print_report(result.to_dict(), as_json, str(result))
    sys.exit(0 if result.in_order else PROBLEMS_FOUND)


def require_confirmation(yes: bool, question: str, option: str = "--yes") -> None:
    """Raise BadInput unless the user says yes; somebody who is not there to be asked does not."""
    try:
        if yes or click.confirm(question, err=True):
            return
    except click.Abort:
        click.echo(err=True)
    raise BadInput("not confirmed: nothing was changed", value="no", expected=f"y, or {option}")


def print_report(report: dict[str, Any], as_json: bool, *lines: str) -> None:
    """Print a report: as one JSON object, or else as ``lines`` of text."""
    if as_json:
        click.echo(json.dumps(report, ensure_ascii=False))
        return
    for line in lines:
        click.echo(line)


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str] = ()) -> None:
    """Print rows below their head, which is bold on a terminal, in columns as wide as they have to be; below each row
    its lines of ``notes``."""
    widths = [max(map(display_width, column)) for column in zip(head, *rows, strict=True)]
    for number, (row, note) in enumerate(zip_longest((head, *rows), ("", *notes), fillvalue="")):
        padded = (cell + " " * (width - display_width(cell)) for cell, width in zip(row, widths, strict=True))
        line = "  ".join(padded).rstrip()
        click.echo(line if number else click.style(line, bold=True))  # echo takes the style out of what is no terminal
        for line in note.splitlines():
            click.echo(f"  {line}")


def display_width(text: str) -> int:
    """How many columns of a terminal a text takes; Chinese and Japanese characters take two, signs on others none."""
    shown = (one for one in text if unicodedata.category(one) not in _NO_WIDTH)
    return sum(1 + (unicodedata.east_asian_width(one) in "WF") for one in shown)


def truncate(text: str, width: int) -> str:
    """A text in one line of at most ``width`` columns."""
    line = "".join(one if one.isprintable() or one in _JOINERS else " " for one in " ".join(text.split()))
    if display_width(line) <= width:
        return line
    while line and display_width(line) > width - 1:
        line = line[: max(0, min(len(line) - 1, width))]
    return f"{line.rstrip()}…"
