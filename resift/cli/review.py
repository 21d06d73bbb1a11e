"""``resift review``: read a set of documents, one at a time, until all that is relevant is found."""

from __future__ import annotations

import getpass
import shutil
import sys
import textwrap

import click

from resift.cli.options import engine_at, engine_option, service_settings, session_store_at, store_option
from resift.errors import BadInput
from resift.reviews.review import FORMATS, Review
from resift.reviews.reviews import Reviews
from resift.reviews.stopping import Progress
from resift.service.connect import open_review_store

_KEYS = "y relevant · n not relevant · u undo · q leave"


@click.command(epilog="Example: resift review wilson --index papers --topic 'treatment of Wilson disease'")
@click.argument("review")
@click.option("--index", help="What is reviewed; needed where REVIEW is begun.")
@click.option("--topic", default="", metavar="TEXT", help="What is looked for, in words: its best hits come first.")
@click.option("--export", "format_", type=click.Choice(FORMATS), help="Print all judgements instead.")
@engine_option
@store_option
def review(review: str, index: str | None, topic: str, format_: str | None, engine: str, store: str) -> None:
    """Read the documents of REVIEW one at a time, likeliest first, and say of each whether it is relevant.

    Every judgement counts at once, is stored before the next document is shown, and can be undone. It is told how much
    was found at least, and when to stop. Needs the extra 'review'.
    """
    with engine_at(engine) as opened_engine, session_store_at(store):  # beside which reviews are kept
        reviews = Reviews(opened_engine, lambda: open_review_store(store, service_settings().session_index))
        found = reviews.open(review) if index is None else reviews.begin(review, index, topic)
        if format_ is not None:
            click.echo(found.export(format_), nl=False)
            return
        _read(found, getpass.getuser())


def _read(review: Review, by: str) -> None:
    click.echo(_said(review.progress()))
    while batch := review.next(1, by):
        _show(review, batch[0])
        while (key := _key()) not in ("y", "n", "u", "q"):
            pass
        if key == "q":
            return
        relevant, irrelevant = (batch, ()) if key == "y" else ((), batch)
        try:
            click.echo(_said(review.undo(by) if key == "u" else review.judge(relevant, irrelevant, by)))
        except BadInput as error:  # nothing to undo
            click.echo(error.message)
    done = review.progress()
    click.echo("Everything is read." if done.read == done.total else "What is left was given to others.")


def _key() -> str:
    """The key that is pressed, in lower case; where this is no terminal, the first character of a line."""
    if not sys.stdin.isatty():
        return str(click.prompt(_KEYS, prompt_suffix=" > ")).strip().lower()[:1]
    click.echo(f"{_KEYS} > ", nl=False)
    key = click.getchar().lower()
    click.echo(key)
    return key


def _show(review: Review, id: str) -> None:
    width = min(100, shutil.get_terminal_size().columns)
    title, _, text = review.documents.text(id).partition("\n")
    click.echo(f"\n{click.style(textwrap.fill(title, width), bold=True)}\n{textwrap.fill(text, width)}".rstrip())
    if words := review.reasons([id])[id]:
        click.echo(f"[{id}] ranked for: {', '.join(words)}")


def _said(found: Progress) -> str:
    """A progress in a line."""
    said = f"{found.read} of {found.total} read, {found.relevant} relevant"
    if found.may_stop:
        return f"{said}; you may stop: {found.target:.0%} of the relevant are found, with 95 % confidence"
    if not found.relevant:
        return said
    return f"{said}; at least {found.recall[0]:.0%} found, with 95 % confidence; about {found.cost} more to find 1 more"
