"""What a stream's bytes are: text in UTF-8, plain or compressed by gzip, or none."""

from __future__ import annotations

import gzip
import io
import json
from typing import Any, BinaryIO

from resift.errors import BadInput

_HEAD = 4096
_CONTROL = frozenset(range(32)) - frozenset(b"\t\n\f\r")


def plain_text(stream: BinaryIO, name: str) -> BinaryIO:
    """The stream without compression (gzip, which its first two bytes tell).

    Raises BadInput, which names ``name``, for bytes that are no text or tell that they are in another encoding, and an
    error of ``gzip`` for damaged ones.
    """
    source: Any = stream if hasattr(stream, "peek") else io.BufferedReader(stream)
    if source.peek(2)[:2] == b"\x1f\x8b":
        source = gzip.GzipFile(fileobj=source)
    head = source.peek(_HEAD)[:_HEAD]
    encoding = json.detect_encoding(head) if head else "utf-8"
    # a stray control character is a fault of one line; a file of another kind is full of them
    full_of_them = b"\0" in head and sum(byte in _CONTROL for byte in head) > len(head) / 50
    if full_of_them or not encoding.startswith("utf-8"):
        expected = "UTF-8, plain or compressed by gzip; iconv converts texts in UTF-16"
        raise BadInput(f"{name} is no text in UTF-8", value=name, expected=expected)
    text: BinaryIO = source
    return text
