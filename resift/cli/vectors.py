"""``resift vectors`` and ``resift model``: word vectors trained or taken from others, and encoders made."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from resift.cli.options import fields_option
from resift.cli.train_reranker import weighted_name
from resift.corpus import DocumentFrequencies
from resift.encoders.registry import build_model
from resift.errors import BadInput
from resift.ingest.readers import Files, Record
from resift.plugin.query_dsl import document_text
from resift.training.word2vec import train_word2vec
from resift.vectors.convert import convert
from resift.vectors.mixture import AGGREGATES, mix_vectors
from resift.vectors.packaged import DEFAULT, load_vectors
from resift.vectors.table import WEIGHTINGS, WordVectors


@click.group()
def vectors() -> None:
    """Word vectors: train, convert, distil."""


_out = click.option("--out", required=True, metavar="DIR", help="The folder to write.")
_weighting = click.option(
    "--weighting",
    type=click.Choice(WEIGHTINGS),
    default="zipf",
    show_default=True,
    help="Words' weights by their rank.",
)


def _idf(files: Sequence[str], fields: Sequence[str]) -> DocumentFrequencies | None:
    records = (record for record in Files(files) if isinstance(record, Record))
    return DocumentFrequencies.from_texts(document_text(record.source, fields) for record in records) if files else None


def _saved(found: WordVectors, out: str) -> None:
    found.save(out)
    click.echo(f"{len(found)} words of {found.dim} dimensions in {out}")


@vectors.command("train")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@fields_option
@click.option("--dim", default=100, show_default=True)
@click.option("--epochs", default=5, show_default=True)
@click.option("--min-count", default=5, show_default=True, help="Rarer words are left out.")
@click.option("--seed", default=0, show_default=True)
@_weighting
@_out
def train_vectors(
    files: tuple[str, ...],
    fields: list[str],
    dim: int,
    epochs: int,
    min_count: int,
    seed: int,
    weighting: str,
    out: str,
) -> None:
    """Train word2vec on a corpus of your own."""
    source = Files(files)
    with click.progressbar(length=source.total, label="reading", file=sys.stderr) as bar:
        texts = []
        for record in source:
            if isinstance(record, Record):
                texts.append(document_text(record.source, fields))
            bar.update(source.position - bar.pos)
    _saved(train_word2vec(texts, dim, epochs, min_count, weighting, seed), out)


@vectors.command("convert")
@click.argument("file")
@click.option("--limit", type=int, help="Keep this many words.")
@click.option("--corpus", "files", multiple=True, metavar="FILE", help="Documents, whose words are joined; repeatable.")
@fields_option
@_weighting
@_out
def convert_vectors(
    file: str, limit: int | None, files: tuple[str, ...], fields: list[str], weighting: str, out: str
) -> None:
    """Convert a word2vec, GloVe or fastText file.

    With --corpus every word of the documents gets a row, by the subwords of fastText's .bin.
    """
    idf = _idf(files, fields)
    _saved(convert(file, weighting, limit, [word for word, _ in idf.frequency.most_common()] if idf else ()), out)


@vectors.command("distill")
@click.argument("folder")
@click.option("--words", "words_file", required=True, metavar="FILE", help="A word a line, most frequent first.")
@click.option("--limit", type=click.IntRange(min=1), default=60_000, show_default=True, help="Keep this many words.")
@click.option("--dim", default=256, show_default=True)
@_weighting
@_out
def distill_vectors(folder: str, words_file: str, limit: int, dim: int, weighting: str, out: str) -> None:
    """Distil a local sentence-transformers model: one forward pass a word. Needs the extra 'distill'."""
    from resift.training.distill import distill, read_words

    with click.progressbar(length=limit, label="distilling", file=sys.stderr) as bar:
        found = distill(
            folder,
            read_words(words_file),
            dim,
            weighting,
            limit=limit,
            progress=lambda done, total: bar.update(done - bar.pos),
        )
    _saved(found.quantized(), out)


@vectors.command("mix")
@click.argument("sources", nargs=-1, required=True, metavar="DIR[=W]...")
@click.option("--corpus", "files", multiple=True, metavar="FILE", help="Documents, whose idf weighs words; repeatable.")
@fields_option
@click.option("--aggregate", type=click.Choice(AGGREGATES), default="concat", show_default=True)
@click.option("--spelling", metavar="DIM=W", help="Join rows by spelling, so that every word of the corpus has one.")
@_out
def mix_command(
    sources: tuple[str, ...], files: tuple[str, ...], fields: list[str], aggregate: str, spelling: str | None, out: str
) -> None:
    """Mix tables of word vectors, each with a weight, into one: join, add or average them."""
    parts = [weighted_name(source) for source in sources]
    tables = [load_vectors(name) for name, _ in parts]
    idf = _idf(files, fields)
    letters = None
    if spelling is not None:
        dim, weight = weighted_name(spelling)
        if not dim.isdecimal():
            raise BadInput(f"--spelling {spelling}", value=spelling, expected="DIM or DIM=WEIGHT")
        letters = int(dim), weight
    _saved(mix_vectors(tables, [weight for _, weight in parts], aggregate, idf, letters), out)


@vectors.command("refine")
@click.argument("folder")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--vectors", "source", default=DEFAULT, show_default=True, metavar="DIR", help="What to start from.")
@fields_option
@click.option("--limit", type=click.IntRange(min=14), default=66_000, show_default=True, help="Sentences to take.")
@click.option("--epochs", type=click.IntRange(min=1), default=6, show_default=True)
@click.option("--seed", default=0, show_default=True)
@_out
def refine_vectors(
    folder: str, files: tuple[str, ...], source: str, fields: list[str], limit: int, epochs: int, seed: int, out: str
) -> None:
    """Refine word vectors on texts, after a local sentence-transformers model (extras 'train' and 'distill').

    Sentences are drawn from all files alike, however large each is.
    """
    from resift.training.refine import refine

    sources = [
        (document_text(record.source, fields) for record in Files([file]) if isinstance(record, Record))
        for file in files
    ]
    with click.progressbar(length=1000, label="refining", file=sys.stderr) as bar:
        found = refine(
            load_vectors(source),
            folder,
            sources,
            limit=limit,
            epochs=epochs,
            seed=seed,
            progress=lambda done, total: bar.update(1000 * done // total - bar.pos),
        )
    _saved(found.quantized(), out)


@click.command("model")
@click.argument("encoder")
@click.option("--vectors", "source", default=DEFAULT, show_default=True, metavar="DIR", help="Word vectors' folder.")
@click.option("--seed", default=0, show_default=True)
@_out
def build(encoder: str, source: str, seed: int, out: str) -> None:
    """Make a model: mean, sfbow, sfbow:UNIVERSE, boew:K or boew:K,SIGMA."""
    made = build_model(encoder, load_vectors(source), seed)
    made.save(out)
    click.echo(f"{made.name}, {made.dim} dimensions, hash {made.hash}, in {out}")
