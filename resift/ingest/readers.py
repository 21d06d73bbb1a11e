"""Read documents in JSON (in BEIR's format or any other), CSV, TSV and plain text from files and streams.

Files and streams may be compressed with gzip.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import sys
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from resift.errors import BadInput
from resift.ingest.rows import BadRow, rows_of
from resift.stopping import Stop, stoppable

STDIN = "-"
FORMATS = ("jsonl", "json", "csv", "tsv", "text")
_SUFFIXES = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".csv": "csv",
    ".tsv": "tsv",
    ".txt": "text",
    ".cor": "text",
}
_MAX_REASON = 500  # maximum number of characters of the column names in an error message
_DEAD_LETTER = {"document", "file", "line", "reason", "status"}  # the keys of a line in a dead-letter file


@dataclass(frozen=True)
class Record:
    """A document that was read from a file or another source.

    Attributes:
        file: The name of the file.
        line: The line number, counted from 1.
        id: The id of the document.
        source: The fields of the document.
        has_own_id: Whether the document contains its id. Otherwise, the id is a hash of the content.
    """

    file: str
    line: int
    id: str
    source: dict[str, Any]
    has_own_id: bool = True


@dataclass(frozen=True)
class BadLine:
    """A line of a file that does not contain a valid document.

    Attributes:
        file: The name of the file.
        line: The line number, counted from 1.
        raw: The text of the line.
        reason: The reason why the line is not a valid document.
    """

    file: str
    line: int
    raw: str
    reason: str


def guess_format(path: str) -> str:
    """Guess the format of a file from its extension. A final ``.gz`` is ignored.

    Args:
        path: The path of the file.

    Returns:
        The name of the format, such as ``csv``.

    Raises:
        BadInput: If the extension is unknown.
    """
    suffix = Path(path.removesuffix(".gz")).suffix
    if suffix not in _SUFFIXES:
        raise BadInput(
            f"cannot determine the format of {path}",
            value=path,
            expected=f"a name that ends in {', '.join(_SUFFIXES)}, or --format",
        )
    return _SUFFIXES[suffix]


class Files:
    """An iterable over the documents of several files. The files are read one after another.

    Args:
        paths: The paths of the files. ``-`` stands for stdin.
        format: The format of the files, a member of FORMATS. By default, the file extension decides, and stdin
            contains JSON lines.
        id_column: The name of the column or field with the document ids, by default ``_id`` or ``id``.
        stop: A flag that the caller can set to stop reading early.

    Attributes:
        position: The number of bytes that were read so far, for progress bars. Bytes from stdin and pipes do not count.
        total: The total size of the files in bytes, without stdin and pipes.
        assumes_json: Whether stdin is read as JSON lines because no ``format`` was passed.

    Raises:
        BadInput: If a file cannot be read, or if ``format`` is missing and a file extension is unknown.
    """

    def __init__(
        self, paths: Sequence[str], format: str | None = None, id_column: str | None = None, stop: Stop | None = None
    ) -> None:
        self.paths, self.id_column, self.stop = paths, id_column, stop or Stop()
        self.assumes_json = format is None and STDIN in paths
        self.formats = [format or ("jsonl" if path == STDIN else guess_format(path)) for path in paths]
        for path in paths:
            if path != STDIN and (not os.access(path, os.R_OK) or os.path.isdir(path)):
                raise BadInput(f"{path} cannot be read", value=path, expected="a readable file")
        self.total = sum(os.path.getsize(path) for path in paths if path != STDIN)
        self.position = 0

    def __iter__(self) -> Iterator[Record | BadLine]:
        for path, format in zip(self.paths, self.formats, strict=True):
            if self.stop.requested:
                return
            try:
                yield from self._records(path, format)
            except OSError as error:
                message = f"{path} cannot be read: {error.strerror or error}"
                raise BadInput(message, value=path, expected="a readable file") from error

    def _records(self, path: str, format: str) -> Iterator[Record | BadLine]:
        """Yield the documents of a single file, and update :attr:`position`."""
        if path == STDIN:
            yield from self._records_of_stream(sys.stdin.buffer, path, format)
            return
        with open(path, "rb") as file:
            if is_stream(path):
                yield from self._records_of_stream(file, path, format)
                return
            before = self.position
            for record in read_records(file, format, self.id_column, path):
                self.position = before + file.tell()
                yield record
                if self.stop.requested:
                    return
        self.position = before + os.path.getsize(path)

    def _records_of_stream(self, stream: BinaryIO, path: str, format: str) -> Iterator[Record | BadLine]:
        """Yield the documents of stdin or of a pipe, which can be read only once.

        Args:
            stream: The stream.
            path: The name of the stream for the records and error messages.
            format: The format of the documents.
        """
        # A requested stop ends the stream itself, so that everything that was taken from the stream is yielded.
        try:
            yield from read_records(stoppable(stream, self.stop), format, self.id_column, path)
        except BadInput:
            if not self.stop.requested:  # compressed data that ends early is not an error after a stop
                raise


def is_stream(file: str) -> bool:
    """Return whether a file is stdin or a named pipe, which can be read only once."""
    return file == STDIN or Path(file).is_fifo()


def read_records(
    stream: BinaryIO, format: str, id_column: str | None = None, name: str = STDIN
) -> Iterator[Record | BadLine]:
    """Read documents from a stream. For a line that cannot be read, yield a BadLine and continue with the next line.

    The id of a document is the value of ``id_column``. If a document has no id, its id is a hash of its content, so
    that the id is the same whenever the file is read. For a line of a dead-letter file, the refused document is
    returned.

    Args:
        stream: A stream of UTF-8 text. It may be compressed with gzip.
        format: The format of the stream, a member of FORMATS.
        id_column: The name of the column or field with the document ids, by default ``_id`` or ``id``.
        name: The file name to store in the records.

    Raises:
        BadInput: If the stream is not UTF-8 text, or if its compressed data is damaged or incomplete.
    """
    line = 0
    try:
        for line, row in rows_of(stream, format, name, id_column):
            if isinstance(row, BadRow):
                yield BadLine(name, line, row.raw, row.reason)
            else:
                yield record_of(name, line, row, id_column)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise BadInput(
            f"{name} is damaged after line {line}: {error}", value=name, expected="a complete gzip file"
        ) from error


def record_of(file: str, line: int, row: dict[str, Any], id_column: str | None = None) -> Record | BadLine:
    """Convert a row to a document. If this is not possible, return a BadLine with the reason.

    Args:
        file: The file name to store in the record.
        line: The line number to store in the record, counted from 1.
        row: The fields of the row.
        id_column: The name of the field with the document id, by default ``_id`` or ``id``.
    """
    if set(row) == _DEAD_LETTER:
        if not isinstance(row["document"], dict):
            return BadLine(file, line, str(row["document"]), str(row["reason"]))
        row = row["document"]
    names = [id_column] if id_column else ["_id", "id"]
    name = next((name for name in names if row.get(name) not in (None, "")), None)
    if id_column and name is None:
        reason = f"no id in column {id_column!r}"
        if id_column not in row:
            reason += f"; the columns are {', '.join(row)}"[:_MAX_REASON]
        return BadLine(file, line, json.dumps(row, ensure_ascii=False), reason)
    if name is not None and isinstance(row[name], (dict, list)):
        reason = f"the id in {name!r} is not a text or a number"
        return BadLine(file, line, json.dumps(row, ensure_ascii=False), reason)
    source = {key: value for key, value in row.items() if key != "_id"}
    if name is None:
        content = json.dumps(row, sort_keys=True).encode()
        return Record(file, line, hashlib.sha256(content).hexdigest()[:20], source, has_own_id=False)
    id = row[name]
    if isinstance(id, float) and id.is_integer():  # tables and databases may represent the id 7 as 7.0
        id = int(id)
    return Record(file, line, str(id), source)
