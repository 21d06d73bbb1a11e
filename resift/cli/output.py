"""Output of commands: progress bars, reports as text or JSON, and tables."""

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
from resift.plugin.operations.plan import Plan, Progress, progress_bars
from resift.stopping import Stop

_NO_WIDTH = ("Mn", "Me", "Cf")  # Unicode categories of characters without width
_JOINERS = "\u200c\u200d"  # invisible characters that words of Persian and Hindi and some emoji need


@contextmanager
def progress_bar(label: str, unit: str = "") -> Iterator[Callable[[int, int], None]]:
    """Return a context manager that shows a progress bar on standard error.

    The context manager yields a function ``update(done, total)`` that updates the bar. Its arguments are the number of
    completed steps and the total number of steps.

    Args:
        label: The text before the bar.
        unit: The plural name of the items that are processed. For example, with "documents" the bar shows the number of
            documents per second. If the unit is empty, no speed is displayed.
    """
    started = time.perf_counter()

    def rate(done: int | None) -> str | None:
        return f"{done / (time.perf_counter() - started):,.0f} {unit} per second" if unit and done else None

    with click.progressbar(length=1, label=label, file=sys.stderr, item_show_func=rate) as bar:

        def progress(done: int, total: int) -> None:
            bar.length = total
            bar.update(min(done, total) - bar.pos, done)

        yield progress


def terminal_progress(unit: str = "") -> AbstractContextManager[Progress]:
    """Return a context manager that shows the progress of a long operation on standard error.

    Each phase of the operation has its own progress bar. Messages of the operation are printed as lines of text.

    Args:
        unit: The plural name of the items that are counted. For example, with "documents" the bar shows the number of
            documents per second. If the unit is empty, no speed is displayed.
    """
    return progress_bars(lambda label: progress_bar(label, unit), lambda text: click.echo(text, err=True))


def execute_plan(plan: Plan, dry_run: bool, yes: bool, as_json: bool = False) -> NoReturn:
    """Show a plan, execute it if the user agrees, print the result and exit.

    The exit status is 0 if everything was successful, 3 if the result contains problems, and 128 plus the number of the
    signal if a signal interrupted the execution.

    Args:
        plan: The planned changes.
        dry_run: Whether to show the plan without executing it.
        yes: Whether to execute the plan without asking the user.
        as_json: Whether to print the result as JSON instead of text.
    """
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
    """Ask the user a yes/no question, and raise an error unless the answer is yes.

    Args:
        yes: Whether the user has already confirmed by a command-line option. If True, the question is not asked.
        question: The question to ask.
        option: The option that answers the question in advance. The error message names it.

    Raises:
        BadInput: If the answer is no, or if there is no terminal to ask on.
    """
    try:
        if yes or click.confirm(question, err=True):
            return
    except click.Abort:
        click.echo(err=True)
    raise BadInput("not confirmed: nothing was changed", value="no", expected=f"y, or {option}")


def print_report(report: dict[str, Any], as_json: bool, *lines: str) -> None:
    """Print a report as a JSON object, or as lines of text.

    Args:
        report: The values of the report, which are printed if ``as_json`` is True.
        as_json: Whether to print JSON.
        lines: The lines of text to print otherwise.
    """
    if as_json:
        click.echo(json.dumps(report, ensure_ascii=False))
        return
    for line in lines:
        click.echo(line)


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str] = ()) -> None:
    """Print a table with aligned columns. On a terminal, the column names are bold.

    Args:
        head: The names of the columns.
        rows: The rows. Each row has as many texts as there are columns.
        notes: For each row, a note to print below it, or an empty text. By default, there are no notes.
    """
    widths = [max(map(display_width, column)) for column in zip(head, *rows, strict=True)]
    for number, (row, note) in enumerate(zip_longest((head, *rows), ("", *notes), fillvalue="")):
        padded = (cell + " " * (width - display_width(cell)) for cell, width in zip(row, widths, strict=True))
        line = "  ".join(padded).rstrip()
        click.echo(line if number else click.style(line, bold=True))  # echo removes the style without a terminal
        for line in note.splitlines():
            click.echo(f"  {line}")


def display_width(text: str) -> int:
    """Return how many terminal columns a text occupies.

    Chinese and Japanese characters occupy two columns, and combining characters occupy no column.
    """
    visible = (character for character in text if unicodedata.category(character) not in _NO_WIDTH)
    return sum(1 + (unicodedata.east_asian_width(character) in "WF") for character in visible)


def truncate(text: str, width: int) -> str:
    """Return a text as a single line that fits into ``width`` terminal columns. A shortened line ends with "…"."""
    line = "".join(
        character if character.isprintable() or character in _JOINERS else " " for character in " ".join(text.split())
    )
    if display_width(line) <= width:
        return line
    while line and display_width(line) > width - 1:
        line = line[: max(0, min(len(line) - 1, width))]
    return f"{line.rstrip()}…"
