"""The command ``resift index``, which reads, encodes and indexes documents."""

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
from resift.plugin.adaptation import adaptation
from resift.service.connect import is_opensearch
from resift.stopping import Stop

_MAX_IDS = 1_000_000  # number of ids that are checked for repetitions


@click.command(epilog="Example: resift index corpus.jsonl --index news")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--index", required=True, help="Name of the index. It is created if it does not exist.")
@fields_option
@click.option(
    "--id", "id_column", show_default="_id or id, or a hash of the content", help="Column with the documents' ids."
)
@format_option
@click.option(
    "--analyzer",
    type=click.Choice(ANALYZERS),
    default="english",
    show_default=True,
    help="Analyzer of a new index: how texts are split into words and stemmed.",
)
@click.option(
    "--adapt",
    type=NewFolder(),
    metavar="DIR",
    help="First adapt the packaged word vectors to the documents, and save the model in DIR. Needs the extra 'adapt'.",
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
    """Read documents from files, and index them with their vectors.

    A FILE contains JSON, CSV, TSV or plain text; '-' stands for standard input. A JSON file contains one object per
    line, or an array of objects. For a new index, the text fields are guessed from the first documents, unless you name
    them with --fields. An existing index keeps its fields.

    Refused documents are written to a file, each with a reason. The exit status is 3 if documents were refused, or if
    no document has any text in the text fields of the index.
    """
    if adapt:
        if "-" in files:
            raise BadInput("stdin cannot be read twice, as --adapt requires", value="-", expected="files")
        adaptation().require_packages()
    stop = Stop()
    source = Files(files, format_, id_column, stop)
    refused = DeadLetters(Path(NewFile()(dead_letters or f"{check_name(index)}.dead.jsonl")))
    if not adapt:
        encoder = load_model(model)
        encoder.require_documents()
    with engine_at(engine) as target:
        own_fields = _existing_fields(target, index, fields)
        with stop.at_signals():
            if own_fields is None:
                text_fields, records = choose_fields(source, fields)
            else:
                text_fields, records = choose_fields(source, own_fields, index)
        if adapt:
            encoder, records = adaptation().adapt_files(source, text_fields, adapt), iter(source)
        ids: Counter[str] = Counter()
        indexer = Indexer(target, encoder, index, refused, stop=stop)
        with stop.at_signals(), _reporting_failures(indexer), progress_bar("indexing") as progress:
            report = indexer.run(
                _counting_ids(records, ids),
                text_fields,
                analyzer,
                lambda _: progress(source.position, source.total),
            )
        tuning = _complete_index(target, index, encoder) if own_fields is None else []
    _print_report(report, index, text_fields, refused, as_json)
    _print_id_warnings(ids)
    for line in tuning:
        click.echo(line, err=True)
    _exit_on_problems(report, stop)


def _complete_index(engine: Engine, index: str, model: Model) -> list[str]:
    """Create the pipelines of a new index, and choose how much vector similarity counts in its searches.

    Args:
        engine: The engine that contains the index.
        index: The name of the index, whose documents have just been written.
        model: The model that encoded the documents.

    Returns:
        Lines of text that describe the chosen weight.
    """
    _add_pipelines(engine, index)
    info = engine.info(index)
    weight = adaptation().weigh_index(engine, index, info.fields, model)
    if weight is None:
        return []
    tuning = info.tuning.with_weight(weight)
    engine.tune(index, tuning)
    return tuning.describe()


def _add_pipelines(engine: Engine, index: str) -> None:
    """Create the ingest and search pipelines of a new index in a cluster, and print a line about each.

    Nothing is created for an index in an SQLite file. The same holds if the cluster has no installation (the resources
    that ``resift install`` creates) with the model of the index.
    """
    if not is_opensearch(engine):
        return
    from resift.plugin.cluster.client import Cluster
    from resift.plugin.cluster.index_pipelines import update_pipelines

    try:
        for line in update_pipelines(Cluster(engine), index, replace=False):
            click.echo(line, err=True)
    except ResiftError as error:
        # A user who may write documents may lack the permission for pipelines. The documents are indexed anyway.
        click.echo(f"no pipeline was created: {error.message}", err=True)


def _exit_on_problems(report: Report, stop: Stop) -> None:
    """End the command with a non-zero status if indexing was interrupted or had problems.

    The status is 128 plus the number of the signal if a signal stopped the command. The status is 3 if documents were
    refused, or if none of the documents has text in the text fields.

    Args:
        report: The result of indexing.
        stop: The flag that stopped indexing, with the signal that the command received, if any.
    """
    if stop.signal is not None:
        click.echo(f"ended by {signal.Signals(stop.signal).name}; {_read_position(report)} and no further", err=True)
        sys.exit(128 + stop.signal)
    if report.refused or (report.without_text and report.without_text == report.indexed):
        sys.exit(PROBLEMS_FOUND)


@contextmanager
def _reporting_failures(indexer: Indexer) -> Iterator[None]:
    """Return a context manager that prints the progress so far if its ``with`` block fails.

    It prints the last line that was read, the number of indexed documents and the number of refused documents. The
    exception is then raised again.

    Args:
        indexer: The indexer that runs in the ``with`` block.
    """
    report = indexer.report
    try:
        yield
    except BaseException:
        if report.last_read:
            counts = f"{report.indexed} in the index, {report.refused} in {indexer.dead_letters.path}"
            click.echo(f"{_read_position(report)}: {counts}", err=True)
        raise


def _read_position(report: Report) -> str:
    """Return a text that says how far the files were read, such as "read up to line 12 of news.jsonl"."""
    file, line = report.last_read or ("-", 0)
    return f"read up to line {line} of {file}"


def _counting_ids(records: Records, counts: Counter[str]) -> Records:
    """Yield all records unchanged, and count the documents without an id and the documents with a repeated id.

    Args:
        records: The records to yield.
        counts: The counter to update. ``counts["unnamed"]`` is the number of documents without an id, and
            ``counts["repeated"]`` the number of documents with the same id as an earlier document.
    """
    hashes: set[int] = set()  # hashes of ids, which take less memory
    for record in records:
        if isinstance(record, Record):
            id_hash = hash(record.id)
            counts.update(unnamed=not record.has_own_id, repeated=id_hash in hashes)
            if len(hashes) < _MAX_IDS:
                hashes.add(id_hash)
        yield record


def _existing_fields(engine: Engine, index: str, fields: list[str] | None) -> tuple[str, ...] | None:
    """Return the names of the text fields of an existing index, or None if the index does not exist.

    Args:
        engine: The engine that contains the index.
        index: The name of the index.
        fields: The names from the option ``--fields``, or None if the user did not use it.

    Raises:
        BadInput: If ``fields`` differs from the text fields of the index.
    """
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


def _print_report(report: Report, index: str, fields: Sequence[str], refused: DeadLetters, as_json: bool) -> None:
    rate = report.indexed / report.seconds if report.seconds else 0
    values = {
        "index": index,
        "indexed": report.indexed,
        "refused": report.refused,
        "dead_letters": str(refused.path) if report.refused else None,
        "without_text": report.without_text,
        "retries": report.retries,
        "fields": list(fields),
        "seconds": round(report.seconds, 3),
    }
    line = f"{report.indexed} documents in index {index}, {rate:.0f} a second, {report.retries} retries"
    print_report(values, as_json, line)
    if report.without_text:
        names = ", ".join(fields)
        message = f"{report.without_text} documents have no text in {names}; lexical searches cannot find them"
        click.echo(f"warning: {message}", err=True)
    if report.refused:
        click.echo(f"{report.refused} refused: see {refused.path}", err=True)


def _print_id_warnings(ids: Counter[str]) -> None:
    if ids["repeated"]:
        click.echo(f"warning: {ids['repeated']} documents replaced an earlier document with the same id", err=True)
    if ids["unnamed"]:
        click.echo(
            f"{ids['unnamed']} documents have no id (_id, id, or the column that --id names); a hash of the content "
            "serves as their id, so a changed document is added and does not replace the old version",
            err=True,
        )
