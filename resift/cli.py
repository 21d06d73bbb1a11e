"""The command line: ``resift COMMAND --help`` tells what each command takes. The one place that joins all parts."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from resift import __version__, cli_word2doc, serving
from resift.cli_eval import evaluate
from resift.cli_sessions import sessions
from resift.cli_train import train as train_group
from resift.cli_train_reranker import emboost_command, reranker_command, weighted_name
from resift.cli_train_self import adapt_files, self_command
from resift.demo import Demo, lee_corpus
from resift.errors import BadInput, ResiftError
from resift.ingest.indexing import DeadLetters, Indexer
from resift.ingest.readers import FORMATS, Columns, Files, Record
from resift.ingest.verify import verify as verify_index
from resift.mixture import AGGREGATES, Idf, mix
from resift.model import DEFAULT, build_model, load_model, load_vectors
from resift.plugin.engine import ANALYZERS, Engine, document_text, open_engine
from resift.vectors import WEIGHTINGS, WordVectors, convert, train

if TYPE_CHECKING:
    from resift.plugin.install import Installer

Command = Callable[..., Any]


class Resift(click.Group):
    """Turns our errors into a message on stderr and exit status 1."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except ResiftError as error:
            expected = f"\n  expected: {error.expected}" if error.expected else ""
            raise click.ClickException(f"{error.message}{expected}") from error


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


@click.group(cls=Resift)
@click.version_option(__version__, prog_name="resift")
def main() -> None:
    """Meaning at BM25's cost and session feedback for OpenSearch."""


@main.command()
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


@main.command()
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


@main.command()
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


main.add_command(evaluate)
main.add_command(sessions)
main.add_command(train_group)
train_group.add_command(self_command)
train_group.add_command(reranker_command)
train_group.add_command(emboost_command)
train_group.add_command(cli_word2doc.train_command)
evaluate.add_command(cli_word2doc.eval_command)


@main.group()
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


