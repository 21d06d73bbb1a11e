"""Rows of a stream in UTF-8, plain or gzip: JSON by lines or in one array, a table with a header, or plain text."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, BinaryIO

from resift.errors import BadInput

TABLES = {"csv": ",;\t|", "tsv": "\t"}  # formats of tables, and what may stand between their cells
_SAMPLE = 1000  # rows of a table that tell which of its columns are numbers
_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,17})(?:\.\d+)?(?:[eE][+-]?\d{1,2})?")  # "007" is a code
_PIECE = 2**16
_SHOWN = 1000
_BULK_OPTIONS = ("routing", "pipeline", "require_alias", "version", "version_type", "if_seq_no", "if_primary_term")
_NOT_UTF8 = "not UTF-8: convert the file, for example with iconv"


@dataclass(frozen=True)
class BadRow:
    """What stands where a row should be, and why it cannot be read."""

    raw: str
    reason: str


Rows = Iterator[tuple[int, "dict[str, Any] | BadRow"]]


def rows_of(stream: BinaryIO, format: str, name: str, id: str | None = None) -> Rows:
    """The rows of a stream, each with its line, from 1; ``id`` names the column of a table that holds ids.

    Raises BadInput, which names ``name``, for a binary file or another encoding, and an error of ``gzip`` for damage.
    """
    source: Any = stream if hasattr(stream, "peek") else io.BufferedReader(stream)
    if source.peek(2)[:2] == b"\x1f\x8b":
        source = gzip.GzipFile(fileobj=source)
    if b"\0" in source.peek(_PIECE)[:_PIECE]:
        expected = "UTF-8, plain or compressed by gzip; iconv converts texts in UTF-16"
        raise BadInput(f"{name} is not UTF-8 text", value=name, expected=expected)
    if format in TABLES:
        return _table_rows(source, TABLES[format], ("_id", "id", id))
    return _text_rows(source) if format == "text" else _documents(_json_rows(source))


def _shown(text: str) -> str:
    """A text that can be written: lone surrogates, such as those of bytes that were not UTF-8, become U+FFFD."""
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


def _text_rows(stream: BinaryIO) -> Rows:
    for number, raw in enumerate(stream, 1):
        try:
            text = raw.decode("utf-8-sig").strip()
        except UnicodeDecodeError:
            yield number, BadRow(raw.decode("utf-8", "replace").strip(), _NOT_UTF8)
            continue
        if text:
            yield number, {"_id": str(number), "text": text}


def _json_rows(stream: BinaryIO) -> Rows:
    """An object a line; or, where the first line shows it, an array or one object, read as a whole.

    Of an array it is the object's place, from 1, that stands for its line.
    """
    lines = ((number, raw) for number, raw in enumerate(stream, 1) if raw.removeprefix(codecs.BOM_UTF8).strip())
    for number, raw in lines:
        text = raw.decode("utf-8-sig", "surrogateescape").strip()
        if text[:1] == "[" or text == "{":
            value = _parsed(f"{text}\n{stream.read().decode('utf-8', 'surrogateescape')}")
            if isinstance(value, BadRow):
                yield number, BadRow(value.raw, f"{value.reason}; expected an array, or an object a line")
            else:
                yield from enumerate(map(_checked, value if isinstance(value, list) else [value]), 1)
            return
        yield number, _checked(_parsed(text))
        break
    for number, raw in lines:
        yield number, _checked(_parsed(raw.decode("utf-8", "surrogateescape").rstrip("\r\n")))


def _parsed(text: str) -> Any:
    """The value that JSON holds, or why there is none."""
    try:
        return json.loads(text.encode("utf-8", "surrogateescape"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        return BadRow(_shown(text), f"not JSON: {error}")


def _checked(value: Any) -> dict[str, Any] | BadRow:
    if isinstance(value, (dict, BadRow)):
        return value
    kinds = {list: "an array", str: "a string", bool: "true or false", type(None): "null"}
    raw = json.dumps(value, ensure_ascii=False)[:_SHOWN]
    return BadRow(_shown(raw), f"{kinds.get(type(value), 'a number')}, expected an object")


def _no_constant(name: str) -> Any:
    # Python's reader takes NaN and Infinity, which engines refuse
    raise ValueError(f"{name} is not JSON")


def _documents(rows: Rows) -> Rows:
    """The documents of bulk requests, each with the ``_id`` of the line before it, and of hits; others as they are."""
    action: tuple[int, dict[str, Any]] | None = None
    for line, row in rows:
        if isinstance(row, dict) and row.keys() >= {"_index", "_id", "_source"} and isinstance(row["_source"], dict):
            row = {**row["_source"], "_id": row["_id"]}
        if action is None and isinstance(row, dict) and _is_action(row):
            action = line, row
            continue
        if action is not None and isinstance(row, dict):
            (target,) = action[1].values()
            row = {**row, "_id": target["_id"]} if "_id" in target else row
        action = None
        yield line, row
    if action is not None:
        line, row = action
        yield line, BadRow(json.dumps(row, ensure_ascii=False), "a bulk action without a document")


def _is_action(row: dict[str, Any]) -> bool:
    """Whether a row is a line of a bulk request that says where the document of the next one goes."""
    name, target = next(iter(row.items()), ("", None))
    if len(row) != 1 or name not in ("index", "create") or not isinstance(target, dict):
        return False
    return all(key.startswith("_") or key in _BULK_OPTIONS for key in target)


def _table_rows(stream: BinaryIO, delimiters: str, ids: Sequence[str | None]) -> Rows:
    """A row for each line of a table after its header, with the line it ends in, without its empty cells.

    Columns that hold numbers alone in the first rows become numbers, but for ``ids``. Raises BadInput if two columns
    have one name.
    """
    # csv refuses fields of more than 128 KiB, which a document's text may well have
    csv.field_size_limit(100 * 2**20)
    lines = io.TextIOWrapper(stream, "utf-8-sig", errors="surrogateescape", newline="")
    try:
        blank = 0
        for first in lines:
            if first.strip():
                break
            blank += 1
        else:
            return
        delimiter = max(delimiters, key=first.count)
        rows = _cells(chain([first], lines), delimiter, blank)
        names = _columns(next(rows)[1])
        head = list(islice(rows, _SAMPLE))
        numeric = {
            place
            for place, name in enumerate(names)
            if name not in ids
            and _are_numbers([row[place] for _, row in head if isinstance(row, list) and len(row) == len(names)])
        }
        for line, row in chain(head, rows):
            if isinstance(row, BadRow):
                yield line, row
            elif any(map(str.strip, row)):
                yield line, _document(names, row, numeric)
    finally:
        # a wrapper that is collected closes the stream below it, which may be stdin
        lines.detach()


def _cells(lines: Iterator[str], delimiter: str, line: int) -> Iterator[tuple[int, Any]]:
    """The cells of each row, or a BadRow, with the line that it ends in; ``line`` lines were read before."""
    read: list[str] = []  # the lines of the row at hand: csv gives nothing back of a malformed one

    def noted() -> Iterator[str]:
        for text in lines:
            read.append(text)
            yield text

    reader = csv.reader(noted(), delimiter=delimiter, strict=True, skipinitialspace=True)
    row: list[str] | BadRow
    while True:
        read.clear()
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            row = BadRow(_shown("".join(read)), f"malformed table: {error}")
        yield line + reader.line_num, row


def _columns(header: Sequence[str] | BadRow) -> list[str]:
    """The names of a table's columns. One without a name is called by its place, such as that of row numbers."""
    if isinstance(header, BadRow):
        raise BadInput(f"the header is a {header.reason}", value=header.raw, expected="a name for each column")
    names = [name.strip() or f"column {place}" for place, name in enumerate(header, 1)]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise BadInput(f"two columns are called {twice!r}", value=twice, expected="another name for each column")
    return names


