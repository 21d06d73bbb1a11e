"""``resift index``: documents read, encoded and indexed."""

from __future__ import annotations

import signal
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from resift.cli.failures import PROBLEMS_FOUND
from resift.cli.options import engine_at, engine_option, fields_option, format_option, json_option, model_option
from resift.cli.output import print_report, progress_bar
from resift.cli.paths import NewFile, NewFolder
from resift.cli.text_fields import Records, choose_fields
from resift.contracts.documents import ANALYZERS, check_name
from resift.contracts.engine import Engine
from resift.encoders.model import Model
from resift.encoders.registry import load_model
from resift.errors import BadInput, IndexNotFound, ResiftError
from resift.ingest.indexing import DeadLetters, Indexer, Report
from resift.ingest.readers import Files, Record
from resift.ingest.stopping import Stop
from resift.plugin.adaptation import adaptation

_REMEMBERED = 1_000_000  # ids that later ones are compared with


@click.command(epilog="Example: resift index corpus.jsonl --index news")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--index", required=True, help="Name of the index; it is created if it does not exist.")
@fields_option
@click.option(
    "--id", "id_column", show_default="_id or id, else a hash of the content", help="Column with the documents' ids."
)
@format_option
@click.option(
    "--analyzer",
    type=click.Choice(ANALYZERS),
    default="english",
    show_default=True,
    help="How a new index splits texts into words and stems them.",
)
@click.option(
    "--adapt",
    type=NewFolder(),
    metavar="DIR",
    help="First adapt the packaged vectors to these documents, and save that model in DIR. Needs the extra 'lab'.",
)
@click.option(
    "--dead-letters",
    type=NewFile(),
    metavar="FILE",
    show_default="INDEX.dead.jsonl",
    help="File for refused documents.",
)
@engine_option
@model_option
@json_option
def index(
    files: tuple[str, ...],
    index: str,
    fields: list[str] | None,
    id_column: str | None,
    format_: str | None,
    analyzer: str,
    adapt: str | None,
    dead_letters: str | None,
    engine: str,
    model: str,
    as_json: bool,
) -> None:
    """Index documents with their vectors, from JSON, CSV, TSV or plain text ('-' is stdin).

    The text fields of a new index are guessed from the first documents unless --fields names them; an index that
    exists keeps its own. JSON may be an object a line or an array of objects.

    The exit status is 3 if documents were refused, which are then in a file with the reasons, or if there is nothing
    in them that the index could find.
    """
    if adapt:
        if "-" in files:
            raise BadInput("stdin cannot be read twice, to adapt and to index", value="-", expected="files")
        adaptation().require_packages()
    stop = Stop()
    source = Files(files, format_, id_column, stop)
    refused = DeadLetters(Path(NewFile()(dead_letters or f"{check_name(index)}.dead.jsonl")))
    if not adapt:
        encoder = load_model(model)
        encoder.require_documents()
    with engine_at(engine) as target:
        own = _existing_fields(target, index, fields)
        with stop.at_signals():
            chosen, records = choose_fields(source, fields if own is None else own, None if own is None else index)
        if adapt:
            encoder, records = adaptation().adapt_files(source, chosen, adapt), iter(source)
        ids: Counter[str] = Counter()
        indexer = Indexer(target, encoder, index, refused, stop=stop)
        with stop.at_signals(), _account(indexer), progress_bar("indexing") as progress:
            noted = _noting_ids(records, ids)
            report = indexer.run(noted, chosen, analyzer, lambda _: progress(source.position, source.total))
        weighed = _finished(target, index, encoder) if own is None else []
    _print_indexed(report, index, chosen, refused, ids, as_json)
    for line in weighed:
        click.echo(line, err=True)
    _end(report, stop)


def _finished(engine: Engine, index: str, model: Model) -> list[str]:
    """Give a new index its pipelines and its vectors their weight, and return what is to be said of this."""
    _add_pipelines(engine, index)
    weighed = adaptation().weigh_index(engine, engine.info(index), model)
    return weighed.describe() if weighed else []


