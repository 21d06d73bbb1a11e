"""Read rows from a UTF-8 stream: JSON lines, a JSON array, a table with a header, or plain text."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, count, islice
from typing import Any, BinaryIO

from resift.errors import BadInput

TABLES = {"csv": ",;\t|", "tsv": "\t"}  # the possible delimiters of each table format
_SAMPLE = 1000  # number of rows that decide which columns are numeric
_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,17})(?:\.\d+)?(?:[eE][+-]?\d{1,2})?")  # "007" is a code
_PEEK_BYTES = 2**16  # number of bytes that are checked for binary content
_MAX_RAW = 1000  # maximum number of characters of a value that is not an object, and of a long row, in a BadRow
# Maximum size of a line or table row, and of a JSON array. A compressed file can be a thousand times as large as it
# looks, and parsing takes a few times the memory of the text.
MAX_LINE, MAX_ARRAY = 100 * 2**20, 512 * 2**20
_BULK_OPTIONS = ("routing", "pipeline", "require_alias", "version", "version_type", "if_seq_no", "if_primary_term")
_NOT_UTF8 = "not UTF-8: convert the file, for example with iconv"


@dataclass(frozen=True)
class BadRow:
    """A row of a file that cannot be read.

    Attributes:
        raw: The text of the row.
        reason: The reason why the row cannot be read.
    """

    raw: str
    reason: str


Rows = Iterator[tuple[int, "dict[str, Any] | BadRow"]]


def rows_of(stream: BinaryIO, format: str, name: str, id: str | None = None) -> Rows:
    """Read rows from a stream.

    Args:
        stream: The stream. It may be compressed with gzip.
        format: The format of the rows, such as "jsonl" or "csv".
        name: The name of the stream, for error messages.
        id: The name of the table column with the document ids, or None.

    Returns:
        An iterator over pairs of a line number, counted from 1, and a row. A row that cannot be read is a BadRow.

    Raises:
        BadInput: If the stream is not UTF-8 text.
        OSError: If compressed data is damaged. The module ``gzip`` may also raise EOFError and zlib.error.
    """
    source: Any = stream if hasattr(stream, "peek") else io.BufferedReader(stream)
    if source.peek(2)[:2] == b"\x1f\x8b":
        source = gzip.GzipFile(fileobj=source)
    if b"\0" in source.peek(_PEEK_BYTES)[:_PEEK_BYTES]:
        expected = "UTF-8, plain or compressed with gzip; iconv converts texts in UTF-16"
        raise BadInput(f"{name} is not UTF-8 text", value=name, expected=expected)
    if format in TABLES:
        return _table_rows(source, TABLES[format], ("_id", "id", id))
    return _text_rows(source) if format == "text" else _extract_documents(_json_rows(source))


def _replace_surrogates(text: str) -> str:
    """Replace lone surrogates in a text with U+FFFD. They usually stand for bytes that are not valid UTF-8."""
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


def _text_rows(stream: BinaryIO) -> Rows:
    """Convert each line of a plain text to a row with the field ``text``. The id is the number of the line."""
    for number, raw in _numbered_lines(stream):
        if len(raw) > MAX_LINE:
            yield number, _too_long_row(raw)
            continue
        try:
            text = raw.decode("utf-8-sig").strip()
        except UnicodeDecodeError:
            yield number, BadRow(raw.decode("utf-8", "replace").strip(), _NOT_UTF8)
            continue
        if text:
            yield number, {"_id": str(number), "text": text}


def _json_rows(stream: BinaryIO) -> Rows:
    """Parse the lines of a stream as JSON objects, and yield each object with its line number.

    If the first line is the start of an array, or of an object that spans several lines, the whole stream is parsed as
    a single JSON value. The objects of an array are then numbered from 1.
    """
    lines = ((number, raw) for number, raw in _numbered_lines(stream) if raw.removeprefix(codecs.BOM_UTF8).strip())
    for number, raw in lines:
        start = raw[:_MAX_RAW].decode("utf-8-sig", "surrogateescape").strip()
        if start[:1] == "[" or (start == "{" and len(raw) < _MAX_RAW):
            value = _json_value(raw, stream)
            if isinstance(value, BadRow):
                yield number, BadRow(value.raw, f"{value.reason}; expected an array, or an object a line")
            else:
                yield from enumerate(map(_require_object, value if isinstance(value, list) else [value]), 1)
            return
        yield number, _json_row(raw.removeprefix(codecs.BOM_UTF8))
        break
    for number, raw in lines:
        yield number, _json_row(raw)


def _numbered_lines(stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a stream with their numbers, counted from 1.

    A line of more than MAX_LINE bytes is cut after MAX_LINE + 1 bytes. The rest of it is skipped when the next line is
    requested.
    """
    for number in count(1):
        part = stream.readline(MAX_LINE + 1)
        if not part:
            return
        yield number, part
        while len(part) > MAX_LINE and not part.endswith(b"\n"):
            part = stream.readline(MAX_LINE + 1)


