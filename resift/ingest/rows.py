"""Rows of a stream of UTF-8 bytes: plain text, or a table with a header; JSON has a module of its own."""

from __future__ import annotations

import codecs
import csv
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from resift.errors import BadInput

_MOST_HEADER = 8192
_NAMED = "sep="  # a line of it and a delimiter stands before the header
_NOT_UTF8 = "not UTF-8: convert the file, for example with iconv"


@dataclass(frozen=True)
class BadRow:
    """What stands where a row should be, and why it is none."""

    raw: str
    reason: str


Rows = Iterator[tuple[int, dict[str, Any] | BadRow]]


def shown(text: str) -> str:
    """A text that can be written: for lone surrogates, such as those of bytes that were not UTF-8, stands U+FFFD."""
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


def text_rows(stream: BinaryIO) -> Rows:
    """A row for each line that is not blank, each with its line, from 1."""
    for number, raw in enumerate(stream, 1):
        try:
            text = raw.decode("utf-8-sig").strip()
        except UnicodeDecodeError:
            yield number, BadRow(raw.decode("utf-8", "replace").strip(), _NOT_UTF8)
            continue
        if text:
            yield number, {"_id": str(number), "text": text}


def delimiter_of(stream: BinaryIO, delimiters: str) -> str:
    """The one of ``delimiters`` that the header of a table has most of, the first if it has none.

    A line before the header, as Excel reads one, may name it: ``sep=;``.
    """
    header = _header(stream)
    return max(delimiters, key=lambda one: header.count(one.encode()))


def _header(stream: BinaryIO) -> bytes:
    """The first line that is not empty."""
    head: bytes = stream.peek(_MOST_HEADER)  # type: ignore[attr-defined]
    return head.removeprefix(codecs.BOM_UTF8).lstrip(b"\r\n").split(b"\n", 1)[0]


def table_rows(stream: BinaryIO, delimiter: str) -> Rows:
    """A row for each line of a table after its header, each with the line it ends in, without its empty cells.

    Lines without any cell that holds something are left out, as are blanks behind each delimiter where the header has
    them. Raises BadInput if two columns have one name.
    """
    _, *others = _header(stream).split(delimiter.encode())
    is_spaced = bool(others) and all(name.startswith(b" ") for name in others)
    # csv refuses fields of more than 128 KiB, which a document's text may well have
    csv.field_size_limit(100 * 2**20)
    lines = io.TextIOWrapper(stream, "utf-8-sig", errors="surrogateescape", newline="")
    kept: list[str] = []  # the lines of the row that is being read: of a malformed one csv gives nothing back
    # restkey: cells beyond the header come under a name that no column has, so that such a row is noticed
    rows = csv.DictReader(_kept(lines, kept), delimiter=delimiter, restkey="", strict=True, skipinitialspace=is_spaced)
    try:
        rows.fieldnames = _columns(rows)
        while True:
            kept.clear()
            try:
                row = next(rows)
            except StopIteration:
                return
            except csv.Error as error:
                yield rows.reader.line_num, BadRow(shown("".join(kept)), f"malformed table: {error}")
                continue
            if not "".join(cell if isinstance(cell, str) else "".join(cell or ()) for cell in row.values()).strip():
                continue
            fault = _fault(row, len(rows.fieldnames or []))
            yield (
                rows.line_num,
                {name: cell for name, cell in row.items() if cell}
                if fault is None
                else BadRow(shown(json.dumps(row, ensure_ascii=False)), fault),
            )
    finally:
        # a wrapper that is collected closes the stream below it, which may be stdin
        lines.detach()


def _kept(lines: Iterator[str], kept: list[str]) -> Iterator[str]:
    for line in lines:
        kept.append(line)
        yield line


def _columns(rows: csv.DictReader[str]) -> list[str]:
    """The names of a table's columns. One without a name is called by its place, such as that of row numbers."""
    try:
        header = list(rows.fieldnames or [])
        while header in ([], [_NAMED, ""]):
            header = next(rows.reader)
    except StopIteration:
        return []
    except csv.Error as error:
        raise BadInput(
            f"malformed header: {error}", value=str(error), expected="a line with a name for each column"
        ) from error
    names = [name.strip() or f"column {place}" for place, name in enumerate(header, 1)]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise BadInput(f"two columns are called {twice!r}", value=twice, expected="another name for each column")
    return names


def _fault(row: dict[str, Any], columns: int) -> str | None:
    """What is wrong with a row of a table; None if nothing is."""
    if "" in row or None in row.values():
        return f"expected {columns} columns"
    cells = "".join([*row, *row.values()])
    return None if cells.isascii() or cells == cells.encode("utf-8", "replace").decode() else _NOT_UTF8
