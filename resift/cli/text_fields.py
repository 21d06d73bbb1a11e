"""The text fields of documents that a command reads: those it was told, or a guess that it tells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import click

from resift.cli.failures import NOT_RIGHT, Failure
from resift.contracts.query_dsl import document_text
from resift.errors import BadInput
from resift.ingest.fields import fields_of, guess_fields, sample
from resift.ingest.readers import BadLine, Files, Record

_SHOWN = 20
Fields = Sequence[str]
Source = dict[str, Any]
Records = Iterator[Record | BadLine]


def choose_fields(files: Files, fields: Fields | None) -> tuple[Fields, Records]:
    """The text fields of documents, guessed where none are given, and the documents, none of which is left out.

    Raises BadInput if there is no document, or if the first ones have no text in these fields.
    """
    documents, records = _first(files)
    if fields is None:
        fields = guess_fields(documents)
        click.echo(f"text fields: {', '.join(fields)} (by the first documents; --fields overrules)", err=True)
    elif not _have_text(documents, fields):
        message = f"no document of {' '.join(files.paths)} has a text in {', '.join(fields)}"
        raise BadInput(message, value=list(fields), expected=f"available fields: {_names(documents)}")
    elif lacking := [name for name in fields if not _have_text(documents, [name])]:
        there, named = _names(documents), ", ".join(map(repr, lacking))
        click.echo(f"warning: no text in {named} of the first documents; available fields: {there}", err=True)
    return fields, records


def with_text(files: Files, fields: Fields, index: str) -> tuple[Fields, Records]:
    """The text ``fields`` of an index, and the documents to index there.

    Raises BadInput if there is no document, and Failure if the first ones have no text in these fields.
    """
    documents, records = _first(files)
    if not _have_text(documents, fields):
        message = (
            f"no document of {' '.join(files.paths)} has a text in {', '.join(fields)}, the fields of index {index!r}; "
            "nothing was indexed, because no words would find it"
        )
        expected = f"another index, or a column of that name; there are {_names(documents)}"
        raise Failure(message, expected, NOT_RIGHT)
    return fields, records


def _first(files: Files) -> tuple[list[Source], Records]:
    """The first documents, and all of them."""
    head, records = sample(files)
    documents = [record.source for record in head if isinstance(record, Record)]
    if not documents:
        raise no_documents(files, next((one for one in head if isinstance(one, BadLine)), None))
    return documents, records


def no_documents(files: Files, first: BadLine | None = None) -> BadInput:
    """The error of files without a document; it quotes the ``first`` line that holds none."""
    names, expected = " ".join(files.paths), "at least one document"
    if files.assumed:
        named = any(parameter.name == "format_" for parameter in click.get_current_context().command.params)
        tables = "--format csv, tsv or text" if named else "a file that ends in .csv, .tsv or .txt"
        expected = f"JSON, which standard input is taken for; or {tables}"
    reason = f": line {first.line}: {first.reason}" if first else ""
    return BadInput(f"no documents in {names}{reason}", value=names, expected=expected)


def _have_text(documents: Sequence[Source], fields: Fields) -> bool:
    return any(document_text(document, fields).strip() for document in documents)


def _names(documents: Sequence[Source]) -> str:
    return ", ".join(fields_of(documents)[:_SHOWN]) or "none that holds a text"
