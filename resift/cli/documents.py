"""``resift index``, ``verify`` and ``encode``: documents indexed, checked, or only encoded."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import numpy as np

from resift.cli.options import engine_option, fields_option, format_option, model_option, opened
from resift.cli.output import progress_bar, read_with_progress
from resift.cli.train_self import adapt_files
from resift.encoders.registry import load_model
from resift.errors import BadInput
from resift.ingest.indexing import DeadLetters, Indexer
from resift.ingest.readers import Columns, Files
from resift.ingest.texts import texts_of
from resift.ingest.verify import verify as verify_index
from resift.plugin.documents import ANALYZERS


def _parse_renames(context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> dict[str, str]:
    """Option callback: old name → new name."""
    renames = {}
    for text in value:
        old, equals, new = text.partition("=")
        if not (old and equals and new):
            raise BadInput(f"--map {text}", value=text, expected="OLD=NEW")
        renames[old] = new
    return renames


@click.command(epilog="Example: resift index corpus.jsonl --index news")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--index", required=True, help="Name of the index; it is created if it does not exist.")
@fields_option
@click.option(
    "--id", "id_column", show_default="_id or id, else a hash of the content", help="Column with the documents' ids."
)
@click.option(
    "--map",
    "renames",
    multiple=True,
    metavar="OLD=NEW",
    callback=_parse_renames,
    help="Rename a column. May be repeated.",
)
@format_option
@click.option(
    "--analyzer",
    type=click.Choice(ANALYZERS),
    default="english",
    show_default=True,
    help="How a new index cuts texts into words.",
)
@click.option(
    "--adapt",
    metavar="DIR",
    help="First adapt the packaged vectors to these documents, and save that model in DIR. Needs the extra 'adapt'.",
)
@click.option("--dead-letters", metavar="FILE", show_default="INDEX.dead.jsonl", help="Where refused documents go.")
@engine_option
@model_option
def index(
    files: tuple[str, ...],
    index: str,
    fields: list[str],
    id_column: str | None,
    renames: dict[str, str],
    format_: str | None,
    analyzer: str,
    adapt: str | None,
    dead_letters: str | None,
    engine: str,
    model: str,
) -> None:
    """Index documents with their vectors, from JSON lines, CSV, TSV or plain text ('-' is stdin).

    The exit status is 3 if documents were refused; they are then in a file with the reasons.
    """
    source = Files(files, format_, Columns(id_column, renames))
    refused = DeadLetters(Path(dead_letters or f"{index}.dead.jsonl"))
    encoder = adapt_files(source, fields, adapt) if adapt else load_model(model)
    with opened(engine) as target, progress_bar("indexing") as progress:
        indexer = Indexer(target, encoder, index, refused)
        report = indexer.run(source, fields, analyzer, lambda _: progress(source.position, source.total))
    rate = report.indexed / report.seconds if report.seconds else 0
    click.echo(f"{report.indexed} documents in index {index}, {rate:.0f} a second, {report.retries} retries")
    if report.dead:
        click.echo(f"{report.dead} refused: see {refused.path}", err=True)
        sys.exit(3)


@click.command(epilog="Example: resift verify news --repair")
@click.argument("index")
@click.option("--repair", is_flag=True, help="Encode again where a vector is missing or does not belong to its text.")
@engine_option
@model_option
def verify(index: str, repair: bool, engine: str, model: str) -> None:
    """Check that every vector of an index belongs to the text beside it.

    The exit status is 3 if vectors are missing or stale and were not repaired.
    """
    with opened(engine) as target:
        found = verify_index(target, load_model(model), index, repair)
    click.echo(f"{found.checked} documents: {len(found.missing)} without a vector, {len(found.stale)} with a stale one")
    if repair:
        click.echo(f"{found.repaired} repaired")
    if len(found.missing) + len(found.stale) > found.repaired:
        sys.exit(3)


@click.command(epilog="Example: resift encode corpus.jsonl --out vectors.npy")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--out", required=True, metavar="FILE.npy", help="Where the float32 matrix is written.")
@fields_option
@format_option
@click.option(
    "--threads", type=click.IntRange(min=1), default=1, show_default=True, help="Threads that encode at a time."
)
@model_option
def encode(files: tuple[str, ...], out: str, fields: list[str], format_: str | None, threads: int, model: str) -> None:
    """Encode documents into a NumPy file, a row for each document."""
    encoder = load_model(model)
    texts = texts_of(read_with_progress(Files(files, format_), "encoding"), fields)
    matrix = np.concatenate([np.zeros((0, encoder.dim), np.float32), *encoder.encode_batches(texts, threads=threads)])
    np.save(out, matrix)
    click.echo(f"{len(matrix)} vectors of {encoder.dim} dimensions in {out}")
