"""Rows of JSON: an object a line, objects over several lines, one array of objects, or one object around an array.

Which of these a stream holds is told by its beginning. Arrays and objects over several lines are read value by value,
so that a file may be larger than the memory; one value may have 64 MiB.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from itertools import chain
from typing import Any, BinaryIO

from resift.ingest.rows import BadRow, Rows, shown

_PIECE, _LARGEST = 2**16, 2**26
_SEPARATORS = re.compile(r"[\s,]*")
_SEVERAL_WORDS = re.compile(r"\S+(\s+\S+){3}")
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
        return _checked(_array_elements(_pieces(stream)))
    lines = _numbered_lines(stream)
    first = next(lines, None)
    if first is None:
        return iter(())
    number, raw = first
    if _goes_on(raw):
        text = _Text(chain([raw.decode("utf-8", "surrogateescape")], _pieces(stream)), number)
        return _unwrapped(_checked(_values(text)))
    return _unwrapped(_line_rows(chain([first], lines)))


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


def _pieces(stream: BinaryIO) -> Iterator[str]:
    """The text of a stream, piece by piece; bytes that are not UTF-8 come as lone surrogates, which engines refuse."""
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    while data := stream.read(_PIECE):
        yield decoder.decode(data)


class _Text:
    """A text that is read piece by piece.

    ``line`` is that of the place that has been reached, and ``legible`` says whether JSON went on up to there.
    """

    def __init__(self, pieces: Iterator[str], line: int = 1) -> None:
        self.line, self.legible = line, True
        self._pieces, self._held, self._at = pieces, "", 0
        self._constants: list[str] = []
        self._decoder = json.JSONDecoder(parse_constant=self._constants.append)

    def __len__(self) -> int:
        """How many characters are held, from the place that has been reached."""
        return len(self._held) - self._at

    def extend(self, length: int) -> bool:
        """Hold ``length`` characters more, or all up to the end; whether there were any."""
        more, size = [], 0
        while size < length and (piece := next(self._pieces, "")):
            more.append(piece)
            size += len(piece)
        self._held, self._at = self._held[self._at :] + "".join(more), 0
        return size > 0

    def skip(self, end: int) -> None:
        """Go on from the place ``end`` of the held characters."""
        self.line += self._held.count("\n", self._at, end)
        self._at = end

    def next_character(self) -> str:
        """The first character that separates no values; empty at the end."""
        while True:
            self.skip(_SEPARATORS.match(self._held, self._at).end())  # type: ignore[union-attr]
            if len(self) or not self.extend(1):
                return self._held[self._at : self._at + 1]

    def take(self, character: str) -> None:
        """Go on behind the next ``character``."""
        self.skip(self._held.index(character, self._at) + 1)

    def value(self) -> Any:
        """The value that is next, a BadRow if it holds NaN or Infinity, which JSON has not.

        Raises ValueError or RecursionError if what is held does not begin with a value.
        """
        self._constants.clear()
        start, (value, end) = self._at, self._decoder.raw_decode(self._held, self._at)
        self.skip(end)
        if self._constants:
            return BadRow(shown(self._held[start:end]), f"not JSON: {self._constants[0]} is not JSON")
        return value

    def beginning(self) -> str:
        """Some of what is next, to show."""
        return shown(self._held[self._at : self._at + _SHOWN])


def _array_elements(pieces: Iterator[str]) -> Iterator[tuple[int, Any]]:
    """The elements of the array that a text begins with."""
    text = _Text(pieces)
    text.next_character()
    text.take("[")
    yield from _values(text, "]")
    if not text.legible:
        return
    if text.next_character() != "]":
        yield text.line, BadRow("", "the file ends before the array does")
        return
    text.take("]")
    if text.next_character():
        yield text.line, BadRow(text.beginning(), "text after the end of the array")


def _values(text: _Text, end: str = "") -> Iterator[tuple[int, Any]]:
    """Values up to the character ``end``, or to the text's end, or to what is not JSON, which comes as a BadRow."""
    while (character := text.next_character()) and character != end:
        line = text.line
        try:
            value = text.value()
        except (ValueError, RecursionError) as error:
            # The value may go on in what was not read yet. Twice as much is held each time, to not try too often.
            if len(text) < _LARGEST and isinstance(error, ValueError) and text.extend(len(text)):
                continue
            too_large = f"more than {_LARGEST} characters, or " if len(text) >= _LARGEST else ""
            reason = error.msg if isinstance(error, json.JSONDecodeError) else error  # it counts lines from elsewhere
            yield line, BadRow(text.beginning(), f"{too_large}not JSON: {reason}; nothing is read after it")
            text.legible = False
            return
        yield line, value


def _checked(values: Iterator[tuple[int, Any]]) -> Rows:
    for line, value in values:
        if isinstance(value, (dict, BadRow)):
            yield line, value
        else:
            raw = shown(json.dumps(value, ensure_ascii=False)[:_SHOWN])
            yield line, BadRow(raw, _no_object(value))


def _unwrapped(rows: Rows) -> Rows:
    """The rows, or the objects within the only row if it is no document but a list of them with a name."""
    first, second = next(rows, None), next(rows, None)
    if first is None:
        return
    line, row = first
    inner = _list_within(row) if second is None and isinstance(row, dict) else None
    if inner is not None:
        yield from _checked((line, one) for one in inner)
        return
    yield first
    if second is not None:
        yield second
        yield from rows


def _list_within(row: dict[str, Any]) -> list[Any] | None:
    """The one list of objects that an object holds beside nothing that reads like a document's text."""
    lists = [value for value in row.values() if isinstance(value, list) and value and isinstance(value[0], dict)]
    texts = [value for value in row.values() if isinstance(value, str) and _SEVERAL_WORDS.search(value)]
    return lists[0] if len(lists) == 1 and not texts else None
