"""The command ``resift train self``, and the adaptation of ``resift index --adapt``."""

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
from resift_lab.commands.saved import saved_model_line
from resift_lab.commands.settings import set_option
from resift_lab.training.options import AdaptOptions
from resift_lab.training.self_supervised import adapt, adapt_if_better, rejection_warning, report_lines


@click.command("self", epilog="Example: resift train self --corpus corpus.jsonl --out own-model")
@click.option(
    "--corpus", "files", required=True, multiple=True, metavar="FILE", help="A file of documents. May be repeated."
)
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
    """Adapt word vectors and their weights to your documents, without labels.

    The result is a model that averages word vectors or, with '--set codewords=K', a bag-of-embedded-words model (BoEW).
    A higher '--set temperature=T' suits documents on broader subjects. For searches, '--set mixed=true' is better: half
    of the dimensions then contain the original word vectors, as with 'resift index --adapt'. The commands
    'resift train classes' and 'resift vectors export' do not accept such a model.

    Some documents are held out from training. They serve to evaluate the result, and to choose the weight of the
    vectors. The model is written only if searches with the adapted vectors rank these documents better than searches by
    BM25 alone and searches with the original vectors. Otherwise the exit status is 3. Needs the extra 'adapt'.
    """
    source, options = Files(files), AdaptOptions(seed=seed, **settings)
    started = time.perf_counter()
    texts, table = list(CorpusTexts(source, fields, "reading")), load_vectors(vectors)
    with progress_bar("adapting") as progress:
        model = adapt(texts, table, options, progress)
    evaluation: dict[str, Any] = model.table.info["adapted"]
    better = bool(evaluation["better"])
    lines = report_lines(evaluation, time.perf_counter() - started)
    if better:
        model.save(out)
        lines.append(saved_model_line(model, out))
    click.echo("\n".join(lines))
    if not better:
        click.echo(f"{rejection_warning(evaluation)}; nothing was written to {out}", err=True)
        sys.exit(PROBLEMS_FOUND)


def adapt_files(files: Files, fields: Sequence[str], out: str | Path, vectors: str = DEFAULT_MODEL) -> Model:
    """Adapt word vectors to documents, and save a model with these vectors.

    If the adapted vectors are not better than the original vectors, a warning is printed, and a model with the original
    vectors is saved instead.

    Args:
        files: The files of documents. Their position is reset afterwards, so that the progress bar of the next pass,
            such as indexing, starts at 0.
        fields: The names of the text fields.
        out: The folder to write the model to.
        vectors: The name or folder of the word vectors to adapt.

    Returns:
        The saved model.
    """
    table = load_vectors(vectors)
    texts = list(CorpusTexts(files, fields, "reading"))
    remarks: list[str] = []
    with progress_bar("adapting") as progress:
        model = adapt_if_better(texts, table, progress, remarks.append) or build_model("mean", table)
    click.echo("\n".join(remarks), err=True)
    # Indexing reads the files again, and its progress bar starts at this position.
    files.position = 0
    model.save(out)
    return model
