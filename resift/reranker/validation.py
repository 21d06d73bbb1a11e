"""Reads and checks a request: its JSON, and each value of it.

The readers take the request's ``body`` and a field's ``name``. Where the field is missing or null they return its
default, or raise BadInput if it has none; a value of another form than the one they promise raises BadInput with what
was expected.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from functools import cache
from importlib.resources import files
from typing import Any, NoReturn

import numpy as np
import orjson
from flask import current_app, request
from numpy.typing import NDArray
from werkzeug.exceptions import RequestEntityTooLarge

from resift.arrays import Floats
from resift.encoders.model import Model
from resift.errors import (
    BadInput,
    DimensionMismatch,
    MalformedJson,
    ModelNotFound,
    TextTooLong,
    UnsupportedMediaType,
)
from resift.ranking.judgements import SOURCES, Judgement, inferred_source
from resift.reranker.limits import MAX_DOCUMENTS, MAX_FACETS, MAX_NUMBER, check_count, check_json_size
from resift.sessions.sessions import LATEST, MAX_JUDGEMENTS

_REQUIRED: Any = object()


def json_body(data: bool = False) -> dict[str, Any]:
    """The request's body. Raises MalformedJson unless it is a JSON object without NaN and Infinity.

    ``data``: it holds texts or vectors, and is read by orjson, which is faster. Search bodies are not: orjson would
    round their whole numbers beyond 64 bits, and take the last of several clauses of one name, and the engine would be
    asked for something else.
    """
    body: dict[str, Any] = _json_value(data, dict, "a JSON object")
    _refuse_unknown(body)
    return body


def json_items() -> list[Any]:
    """The items of a request whose body is a JSON array. Raises MalformedJson for any other."""
    items: list[Any] = _json_value(True, list, "a JSON array")
    return items


def _json_value(data: bool, kind: type, expected: str) -> Any:
    """The request's body, as :func:`json_body` reads it, of this kind."""
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


def _refuse_unknown(body: dict[str, Any]) -> None:
    """Raises BadInput for a field that the endpoint does not have: misspelt, it would be left out without a word."""
    known = _documented_fields(str(request.url_rule).replace("<", "{").replace(">", "}"), request.method.lower())
    for name in body:
        if known and name not in known:
            raise BadInput(f"unknown field {name!r}", value=name, expected=" | ".join(known))


@cache
def _documented_fields(path: str, method: str) -> tuple[str, ...]:
    """The fields of an endpoint's body as openapi.json lists them; none where it says that there may be others."""
    spec = json.loads((files("resift.reranker") / "openapi.json").read_text("utf-8"))
    schema = spec["paths"][path][method]["requestBody"]["content"]["application/json"]["schema"]
    schema = spec["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return () if schema.get("additionalProperties") else tuple(schema["properties"])


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


def text(body: dict[str, Any], name: str, default: Any = _REQUIRED) -> Any:
    """A string within the configured limit. Raises TextTooLong beyond it."""
    value = _get(body, name, default, "a string")
    if value is default:
        return default
    if not isinstance(value, str):
        _wrong(name, value, "a string")
    return limited(value, name)


def named(body: dict[str, Any], name: str) -> str:
    """The name of an index or a document: a string that is not empty, which OpenSearch takes for all of them."""
    value = text(body, name)
    if not value:
        _wrong(name, value, "a name")
    return str(value)


def limited(value: str, name: str, truncate: bool = False) -> str:
    """``value``, if it is Unicode text within the configured limit. Raises TextTooLong or BadInput if it is not.

    With ``truncate`` it is cut to the limit instead, and its lone surrogates are replaced.
    """
    limit = current_app.config["RESIFT"].max_text
    if len(value) > limit and not truncate:
        raise TextTooLong(f"{name} has {len(value)} characters", value=len(value), expected=f"at most {limit}")
    kept = value[:limit]
    try:
        kept.encode()
    except UnicodeEncodeError:
        if not truncate:
            raise BadInput(f"{name} holds a lone surrogate", value=name, expected="Unicode text") from None
        return kept.encode("utf-8", "replace").decode()
    return kept


def texts(body: dict[str, Any], name: str, most: int) -> list[str]:
    """A list of strings or of objects with a ``text``; null in it counts as "", and one string as a list of one.

    With the body's ``truncate`` long texts are cut instead of refused. Raises TextTooLong for more than ``most``.
    """
    value = _get(body, name, _REQUIRED, "a list of strings")
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list):
        _wrong(name, value, "a list of strings")
    check_count(name, len(items), most)
    truncate = flag(body, "truncate", False)
    strings = []
    for position, item in enumerate(items):
        item = item.get("text") if isinstance(item, dict) else item
        if item is not None and not isinstance(item, str):
            _wrong(f"{name}[{position}]", item, "a string")
        strings.append(limited(item or "", f"{name}[{position}]", truncate))
    return strings


def number(body: dict[str, Any], name: str, default: float, low: float, high: float) -> float:
    """A number from ``low`` to ``high``."""
    value = _get(body, name, default, "a number")
    # bool is a kind of int in Python, and true is no number in JSON
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
        _wrong(name, value, f"a number from {low:g} to {high:g}")
    return float(value)


def natural(body: dict[str, Any], name: str, default: int, high: int, low: int = 0) -> int:
    """A whole number from ``low`` to ``high``."""
    value = _get(body, name, default, "a whole number")
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        _wrong(name, value, f"a whole number from {low} to {high}")
    return int(value)


