"""``resift index``, ``verify`` and ``encode``: documents in, checked, or only encoded."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import numpy as np

from resift.cli.options import engine_option, fields_option, model_option, opened
from resift.cli.train_self import adapt_files
from resift.encoders.registry import load_model
from resift.errors import BadInput
from resift.ingest.indexing import DeadLetters, Indexer
from resift.ingest.readers import FORMATS, Columns, Files, Record
from resift.ingest.verify import verify as verify_index
from resift.plugin.documents import ANALYZERS
from resift.plugin.query_dsl import document_text


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--index", required=True, help="The index; it is made if there is none.")
@fields_option
@click.option("--id", "id_column", help="Column with the document's id. [_id or id, else a hash of the content]")
@click.option("--map", "renames", multiple=True, metavar="OLD=NEW", help="Rename a column; may be repeated.")
@click.option("--format", "format_", type=click.Choice(FORMATS), help="[by the file's ending; jsonl for stdin]")
@click.option("--analyzer", type=click.Choice(ANALYZERS), default="english", show_default=True, help="Of a new index.")
@click.option("--adapt", metavar="DIR", help="Adapt the packaged vectors to these documents first; the model's folder.")
@click.option("--dead-letters", metavar="FILE", help="Where refused documents go. [INDEX.dead.jsonl]")
@engine_option
@model_option
def index(
    files: tuple[str, ...],
    index: str,
    fields: list[str],
    id_column: str | None,
    renames: tuple[str, ...],
    format_: str | None,
    analyzer: str,
    adapt: str | None,
    dead_letters: str | None,
    engine: str,
    model: str,
) -> None:
    """Index documents with their vectors, from JSON lines, CSV, TSV or plain text ('-' is stdin)."""
    source = Files(files, format_, Columns(id_column, dict(_renaming(rename) for rename in renames)))
    dead = DeadLetters(Path(dead_letters or f"{index}.dead.jsonl"))
    encoder = adapt_files(source, fields, adapt) if adapt else load_model(model)
    with (
        opened(engine) as target,
        click.progressbar(length=source.total, label="indexing", file=sys.stderr) as bar,
    ):
        indexer = Indexer(target, encoder, index, dead)
        report = indexer.run(source, fields, analyzer, lambda _: bar.update(source.position - bar.pos))
    rate = report.indexed / report.seconds if report.seconds else 0
    click.echo(f"{report.indexed} documents in index {index}, {rate:.0f} a second, {report.retries} retries")
    if report.dead:
        click.echo(f"{report.dead} refused: see {dead.path}", err=True)
        sys.exit(3)


def _renaming(text: str) -> tuple[str, str]:
    old, equals, new = text.partition("=")
    if not (old and equals and new):
        raise BadInput(f"--map {text}", value=text, expected="OLD=NEW")
    return old, new


@click.command()
@click.argument("index")
@click.option("--repair", is_flag=True, help="Encode again where a vector is missing or does not belong to its text.")
@engine_option
@model_option
def verify(index: str, repair: bool, engine: str, model: str) -> None:
    """Check that every vector of an index belongs to the text beside it."""
    with opened(engine) as target:
        found = verify_index(target, load_model(model), index, repair)
    click.echo(f"{found.checked} documents: {len(found.missing)} without a vector, {len(found.stale)} with a stale one")
    if repair:
        click.echo(f"{found.repaired} repaired")
    if len(found.missing) + len(found.stale) > found.repaired:
        sys.exit(3)


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--out", required=True, metavar="FILE.npy", help="Where the float32 matrix is written.")
@fields_option
@click.option("--format", "format_", type=click.Choice(FORMATS), help="[by the file's ending; jsonl for stdin]")
@click.option("--threads", type=click.IntRange(min=1), default=1, show_default=True)
@model_option
def encode(files: tuple[str, ...], out: str, fields: list[str], format_: str | None, threads: int, model: str) -> None:
    """Encode documents into a NumPy file, a row a document."""
    loaded, source = load_model(model), Files(files, format_)
    records = (record for record in source if isinstance(record, Record))
    texts = (document_text(record.source, fields) for record in records)
    blocks = []
    with click.progressbar(length=source.total, label="encoding", file=sys.stderr) as bar:
        for block in loaded.encode_batches(texts, threads=threads):
            blocks.append(block)
            bar.update(source.position - bar.pos)
    matrix = np.concatenate([np.zeros((0, loaded.dim), np.float32), *blocks])
    np.save(out, matrix)
    click.echo(f"{len(matrix)} vectors of {loaded.dim} dimensions in {out}")
