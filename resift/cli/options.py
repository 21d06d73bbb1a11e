"""Options that several commands share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from resift.errors import MissingExtra
from resift.plugin.connect import open_engine
from resift.plugin.engine import Engine
from resift.vectors.packaged import DEFAULT

Command = Callable[..., Any]


def engine_option(command: Command) -> Command:
    """--engine: where the documents are."""
    return click.option(
        "--engine",
        envvar=["RESIFT_ENGINE", "OPENSEARCH_URL"],
        default="resift.db",
        show_default=True,
        metavar="URL|FILE",
        help="OpenSearch's URL (OPENSEARCH_URL), or the embedded engine's file.",
    )(command)


def model_option(command: Command) -> Command:
    """--model: the encoder."""
    return click.option(
        "--model",
        default=DEFAULT,
        envvar="RESIFT_MODEL",
        metavar="DIR",
        show_default=True,
        help="A saved model's folder.",
    )(command)


def fields_option(command: Command) -> Command:
    """--fields: what is searched and encoded."""
    return click.option(
        "--fields",
        default="title,text",
        show_default=True,
        help="Text fields that are searched and encoded.",
        callback=lambda ctx, param, value: [name.strip() for name in value.split(",") if name.strip()],
    )(command)


@contextmanager
def opened(url: str) -> Iterator[Engine]:
    """An engine, closed at the end."""
    engine = open_engine(url)
    try:
        yield engine
    finally:
        engine.close()


def import_torch() -> None:
    """Raise MissingExtra where training's libraries are not installed."""
    try:
        import resift.training.supervised  # noqa: F401
    except ImportError as error:
        raise MissingExtra("training needs torch: pip install 'resift[train]'") from error


@contextmanager
def bar_of(label: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on standard error; what it yields is told how many of how many steps are done."""
    with click.progressbar(length=1, label=label, file=sys.stderr) as bar:

        def progress(done: int, total: int) -> None:
            bar.length = total
            bar.update(min(done, total) - bar.pos)

        yield progress
