"""``resift train self``: adapt word vectors to documents without labels, alone or before indexing them."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from resift.cli.options import bar_of
from resift.encoders.model import Model
from resift.encoders.registry import build_model
from resift.errors import BadInput
from resift.ingest.readers import FORMATS, Files, Record
from resift.plugin.query_dsl import document_text
from resift.training.self_supervised import AdaptOptions, adapt
from resift.vectors.packaged import DEFAULT, load_vectors
from resift.vectors.table import WordVectors


@click.command("self")
@click.option("--corpus", "files", required=True, multiple=True, metavar="FILE", help="Documents; may be repeated.")
@click.option("--out", required=True, metavar="DIR", help="The model's folder.")
@click.option("--vectors", default=DEFAULT, show_default=True, metavar="DIR", help="Word vectors to start from.")
@click.option(
    "--fields",
    default="title,text",
    show_default=True,
    help="Text fields that are encoded.",
    callback=lambda ctx, param, value: [name.strip() for name in value.split(",") if name.strip()],
)
@click.option("--format", "format_", type=click.Choice(FORMATS), help="[by the file's ending; jsonl for stdin]")
@click.option("--epochs", default=AdaptOptions.epochs, show_default=True, help="Passes over the documents, at least.")
@click.option("--dim", type=int, help="Dimensions of the model. [as the vectors]")
@click.option("--min-count", default=AdaptOptions.min_count, show_default=True, help="Rarer words are not trained.")
@click.option("--limit", default=AdaptOptions.limit, show_default=True, help="Train on so many documents at most.")
@click.option("--temperature", default=AdaptOptions.temperature, show_default=True, help="Higher: broader subjects.")
@click.option("--codewords", type=int, help="Make a BoEW model of so many codewords.")
@click.option("--seed", default=0, show_default=True)
def self_command(
    files: tuple[str, ...], out: str, vectors: str, fields: list[str], format_: str | None, **settings: Any
) -> None:
    """Adapt word vectors and weights to your own documents; no labels are needed.

    A part of the documents is held back and judges. Where the result is no better than the untrained vectors,
    nothing is kept, and the exit status is 3.
    """
    model = _trained(Files(files, format_), fields, load_vectors(vectors), AdaptOptions(**settings))
    if not model.table.info["adapted"]["better"]:
        click.echo(f"warning: no better than the untrained vectors; nothing was written to {out}", err=True)
        sys.exit(3)
    model.save(out)
    click.echo(f"{model.name}, {model.dim} dimensions, hash {model.hash}, in {out}")


def adapt_files(files: Files, fields: Sequence[str], out: str | Path, vectors: str = DEFAULT) -> Model:
    """A model adapted to the documents of ``files``, saved in the folder ``out``; for ``resift index --adapt``.

    Where it is no better than the untrained vectors, a warning is printed and the untrained model is saved instead,
    so that ``out`` always holds the model to index with. ``files`` can be read again afterwards; stdin cannot, and
    raises BadInput.
    """
    if "-" in files.paths:
        raise BadInput("stdin cannot be read twice, to adapt and to index", value="-", expected="files")
    table = load_vectors(vectors)
    model = _trained(files, fields, table, AdaptOptions())
    files.position = 0
    if not model.table.info["adapted"]["better"]:
        click.echo("warning: adapting made nothing better; the untrained vectors are used", err=True)
        model = build_model("mean", table)
    model.save(out)
    return model


def _trained(files: Files, fields: Sequence[str], vectors: WordVectors, options: AdaptOptions) -> Model:
    started = time.perf_counter()
    with click.progressbar(length=files.total, label="reading", file=sys.stderr) as bar:

        def texts() -> Iterator[str]:
            for record in files:
                bar.update(files.position - bar.pos)
                if isinstance(record, Record):
                    yield document_text(record.source, fields)

        documents = list(texts())
    with bar_of("adapting") as progress:
        model = adapt(documents, vectors, options, progress)
    found = model.table.info["adapted"]
    click.echo(f"{found['documents']} documents, {found['words']} words, {time.perf_counter() - started:.0f} s")
    click.echo(f"{'':21}untrained  adapted   ({found['held_back']} documents held back)")
    for name, key in (("mean reciprocal rank", "mrr"), ("found first", "accuracy")):
        click.echo(f"{name:21}{found[f'{key}_before']:9.3f}{found[f'{key}_after']:9.3f}")
    return model
