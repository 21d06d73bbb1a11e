"""The allow-list: what a caller with an API key of scope ``search`` may send.

``allow_list.json`` lists the clauses, aggregations and options. Everything that is not in the list is refused.

The check walks through the whole JSON of a body, and does not use the tree of clauses (:mod:`resift.query.tree`). The
tree covers only the query of a body, and not the settings of a clause. The allow-list must check every key and every
value, also in aggregations, highlights and sorts. The place of a value in the body decides what the value may be. So a
name that the caller chose (of a field, an aggregation or a filter) is never read as the name of a clause, even if it
looks like one.

In the list, a *shape* describes the values that are allowed in one place. A shape is one of these:

- an object with the keys that may occur. The key ``"*"`` matches any other key, and ``"..."`` includes the keys of
  another shape;
- a string with alternatives, separated by ``|``. An alternative is a scalar (``text``, ``value``, ``number <= 100``,
  ``= constant``), a list ``[shape]``, an object ``{shape}`` with names that the caller chose, or the name of another
  shape.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from resift.errors import BadInput, ClauseNotAllowed, TextTooLong
from resift.query.dsl import MAX_RESULTS

Shape = str
# Shapes of objects with exactly one key, with the table of the allow-list that contains the possible keys. A clause is
# {"match": …}, but never {"match": …, "term": …}.
_TABLES = {"clause": "clauses", "interval": "intervals"}
# The prefix of the counters that an object of these shapes increases, for example "clauses" and "clause levels".
_COUNTED = {"clause": "clause", "interval": "clause", "aggregation": "aggregation"}
# The name of the bound on the length of a text, by the shape of the text.
_LENGTH_BOUNDS = {
    "pattern": "characters of a pattern",
    "query string text": "characters of a query string",
    "name": "characters of a name",
    "place": "characters of a name",
}
_ANY_LENGTH_BOUND = "characters of a text"
# Texts that may match any number of words.
_EXPENSIVE = ("pattern", "query string text")
# The maximum number of opening brackets in a text, by the shape of the text. OpenSearch parses query strings with
# recursive functions, and a place with brackets is a geometry in WKT format.
_BRACKET_BOUNDS = {"query string text": 50, "place": 0}
# Shapes of objects whose keys are names that the caller chose, and not names of fields.
_LABELLED = ("{aggregation}", "{clause}", "{value}")
_SCALARS = ("text", "number", "boolean", "null")
_SEPARATOR = re.compile(r" \| (?![^\[{]*[\]}])")  # between alternatives, but not inside brackets
_LARGEST_BUCKET_COUNT = 1e9


@cache
def read_allow_list() -> dict[str, Any]:
    """Return the content of ``allow_list.json``, which names the clauses, aggregations and options that are allowed."""
    content: dict[str, Any] = json.loads((files("resift.query") / "allow_list.json").read_text("utf-8"))
    return content


def check_against_allow_list(name: str, value: Mapping[str, Any], shape: Shape = "clause", size: int = 10) -> None:
    """Check that the allow-list permits everything in a query clause or a search body.

    Callers whose API key has the scope ``search`` may only send clauses, aggregations and options that are in the
    allow-list. The numbers of clauses, characters, buckets and hits must be within the bounds in the list.

    Args:
        name: The name of the clause or body in the request, such as ``query``. Error messages begin with it.
        value: The clause or the body, as JSON.
        shape: ``clause`` for a clause, ``body`` for a whole search body.
        size: The number of requested hits. The ``size`` of a body takes precedence.

    Raises:
        ClauseNotAllowed: If the allow-list does not contain a key or a value.
        BadInput: If a value has the wrong form, or too many hits are requested.
        TextTooLong: If a text is too long, or the value exceeds another bound, such as the maximum number of clauses.
    """
    check = _Check()
    check.check_value(value, shape, name)
    size = value.get("size", size) if shape == "body" else size
    if size > check.max_hits:
        expected = f"at most {check.max_hits} with what is requested for each hit"
        raise BadInput(f"{size} hits are requested", value=size, expected=expected)


class _Check:
    """One pass over a search body (or a single query clause) that checks it against the allow-list.

    The allow-list names the clauses, aggregations and options that callers with a restricted API key may send. An
    instance counts clauses, characters and buckets while it walks through the JSON, and is used for a single request.

    Attributes:
        max_hits: The largest number of hits that the request may ask for. The limit is lower for requests that are
            expensive for each hit.
    """

    def __init__(self) -> None:
        self.max_hits = MAX_RESULTS
        self._bounds: dict[str, int] = read_allow_list()["bounds"]
        self._counts: Counter[str] = Counter()
        self._buckets = 1  # product over the aggregations around the value that is checked

    def check_value(self, value: Any, shape: Shape, path: str) -> None:
        """Check that a JSON value, and everything inside it, is allowed.

        Args:
            value: A part of the request.
            shape: The expected shape in the notation of ``allow_list.json``, for example ``"text | number <= 100"``. A
                shape can have several alternatives, separated by ``|``. The value must match one of the alternatives.
            path: The path of the value in the request, for error messages.

        Raises:
            ClauseNotAllowed: If the value contains a key or a constant that is not in the allow-list.
            BadInput: If the value, or a value inside it, has the wrong JSON type or is out of range.
            TextTooLong: If a text is too long, or the request exceeds another bound on its size.
        """
        self._add_to_counter("values", path)
        shapes, kind = _shapes_by_type(shape), _json_type(value)
        if kind not in shapes:
            raise BadInput(f"{path} is not {_describe_shapes(shapes)}", value=value, expected=_describe_shapes(shapes))
        if kind == "text":
            self._check_text(value, shapes[kind], path)
        elif kind == "number":
            _check_number(value, shapes[kind], path)
        elif kind == "list":
            self._check_list(value, shapes[kind], path)
        elif kind == "object":
            self._check_object(value, shapes[kind], path)

    def _check_text(self, text: str, shape: Shape, path: str) -> None:
        """Check that a string in the request is allowed, and add its length to the counters.

        If the shape is a constant, such as ``= knn``, the string must be equal to it. Otherwise, the string must not
        be too long. The arguments and the errors are those of :meth:`check_value`.
        """
        if shape.startswith("="):
            if text != shape[2:]:
                raise ClauseNotAllowed(f"{path} is {text!r}", value=path, expected=shape[2:])
            return
        longest = self._bounds[_LENGTH_BOUNDS.get(shape, _ANY_LENGTH_BOUND)]
        if len(text) > longest:
            raise TextTooLong(f"{path} has {len(text)} characters", value=len(text), expected=f"at most {longest}")
        self._add_to_counter("characters of all texts", path, len(text))
        if shape in _EXPENSIVE:
            self._add_to_counter("patterns", path)
            self._add_to_counter("characters of all patterns", path, len(text))
        if shape == "name" and "*" in text:
            self._add_to_counter("names with *", path)
        brackets = text.count("(")
        if brackets > _BRACKET_BOUNDS.get(shape, brackets):
            expected = f"at most {_BRACKET_BOUNDS[shape]} opening brackets"
            raise BadInput(f"{path} has {brackets} opening brackets", value=text, expected=expected)

    def _check_list(self, items: list[Any], shape: Shape, path: str) -> None:
        if shape == "number" and {int, float}.issuperset(map(type, items)):
            self._add_to_counter("values", path, len(items))  # a vector, whose numbers need no check
            return
        for position, item in enumerate(items):
            self.check_value(item, shape, f"{path}[{position}]")

    def _check_object(self, value: Mapping[str, Any], shape: Shape, path: str) -> None:
        """Check that all keys of a JSON object in the request are allowed, and then check the value under each key.

        The arguments and the errors are those of :meth:`check_value`.
        """
        level, buckets = f"{_COUNTED.get(shape, 'other')} levels", self._buckets
        self._add_to_counter(level, path)
        self._count_object(value, shape, path)
        keys = _allowed_keys(shape)
        self._check_keys(value, shape, path)
        if "fuzziness" in value and "query" in keys:
            keys = {**keys, "query": "query string text"}  # each of its words may match many others
        for name, inner in value.items():
            self._add_to_counter("characters of all texts", path, len(name))
            is_field = shape not in _LABELLED and name in read_allow_list()["refused names"]
            inner_shape = keys.get(name, None if is_field else keys.get("*"))
            if inner_shape is None:
                raise ClauseNotAllowed(
                    f"{path}.{name} is not in the allow-list",
                    value=f"{path}.{name}",
                    expected="a clause or option of the list (docs/http.md), or a key of the scope body",
                )
            self.check_value(inner, inner_shape, f"{path}.{name}")
        self._counts[level] -= 1
        self._buckets = buckets

    def _count_object(self, value: Mapping[str, Any], shape: Shape, path: str) -> None:
        """Update the counts of clauses, aggregations and buckets for a JSON object of the request.

        For objects that need much work for each hit, the limit on the number of hits (``max_hits``) is lowered.

        Args:
            value: The JSON object.
            shape: The name of the object's shape in the allow-list, for example ``clause`` or ``aggregation``.
            path: The path of the object in the request, for error messages.

        Raises:
            TextTooLong: If the request contains too many objects of this shape, or its aggregations create too many
                buckets.
        """
        if shape == "aggregation":
            self._buckets *= _bucket_count(value)
            self._add_to_counter("buckets", path, self._buckets)
        self._add_to_counter(shape, path)
        self.max_hits = min(self.max_hits, read_allow_list()["hit counts"].get(shape, self.max_hits))
        if shape in _COUNTED:
            self._add_to_counter(f"{_COUNTED[shape]}s", path)

    def _check_keys(self, value: Mapping[str, Any], shape: Shape, path: str) -> None:
        """Check that a clause has exactly one key, and that an object has the key that its shape requires.

        For example, the shape ``aggregation.histogram`` requires the key ``min_doc_count``.

        Args:
            value: The JSON object.
            shape: The name of the object's shape in the allow-list, for example ``clause``.
            path: The path of the object in the request, for error messages.

        Raises:
            BadInput: If the clause has no key or several keys, or the required key is missing.
        """
        if shape in _TABLES and len(value) != 1:
            raise BadInput(f"{path} has {len(value)} keys", value=", ".join(value), expected="the name of one clause")
        required = read_allow_list()["required"].get(shape)
        if required and required not in value:
            # Without min_doc_count, a histogram also returns empty buckets. They can exceed the memory of a node.
            raise BadInput(
                f"{path} has no {required}", value=f"{path}.{required}", expected=_allowed_keys(shape)[required]
            )

    def _add_to_counter(self, name: str, path: str, count: int = 1) -> None:
        """Add to a counter, and raise ``TextTooLong`` if the total exceeds the bound in the allow-list.

        Args:
            name: The name of the counter, for example ``patterns``. The allow-list has bounds for some of the counters.
            path: The path of the counted value in the request, for error messages.
            count: The number to add.
        """
        self._counts[name] += count
        bound = self._bounds.get(name)
        if bound is not None and self._counts[name] > bound:
            raise TextTooLong(f"too many {name}, at {path}", value=path, expected=f"at most {bound} {name}")


def _check_number(number: float, shape: Shape, path: str) -> None:
    """Raise ``BadInput`` if a number is outside the bound of its shape.

    Args:
        number: The number.
        shape: The shape of the number, with or without a bound, for example ``number <= 100``.
        path: The path of the number in the request, for error messages.
    """
    _, sign, bound = shape.rpartition("number")[2].partition("= ")
    if sign and (number > float(bound) if "<" in shape else number < float(bound)):
        raise BadInput(f"{path} is {number}", value=number, expected=shape)


def _bucket_count(aggregation: Mapping[str, Any]) -> int:
    """Return the largest number of buckets that an aggregation can return, not counting its sub-aggregations.

    The number is the ``size`` or ``buckets`` of the aggregation, or a default for its type. Metric aggregations, such
    as ``avg``, count as a single bucket.

    Args:
        aggregation: The aggregation as JSON, for example ``{"terms": {"field": "tag", "size": 5}}``.
    """
    for kind, default in read_allow_list()["bucket counts"].items():
        if isinstance(settings := aggregation.get(kind), dict):
            count = settings.get("size", settings.get("buckets", default))
            if not isinstance(count, (int, float)) or abs(count) >= _LARGEST_BUCKET_COUNT:
                return int(default)
            return max(1, int(count))
    return 1


def _json_type(value: Any) -> str:
    """Return the name that the allow-list uses for the JSON type of a value.

    The names are ``text``, ``number``, ``boolean``, ``list``, ``object`` and ``null``.
    """
    if isinstance(value, bool):
        return "boolean"
    kinds = {str: "text", int: "number", float: "number", list: "list", dict: "object"}
    return kinds.get(type(value), "null")


def _describe_shapes(shapes: Mapping[str, Shape]) -> str:
    """Describe in English which JSON values are allowed in one place of a request, for error messages.

    Args:
        shapes: For each allowed JSON type, the shape of its values in the notation of the allow-list.

    >>> _describe_shapes({"text": "text", "number": "number <= 100"})
    'text or number <= 100'
    """
    return " or ".join(shapes[kind] if kind in _SCALARS else kind for kind in shapes)


@cache
def _shapes_by_type(shape: Shape) -> dict[str, Shape]:
    """Return the JSON types that a shape allows, each with the shape of its values.

    A shape is the allow-list's notation for the values that are allowed in one place. For example,
    ``"text | [number]"`` is the shape of a text or a list of numbers. The result is
    ``{"text": "text", "list": "number"}``.

    Args:
        shape: The shape of a JSON value.

    Returns:
        A mapping from a JSON type (``text``, ``number``, ``list``, …) to the shape that values of this type must have.
        For a list, this is the shape of the items.
    """
    if shape in _TABLES or shape in _object_shapes():
        return {"object": shape}
    shapes: dict[str, Shape] = {}
    for alternative in _SEPARATOR.split(shape):
        if alternative.startswith("["):
            shapes["list"] = alternative[1:-1]
        elif alternative.startswith("{"):
            shapes["object"] = alternative
        elif alternative == "value":
            shapes |= {kind: kind for kind in ("text", "number", "boolean")}
        elif alternative != shape:
            shapes |= _shapes_by_type(alternative)
        elif alternative in read_allow_list()["shapes"]:
            shapes |= _shapes_by_type(read_allow_list()["shapes"][alternative])
        else:
            first_word = alternative.split()[0]
            shapes[first_word if first_word in _SCALARS else "text"] = alternative
    return shapes


@cache
def _allowed_keys(shape: Shape) -> dict[str, Shape]:
    """Return the keys that a JSON object may have, and the shape of the value under each key.

    A shape is the allow-list's notation for a type of JSON value. The key ``*`` stands for any key that is not listed.

    Args:
        shape: The shape of the object: the name of an object type in the allow-list, or ``"{SHAPE}"`` for an object
            with arbitrary keys whose values have the shape SHAPE.

    >>> _allowed_keys("{clause}")
    {'*': 'clause'}
    """
    return {"*": shape[1:-1]} if shape[0] == "{" else _object_shapes()[_TABLES.get(shape, shape)]


@cache
def _object_shapes() -> dict[str, dict[str, Shape]]:
    """Return the types of JSON objects in the allow-list, with the keys that each type allows.

    Returns:
        For each type of object, a mapping from the allowed keys to the shapes (types) of their values. The name of an
        object inside another object is a path with dots, for example ``body.highlight``.
    """
    content, objects = read_allow_list(), dict[str, dict[str, Shape]]()

    def add(name: str, keys: Mapping[str, Any], is_table: bool = False) -> None:
        included = keys.get("...")
        shapes = {**(content.get(included) or content["shapes"][included])} if included else {}
        if not is_table and "*" not in keys and "*" not in shapes:
            shapes |= content["everywhere"]
        shapes |= {key: inner for key, inner in keys.items() if key != "..."}
        objects[name] = {}
        for key, inner in shapes.items():
            if isinstance(inner, dict):
                add(f"{name}.{key}", inner)
            objects[name][key] = f"{name}.{key}" if isinstance(inner, dict) else inner

    for table in _TABLES.values():
        add(table, content[table], is_table=True)
    add("body", content["body"])
    for name, inner in content["shapes"].items():
        if isinstance(inner, dict):
            add(name, inner)
    return objects
