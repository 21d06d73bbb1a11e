"""Rows of JSON: an object a line, objects over several lines, or one array of objects, which its beginning tells.

Lines are read one by one; an array, and objects over several lines, have to fit into the memory.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from itertools import chain
from typing import Any, BinaryIO

from resift.ingest.rows import BadRow, Rows, shown

_PIECE = 2**16
_SEPARATORS = re.compile(r"[\s,]*")
_SHOWN = 1000
_BULK_OPTIONS = ("routing", "pipeline", "require_alias", "version", "version_type", "if_seq_no", "if_primary_term")


def json_rows(stream: BinaryIO) -> Rows:
    """The objects of a stream, each with the line that it begins in, from 1.

    A line of JSON lines that is no object is a row of its own, and reading goes on after it. In an array, or where
    objects go over several lines, nothing is read after what is not JSON: where the next value begins is not known.
    Of OpenSearch's own files, for its bulk API and of hits, the rows are the documents.
    """
    return _documents(_objects(stream))


def _objects(stream: BinaryIO) -> Rows:
    if stream.peek(_PIECE).removeprefix(codecs.BOM_UTF8).lstrip()[:1] == b"[":  # type: ignore[attr-defined]
        text = _decoded(stream.read())
        return _checked(_values(text, text.index("[") + 1, 1 + text.count("\n", 0, text.index("[")), in_array=True))
    lines = _numbered_lines(stream)
    first = next(lines, None)
    if first is None:
        return iter(())
    number, raw = first
    if _goes_on(raw):
        return _checked(_values(_decoded(raw + stream.read()), line=number))
    return _line_rows(chain([first], lines))


def _decoded(data: bytes) -> str:
    """A text; bytes that are not UTF-8 come as lone surrogates, which engines refuse."""
    return data.decode("utf-8", "surrogateescape")


def _numbered_lines(stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """The lines that are not blank, and their numbers."""
    for number, raw in enumerate(stream, 1):
        raw = raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw
        if raw.strip():
            yield number, raw


def _goes_on(line: bytes) -> bool:
    """Whether a line is the beginning of an object that the next lines complete."""
    text = line.decode("utf-8", "replace").rstrip()
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return text.lstrip().startswith("{") and error.pos >= len(text)
    except RecursionError:
        pass
    return False


def _line_rows(lines: Iterator[tuple[int, bytes]]) -> Rows:
    for number, raw in lines:
        try:
            row = json.loads(raw.decode("utf-8-sig"), parse_constant=_no_constant)
            fault = None if isinstance(row, dict) else _no_object(row)
        except (ValueError, RecursionError) as error:
            fault = f"not JSON: {error}"
        yield number, row if fault is None else BadRow(raw.decode("utf-8", "replace").rstrip("\r\n"), fault)


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


def _no_object(value: Any) -> str:
    kinds = {list: "an array", str: "a string", bool: "true or false", type(None): "null"}
    return f"{kinds.get(type(value), 'a number')}, expected an object"


def _no_constant(name: str) -> Any:
    # Python's reader takes NaN and Infinity, which engines refuse
    raise ValueError(f"{name} is not JSON")


def _values(text: str, at: int = 0, line: int = 1, in_array: bool = False) -> Iterator[tuple[int, Any]]:
    """The values of a text from a place on, each with its line; nothing is read after what is not JSON, a BadRow."""
    constants: list[str] = []
    decoder = json.JSONDecoder(parse_constant=constants.append)
    while True:
        start = _SEPARATORS.match(text, at).end()  # type: ignore[union-attr]
        line += text.count("\n", at, start)
        if start == len(text):
            if in_array:
                yield line, BadRow("", "the file ends before the array does")
            return
        if in_array and text[start] == "]":
            if rest := text[start + 1 :].strip():
                yield line, BadRow(shown(rest[:_SHOWN]), "text after the end of the array")
            return
        try:
            value, at = decoder.raw_decode(text, start)
        except (ValueError, RecursionError) as error:
            reason = error.msg if isinstance(error, json.JSONDecodeError) else error
            yield line, BadRow(shown(text[start : start + _SHOWN]), f"not JSON: {reason}; nothing is read after it")
            return
        # Python's reader takes NaN and Infinity, which engines refuse
        fault = f"not JSON: {constants[0]} is not JSON" if constants else None
        yield line, value if fault is None else BadRow(shown(text[start:at]), fault)
        constants.clear()
        line += text.count("\n", start, at)


def _checked(values: Iterator[tuple[int, Any]]) -> Rows:
    for line, value in values:
        if isinstance(value, (dict, BadRow)):
            yield line, value
        else:
            raw = shown(json.dumps(value, ensure_ascii=False)[:_SHOWN])
            yield line, BadRow(raw, _no_object(value))