def _idf(files: Sequence[str], fields: Sequence[str]) -> Idf | None:
    records = (record for record in Files(files) if isinstance(record, Record))
    return Idf.of(document_text(record.source, fields) for record in records) if files else None


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
    _saved(train(texts, dim, epochs, min_count, weighting, seed), out)


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
def mix_vectors(
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
    _saved(mix(tables, [weight for _, weight in parts], aggregate, idf, letters), out)


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


@main.command("model")
@click.argument("encoder")
@click.option("--vectors", "source", default=DEFAULT, show_default=True, metavar="DIR", help="Word vectors' folder.")
@click.option("--seed", default=0, show_default=True)
@_out
def build(encoder: str, source: str, seed: int, out: str) -> None:
    """Make a model: mean, sfbow, sfbow:UNIVERSE, boew:K or boew:K,SIGMA."""
    made = build_model(encoder, load_vectors(source), seed)
    made.save(out)
    click.echo(f"{made.name}, {made.dim} dimensions, hash {made.hash}, in {out}")


def install_options(command: Command) -> Command:
    """What names an installation."""
    for option in (
        click.option("--name", default="resift", show_default=True, help="Prefix of everything that is made."),
        click.option(
            "--reranker",
            default="http://127.0.0.1:8080",
            show_default=True,
            help="Where OpenSearch reaches it.",
        ),
        fields_option,
        model_option,
        click.option(
            "--engine",
            "url",
            required=True,
            envvar=["OPENSEARCH_URL", "RESIFT_ENGINE"],
            metavar="URL",
            help="OpenSearch.",
        ),
    ):
        command = option(command)
    return command


@contextmanager
def _installer(url: str, model: str, fields: list[str], reranker: str, name: str) -> Iterator[Installer]:
    from resift.plugin.install import Installer
    from resift.plugin.opensearch import OpenSearchEngine

    with opened(url) as engine:
        if not isinstance(engine, OpenSearchEngine):
            raise BadInput(f"{url} is not an OpenSearch cluster", value=url, expected="http(s)://HOST:PORT")
        yield Installer(engine, load_model(model), fields, reranker, name)


@main.command()
@click.option("--dry-run", is_flag=True, help="Only tell what would change.")
@install_options
def install(dry_run: bool, url: str, model: str, fields: list[str], reranker: str, name: str) -> None:
    """Put templates, scripts, remote models and pipelines into a cluster."""
    with _installer(url, model, fields, reranker, name) as installer:
        for step in installer.install(dry_run) or ["nothing to do"]:
            click.echo(f"would {step}" if dry_run and step != "nothing to do" else step)
        for plugin in installer.missing_plugins:
            click.echo(f"plugin {plugin} is missing: pipelines were left out", err=True)


@main.command()
@click.option("--dry-run", is_flag=True, help="Only tell what would change.")
@install_options
def uninstall(dry_run: bool, url: str, model: str, fields: list[str], reranker: str, name: str) -> None:
    """Remove exactly what install made. Indices and their documents stay."""
    with _installer(url, model, fields, reranker, name) as installer:
        for step in installer.uninstall(dry_run) or ["nothing to do"]:
            click.echo(f"would {step}" if dry_run and step != "nothing to do" else step)


@main.command()
@install_options
def status(url: str, model: str, fields: list[str], reranker: str, name: str) -> None:
    """One table of what a cluster has, lacks or has of another version or model, and how to mend it."""
    with _installer(url, model, fields, reranker, name) as installer:
        rows = [(row.kind, row.name, row.state, row.mend) for row in installer.status()]
    widths = [max(len(row[i]) for row in [*rows, ("kind", "name", "state", "")]) for i in range(3)]
    for row in [("KIND", "NAME", "STATE", "MEND"), *rows]:
        click.echo("  ".join(value.ljust(width) for value, width in zip(row, [*widths, 0], strict=True)).rstrip())
    if any(row[2] != "ok" for row in rows):
        sys.exit(3)


@main.command()
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", default=8080, show_default=True)
@click.option("--workers", default=2, show_default=True, help="Processes; they share the model's memory.")
@engine_option
@model_option
def serve(host: str, port: int, workers: int, engine: str, model: str) -> None:
    """Serve the reranker. Other settings: RESIFT_* variables (see the guide)."""
    with serving.shared_metrics():
        serving.run({"RESIFT_ENGINE": engine, "RESIFT_MODEL": model}, host, port, workers)


@main.group("reranker")
def reranker_group() -> None:
    """Put a trained reranker into service, and take it out again."""


_service_folder = click.option(
    "--folder",
    default="reranker",
    envvar="RESIFT_RERANKER",
    show_default=True,
    metavar="DIR",
    help="Where the service looks for it (RESIFT_RERANKER).",
)


@reranker_group.command("use")
@click.argument("source", metavar="DIR")
@_service_folder
def use_reranker(source: str, folder: str) -> None:
    """Serve the trained reranker in DIR; running services take it up within seconds, indices stay as they are."""
    from resift.reranker.trained import use

    found = use(source, folder)
    click.echo(f"{found.name}, hash {found.hash}, is in service from {folder}")


@reranker_group.command("drop")
@_service_folder
def drop_reranker(folder: str) -> None:
    """Take the trained reranker out of service."""
    from resift.reranker.trained import drop

    drop(folder)
    click.echo(f"nothing is in service from {folder}")


@main.command()
@click.option(
    "--engine",
    default="sqlite",
    show_default=True,
    metavar="sqlite|opensearch|URL",
    help="opensearch: OPENSEARCH_URL or port 9200.",
)
@click.option("--corpus", metavar="FILE", help="Your own documents. [300 news items that gensim ships]")
@fields_option
@click.option("--query", help="What to search for.")
@click.option("--about", help="Regular expression of texts that count as relevant.")
@click.option("--port", default=8080, show_default=True)
@click.option("--no-serve", is_flag=True, help="End after the transcript.")
@model_option
def demo(
    engine: str,
    corpus: str | None,
    fields: list[str],
    query: str | None,
    about: str | None,
    port: int,
    no_serve: bool,
    model: str,
) -> None:
    """Index a small corpus, show how marking hits changes the next search, and serve the search page."""
    metrics = nullcontext() if no_serve else serving.shared_metrics()
    with tempfile.TemporaryDirectory(prefix="resift-demo-") as folder, metrics:
        url = {
            "sqlite": f"{folder}/demo.db",
            "opensearch": os.environ.get("OPENSEARCH_URL", "http://127.0.0.1:9200"),
        }.get(engine, engine)
        source = Files([corpus]) if corpus else Files([lee_corpus()], "text")
        settings = {
            "RESIFT_ENGINE": url,
            "RESIFT_MODEL": model,
            "RESIFT_STORE": f"{folder}/sessions.db",
            "RESIFT_INDEX": "resift-demo",
        }
        Demo(settings, click.echo).run(source, fields, query, about, is_lee=corpus is None)
        if not no_serve:
            click.echo(f"\nThe same on a page: http://127.0.0.1:{port}/?index=resift-demo (Ctrl-C ends)")
            serving.run(settings, "127.0.0.1", port, 2)
