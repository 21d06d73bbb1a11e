"""Selection of the text fields of documents for commands that read files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import click

from resift.cli.failures import PROBLEMS_FOUND, Failure
from resift.errors import BadInput
from resift.ingest.fields import guess_fields, read_sample, string_fields
from resift.ingest.readers import BadLine, Files, Record
from resift.query.dsl import document_text

_MAX_NAMES = 20  # maximum number of field names in a message
Fields = Sequence[str]
Source = dict[str, Any]
Records = Iterator[Record | BadLine]


def choose_fields(files: Files, fields: Fields | None, index: str | None = None) -> tuple[Fields, Records]:
    """Choose the text fields of the documents in some files, and start reading the files.

    Args:
        files: The files to read.
        fields: The names of the text fields, or None to guess them from the first documents.
        index: The name of the index that determines ``fields``, if it already exists. Otherwise None.

    Returns:
        The names of the text fields, and an iterator over all records of the files, including the first.

    Raises:
        BadInput: If the files contain no document, or if the first documents have no text in any of the fields that the
            user named.
        Failure: If the first documents have no text in any of the fields of an existing index. The exit status is 3.
    """
    documents, records = _first_documents(files)
    if fields is None:
        fields = guess_fields(documents)
        click.echo(f"text fields: {', '.join(fields)} (guessed from the first documents; see --fields)", err=True)
        return fields, records
    available = ", ".join(string_fields(documents)[:_MAX_NAMES]) or "none with text"
    empty = [name for name in fields if not _have_text(documents, [name])]
    if len(empty) == len(fields) > 0:
        message = f"no document of {' '.join(files.paths)} has text in {', '.join(fields)}"
        if index is None:
            raise BadInput(message, value=list(fields), expected=f"available fields: {available}")
        message += f", the fields of index {index!r}; nothing was indexed, because no search could find it"
        expected = f"another index, or columns with the names of its fields (the columns are {available})"
        raise Failure(message, expected, PROBLEMS_FOUND)
    if empty and index is None:
        names = ", ".join(map(repr, empty))
        message = f"the first documents have no text in {names}; available fields: {available}"
        click.echo(f"warning: {message}", err=True)
    return fields, records


def _first_documents(files: Files) -> tuple[list[Source], Records]:
    """Read the first 200 records of some files.

    Returns:
        The documents among these records, and an iterator that yields all records of the files from the beginning.

    Raises:
        BadInput: If there are no documents among the first records.
    """
    head, records = read_sample(files)
    documents = [record.source for record in head if isinstance(record, Record)]
    if not documents:
        raise no_documents_error(files, next((record for record in head if isinstance(record, BadLine)), None))
    return documents, records


def no_documents_error(files: Files, first_bad_line: BadLine | None = None) -> BadInput:
    """Return an error that says that the files contain no documents.

    Args:
        files: The files that were read.
        first_bad_line: The first line that could not be read as a document. The message quotes the reason.
    """
    names, expected = " ".join(files.paths), "at least one document"
    if files.assumes_json:
        has_option = any(parameter.name == "format_" for parameter in click.get_current_context().command.params)
        alternative = "--format csv, tsv or text" if has_option else "a file that ends in .csv, .tsv or .txt"
        expected = f"JSON on standard input, or {alternative}"
    reason = f": line {first_bad_line.line}: {first_bad_line.reason}" if first_bad_line else ""
    return BadInput(f"no documents in {names}{reason}", value=names, expected=expected)


def _have_text(documents: Sequence[Source], fields: Fields) -> bool:
    return any(document_text(document, fields).strip() for document in documents)
