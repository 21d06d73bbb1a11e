"""Reads and checks a request: its JSON, how much work it asks for, and each value by what its body's type declares."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any, NoReturn, TypeVar

import msgspec
import numpy as np
import orjson
from flask import current_app, request
from werkzeug.exceptions import RequestEntityTooLarge

from resift import schema
from resift.encoders.model import Model
from resift.errors import BadInput, MalformedJson, ModelNotFound, TextTooLong, UnsupportedMediaType
from resift.reranker.request_bodies import TextObject
from resift.text import tokenize

S = TypeVar("S", bound=msgspec.Struct)
# Bytes alone do not bound the work: a list of empty texts is short and its answer is long, and a small body can hold a
# million lists, or words that are all compared with each other.
MAX_VALUES = 500_000  # of a JSON body: numbers, texts and whatever else stands in lists and objects
MAX_CONTAINERS = 100_000  # lists and objects, which take more memory than other values
MAX_WORD_PAIRS = 40_000_000  # of words that are compared with each other: two seconds of one processor
_MARKS = (b",", b"[", b"{")
_PART = 2**20  # bytes that are looked at together
_CUT = ("input", "documents")  # texts that a request may have cut: see texts


def body_of(kind: type[S], data: bool = False) -> S:
    """The request's body, as its type declares it. Raises MalformedJson unless it is a JSON object without NaN and
    Infinity, and BadInput or TextTooLong for what the type or the configured limit of texts refuses.

    ``data``: it holds texts or vectors, and is read by orjson, which is faster. Search bodies are not: orjson would
    round their whole numbers beyond 64 bits, and take the last of several clauses of one name, and the engine would be
    asked for something else.
    """
    body = schema.read(kind, _json_value(data, dict, "a JSON object"))
    for name in set(body.__struct_fields__).difference(_CUT):
        if isinstance(text := getattr(body, name), str):
            schema.check_text(name, text, _max_text())
    return body


def _max_text() -> int:
    limit: int = current_app.config["RESIFT"].max_text
    return limit


def json_items() -> list[Any]:
    """The items of a request whose body is a JSON array. Raises MalformedJson for any other."""
    items: list[Any] = _json_value(True, list, "a JSON array")
    return items


def _json_value(data: bool, kind: type, expected: str) -> Any:
    """The request's body, as :func:`body_of` reads it, of this kind."""
    raw = _raw_body()
    check_json_size(raw)
    quoted = raw[:100].decode("utf-8", "replace")
    try:
        body = _parsed_fast(raw) if data else _parsed(raw)
    except (ValueError, RecursionError) as error:
        if isinstance(error, MalformedJson):
            raise
        raise MalformedJson(f"the body is not JSON: {error}", value=quoted, expected=expected) from None
    if not isinstance(body, kind):
        raise MalformedJson(f"the body is a {type(body).__name__}", value=quoted, expected=expected)
    return body


def _raw_body() -> bytes:
    """The body's bytes.

    Raises RequestEntityTooLarge beyond the configured limit, UnsupportedMediaType if it is compressed, and BadInput if
    it is malformed.
    """
    coding = request.headers.get("Content-Encoding", "").strip()
    if coding.lower() not in ("", "identity"):
        expected = "a body that is not compressed"
        raise UnsupportedMediaType(f"the Content-Encoding is {coding[:100]}", value=coding[:100], expected=expected)
    limit = current_app.config["RESIFT"].max_body
    # One byte more than is allowed: of a body without a length, which comes in chunks, Werkzeug would drop the rest
    # at its limit and say nothing.
    request.max_content_length = limit + 1
    try:
        raw = request.get_data(cache=False)
    except RequestEntityTooLarge:
        raise
    except Exception as error:  # the server's own kinds: of a malformed chunk, or of a connection that ended
        reason = error.__context__ or error  # Werkzeug has one of its own for some of them, which says less
        raise BadInput(f"the body cannot be read: {reason}", value="body", expected="a body that is whole") from None
    if len(raw) > limit:
        raise RequestEntityTooLarge
    return raw