def _document(names: Sequence[str], cells: Sequence[str], numeric: set[int]) -> dict[str, Any] | BadRow:
    """The document of a row, without its empty cells; a cell that is no number stays a text, which engines refuse."""
    text = "".join(cells)
    fault = None if len(cells) == len(names) else f"expected {len(names)} columns"
    if fault is None and not text.isascii() and text != text.encode("utf-8", "replace").decode():
        fault = _NOT_UTF8
    if fault is not None:
        return BadRow(_shown(json.dumps(dict(zip(names, cells, strict=False)), ensure_ascii=False)), fault)
    return {
        name: json.loads(cell) if place in numeric and _NUMBER.fullmatch(cell) else cell
        for place, (name, cell) in enumerate(zip(names, cells, strict=True))
        if cell
    }


def _are_numbers(cells: Sequence[str]) -> bool:
    """Whether cells of a column, as far as they are not empty, are numbers, and neither codes nor versions.

    >>> [_are_numbers(column) for column in (["9.50", "12.00", ""], ["1.9", "1.10"], ["007", "12"], ["5", "n/a"])]
    [True, False, False, False]
    """
    full = [cell for cell in cells if cell]
    decimals = {len(cell.partition(".")[2]) for cell in full if "." in cell}
    rounded = any("." in cell and cell.endswith("0") for cell in full)
    return bool(full) and all(map(_NUMBER.fullmatch, full)) and not (rounded and len(decimals) > 1)
