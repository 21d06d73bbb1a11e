"""``resift export``: what sessions and clients judged, in the formats of other tools."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import click

from resift.cli.options import engine_at, engine_option
from resift.cli.paths import NewFile, NewFolder
from resift.contracts.documents import IndexInfo
from resift.contracts.engine import Engine
from resift.errors import BadInput
from resift.files import replace_private
from resift.query.dsl import PIPELINE_PREFIX, document_text
from resift.vectors.folder import replacing_folder
from resift_lab.commands.judged_source import JudgedSource, sourced
from resift_lab.evaluation.data import workbench

FORMATS = ("workbench", "trec", "beir")
_OURS = "resift.json"
_RELEVANT = 0.75  # the sum of grades from which a document is highly relevant: a mark, a purchase, two clicks
file_option = click.option("--out", type=NewFile(), metavar="FILE", show_default="standard output", help="Its file.")
ubi_option = click.option("--from-ubi", is_flag=True, help="What clients did, by UBI, in place of the sessions' marks.")


@click.group(epilog="Example: resift export judgments products --out judgments.json")
def export() -> None:
    """What was judged in an index, for the Search Relevance Workbench and others."""


@export.command("judgments", epilog="Example: resift export judgments products --from-ubi --format trec --out qrels")
@click.argument("index", metavar="INDEX")
@click.option(
    "--format",
    "format_",
    type=click.Choice(FORMATS),
    default=FORMATS[0],
    show_default=True,
    help="The Workbench's judgement list, TREC's qrels, or a folder as BEIR lays it out, with the documents.",
)
@click.option(
    "--out",
    metavar="FILE|DIR",
    show_default="standard output",
    help="Its file; of trec and beir a folder. An earlier export is replaced.",
)
@ubi_option
@sourced
def judgments_command(source: JudgedSource, from_ubi: bool, index: str, format_: str, out: str | None) -> None:
    """Export judgements: grades of each query and document, added up over sessions or clients.

    The Workbench gets that sum, at least 0. In the other two a document counts 2 from a sum of .75 on, 1 above 0, and 0
    below; queries are numbered, and stand in topics.tsv or queries.jsonl.
    """
    from resift_lab.evaluation.judged_collection import sum_grades

    _check_out(format_, out)
    with engine_at(source.engine) as engine:
        info = engine.info(index)
        judged = [one for _, one in source.judgements(engine, index, from_ubi)]
        texts = _texts(engine, info) if format_ == "beir" else None
    documents = {one.document for one in judged}
    sums = sum_grades(judged, {id: id for id in documents if texts is None or id in texts})
    if not sums:
        raise _nothing_judged(index)
    grades = {query: dict(sorted(graded.items())) for query, graded in sorted(sums.items())}
    if format_ == "workbench":
        ratings = {query: {id: max(0.0, grade) for id, grade in graded.items()} for query, graded in grades.items()}
        named = f"{index[:38]} {'clicks' if from_ubi else 'judgements'}", _described(index, from_ubi)
        _write(workbench.judgment_list(*named, ratings), out)
    else:
        _write_folder(Path(out or ""), _described(index, from_ubi), grades, texts)
    click.echo(f"{len(grades)} queries, {sum(map(len, grades.values()))} judgements", err=True)


def _check_out(format_: str, out: str | None) -> None:
    """Raises BadInput, or fails as click does, for what cannot be written, before anything is done."""
    if out is None and format_ != "workbench":
        raise BadInput(f"--format {format_} without --out", value=format_, expected="--out DIR")
    if out is not None:
        kind = NewFile() if format_ == "workbench" else NewFolder()
        kind.convert(out, None, click.get_current_context())


def _nothing_judged(index: str) -> BadInput:
    return BadInput(f"nobody judged a document of {index} for a query", value=index, expected="marks or clicks")


@export.command("query-set", epilog="Example: resift export query-set products --with-sessions --out queries.json")
@click.argument("index", metavar="INDEX")
@click.option("--with-sessions", is_flag=True, help="Give each query the session that it was judged in, as a field.")
@file_option
@ubi_option
@sourced
def query_set_command(source: JudgedSource, from_ubi: bool, index: str, with_sessions: bool, out: str | None) -> None:
    """Export the queries that were judged, as a query set of the Search Relevance Workbench.

    Queries that it does not take (quotes, backslashes, < > # : or more than 2,000 characters) are left out.
    """
    with engine_at(source.engine) as engine:
        engine.info(index)
        judged = source.judgements(engine, index, from_ubi)
    asked = sorted({(one.query.strip(), id if with_sessions else "") for id, one in judged if one.query.strip()})
    rows = [{"queryText": query} | ({"session": id} if id else {}) for query, id in asked]
    name = f"{index[:42]} queries"
    body, left_out = workbench.query_set(name, _described(index, from_ubi), rows)
    if not body["querySetQueries"]:
        raise _nothing_judged(index)
    _write(body, out)
    refused = f", {left_out} that the Workbench does not take left out" if left_out else ""
    click.echo(f"{len(body['querySetQueries'])} queries{refused}", err=True)


@export.command("search-configuration", epilog="Example: resift export search-configuration products")
@click.argument("index", metavar="INDEX")
@click.option("--with-sessions", is_flag=True, help="Search in the session that a query set's field names.")
@file_option
@engine_option
def search_configuration_command(index: str, with_sessions: bool, out: str | None, engine: str) -> None:
    """Export a search configuration of the Search Relevance Workbench: a search through the index's pipeline."""
    with engine_at(engine) as found:
        fields = found.info(index).fields
    if not fields:
        raise BadInput(
            f"nothing is known of the text fields of {index}", value=index, expected="resift attach --vectors, or index"
        )
    pipeline = f"{PIPELINE_PREFIX}{index}"
    name = pipeline[: workbench.MAX_NAME]
    _write(workbench.search_configuration(name, index, fields, pipeline, with_sessions), out)


def _described(index: str, from_ubi: bool) -> str:
    return f"By Resift, of {'clients (UBI)' if from_ubi else 'sessions'} that searched {index}"[:250]


def _texts(engine: Engine, info: IndexInfo) -> dict[str, str]:
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
    """Write a folder as BEIR lays it out, or without ``texts``, which are the documents', TREC's two files."""
    # replaced is what has a file of ours: a collection that somebody else made looks just like this
    with replacing_folder(folder, _OURS) as fresh:
        _write_lines(fresh / _OURS, [_line(description=description)])
        if texts is None:
            _write_lines(fresh / "topics.tsv", (f"{id}\t{' '.join(query.split())}" for id, query in _numbered(grades)))
            rows = _qrels(grades, lambda id: id.split() == [id])
            _write_lines(fresh / "qrels.txt", (f"{id} 0 {document} {relevance}" for id, document, relevance in rows))
            return
        (fresh / "qrels").mkdir()
        _write_lines(fresh / "corpus.jsonl", (_line(_id=id, title="", text=text) for id, text in texts.items()))
        _write_lines(fresh / "queries.jsonl", (_line(_id=id, text=query) for id, query in _numbered(grades)))
        rows = _qrels(grades, lambda id: "\t" not in id)
        lines = [f"{id}\t{document}\t{relevance}" for id, document, relevance in rows]
        _write_lines(fresh / "qrels" / "test.tsv", ["query-id\tcorpus-id\tscore", *lines])


def _numbered(grades: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(f"q{number}", query) for number, query in enumerate(grades, 1)]


def _qrels(grades: Mapping[str, Mapping[str, float]], fits: Callable[[str], bool]) -> list[tuple[str, str, int]]:
    """Query's number, document and relevance; documents whose ids a format cannot hold are left out, with a warning."""
    rows = []
    for id, query in _numbered(grades):
        rows += [(id, document, _relevance(grade)) for document, grade in grades[query].items()]
    kept = [row for row in rows if fits(row[1])]
    if len(kept) < len(rows):
        click.echo(f"warning: {len(rows) - len(kept)} judgements left out: blanks in the documents' ids", err=True)
    return kept


def _relevance(grade: float) -> int:
    return 2 if grade >= _RELEVANT else int(grade > 0)


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    replace_private(path, "".join(f"{line}\n" for line in lines))


def _line(**fields: str) -> str:
    return json.dumps(fields, ensure_ascii=False)
