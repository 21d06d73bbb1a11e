"""The command group ``resift export``, which writes judgements and queries in the formats of other tools."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import click

from resift.cli.options import engine_at, engine_option, store_location
from resift.cli.paths import NewFile, NewFolder
from resift.contracts.documents import IndexInfo
from resift.contracts.engine import Engine
from resift.errors import BadInput
from resift.files import replace_private
from resift.plugin.cluster.client import Cluster
from resift.plugin.cluster.native_plugin import PLUGIN
from resift.plugin.cluster.search_pipelines import find_rewriters, pipeline_name
from resift.query.dsl import document_text
from resift.service.connect import is_opensearch, ubi_address
from resift.vectors.folder import replacing_folder
from resift_lab.commands.judged_source import JudgedSource, judged_source_options
from resift_lab.evaluation.data import workbench

FORMATS = ("workbench", "trec", "beir")
# A file that only folders written by this command contain.
_MARKER = "resift.json"
# A document is highly relevant if its grades add up to at least this number. A mark, a purchase, or two clicks suffice.
_RELEVANT = 0.75
file_option = click.option(
    "--out", type=NewFile(), metavar="FILE", show_default="standard output", help="The file to write."
)
ubi_option = click.option(
    "--from-ubi",
    is_flag=True,
    help="Use the clicks in the log of User Behavior Insights (UBI) instead of the marks of sessions.",
)


@click.group(epilog="Example: resift export judgments products --out judgments.json")
def export() -> None:
    """Export the judgements of an index for the Search Relevance Workbench and other tools."""


@export.command("judgments", epilog="Example: resift export judgments products --from-ubi --format trec --out qrels")
@click.argument("index", metavar="INDEX")
@click.option(
    "--format",
    "format_",
    type=click.Choice(FORMATS),
    default=FORMATS[0],
    show_default=True,
    help="A judgement list of the Workbench; a folder with TREC's topics and qrels; or a folder in BEIR's layout, "
    "which also contains the documents.",
)
@click.option(
    "--out",
    metavar="FILE|DIR",
    show_default="standard output",
    help="The file to write, or the folder with --format trec or beir. An earlier export is replaced.",
)
@ubi_option
@judged_source_options
def judgments_command(source: JudgedSource, from_ubi: bool, index: str, format_: str, out: str | None) -> None:
    """Export the relevance judgements of an index.

    A user may judge a document several times, and several users may judge the same document. The grades of each query
    and document are therefore added up, over all sessions or, with --from-ubi, over all clients.

    In a judgement list of the Search Relevance Workbench, the rating of a document is the sum of its grades, but at
    least 0. In the other formats, the relevance is 2 for a sum of 0.75 or more, 1 for a smaller sum above 0, and
    otherwise 0. These formats number the queries, and the file topics.tsv or queries.jsonl contains their texts.
    """
    from resift_lab.evaluation.judged_collection import sum_grades

    _check_out(format_, out)
    with engine_at(source.engine) as engine:
        info = engine.info(index)
        judgements = [judgement for _, judgement in source.judgements(engine, index, from_ubi)]
        texts = _read_texts(engine, info) if format_ == "beir" else None
    documents = {judgement.document for judgement in judgements}
    sums = sum_grades(judgements, {id: id for id in documents if texts is None or id in texts})
    if not sums:
        raise _nothing_judged(index, source, from_ubi)
    grades = {query: dict(sorted(graded.items())) for query, graded in sorted(sums.items())}
    if format_ == "workbench":
        ratings = {query: {id: max(0.0, grade) for id, grade in graded.items()} for query, graded in grades.items()}
        name = f"{index[:38]} {'clicks' if from_ubi else 'judgements'}"
        _write(workbench.judgment_list(name, _description(index, from_ubi), ratings), out)
    else:
        _write_folder(Path(out or ""), _description(index, from_ubi), grades, texts)
    click.echo(f"{len(grades)} queries, {sum(map(len, grades.values()))} judgements", err=True)


def _check_out(format_: str, out: str | None) -> None:
    """Check the option ``--out``, before the command spends time on reading judgements.

    Args:
        format_: The format of the export: ``workbench``, ``trec`` or ``beir``.
        out: The file or folder to write, or None if the option is not set.

    Raises:
        BadInput: If the format needs ``--out``, and the option is not set.
        click.BadParameter: If ``out`` cannot be written.
    """
    if out is None and format_ != "workbench":
        raise BadInput(f"--format {format_} needs --out", value=format_, expected="--out DIR")
    if out is not None:
        kind = NewFile() if format_ == "workbench" else NewFolder()
        kind.convert(out, None, click.get_current_context())


def _nothing_judged(index: str, source: JudgedSource, from_ubi: bool) -> BadInput:
    """Create the error for an index without judgements.

    Args:
        index: The name of the index.
        source: The addresses from which judgements were read.
        from_ubi: Whether the judgements were derived from a log of User Behavior Insights.
    """
    location = store_location(ubi_address(source.engine, source.store) if from_ubi else source.store)
    message = f"there are no judgements of documents in {index} in {location}"
    return BadInput(
        message, value=index, expected="clicks in the log" if from_ubi else "marks in sessions, or --from-ubi"
    )


@export.command("query-set", epilog="Example: resift export query-set products --with-sessions --out queries.json")
@click.argument("index", metavar="INDEX")
@click.option(
    "--with-sessions", is_flag=True, help="Add a field to each query with the id of the session that judged its hits."
)
@file_option
@ubi_option
@judged_source_options
def query_set_command(source: JudgedSource, from_ubi: bool, index: str, with_sessions: bool, out: str | None) -> None:
    """Export the queries with judgements as a query set of the Search Relevance Workbench.

    The Workbench rejects queries that contain a quote, a backslash or one of the characters < > # :, and queries with
    more than 2,000 characters. These queries are skipped.
    """
    with engine_at(source.engine) as engine:
        engine.info(index)
        judgements = source.judgements(engine, index, from_ubi)
    queries = set()
    for session, judgement in judgements:
        if query := judgement.query.strip():
            queries.add((query, session if with_sessions else ""))
    rows = [{"queryText": query, "session": id} if id else {"queryText": query} for query, id in sorted(queries)]
    body, skipped = workbench.query_set(f"{index[:42]} queries", _description(index, from_ubi), rows)
    if not body["querySetQueries"]:
        raise _nothing_judged(index, source, from_ubi)
    _write(body, out)
    summary = f"{len(body['querySetQueries'])} queries"
    if skipped:
        summary += f"; {skipped} queries that the Workbench rejects were skipped"
    click.echo(summary, err=True)


@export.command("search-configuration", epilog="Example: resift export search-configuration products")
@click.argument("index", metavar="INDEX")
@click.option(
    "--with-sessions", is_flag=True, help="Search in the session that each query names (query-set --with-sessions)."
)
@file_option
@engine_option
def search_configuration_command(index: str, with_sessions: bool, out: str | None, engine: str) -> None:
    """Export a search configuration of the Search Relevance Workbench for INDEX.

    The Workbench then sends its queries through the search pipeline of INDEX, so that it measures the same rankings
    that users see. With --with-sessions, searches name their session in the section of ext that the pipeline reads:
    resift with the plugin, and otherwise ml_inference.
    """
    pipeline = pipeline_name(index)
    with engine_at(engine) as opened:
        fields = opened.info(index).fields
        section = _session_section(opened, pipeline) if with_sessions else None
    ending = " sessions" if with_sessions else ""
    name = pipeline[: workbench.MAX_NAME - len(ending)] + ending
    _write(workbench.search_configuration(name, index, fields, pipeline, section), out)


def _session_section(engine: Engine, pipeline: str) -> str:
    """Return the section of ``ext`` in which searches through a pipeline name their session.

    Args:
        engine: The search engine.
        pipeline: The name of the search pipeline.
    """
    rewriter = find_rewriters(Cluster(engine)).get(pipeline) if is_opensearch(engine) else None
    return PLUGIN if rewriter is None else rewriter.kind


def _description(index: str, from_ubi: bool) -> str:
    source = "clicks (UBI)" if from_ubi else "judgements of sessions"
    return f"Exported by Resift from {source} in {index}"[:250]


def _read_texts(engine: Engine, info: IndexInfo) -> dict[str, str]:
    """Read the text of each document of an index from the engine.

    Args:
        engine: The engine with the index.
        info: A description of the index, which names its text fields.

    Returns:
        The texts, by document id.
    """
    fields = list(info.fields)
    return {stored.id: document_text(stored.source, fields) for stored in engine.scan(info.name, fields=fields)}


def _write(body: Mapping[str, Any], out: str | None) -> None:
    text = json.dumps(body, ensure_ascii=False, indent=2)
    if out is None:
        click.echo(text)
    else:
        replace_private(Path(out), f"{text}\n")


def _write_folder(
    folder: Path, description: str, grades: Mapping[str, Mapping[str, float]], texts: Mapping[str, str] | None
) -> None:
    """Write judgements as a folder in BEIR's layout, or as a folder with TREC's topics and qrels.

    Args:
        folder: The folder to write.
        description: A description of the export. It is written to the file that marks the folder as an export.
        grades: The grades: ``grades[query text][document id]``.
        texts: The text of each document, by id, for a folder in BEIR's layout. None writes a folder for TREC's tools,
            which contains no documents.
    """
    # Only a folder with our marker file is replaced. A test collection from another source has the same other files.
    with replacing_folder(folder, _MARKER) as fresh:
        _write_lines(fresh / _MARKER, [_line(description=description)])
        if texts is None:
            _write_lines(fresh / "topics.tsv", (f"{id}\t{' '.join(query.split())}" for id, query in _numbered(grades)))
            rows = _qrels_rows(grades, lambda id: id.split() == [id])
            _write_lines(fresh / "qrels.txt", (f"{id} 0 {document} {relevance}" for id, document, relevance in rows))
            return
        (fresh / "qrels").mkdir()
        _write_lines(fresh / "corpus.jsonl", (_line(_id=id, title="", text=text) for id, text in texts.items()))
        _write_lines(fresh / "queries.jsonl", (_line(_id=id, text=query) for id, query in _numbered(grades)))
        rows = _qrels_rows(grades, lambda id: "\t" not in id)
        lines = [f"{id}\t{document}\t{relevance}" for id, document, relevance in rows]
        _write_lines(fresh / "qrels" / "test.tsv", ["query-id\tcorpus-id\tscore", *lines])


def _numbered(grades: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(f"q{number}", query) for number, query in enumerate(grades, 1)]


def _qrels_rows(grades: Mapping[str, Mapping[str, float]], fits: Callable[[str], bool]) -> list[tuple[str, str, int]]:
    """Convert grades to the rows of a qrels file (TREC's format for relevance judgements).

    Args:
        grades: The grades: ``grades[query text][document id]``.
        fits: A function that returns whether a document's id can be written in the format of the file. Documents with
            other ids are skipped with a warning.

    Returns:
        A tuple for each judgement: the number that stands for the query, the id of the document, and the relevance: 2
        for grades of at least 0.75, 1 for other grades above 0, and 0 for all other grades.
    """
    rows = []
    for id, query in _numbered(grades):
        rows += [(id, document, _relevance(grade)) for document, grade in grades[query].items()]
    valid = [row for row in rows if fits(row[1])]
    if len(valid) < len(rows):
        skipped = len(rows) - len(valid)
        click.echo(f"warning: skipped {skipped} judgements, because the documents' ids contain white space", err=True)
    return valid


def _relevance(grade: float) -> int:
    return 2 if grade >= _RELEVANT else int(grade > 0)


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    replace_private(path, "".join(f"{line}\n" for line in lines))


def _line(**fields: str) -> str:
    return json.dumps(fields, ensure_ascii=False)
