"""Read numbered lines of plain or gzipped text files: JSON objects, tab-separated cells, numbers and texts."""

from __future__ import annotations

import gzip
import json
import math
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from resift.errors import BadInput

_A_LINE = "one JSON object a line"


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Read a UTF-8 file, plain or gzipped, line by line. Blank lines are skipped.

    Args:
        path: The path of the file.

    Yields:
        The number of each line, counted from 1, and its text without the line break.

    Raises:
        BadInput: If the file cannot be read, is damaged, or contains a line that is not UTF-8.
    """
    try:
        with path.open("rb") as probe:
            # the first bytes decide and not the file name, because files are often unpacked without being renamed
            opener: Any = gzip.open if probe.read(2) == b"\x1f\x8b" else open
        # read as bytes, whose lines end at "\n" only: a file in text mode is also split at a lone carriage return
        with opener(path, "rb") as handle:
            for number, line in enumerate(handle, 1):
                text = _decode_line(line, number, path).rstrip("\r\n")
                if text.strip():
                    yield number, text
    except (OSError, EOFError, zlib.error) as error:
        raise BadInput(f"{path} cannot be read: {error}", value=str(path), expected="a UTF-8 file, or gzip") from error


def _decode_line(line: bytes, number: int, path: Path) -> str:
    """Decode a line of UTF-8 text. A byte order mark at the start of the file is removed.

    Args:
        line: The bytes of the line.
        number: The line number, counted from 1.
        path: The path of the file, for error messages.

    Raises:
        BadInput: If the line is not UTF-8.
    """
    try:
        return line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        message = f"{path}, line {number} cannot be read: {error}"
        raise BadInput(message, value=str(path), expected="UTF-8, plain or gzip") from error


def read_text(path: Path) -> str:
    """Return the text of a UTF-8 file, plain or gzipped, without its blank lines.

    Raises:
        BadInput: If the file cannot be read, is damaged, or contains a line that is not UTF-8.
    """
    return "\n".join(line for _, line in numbered_lines(path))


def json_objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Read a file of JSON lines, plain or gzipped. Blank lines are skipped.

    Yields:
        The number of a line, from 1, and its JSON object.

    Raises:
        BadInput: If the file cannot be read, or a line is not a JSON object.
    """
    for number, line in numbered_lines(path):
        try:
            record = json.loads(line)
        except ValueError as error:
            raise BadInput(f"{path}, line {number}: {error}", value=line, expected=_A_LINE) from error
        if not isinstance(record, dict):
            raise BadInput(f"{path}, line {number} is not a JSON object", value=line, expected=_A_LINE)
        yield number, record


def read_header(lines: Iterator[tuple[int, str]]) -> list[str]:
    """Read the header line of a tab-separated file, and return the names of the columns.

    Args:
        lines: Pairs of a line number and a line. The first pair is consumed.

    Returns:
        The names, or ``[""]`` if there is no line.
    """
    return next(lines, (0, ""))[1].split("\t")


def split_cells(line: str, columns: int, where: str) -> list[str]:
    """Split a line of a tab-separated file into cells.

    Args:
        line: The text of the line.
        columns: The expected number of cells.
        where: The file and line number, for error messages.

    Raises:
        BadInput: If the number of cells differs from ``columns``.
    """
    cells = line.split("\t")
    if len(cells) != columns:
        raise BadInput(f"{where}: {len(cells)} columns", value=line, expected=f"{columns}, as the header has")
    return cells


def parse_finite_number(text: str, where: str) -> float:
    """Convert text from a file to a number.

    Args:
        text: The text to convert.
        where: The file and line number, for error messages.

    Raises:
        BadInput: If the text is not a finite number.
    """
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise BadInput(f"{where}: score {text!r}", value=text, expected="a finite number")
    return number


def required_text(record: dict[str, Any], key: str, where: str) -> str:
    """Return a string from a JSON object in a file, or raise an error that names the line.

    Args:
        record: The JSON object.
        key: The key of the string.
        where: The file and line number, for error messages.

    Raises:
        BadInput: If the key is missing, or its value is not a string.
    """
    text = record.get(key)
    if not isinstance(text, str):
        raise invalid_value(record, key, where, f'"{key}": a string')
    return text


def invalid_value(record: dict[str, Any], key: str, where: str, expected: str) -> BadInput:
    """Create the error to raise for a missing or invalid value in a JSON object.

    Args:
        record: The JSON object.
        key: The key whose value is missing or invalid.
        where: The file and line number, for the error message.
        expected: A description of valid values, for the error message.
    """
    value = record.get(key)
    message = f"{where}: {key} is {value!r:.60}" if key in record else f"{where}: no {key}"
    return BadInput(message, value=value, expected=expected)
