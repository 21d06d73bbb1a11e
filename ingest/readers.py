"""Documents from JSON lines (BEIR's layout or any other), CSV, TSV or plain text, compressed or not, or a stream."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import os
import sys
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
_DEAD = {"document", "file", "line", "reason", "status"}


@dataclass(frozen=True)
class Record:
    """A document as it was read, and where: the file's name and the line (from 1)."""

    file: str
    line: int
    id: str
    source: dict[str, Any]


@dataclass(frozen=True)
class BadLine:
    """A line that is no document, and why."""

    file: str
    line: int
    raw: str
    reason: str


@dataclass(frozen=True)
class Columns:
    """How a record becomes a document: which column is the id, and columns to rename (old name → new name)."""

    id: str | None = None
    rename: Mapping[str, str] | None = None


def guess_format(path: str) -> str:
    """Format by the file's ending, ``.gz`` aside. Raises BadInput where it says nothing."""
    suffix = Path(path.removesuffix(".gz")).suffix
    if suffix not in _SUFFIXES:
        raise BadInput(f"cannot tell the format of {path}", value=path, expected=f"--format {' | '.join(FORMATS)}")
    return _SUFFIXES[suffix]


class Files:
    """Documents of several files, one after another; ``-`` is stdin. ``position`` of ``total`` bytes are read."""

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
    """Documents of a stream, one after another; what cannot be read comes as a BadLine and does not end it.

    A record's id is its column ``_id`` or ``id`` (or the one that ``columns`` names); one without gets a hash of its
    content, so that reading a file again names the same documents. Gzip is noticed by its first bytes. Lines of a
    dead-letter file give the documents they hold.
    """
    buffered: Any = stream if hasattr(stream, "peek") else io.BufferedReader(stream)
    source: Any = gzip.GzipFile(fileobj=buffered) if buffered.peek(2)[:2] == b"\x1f\x8b" else buffered
    if format in ("csv", "tsv"):
        rows = _table_rows(source, "\t" if format == "tsv" else ",")
    else:
        rows = _json_rows(source) if format == "jsonl" else _text_rows(source)
    for line, row in rows:
        if isinstance(row, _Bad):
            yield BadLine(name, line, row.raw, row.reason)
        else:
            yield record_of(name, line, row, columns)


@dataclass(frozen=True)
class _Bad:
    raw: str
    reason: str


Rows = Iterator[tuple[int, dict[str, Any] | _Bad]]


def record_of(file: str, line: int, row: dict[str, Any], columns: Columns = Columns()) -> Record | BadLine:
    """The document that a row holds, or why it is none; ``file`` and ``line`` say where the row was read."""
    if set(row) == _DEAD:
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


def _json_rows(stream: BinaryIO) -> Rows:
    for number, raw in enumerate(stream, 1):
        if raw.strip():
            try:
                row = json.loads(raw.decode("utf-8-sig"), parse_constant=_no_constant)
                fault = None if isinstance(row, dict) else f"a {type(row).__name__}, expected an object"
            except (ValueError, RecursionError) as error:
                fault = f"not JSON: {error}"
            yield number, row if fault is None else _Bad(raw.decode("utf-8", "replace").rstrip("\r\n"), fault)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _text_rows(stream: BinaryIO) -> Rows:
    for number, raw in enumerate(stream, 1):
        text = raw.decode("utf-8", "replace").strip()
        if text:
            yield number, {"_id": str(number), "text": text}


def _table_rows(stream: BinaryIO, delimiter: str) -> Rows:
    csv.field_size_limit(100 * 2**20)
    lines = io.TextIOWrapper(stream, "utf-8-sig", errors="replace", newline="")
    rows = csv.DictReader(lines, delimiter=delimiter, restkey="", strict=True)
    try:
        while True:
            try:
                row = next(rows)
            except StopIteration:
                return
            except csv.Error as error:
                yield rows.line_num, _Bad("", f"malformed table: {error}")
                continue
            wrong = "" in row or None in row.values()
            fault = f"expected {len(rows.fieldnames or [])} columns"
            yield rows.line_num, _Bad(json.dumps(row, ensure_ascii=False), fault) if wrong else dict(row)
    finally:
        lines.detach()
