"""Reads and checks a request: its JSON, and each value of it, by what its body's type declares."""

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
from resift.arrays import Floats
from resift.encoders.model import Model
from resift.errors import BadInput, DimensionMismatch, MalformedJson, ModelNotFound, UnsupportedMediaType
from resift.reranker.limits import check_json_size
from resift.reranker.request_bodies import TextObject

S = TypeVar("S", bound=msgspec.Struct)
_CUT = ("input", "documents")  # texts that a request may have cut: see texts


def body_of(kind: type[S], data: bool = False) -> S:
    """The request's body, as its type declares it. Raises MalformedJson unless it is a JSON object without NaN and
    Infinity, and BadInput or TextTooLong for what the type or the configured limit of texts refuses.

    ``data``: it holds texts or vectors, and is read by orjson, which is faster. Search bodies are not: orjson would
    round their whole numbers beyond 64 bits, and take the last of several clauses of one name, and the engine would be
    asked for something else.
    """
    body = schema.read(kind, _json_value(data, dict, "a JSON object"))
    _check_texts("", body)
    return body


def _check_texts(name: str, value: Any) -> None:
    if isinstance(value, str):
        schema.check_text(name, value, _max_text())
    elif isinstance(value, msgspec.Struct):
        for field in value.__struct_fields__:
            if field not in _CUT:
                _check_texts(field, getattr(value, field))
    elif isinstance(value, list):
        for item in value:
            if not isinstance(item, msgspec.Struct):
                break
            _check_texts(name, item)


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


def vectors(rows: list[list[float]], dim: int) -> Floats:
    """Vectors that a request brings as an array (n, dim). Raises DimensionMismatch for those of another size."""
    if wrong := [len(row) for row in rows if len(row) != dim]:
        raise DimensionMismatch(f"vectors have {wrong[0]} dimensions", value=wrong[0], expected=str(dim))
    return np.array(rows, np.float32).reshape(-1, dim)


def check_model(requested: str | None, model: Model) -> None:
    """Raise ModelNotFound if a request names another model than the one in service."""
    if requested not in (None, "", model.name, model.hash):
        raise ModelNotFound(
            f"model {requested!r} is not in service here", value=requested, expected=f"{model.name} | {model.hash}"
        )