def _add_pipelines(engine: Engine, index: str) -> None:
    """Make the pipelines of a new index, where its cluster has an installation for its model."""
    from resift.plugin.cluster.client import Cluster
    from resift.plugin.cluster.index_pipelines import settle_pipelines
    from resift.plugin.opensearch.engine import OpenSearchEngine

    if not isinstance(engine, OpenSearchEngine):
        return
    try:
        for done in settle_pipelines(Cluster(engine), index, replace=False):
            click.echo(done, err=True)
    except ResiftError as error:
        # Who may write documents may not change pipelines in every cluster, and the documents are all there.
        click.echo(f"no pipeline was made: {error.message}", err=True)


def _end(report: Report, stop: Stop) -> None:
    """Exit with the status of a signal, or of an indexing that is not right."""
    if stop.signal is not None:
        click.echo(f"ended by {signal.Signals(stop.signal).name}; {_place(report)}, and nothing behind it", err=True)
        sys.exit(128 + stop.signal)
    if report.dead or (report.without_text and report.without_text == report.indexed):
        sys.exit(PROBLEMS_FOUND)


@contextmanager
def _account(indexer: Indexer) -> Iterator[None]:
    """Where indexing fails, say how far the documents were read, and where they are."""
    report = indexer.report
    try:
        yield
    except BaseException:
        if report.last_read:
            done = f"{report.indexed} in the index, {report.dead} in {indexer.dead_letters.path}"
            click.echo(f"{_place(report)}: {done}", err=True)
        raise


def _place(report: Report) -> str:
    """How far the documents were read."""
    file, line = report.last_read or ("-", 0)
    return f"read up to line {line} of {file}"


def _noting_ids(records: Records, found: Counter[str]) -> Records:
    """The records; ``found`` counts those without an id of their own, and with that of an earlier one."""
    ids: set[int] = set()  # as hashes, which are small
    for record in records:
        if isinstance(record, Record):
            known = hash(record.id)
            found.update(unnamed=not record.has_own_id, repeated=known in ids)
            if len(ids) < _REMEMBERED:
                ids.add(known)
        yield record


def _existing_fields(engine: Engine, index: str, fields: list[str] | None) -> tuple[str, ...] | None:
    """The text fields of an index, None if there is none yet. Raises BadInput if --fields names others."""
    try:
        own = engine.info(index).fields
    except IndexNotFound:
        return None
    if fields is not None and set(fields) != set(own):
        raise BadInput(
            f"index {index!r} has the text fields {','.join(own)}, not {','.join(fields)}",
            value=fields,
            expected="no --fields, or a new index",
        )
    return own


def _print_indexed(
    report: Report, index: str, fields: Sequence[str], refused: DeadLetters, ids: Counter[str], as_json: bool
) -> None:
    rate = report.indexed / report.seconds if report.seconds else 0
    figures = {
        "index": index,
        "indexed": report.indexed,
        "refused": report.dead,
        "dead_letters": str(refused.path) if report.dead else None,
        "without_text": report.without_text,
        "retries": report.retries,
        "fields": list(fields),
        "seconds": round(report.seconds, 3),
    }
    line = f"{report.indexed} documents in index {index}, {rate:.0f} a second, {report.retries} retries"
    print_report(figures, as_json, line)
    if report.without_text:
        names = ", ".join(fields)
        click.echo(f"warning: {report.without_text} documents have no text in {names}; no words find them", err=True)
    if report.dead:
        click.echo(f"{report.dead} refused: see {refused.path}", err=True)
    if ids["repeated"]:
        click.echo(f"warning: {ids['repeated']} documents have the id of an earlier one, and replace it", err=True)
    if ids["unnamed"]:
        click.echo(
            f"{ids['unnamed']} documents have no id of their own (_id, id, or what --id names) and are known by a "
            "hash of their content: once changed, they are added anew and do not replace what is there",
            err=True,
        )