def _json_value(start: bytes, stream: BinaryIO) -> Any:
    """Parse a whole stream as a single JSON value. Return a BadRow if it is invalid or too large.

    Args:
        start: The bytes that were read from the stream before.
        stream: The rest of the stream.
    """
    raw = start + stream.read(MAX_ARRAY - len(start) + 1)
    if len(raw) > MAX_ARRAY:
        return BadRow(_excerpt(raw), f"the JSON value has more than {MAX_ARRAY} bytes")
    return _parse_json(raw.decode("utf-8-sig", "surrogateescape").strip())


def _json_row(raw: bytes) -> dict[str, Any] | BadRow:
    """Parse a line as a JSON object. Return a BadRow with the reason if this is not possible."""
    if len(raw) > MAX_LINE:
        return _too_long_row(raw)
    return _require_object(_parse_json(raw.decode("utf-8", "surrogateescape").rstrip("\r\n")))


def _too_long_row(raw: bytes) -> BadRow:
    return BadRow(_excerpt(raw), f"the line has more than {MAX_LINE} bytes")


def _excerpt(raw: bytes) -> str:
    return raw[:_MAX_RAW].decode("utf-8", "replace")


def _parse_json(text: str) -> Any:
    """Parse a JSON text, and return its value. If the text is invalid, return a BadRow with the reason."""
    try:
        return json.loads(text.encode("utf-8", "surrogateescape"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        return BadRow(_replace_surrogates(text), f"not JSON: {error}")


def _require_object(value: Any) -> dict[str, Any] | BadRow:
    """Return a JSON value if it is an object or a BadRow, otherwise a BadRow that names the type of the value."""
    if isinstance(value, (dict, BadRow)):
        return value
    kinds = {list: "an array", str: "a string", bool: "true or false", type(None): "null"}
    raw = json.dumps(value, ensure_ascii=False)[:_MAX_RAW]
    return BadRow(_replace_surrogates(raw), f"{kinds.get(type(value), 'a number')}, expected an object")


def _refuse_constant(name: str) -> Any:
    # Python's parser accepts NaN and Infinity, which engines refuse.
    raise ValueError(f"{name} is not JSON")


def _extract_documents(rows: Rows) -> Rows:
    """Extract documents from the rows of an OpenSearch bulk request or of search hits.

    A bulk action is not yielded itself: its ``_id`` is added to the document in the next row. A search hit is replaced
    with its ``_source`` and ``_id``. All other rows are yielded unchanged.

    Args:
        rows: The rows, with their line numbers.

    Yields:
        The documents, with their line numbers. A bulk action at the end without a document is yielded as a BadRow.
    """
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
    """Return whether a row is an action line of a bulk request, such as ``{"index": {"_id": "1"}}``."""
    name, target = next(iter(row.items()), ("", None))
    if len(row) != 1 or name not in ("index", "create") or not isinstance(target, dict):
        return False
    return all(key.startswith("_") or key in _BULK_OPTIONS for key in target)


def _table_rows(stream: BinaryIO, delimiters: str, ids: Sequence[str | None]) -> Rows:
    """Read the rows of a table with a header, and yield each row as a dictionary with its line number.

    Empty cells are left out. Columns that contain only numbers in the first rows are converted to numbers. If a row
    spans several lines, its line number is the number of the last line.

    Args:
        stream: The stream of bytes, in UTF-8.
        delimiters: The possible delimiters. The most frequent one in the header is used.
        ids: The names of columns that contain ids, which are not converted to numbers.

    Raises:
        BadInput: If two columns have the same name.
    """
    # By default csv refuses fields of more than 128 KiB, but texts may be longer.
    csv.field_size_limit(MAX_LINE)
    lines = io.TextIOWrapper(stream, "utf-8-sig", errors="surrogateescape", newline="")
    try:
        blank = 0
        while not (first := lines.readline(MAX_LINE)).strip():
            if not first:
                return
            blank += 1
        delimiter = max(delimiters, key=first.count)
        rows = _rows_of_cells(_RowLines(first, lines), delimiter, blank)
        names = _column_names(next(rows)[1])
        head = list(islice(rows, _SAMPLE))
        numeric = {
            column
            for column, name in enumerate(names)
            if name not in ids
            and _are_numbers([row[column] for _, row in head if isinstance(row, list) and len(row) == len(names)])
        }
        for line, row in chain(head, rows):
            if isinstance(row, BadRow):
                yield line, row
            elif any(map(str.strip, row)):
                yield line, _row_to_document(names, row, numeric)
    finally:
        # The wrapper would close the underlying stream, which may be stdin, when it is garbage-collected.
        lines.detach()


class _RowLines(Iterator[str]):
    """The lines of a table, which are passed to Python's ``csv`` module.

    The object remembers the lines of the current row, because ``csv`` does not return the text of a malformed row.

    Args:
        first: The first line.
        rest: The stream with the other lines.

    Attributes:
        row: The lines that were read since the last call of :meth:`clear`.
    """

    def __init__(self, first: str, rest: io.TextIOWrapper) -> None:
        self.row: list[str] = []
        self._first, self._rest = first, rest
        self._characters = 0

    def __next__(self) -> str:
        line, self._first = self._first or self._rest.readline(MAX_LINE), ""
        if not line:
            raise StopIteration
        self._characters += len(line)
        if self._characters > MAX_LINE or (len(line) == MAX_LINE and line[-1] not in "\r\n"):
            self.row = ["".join([*self.row, line[:_MAX_RAW]])[:_MAX_RAW]]
            while line and line[-1] not in "\r\n":
                line = self._rest.readline(MAX_LINE)
            raise csv.Error(f"the row has more than {MAX_LINE} characters")
        self.row.append(line)
        return line

    def clear(self) -> None:
        """Forget the lines of the current row, before the next row is read."""
        self.row.clear()
        self._characters = 0


def _rows_of_cells(lines: _RowLines, delimiter: str, line: int) -> Iterator[tuple[int, Any]]:
    """Yield each row of a table, with the number of the row's last line.

    A row is a list of cells, or a BadRow if the row is malformed.

    Args:
        lines: The lines of the table.
        delimiter: The character between two cells.
        line: The number of lines that were read from the stream before these lines.
    """
    reader = csv.reader(lines, delimiter=delimiter, strict=True, skipinitialspace=True)
    row: list[str] | BadRow
    while True:
        lines.clear()
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            row = BadRow(_replace_surrogates("".join(lines.row)), f"malformed table: {error}")
        yield line + reader.line_num, row


def _column_names(header: Sequence[str] | BadRow) -> list[str]:
    """Return the names of the columns of a table. A column without a name gets the name "column N".

    Args:
        header: The cells of the first row. N is the position of a cell, counted from 1.

    Raises:
        BadInput: If the header cannot be read, or if two columns have the same name.
    """
    if isinstance(header, BadRow):
        raise BadInput(f"the header cannot be read: {header.reason}", value=header.raw, expected="column names")
    names = [name.strip() or f"column {number}" for number, name in enumerate(header, 1)]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise BadInput(f"two columns have the name {repeated!r}", value=repeated, expected="different column names")
    return names


def _row_to_document(names: Sequence[str], cells: Sequence[str], numeric: set[int]) -> dict[str, Any] | BadRow:
    """Convert a table row to a document, or to a BadRow with the reason if the row is invalid.

    Empty cells are left out. If a cell in a numeric column is not a number, it remains a string, and the engine rejects
    the document later.

    Args:
        names: The names of the columns.
        cells: The cells of the row.
        numeric: The positions of the columns that contain numbers.
    """
    text = "".join(cells)
    fault = None if len(cells) == len(names) else f"expected {len(names)} columns"
    if fault is None and not text.isascii() and text != text.encode("utf-8", "replace").decode():
        fault = _NOT_UTF8
    if fault is not None:
        return BadRow(_replace_surrogates(json.dumps(dict(zip(names, cells, strict=False)), ensure_ascii=False)), fault)
    return {
        name: json.loads(cell) if column in numeric and _NUMBER.fullmatch(cell) else cell
        for column, (name, cell) in enumerate(zip(names, cells, strict=True))
        if cell
    }


def _are_numbers(cells: Sequence[str]) -> bool:
    """Return whether the cells of a column are numbers, and not codes or version numbers. Empty cells are ignored.

    >>> [_are_numbers(column) for column in (["9.50", "12.00", ""], ["1.9", "1.10"], ["007", "12"], ["5", "n/a"])]
    [True, False, False, False]
    """
    full = [cell for cell in cells if cell]
    decimals = {len(cell.partition(".")[2]) for cell in full if "." in cell}
    rounded = any("." in cell and cell.endswith("0") for cell in full)
    return bool(full) and all(map(_NUMBER.fullmatch, full)) and not (rounded and len(decimals) > 1)
