"""Reads and checks a request: its JSON, and each value of it.

The readers take the request's ``body`` and a field's ``name``. Where the field is missing or null they return its
default, or raise BadInput if it has none; a value of another form than the one they promise raises BadInput with what
was expected.
"""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

import numpy as np
import orjson
from flask import current_app, request
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.encoders.model import Model
from resift.errors import BadInput, DimensionMismatch, MalformedJson, ModelNotFound, TextTooLong
from resift.plugin.vector_code import decode_vectors
from resift.ranking.judgements import Judgement

_REQUIRED: Any = object()


def json_body(data: bool = False) -> dict[str, Any]:
    """The request's body. Raises MalformedJson unless it is a JSON object without NaN and Infinity.

    ``data``: it holds texts or vectors, and is read by orjson, which is faster. Search bodies are not: orjson would
    round their whole numbers beyond 64 bits, and the engine would be asked for others.
    """
    raw = request.get_data(cache=False)
    try:
        body = _parsed_fast(raw) if data else json.loads(raw, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        if isinstance(error, MalformedJson):
            raise
        raise MalformedJson(
            f"the body is not JSON: {error}",
            value=raw[:100].decode("utf-8", "replace"),
            expected="a JSON object",
        ) from None
    if not isinstance(body, dict):
        raise MalformedJson(
            f"the body is a {type(body).__name__}",
            value=raw[:100].decode("utf-8", "replace"),
            expected="a JSON object",
        )
    return body


def _parsed_fast(raw: bytes) -> Any:
    """JSON; what orjson refuses the standard library may read (other encodings, lone surrogates), or explain."""
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        return json.loads(raw, parse_constant=_refuse_constant)


def _refuse_constant(name: str) -> NoReturn:
    raise MalformedJson(f"the body holds {name}", value=name, expected="finite numbers")


def text(body: dict[str, Any], name: str, default: Any = _REQUIRED) -> Any:
    """A string within the configured limit. Raises TextTooLong beyond it."""
    value = _get(body, name, default, "a string")
    if value is default:
        return default
    if not isinstance(value, str):
        _wrong(name, value, "a string")
    return limited(value, name)


def limited(value: str, name: str, truncate: bool = False) -> str:
    """``value``, if it is Unicode text within the configured limit. Raises TextTooLong or BadInput if it is not.

    With ``truncate`` it is cut at the limit instead, and its lone surrogates are replaced.
    """
    limit = current_app.config["RESIFT"].max_text
    if len(value) > limit and not truncate:
        raise TextTooLong(f"{name} has {len(value)} characters", value=len(value), expected=f"at most {limit}")
    unicode = value[:limit].encode("utf-8", "replace").decode()
    if unicode != value and not truncate:
        raise BadInput(f"{name} holds a lone surrogate", value=name, expected="Unicode text")
    return unicode


def texts(body: dict[str, Any], name: str) -> list[str]:
    """A list of strings or of objects with a ``text``; null in it counts as "", and one string as a list of one.

    With the body's ``truncate`` long texts are cut instead of refused.
    """
    value = _get(body, name, _REQUIRED, "a list of strings")
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list):
        _wrong(name, value, "a list of strings")
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
    """A list of document ids; an empty one by default."""
    value = _get(body, name, [], "a list of document ids")
    if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
        _wrong(name, value, "a list of document ids")
    return list(value)


def judgements(body: dict[str, Any], name: str) -> list[Judgement]:
    """A list of judgements, as a session's description holds them."""
    value = _get(body, name, _REQUIRED, "a list of judgements")
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        _wrong(name, value, "a list of judgements")
    checked = []
    for item in value:
        index, document = text(item, "index"), text(item, "document")
        if not index or not document:
            _wrong(f"{name}: index or document", "", "a name")
        grade, at = number(item, "grade", _REQUIRED, -1, 1), number(item, "at", 0, 0, 1e12)
        step = natural(item, "step", 1, 10**9, low=1)
        checked.append(Judgement(index, document, grade, text(item, "query", ""), at, step))
    return checked


def vectors(body: dict[str, Any], name: str, dim: int) -> Floats | None:
    """A list of vectors of ``dim`` finite numbers, or of their codes, as an array (n, dim); None where it is missing.

    Raises DimensionMismatch for vectors of another size.
    """
    value = body.get(name)
    if value is None:
        return None
    if value == []:
        return np.zeros((0, dim), np.float32)
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        try:
            return decode_vectors(value, dim)
        except ValueError:
            raise BadInput(f"{name} are no codes", value=name, expected=f"a list of codes of {dim} numbers") from None
    matrix = _matrix(name, value, dim)
    with np.errstate(over="ignore"):  # what is too large for 32 bits becomes infinite, and is refused below
        vectors = matrix.astype(np.float32)
    if not np.isfinite(vectors).all():
        _wrong(name, float(matrix[~np.isfinite(vectors)][0]), "finite 32-bit numbers")
    return vectors


def _matrix(name: str, value: Any, dim: int) -> NDArray[np.float64]:
    """A list of lists of numbers as an array (n, dim)."""
    expected = f"a list of vectors of {dim} numbers"
    try:
        matrix = np.asarray(value, np.float64)
    except (TypeError, ValueError):
        # rows of different sizes make no array either: name the size that is wrong
        for row in value if isinstance(value, list) else []:
            if isinstance(row, list) and len(row) != dim:
                _wrong_dimension(name, len(row), dim)
        _wrong(name, value, expected)
    if matrix.ndim != 2:
        _wrong(name, value, expected)
    if matrix.shape[1] != dim:
        _wrong_dimension(name, matrix.shape[1], dim)
    return matrix


def check_model(body: dict[str, Any], model: Model) -> None:
    """Raise ModelNotFound if a request names another model than the one in service."""
    requested = text(body, "model", None)
    if requested not in (None, model.name, model.hash):
        raise ModelNotFound(
            f"model {requested!r} is not in service here", value=requested, expected=f"{model.name} | {model.hash}"
        )


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
