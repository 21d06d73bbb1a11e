"""``resift train self``: adapt word vectors to documents without labels, alone or before indexing them."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from resift.cli.failures import NOT_RIGHT
from resift.cli.options import (
    fields_option,
    format_option,
    json_option,
    option_of,
    out_option,
    seed_option,
    vectors_option,
)
from resift.cli.output import print_report, progress_bar, saved_line, saved_model, shown_progress
from resift.cli.text_fields import CorpusTexts
from resift.encoders.model import Model
from resift.encoders.registry import build_model
from resift.ingest.readers import Files
from resift.lab.training.options import AdaptOptions
from resift.lab.training.self_supervised import adapt
from resift.operations.adapting import adapt_texts, adapted_lines, warnings
from resift.vectors.packaged import DEFAULT, load_vectors


@click.command("self", epilog="Example: resift train self --corpus corpus.jsonl --out own-model")
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
@json_option
def self_command(
    files: tuple[str, ...],
    out: str,
    vectors: str,
    fields: list[str] | None,
    format_: str | None,
    as_json: bool,
    **settings: Any,
) -> None:
    """Adapt word vectors and their weights to your own documents; no labels are needed.

    Part of the documents is held back to judge the result. If it is no better than the untrained vectors, nothing is
    written and the exit status is 3. Needs the extra 'adapt'.
    """
    source, options = Files(files, format_), AdaptOptions(**settings)
    started = time.perf_counter()
    texts, table = list(CorpusTexts(source, fields, "reading")), load_vectors(vectors)
    with progress_bar("adapting") as progress:
        model = adapt(texts, table, options, progress)
    found: dict[str, Any] = model.table.info["adapted"]
    better = bool(found["better"])
    saved = saved_model(model, out) if better else None
    lines = adapted_lines(found, time.perf_counter() - started)
    if better:
        model.save(out)
        lines.append(saved_line(model, out))
    print_report({**found, "model": saved}, as_json, *lines)
    for warning in warnings(found):
        click.echo(warning, err=True)
    if not better:
        click.echo(f"warning: no better than the untrained vectors; nothing was written to {out}", err=True)
        sys.exit(NOT_RIGHT)


def adapt_files(files: Files, fields: Sequence[str], out: str | Path, vectors: str = DEFAULT) -> Model:
    """A model adapted to the documents of ``files`` and saved in the folder ``out``, for ``resift index --adapt``.

    If it is no better than the untrained vectors, a warning is printed and the untrained model is saved instead, so
    that ``out`` always holds the model to index with. ``files`` can be read again afterwards.
    """
    table = load_vectors(vectors)
    texts = list(CorpusTexts(files, fields, "reading"))
    with shown_progress() as progress:
        model = adapt_texts(texts, table, progress) or build_model("mean", table)
    # indexing reads the files again, and its progress bar starts from here
    files.position = 0
    model.save(out)
    return model
