"""What several commands print: progress bars, and where a model was saved."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from resift.ingest.readers import BadLine, Files, Record


@contextmanager
def progress_bar(label: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on standard error. It yields a function to call with the steps that are done and all steps."""
    with click.progressbar(length=1, label=label, file=sys.stderr) as bar:

        def progress(done: int, total: int) -> None:
            bar.length = total
            bar.update(min(done, total) - bar.pos)

        yield progress


def read_with_progress(files: Files, label: str) -> Iterator[Record | BadLine]:
    """The documents of ``files``, with a progress bar by the bytes that have been read."""
    with progress_bar(label) as progress:
        for record in files:
            progress(files.position, files.total)
            yield record


def print_saved(model: Any, out: str) -> None:
    """Name the model that is now in the folder ``out``."""
    click.echo(f"{model.name}, {model.dim} dimensions, hash {model.hash}, in {out}")
