"""``resift train self``: adapt word vectors to documents without labels, alone or before indexing them."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from resift.cli.failures import PROBLEMS_FOUND
from resift.cli.options import fields_option
from resift.cli.output import progress_bar
from resift.encoders.builders import build_model
from resift.encoders.model import Model
from resift.ingest.readers import Files
from resift.vectors.packaged import DEFAULT_MODEL, load_vectors
from resift_lab.commands.corpus_texts import CorpusTexts
from resift_lab.commands.options import out_option, seed_option, vectors_option
from resift_lab.commands.saved import saved_line
from resift_lab.commands.settings import set_option
from resift_lab.training.options import AdaptOptions
from resift_lab.training.self_supervised import adapt, adapt_if_better, adapted_lines, refusal


@click.command("self", epilog="Example: resift train self --corpus corpus.jsonl --out own-model")
@click.option("--corpus", "files", required=True, multiple=True, metavar="FILE", help="Documents. May be repeated.")
@out_option
@vectors_option
@fields_option
@set_option(AdaptOptions, "seed")
@seed_option
def self_command(
    files: tuple[str, ...],
    out: str,
    vectors: str,
    fields: list[str] | None,
    seed: int,
    settings: dict[str, Any],
) -> None:
    """Adapt word vectors and their weights to your own documents; no labels are needed.

    A higher temperature suits broader subjects; with codewords=K a BoEW model is made.

    Part of the documents is held back to judge the result: a search as it is served has to find them better than by the
    text alone, and than with the untrained vectors. The weight of the vectors is chosen likewise. Else nothing is
    written and the exit status is 3. Needs the extra 'adapt'.
    """
    source, options = Files(files), AdaptOptions(seed=seed, **settings)
    started = time.perf_counter()
    texts, table = list(CorpusTexts(source, fields, "reading")), load_vectors(vectors)
    with progress_bar("adapting") as progress:
        model = adapt(texts, table, options, progress)
    found: dict[str, Any] = model.table.info["adapted"]
    better = bool(found["better"])
    lines = adapted_lines(found, time.perf_counter() - started)
    if better:
        model.save(out)
        lines.append(saved_line(model, out))
    click.echo("\n".join(lines))
    if not better:
        click.echo(f"{refusal(found)}; nothing was written to {out}", err=True)
        sys.exit(PROBLEMS_FOUND)


def adapt_files(files: Files, fields: Sequence[str], out: str | Path, vectors: str = DEFAULT_MODEL) -> Model:
    """A model adapted to the documents of ``files`` and saved in the folder ``out``, for ``resift index --adapt``.

    If it is no better than the untrained vectors, a warning is printed and the untrained model is saved instead, so
    that ``out`` always holds the model to index with. ``files`` can be read again afterwards.
    """
    table = load_vectors(vectors)
    texts = list(CorpusTexts(files, fields, "reading"))
    remarks: list[str] = []
    with progress_bar("adapting") as progress:
        model = adapt_if_better(texts, table, progress, remarks.append) or build_model("mean", table)
    click.echo("\n".join(remarks), err=True)
    # indexing reads the files again, and its progress bar starts from here
    files.position = 0
    model.save(out)
    return model
