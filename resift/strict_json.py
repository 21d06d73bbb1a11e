"""Parse JSON texts that contain search bodies, under strict rules.

The size of a text is limited before it is parsed. Texts that parsers understand differently are refused: the meaning of
a query could change on its way to the engine.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any

import numpy as np

from resift.errors import MalformedJson, TextTooLong

# A limit in bytes does not bound the work of a request: a list of empty texts is short but has a long response, and a
# small body can contain a million lists.
MAX_VALUES = 500_000
"""Values in a JSON text, including lists and objects."""
MAX_CONTAINERS = 100_000
"""Lists and objects in a JSON text. They need more memory than other values."""
_DELIMITERS = (b",", b"[", b"{")
_CHUNK_SIZE = 2**20
"""Bytes of a JSON text that are counted at once."""


def parse_strict(name: str, raw: bytes | str) -> Any:
    """Parse a JSON text whose meaning does not depend on the parser.

    Python's standard library parses the text, because orjson rounds integers of more than 64 bits. Call
    :func:`check_json_size` first.

    Args:
        name: The name of the text in error messages, for example ``body``.
        raw: The JSON text, as a string or as UTF-8.

    Raises:
        MalformedJson: If the text contains NaN, infinity, a number that is too large for a float, or an object with two
            equal keys.
        ValueError: If the text is not JSON.
        RecursionError: If the values are nested too deeply.
    """

    def refuse_number(digits: str) -> Any:
        raise MalformedJson(
            f"the {name} contains the number {digits[:100]}", value=digits[:100], expected="finite numbers"
        )

    def finite(digits: str) -> float:
        number = float(digits)
        # 1e400 is valid JSON, but would be sent to the engine as null. {"gte": null} has no limit.
        return number if math.isfinite(number) else refuse_number(digits)

    return json.loads(
        raw, parse_constant=refuse_number, parse_float=finite, object_pairs_hook=_object_without_duplicates
    )


def _object_without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Convert the keys and values of a JSON object to a dictionary.

    Raises:
        MalformedJson: If the object contains a key twice.
    """
    parsed = dict(pairs)
    if len(parsed) < len(pairs):
        duplicate = Counter(key for key, _ in pairs).most_common(1)[0][0]
        message = f"an object contains the key {duplicate!r} twice"
        raise MalformedJson(message, value=duplicate, expected="each key once")
    return parsed


def check_json_size(name: str, raw: bytes) -> None:
    """Check that a JSON text does not contain too many values.

    The text is checked before it is parsed, because the parsed values can need 50 times the memory of the text.

    Args:
        name: The name of the text in error messages, for example ``body``.
        raw: The JSON text, as UTF-8.

    Raises:
        TextTooLong: If the text contains too many values, lists or objects.
    """
    # The first count includes delimiters within strings. It is fast, and almost always low enough.
    if not _is_within_limits(*(raw.count(delimiter) for delimiter in _DELIMITERS)):
        counts = _count_outside_strings(raw)
        if not _is_within_limits(*counts):
            values, containers = sum(counts), sum(counts[1:])
            raise TextTooLong(
                f"the {name} has {values} values, including {containers} lists and objects",
                value=values,
                expected=f"at most {MAX_VALUES} values, and {MAX_CONTAINERS} lists and objects",
            )


def _is_within_limits(commas: int, lists: int, objects: int) -> bool:
    """Return whether a JSON text with these numbers of commas, lists and objects is small enough to be parsed."""
    return commas + lists + objects <= MAX_VALUES and lists + objects <= MAX_CONTAINERS


def _count_outside_strings(raw: bytes) -> list[int]:
    """Count the commas, opening brackets and opening braces of a JSON text, except inside strings.

    The counts are used to estimate the number of values before the text is parsed.

    Args:
        raw: The JSON text, as UTF-8.

    Returns:
        The three counts, in this order.
    """
    # Escaped backslashes are replaced first, since the second backslash of a pair does not escape a quotation mark.
    plain = raw.replace(b"\\\\", b"__").replace(b'\\"', b"__")
    counts, inside = [0] * len(_DELIMITERS), False
    for start in range(0, len(plain), _CHUNK_SIZE):
        chunk = np.frombuffer(plain, np.uint8, min(_CHUNK_SIZE, len(plain) - start), start)
        in_string = np.logical_xor.accumulate(chunk == ord('"')) ^ inside
        inside = bool(in_string[-1])
        outside = chunk[~in_string].tobytes()
        counts = [count + outside.count(delimiter) for count, delimiter in zip(counts, _DELIMITERS, strict=True)]
    return counts