def _parsed_fast(raw: bytes) -> Any:
    """JSON; what orjson refuses the standard library may read (other encodings, lone surrogates), or explain."""
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        return _parsed(raw)


def _parsed(raw: bytes) -> Any:
    return json.loads(
        raw, parse_constant=_refuse_number, parse_float=_finite, object_pairs_hook=_object_of_different_keys
    )


def _finite(digits: str) -> float:
    number = float(digits)
    # 1e400 is JSON, but as a number it would be sent to the engine as null: {"gte": null} has no limit
    return number if math.isfinite(number) else _refuse_number(digits)


def _refuse_number(name: str) -> NoReturn:
    raise MalformedJson(f"the body holds {name[:100]}", value=name[:100], expected="finite numbers")


def _object_of_different_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise MalformedJson(f"an object has {twice!r} twice", value=twice, expected="each key once")
    return found


def texts(name: str, given: str | Sequence[str | TextObject | None], truncate: bool) -> list[str]:
    """Texts that a request brings; null among them counts as "", and one text as a list of one.

    With ``truncate`` long texts are cut to the configured limit instead of refused, and lone surrogates are replaced.
    Raises TextTooLong or BadInput for a text that does not fit.
    """
    items = [given] if isinstance(given, str) else given
    strings = [(item.text if isinstance(item, TextObject) else item) or "" for item in items]
    limit = _max_text()
    if truncate:
        return [text[:limit].encode("utf-8", "replace").decode() for text in strings]
    return [schema.check_text(f"{name}[{position}]", text, limit) for position, text in enumerate(strings)]


def check_model(requested: str | None, model: Model) -> None:
    """Raise ModelNotFound if a request names another model than the one in service."""
    if requested not in (None, "", model.name, model.hash):
        raise ModelNotFound(
            f"model {requested!r} is not in service here", value=requested, expected=f"{model.name} | {model.hash}"
        )


def check_json_size(raw: bytes) -> None:
    """Raises TextTooLong for a JSON body of too many values, before it is parsed: they take up to fifty times the
    memory that they take as text."""
    # what stands in texts is counted as well at first: that is fast, and seldom makes a difference
    if not _fits(*(raw.count(mark) for mark in _MARKS)):
        counts = _count_outside_of_texts(raw)
        if not _fits(*counts):
            values, containers = sum(counts), sum(counts[1:])
            raise TextTooLong(
                f"the body has {values} values, of which {containers} are lists and objects",
                value=values,
                expected=f"at most {MAX_VALUES} values, and {MAX_CONTAINERS} lists and objects",
            )


def _fits(commas: int, lists: int, objects: int) -> bool:
    return commas + lists + objects <= MAX_VALUES and lists + objects <= MAX_CONTAINERS


def _count_outside_of_texts(raw: bytes) -> list[int]:
    """How many commas, lists and objects JSON has."""
    # of a run of backslashes each second one is escaped itself
    plain = raw.replace(b"\\\\", b"__").replace(b'\\"', b"__")
    counts, inside = [0] * len(_MARKS), False
    for start in range(0, len(plain), _PART):
        part = np.frombuffer(plain, np.uint8, min(_PART, len(plain) - start), start)
        in_text = np.logical_xor.accumulate(part == ord('"')) ^ inside
        inside = bool(in_text[-1])
        outside = part[~in_text].tobytes()
        counts = [count + outside.count(mark) for count, mark in zip(counts, _MARKS, strict=True)]
    return counts


def check_word_pairs(query: str, documents: Sequence[str]) -> None:
    """Raises TextTooLong where too many words would be compared: the query's with those of each document."""
    # no text has more words than characters, which is soon known and mostly enough
    if len(query) * sum(map(len, documents)) <= MAX_WORD_PAIRS:
        return
    count = len(tokenize(query)) * sum(len(tokenize(text)) for text in documents)
    if count > MAX_WORD_PAIRS:
        raise TextTooLong(
            f"{count} pairs of words would be compared",
            value=count,
            expected=f"at most {MAX_WORD_PAIRS}: shorter or fewer documents, or the method vectors",
        )
