"""Documents from JSON lines (BEIR's layout or any other), CSV, TSV or plain text, compressed or not, or a stream."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import os
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from resift.errors import BadInput

FORMATS = ("jsonl", "csv", "tsv", "text")
_SUFFIXES = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".txt": "text",
    ".cor": "text",
}
_DEAD_LETTER = {"document", "file", "line", "reason", "status"}


@dataclass(frozen=True)
class Record:
    """A document, and where it was read: the file's name and the line, from 1."""

    file: str
    line: int
    id: str
    source: dict[str, Any]


@dataclass(frozen=True)
class BadLine:
    """A line that holds no document, and the reason."""

    file: str
    line: int
    raw: str
    reason: str


@dataclass(frozen=True)
class Columns:
    """How a row becomes a document: which column holds the id, and columns to rename, old name → new name."""

    id: str | None = None
    rename: Mapping[str, str] | None = None


def guess_format(path: str) -> str:
    """The format that a file's ending stands for, ``.gz`` aside. Raises BadInput if the ending is unknown."""
    suffix = Path(path.removesuffix(".gz")).suffix
    if suffix not in _SUFFIXES:
        raise BadInput(f"cannot tell the format of {path}", value=path, expected=f"--format {' | '.join(FORMATS)}")
    return _SUFFIXES[suffix]


class Files:
    """The documents of several files, one after another; ``-`` is stdin.

    ``position`` of ``total`` bytes have been read, for progress bars; stdin counts for nothing in either. Raises
    BadInput if a file cannot be read, or if no ``format`` is given and a file's ending does not tell it.
    """

    def __init__(self, paths: Sequence[str], format: str | None = None, columns: Columns = Columns()) -> None:
        self.paths, self.columns = paths, columns
        self.formats = [format or ("jsonl" if path == "-" else guess_format(path)) for path in paths]
        for path in paths:
            if path != "-" and not os.access(path, os.R_OK):
                raise BadInput(f"{path} cannot be read", value=path, expected="a readable file")
        self.total = sum(os.path.getsize(path) for path in paths if path != "-")
        self.position = 0

    def __iter__(self) -> Iterator[Record | BadLine]:
        for path, format in zip(self.paths, self.formats, strict=True):
            if path == "-":
                yield from read(sys.stdin.buffer, format, self.columns, path)
                continue
            before = self.position
            with open(path, "rb") as file:
                for record in read(file, format, self.columns, path):
                    self.position = before + file.tell()
                    yield record
            self.position = before + os.path.getsize(path)


def read(stream: BinaryIO, format: str, columns: Columns = Columns(), name: str = "-") -> Iterator[Record | BadLine]:
    """The documents of a stream, one after another; a line that cannot be read becomes a BadLine, and reading goes on.

    A document's id is its column ``_id`` or ``id``, or the one that ``columns`` names. A document without one gets a
    hash of its content, so that reading a file again gives the same ids. A line of a dead-letter file gives the
    document it holds.

    Args:
        stream: bytes in UTF-8, plain or gzip, which is recognised by its first two bytes.
        format: one of FORMATS.
        columns: which column is the id, and what is renamed.
        name: what records give as their file.

    Raises BadInput if compressed bytes are damaged or end too early.
    """
    buffered: Any = stream if hasattr(stream, "peek") else io.BufferedReader(stream)
    source: Any = gzip.GzipFile(fileobj=buffered) if buffered.peek(2)[:2] == b"\x1f\x8b" else buffered
    try:
        for line, row in _rows(source, format):
            if isinstance(row, _BadRow):
                yield BadLine(name, line, row.raw, row.reason)
            else:
                yield record_of(name, line, row, columns)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise BadInput(f"{name} is damaged: {error}", value=name, expected="a complete gzip file") from error


@dataclass(frozen=True)
class _BadRow:
    raw: str
    reason: str


_Rows = Iterator[tuple[int, dict[str, Any] | _BadRow]]


def _rows(stream: BinaryIO, format: str) -> _Rows:
    """The rows of a stream, each with its line, from 1."""
    if format == "jsonl":
        return _json_rows(stream)
    if format == "text":
        return _text_rows(stream)
    return _table_rows(stream, "\t" if format == "tsv" else ",")


def record_of(file: str, line: int, row: dict[str, Any], columns: Columns = Columns()) -> Record | BadLine:
    """The document that a row holds, or a BadLine with the reason; ``file`` and ``line`` say where the row was read."""
    if set(row) == _DEAD_LETTER:
        if not isinstance(row["document"], dict):
            return BadLine(file, line, str(row["document"]), str(row["reason"]))
        row = row["document"]
    names = [columns.id] if columns.id else ["_id", "id"]
    name = next((name for name in names if row.get(name) not in (None, "")), None)
    if columns.id and name is None:
        return BadLine(file, line, json.dumps(row, ensure_ascii=False), f"no id in column {columns.id!r}")
    rename = columns.rename or {}
    source = {rename.get(key, key): value for key, value in row.items() if key != "_id"}
    if name is None:
        return Record(file, line, hashlib.sha256(json.dumps(row, sort_keys=True).encode()).hexdigest()[:20], source)
    return Record(file, line, str(row[name]), source)


def _json_rows(stream: BinaryIO) -> _Rows:
    for number, raw in enumerate(stream, 1):
        if raw.strip():
            try:
                row = json.loads(raw.decode("utf-8-sig"), parse_constant=_no_constant)
                fault = None if isinstance(row, dict) else f"a {type(row).__name__}, expected an object"
            except (ValueError, RecursionError) as error:
                fault = f"not JSON: {error}"
            yield number, row if fault is None else _BadRow(raw.decode("utf-8", "replace").rstrip("\r\n"), fault)


def _no_constant(name: str) -> Any:
    # Python's reader takes NaN and Infinity, which engines refuse
    raise ValueError(f"{name} is not JSON")


def _text_rows(stream: BinaryIO) -> _Rows:
    for number, raw in enumerate(stream, 1):
        text = raw.decode("utf-8", "replace").strip()
        if text:
            yield number, {"_id": str(number), "text": text}


def _table_rows(stream: BinaryIO, delimiter: str) -> _Rows:
    # csv refuses fields of more than 128 KiB, which a document's text may well have
    csv.field_size_limit(100 * 2**20)
    lines = io.TextIOWrapper(stream, "utf-8-sig", errors="replace", newline="")
    # restkey: cells beyond the header come under a name that no column has, so that such a row is noticed
    rows = csv.DictReader(lines, delimiter=delimiter, restkey="", strict=True)
    try:
        while True:
            try:
                row = next(rows)
            except StopIteration:
                return
            except csv.Error as error:
                yield rows.line_num, _BadRow("", f"malformed table: {error}")
                continue
            wrong = "" in row or None in row.values()
            fault = f"expected {len(rows.fieldnames or [])} columns"
            yield rows.line_num, _BadRow(json.dumps(row, ensure_ascii=False), fault) if wrong else dict(row)
    finally:
        # a wrapper that is collected closes the stream below it, which may be stdin
        lines.detach()
