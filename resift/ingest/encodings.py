"""What a stream's bytes are: UTF-8, another Unicode encoding that is read as UTF-8, or no text at all."""

from __future__ import annotations

import codecs
import gzip
import io
import json
from typing import Any, BinaryIO

from resift.errors import BadInput

_HEAD = 4096
_CONTROL = frozenset(range(32)) - frozenset(b"\t\n\f\r")


def plain_text(stream: BinaryIO, name: str) -> BinaryIO:
    """The stream without compression (gzip, which its first two bytes tell) and in UTF-8.

    UTF-16 and UTF-32 are recognised, with or without a byte order mark. Raises BadInput, which names ``name``, for
    bytes that are no text, and an error of ``gzip`` for damaged ones.
    """
    source: Any = stream if hasattr(stream, "peek") else io.BufferedReader(stream)
    if source.peek(2)[:2] == b"\x1f\x8b":
        source = gzip.GzipFile(fileobj=source)
    head = source.peek(_HEAD)[:_HEAD]
    encoding = json.detect_encoding(head) if head else "utf-8"
    if encoding.startswith("utf-8"):
        if b"\0" in head and _is_binary(head):
            raise _no_text(name)
        text: BinaryIO = source
        return text
    decoder = codecs.getincrementaldecoder(encoding)
    try:
        sample = decoder().decode(head)
    except UnicodeDecodeError:
        raise _no_text(name) from None
    if _is_binary(sample.encode("utf-8", "replace")):
        raise _no_text(name)
    return io.BufferedReader(_Utf8(source, decoder("replace")))


def _is_binary(head: bytes) -> bool:
    # a stray control character is a fault of one line; a file of another kind is full of them
    return sum(byte in _CONTROL for byte in head) > len(head) / 50


def _no_text(name: str) -> BadInput:
    expected = "text in UTF-8 or UTF-16, plain or compressed by gzip"
    return BadInput(f"{name} is a binary file", value=name, expected=expected)


class _Utf8(io.RawIOBase):
    """Another encoding as UTF-8 bytes."""

    def __init__(self, source: Any, decoder: codecs.IncrementalDecoder) -> None:
        self._source, self._decoder, self._rest = source, decoder, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            data = self._source.read1(io.DEFAULT_BUFFER_SIZE)
            self._rest = self._decoder.decode(data, final=not data).encode("utf-8", "replace")
            if not data:
                break
        taken = self._rest[: len(buffer)]
        buffer[: len(taken)] = taken
        self._rest = self._rest[len(taken) :]
        return len(taken)
