"""The text fields of documents that a command reads: those it was told, or a guess that it tells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import click

from resift.cli.failures import PROBLEMS_FOUND, Failure
from resift.errors import BadInput
from resift.ingest.fields import guess_fields, sample, string_fields
from resift.ingest.readers import BadLine, Files, Record
from resift.query.dsl import document_text

_SHOWN = 20
Fields = Sequence[str]
Source = dict[str, Any]
Records = Iterator[Record | BadLine]


def choose_fields(files: Files, fields: Fields | None, index: str | None = None) -> tuple[Fields, Records]:
    """The text fields of documents, guessed where none are given, and the documents, none of which is left out.

    ``index``: that which the fields are of, if it is there already. Raises BadInput if there is no document, or if the
    first ones have no text in these fields, and a Failure in place of it for those of an index.
    """
    documents, records = _first(files)
    if fields is None:
        fields = guess_fields(documents)
        click.echo(f"text fields: {', '.join(fields)} (by the first documents; --fields overrules)", err=True)
        return fields, records
    there = ", ".join(string_fields(documents)[:_SHOWN]) or "none that holds a text"
    lacking = [name for name in fields if not _have_text(documents, [name])]
    if len(lacking) == len(fields) > 0:
        message = f"no document of {' '.join(files.paths)} has a text in {', '.join(fields)}"
        if index is None:
            raise BadInput(message, value=list(fields), expected=f"available fields: {there}")
        message += f", the fields of index {index!r}; nothing was indexed, because no words would find it"
        raise Failure(message, f"another index, or a column of that name; there are {there}", PROBLEMS_FOUND)
    if lacking and index is None:
        named = ", ".join(map(repr, lacking))
        click.echo(f"warning: no text in {named} of the first documents; available fields: {there}", err=True)
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
    if files.assumes_json:
        named = any(parameter.name == "format_" for parameter in click.get_current_context().command.params)
        tables = "--format csv, tsv or text" if named else "a file that ends in .csv, .tsv or .txt"
        expected = f"JSON, which standard input is taken for; or {tables}"
    reason = f": line {first.line}: {first.reason}" if first else ""
    return BadInput(f"no documents in {names}{reason}", value=names, expected=expected)


def _have_text(documents: Sequence[Source], fields: Fields) -> bool:
    return any(document_text(document, fields).strip() for document in documents)
