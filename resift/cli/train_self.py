"""``resift train self``: adapt word vectors to documents without labels, alone or before indexing them."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from resift.cli.options import fields_option, format_option, option_of, out_option, seed_option, vectors_option
from resift.cli.output import print_saved, progress_bar, read_with_progress
from resift.encoders.model import Model
from resift.encoders.registry import build_model
from resift.errors import BadInput
from resift.ingest.readers import Files
from resift.ingest.texts import texts_of
from resift.training.options import AdaptOptions
from resift.training.self_supervised import adapt
from resift.vectors.packaged import DEFAULT, load_vectors
from resift.vectors.table import WordVectors


@click.command("self")
@click.option("--corpus", "files", required=True, multiple=True, metavar="FILE", help="Documents. May be repeated.")
@out_option
@vectors_option
@fields_option
@format_option
@option_of(AdaptOptions, "epochs", "Passes over the documents, at least.")
@option_of(AdaptOptions, "dim", "Dimensions of the model.", type=int, show_default="as the vectors")
@option_of(AdaptOptions, "min_count", "Words of fewer documents are not trained.")
@option_of(AdaptOptions, "limit", "Documents to train on, at most; drawn by chance if there are more.")
@option_of(AdaptOptions, "temperature", "Of the softmax; higher values suit broader subjects.")
@option_of(AdaptOptions, "codewords", "Make a BoEW model with this many codewords.", type=int)
@seed_option
def self_command(
    files: tuple[str, ...], out: str, vectors: str, fields: list[str], format_: str | None, **settings: Any
) -> None:
    """Adapt word vectors and their weights to your own documents; no labels are needed.

    Part of the documents is held back to judge the result. If it is no better than the untrained vectors, nothing is
    written and the exit status is 3. Needs the extra 'adapt'.
    """
    model = _adapted(Files(files, format_), fields, load_vectors(vectors), AdaptOptions(**settings))
    if not _is_better(model):
        click.echo(f"warning: no better than the untrained vectors; nothing was written to {out}", err=True)
        sys.exit(3)
    model.save(out)
    print_saved(model, out)


def adapt_files(files: Files, fields: Sequence[str], out: str | Path, vectors: str = DEFAULT) -> Model:
    """A model adapted to the documents of ``files`` and saved in the folder ``out``, for ``resift index --adapt``.

    If it is no better than the untrained vectors, a warning is printed and the untrained model is saved instead, so
    that ``out`` always holds the model to index with. ``files`` can be read again afterwards; raises BadInput if stdin
    is among them, which cannot.
    """
    if "-" in files.paths:
        raise BadInput("stdin cannot be read twice, to adapt and to index", value="-", expected="files")
    table = load_vectors(vectors)
    model = _adapted(files, fields, table, AdaptOptions())
    # indexing reads the files again, and its progress bar starts from here
    files.position = 0
    if not _is_better(model):
        click.echo("warning: adapting made nothing better; the untrained vectors are used", err=True)
        model = build_model("mean", table)
    model.save(out)
    return model


def _adapted(files: Files, fields: Sequence[str], vectors: WordVectors, options: AdaptOptions) -> Model:
    """Adapt, and print what was found with the documents that were held back."""
    started = time.perf_counter()
    texts = list(texts_of(read_with_progress(files, "reading"), fields))
    with progress_bar("adapting") as progress:
        model = adapt(texts, vectors, options, progress)
    found = model.table.info["adapted"]
    click.echo(f"{found['documents']} documents, {found['words']} words, {time.perf_counter() - started:.0f} s")
    click.echo(f"{'':21}untrained  adapted   ({found['held_back']} documents held back)")
    for name, key in (("mean reciprocal rank", "mrr"), ("found first", "accuracy")):
        click.echo(f"{name:21}{found[f'{key}_before']:9.3f}{found[f'{key}_after']:9.3f}")
    return model


def _is_better(model: Model) -> bool:
    return bool(model.table.info["adapted"]["better"])
