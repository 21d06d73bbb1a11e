"""Reading requests: JSON that is JSON, and values that are what they should be, or an error that says which is not."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

import numpy as np
import orjson
from flask import current_app, request

from resift.arrays import Floats
from resift.encoders.model import Model
from resift.errors import BadInput, DimensionMismatch, MalformedJson, ModelNotFound, TextTooLong
from resift.plugin.vector_code import decode_vectors
from resift.ranking.judgements import Judgement

_REQUIRED: Any = object()


def json_body(data: bool = False) -> dict[str, Any]:
    """The request's body, which must be a JSON object without NaN or Infinity.

    ``data``: it holds texts or vectors, and is read by orjson, which would round whole numbers beyond 64 bits.
    """
    raw = request.get_data(cache=False)
    try:
        body = _parsed(raw) if data else json.loads(raw, parse_constant=_no_constant)
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


def _parsed(raw: bytes) -> Any:
    """JSON; what orjson refuses, the standard library may take (other encodings, lone surrogates) or explain."""
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        return json.loads(raw, parse_constant=_no_constant)


def _no_constant(name: str) -> NoReturn:
    raise MalformedJson(f"the body holds {name}", value=name, expected="finite numbers")


def text(body: dict[str, Any], name: str, default: Any = _REQUIRED) -> Any:
    """A string, or ``default`` where it is missing or null."""
    value = _get(body, name, default, "a string")
    if value is default:
        return default
    if not isinstance(value, str):
        _wrong(name, value, "a string")
    return limited(value, name)


def limited(value: str, name: str, truncate: bool = False) -> str:
    """``value`` if it is Unicode and not longer than the configured limit, else an error.

    With ``truncate`` it is cut there and its lone surrogates are replaced instead.
    """
    limit = current_app.config["RESIFT"].max_text
    if len(value) > limit and not truncate:
        raise TextTooLong(f"{name} has {len(value)} characters", value=len(value), expected=f"at most {limit}")
    unicode = value[:limit].encode("utf-8", "replace").decode()
    if unicode != value and not truncate:
        raise BadInput(f"{name} holds a lone surrogate", value=name, expected="Unicode text")
    return unicode


def texts(body: dict[str, Any], name: str) -> list[str]:
    """A list of strings (or of objects with a ``text``), or one string as a list of one. null counts as ''."""
    value = _get(body, name, _REQUIRED, "a list of strings")
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list):
        _wrong(name, value, "a list of strings")
    truncate = flag(body, "truncate", False)
    found = []
    for position, item in enumerate(items):
        item = item.get("text") if isinstance(item, dict) else item
        if item is not None and not isinstance(item, str):
            _wrong(f"{name}[{position}]", item, "a string")
        found.append(limited(item or "", f"{name}[{position}]", truncate))
    return found


def number(body: dict[str, Any], name: str, default: float, low: float, high: float) -> float:
    """A number from ``low`` to ``high``."""
    value = _get(body, name, default, "a number")
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
    """A list of document ids, none if it is missing."""
    value = _get(body, name, [], "a list of document ids")
    if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
        _wrong(name, value, "a list of document ids")
    return list(value)


def judgements(body: dict[str, Any], name: str) -> list[Judgement]:
    """A list of judgements as a session's answer has them."""
    value = _get(body, name, _REQUIRED, "a list of judgements")
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        _wrong(name, value, "a list of judgements")
    found = []
    for item in value:
        index, document = text(item, "index"), text(item, "document")
        if not index or not document:
            _wrong(f"{name}: index or document", "", "a name")
        grade, at = number(item, "grade", _REQUIRED, -1, 1), number(item, "at", 0, 0, 1e12)
        step = natural(item, "step", 1, 10**9, low=1)
        found.append(Judgement(index, document, grade, text(item, "query", ""), at, step))
    return found


def vectors(body: dict[str, Any], name: str, dim: int) -> Floats | None:
    """A list of vectors of ``dim`` numbers, or of codes, as an array (n, dim), or None where it is missing."""
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        try:
            return decode_vectors(value, dim)
        except ValueError:
            raise BadInput(f"{name} are no codes", value=name, expected=f"a list of codes of {dim} numbers") from None
    try:
        matrix = np.asarray(value, np.float64)
    except (TypeError, ValueError):
        matrix = np.empty(0)
        for row in value if isinstance(value, list) else []:
            if isinstance(row, list) and len(row) != dim:
                _wrong_dimension(name, len(row), dim)
        _wrong(name, value, f"a list of vectors of {dim} numbers")
    if value == []:
        return np.zeros((0, dim), np.float32)
    if matrix.ndim != 2:
        _wrong(name, value, f"a list of vectors of {dim} numbers")
    if matrix.shape[1] != dim:
        _wrong_dimension(name, matrix.shape[1], dim)
    with np.errstate(over="ignore"):
        small = matrix.astype(np.float32)
    if not np.isfinite(small).all():
        _wrong(name, float(matrix[~np.isfinite(small)][0]), "finite 32-bit numbers")
    return small


def check_model(body: dict[str, Any], model: Model) -> None:
    """Raise ModelNotFound where a request names another model than the one at work."""
    wanted = text(body, "model", None)
    if wanted not in (None, model.name, model.hash):
        raise ModelNotFound(
            f"model {wanted!r} is not at work here", value=wanted, expected=f"{model.name} | {model.hash}"
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


def _wrong_dimension(name: str, found: int, dim: int) -> NoReturn:
    raise DimensionMismatch(f"{name} have {found} dimensions", value=found, expected=str(dim))
