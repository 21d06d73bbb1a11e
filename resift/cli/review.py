"""The command ``resift review``, which asks for judgements of documents until all relevant documents are read."""

from __future__ import annotations

import getpass
import shutil
import sys
import textwrap
from contextlib import closing

import click

from resift.cli.options import engine_at, engine_option, require_store, service_settings, store_option
from resift.errors import BadInput
from resift.reviews.review import FORMATS, Review
from resift.reviews.reviews import Reviews, ReviewSettings
from resift.reviews.stopping import Progress
from resift.service.connect import open_review_store, open_session_store

_KEYS = "y relevant · n not relevant · u undo · q quit"


@click.command(epilog="Example: resift review wilson --index papers --topic 'treatment of Wilson disease'")
@click.argument("review")
@click.option("--index", help="The index to review. Required to start a new review.")
@click.option("--topic", default="", metavar="TEXT", help="The subject in words. The best hits for it come first.")
@click.option("--export", "format_", type=click.Choice(FORMATS), help="Print all judgements in this format and exit.")
@engine_option
@store_option
def review(review: str, index: str | None, topic: str, format_: str | None, engine: str, store: str) -> None:
    """Read the documents of a review in the terminal, and judge whether each is relevant.

    The documents appear in the order of their estimated relevance, and each judgement improves the order of the
    remaining documents. Judgements are saved immediately and can be undone. The command shows the estimated recall, and
    tells you when you may stop.

    REVIEW is the name of the review. The command requires the extra 'review'.
    """
    if index is None:
        require_store(store, "reviews")
    sessions_index = service_settings().session_index
    with engine_at(engine) as opened_engine, closing(open_session_store(store, sessions_index)):  # checks the store
        reviews = Reviews(opened_engine, lambda: open_review_store(store, sessions_index))
        opened_review = reviews.open(review) if index is None else reviews.begin(review, index, ReviewSettings(topic))
        if format_ is not None:
            click.echo(opened_review.export(format_), nl=False)
            return
        _judge_documents(opened_review, getpass.getuser())


def _judge_documents(review: Review, by: str) -> None:
    click.echo(_describe_progress(review.progress()))
    while batch := review.next(1, by):
        _show(review, batch[0])
        while (key := _read_key()) not in ("y", "n", "u", "q"):
            pass
        if key == "q":
            return
        relevant, irrelevant = (batch, ()) if key == "y" else ((), batch)
        try:
            click.echo(_describe_progress(review.undo(by) if key == "u" else review.judge(relevant, irrelevant, by)))
        except BadInput as error:  # nothing to undo
            click.echo(error.message)
    progress = review.progress()
    is_finished = progress.read == progress.total
    click.echo("All documents are read." if is_finished else "The remaining documents are assigned to others.")


def _read_key() -> str:
    """Wait until the user presses a key, and return its character in lower case.

    Without a terminal, read a line from standard input and return its first character.
    """
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


def _describe_progress(progress: Progress) -> str:
    """Return the progress of a review as text, such as "12 of 340 read, 5 relevant", with an estimate of the recall."""
    counts = f"{progress.read} of {progress.total} read, {progress.relevant} relevant"
    if progress.may_stop:
        return f"{counts}; you may stop: recall of {progress.target:.0%} reached with 95 % confidence"
    if not progress.relevant:
        return counts
    recall = f"recall of at least {progress.recall[0]:.0%} with 95 % confidence"
    return f"{counts}; {recall}; read about {progress.cost} more to find the next relevant document"