def flag(body: dict[str, Any], name: str, default: bool) -> bool:
    """True or false."""
    value = _get(body, name, default, "true or false")
    if not isinstance(value, bool):
        _wrong(name, value, "true or false")
    return bool(value)


def choice(body: dict[str, Any], name: str, default: str, allowed: list[str]) -> str:
    """One of the ``allowed`` strings."""
    value = _get(body, name, default, " | ".join(allowed))
    if value not in allowed:
        _wrong(name, value, " | ".join(allowed))
    return str(value)


def identifiers(body: dict[str, Any], name: str) -> list[str]:
    """A list of document ids, at most MAX_JUDGEMENTS; an empty one by default."""
    return _names(body, name, "a list of document ids, which are strings", MAX_JUDGEMENTS)


def field_names(body: dict[str, Any], name: str) -> list[str]:
    """A list of names of fields, at most MAX_FACETS; an empty one by default."""
    return _names(body, name, "a list of fields", MAX_FACETS)


def _names(body: dict[str, Any], name: str, expected: str, most: int) -> list[str]:
    """A list of texts that are not empty, at most so many; an empty one by default."""
    value = _get(body, name, [], expected)
    if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
        _wrong(name, value, expected)
    check_count(name, len(value), most)
    return list(value)


def scores(body: dict[str, Any], name: str) -> Any:
    """What is given as numbers by document id, no more of them than a session holds; none by default."""
    value = _get(body, name, {}, "numbers by document id")
    check_count(name, len(value) if isinstance(value, dict) else 0, MAX_JUDGEMENTS)
    return value


def judgements(body: dict[str, Any], name: str) -> list[Judgement]:
    """A list of judgements, as a session's description holds them."""
    value = _get(body, name, _REQUIRED, "a list of judgements")
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        _wrong(name, value, "a list of judgements")
    checked = []
    for item in value:
        index, document = named(item, "index"), named(item, "document")
        grade, at = number(item, "grade", _REQUIRED, -1, 1), number(item, "at", 0, 0, LATEST)
        step = natural(item, "step", 1, 10**9, low=1)
        source = choice(item, "source", inferred_source(grade), list(SOURCES))
        checked.append(Judgement(index, document, grade, text(item, "query", ""), at, step, source))
    return checked


def vectors(body: dict[str, Any], name: str, dim: int) -> Floats | None:
    """A list of vectors of ``dim`` numbers up to MAX_NUMBER as an array (n, dim); None if missing.

    Raises DimensionMismatch for vectors of another size.
    """
    value = body.get(name)
    if value is None:
        return None
    if value == []:
        return np.zeros((0, dim), np.float32)
    check_count(name, len(value) if isinstance(value, list) else 0, MAX_DOCUMENTS)
    return _moderate(name, _matrix(name, value, dim)).astype(np.float32)


def _moderate(name: str, vectors: NDArray[Any]) -> NDArray[Any]:
    """The vectors. Raises BadInput for numbers so large that 32 bits do not hold their squares, and for NaN."""
    fitting = np.abs(vectors) <= MAX_NUMBER
    if not fitting.all():
        _wrong(name, float(vectors[~fitting][0]), f"numbers from -{MAX_NUMBER:g} to {MAX_NUMBER:g}")
    return vectors


def _matrix(name: str, value: Any, dim: int) -> NDArray[np.float64]:
    """A list of lists of numbers as an array (n, dim)."""
    expected = f"a list of vectors of {dim} numbers"
    try:
        raw = np.asarray(value)
        matrix = raw.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        # rows of different sizes make no array either: name the size that is wrong
        for row in value if isinstance(value, list) else []:
            if isinstance(row, list) and len(row) != dim:
                _wrong_dimension(name, len(row), dim)
        _wrong(name, value, expected)
    # numpy takes "1" and true for numbers
    if matrix.ndim != 2 or raw.dtype.kind in "USb":
        _wrong(name, value, expected)
    if matrix.shape[1] != dim:
        _wrong_dimension(name, matrix.shape[1], dim)
    return matrix


def check_model(body: dict[str, Any], model: Model) -> None:
    """Raise ModelNotFound if a request names another model than the one in service."""
    requested = text(body, "model", None)
    if requested not in (None, "", model.name, model.hash):
        raise ModelNotFound(
            f"model {requested!r} is not in service here", value=requested, expected=f"{model.name} | {model.hash}"
        )


def check_dimensions(body: dict[str, Any], model: Model) -> None:
    """Raise BadInput if a request asks for vectors of other ``dimensions`` than the model's."""
    dimensions = natural(body, "dimensions", model.dim, 10**9)
    if dimensions != model.dim:
        raise BadInput(f"vectors cannot have {dimensions} dimensions", value=dimensions, expected=str(model.dim))


def _get(body: dict[str, Any], name: str, default: Any, expected: str) -> Any:
    value = body.get(name)
    if value is None:
        if default is _REQUIRED:
            raise BadInput(f"{name} is missing", value=name, expected=expected)
        return default
    if isinstance(value, float) and not math.isfinite(value):
        _wrong(name, value, expected)
    return value


def _wrong(name: str, value: Any, expected: str) -> NoReturn:
    raise BadInput(f"{name} is not {expected}", value=value, expected=expected)


def _wrong_dimension(name: str, actual: int, dim: int) -> NoReturn:
    raise DimensionMismatch(f"{name} have {actual} dimensions", value=actual, expected=str(dim))
