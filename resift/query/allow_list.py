"""What a key of scope ``search`` may ask: the clauses, aggregations and options that allow_list.json names.

A body is walked by its structure: what a value may be follows from where it stands. So a name that a caller chose (of
a field, an aggregation, a filter) is only ever a name, whatever it looks like.

In the list a shape is an object of the keys that may stand in it, or a text of alternatives: a scalar (``text``,
``value``, ``number <= 100``, ``= one constant``), ``[shape]``, a list; ``{shape}``, an object of any names; or the name
of another shape. In an object ``"*"`` stands for any other name, and ``"..."`` takes in the keys of another shape.
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

# shapes that are one entry of a table: {"match": …}, but not {"match": …, "term": …}
_TABLES = {"clause": "clauses", "interval": "intervals"}
_LEVELS = {"clause": "clause", "interval": "clause", "aggregation": "aggregation"}  # what is counted, and its levels
_LIMITS = {"pattern": "a pattern", "query string text": "a query string", "name": "a name", "place": "a name"}
_EXPENSIVE = ("pattern", "query string text")  # of which each may match any number of words
# OpenSearch reads query strings by functions that call themselves; a place with brackets is a shape in WKT
_BRACKETS = {"query string text": 50, "place": 0}
_LABELLED = ("{aggregation}", "{clause}", "{value}")  # objects whose names are the caller's own, and no fields
_SCALARS = ("text", "number", "boolean", "null")
_SEPARATOR = re.compile(r" \| (?![^\[{]*[\]}])")  # of alternatives, outside of brackets
Shape = str


@cache
def search_list() -> dict[str, Any]:
    """The list, as allow_list.json has it."""
    listed: dict[str, Any] = json.loads((files("resift.query") / "allow_list.json").read_text("utf-8"))
    return listed


def check_listed(name: str, asked: Mapping[str, Any], shape: Shape = "clause", size: int = 10) -> None:
    """Raise ClauseNotAllowed, BadInput or TextTooLong, with the path, unless a request's field ``name`` is listed.

    ``shape``: ``clause``, or ``body`` for a whole search body. ``size``: how many hits are asked for, where a body does
    not say so itself.
    """
    walk = _Walk()
    walk.check(asked, shape, name)
    size = asked.get("size", size) if shape == "body" else size
    if size > walk.hits:
        expected = f"at most {walk.hits} with what is asked of each"
        raise BadInput(f"{size} hits are asked for", value=size, expected=expected)


class _Walk:
    """One walk through a body, which counts what there is in it."""

    def __init__(self) -> None:
        self.bounds: dict[str, int] = search_list()["bounds"]
        self.counts: Counter[str] = Counter()
        self.hits = MAX_RESULTS
        self.buckets = 1  # of the aggregations around the place that is looked at

    def check(self, value: Any, shape: Shape, path: str) -> None:
        """Check a value, which may be any of a shape's alternatives."""
        self._count("values", path)
        kinds, kind = _alternatives(shape), _kind(value)
        if kind not in kinds:
            raise BadInput(f"{path} is not {_described(kinds)}", value=value, expected=_described(kinds))
        if kind == "text":
            self._check_text(value, kinds[kind], path)
        elif kind == "number":
            _check_number(value, kinds[kind], path)
        elif kind == "list" and kinds[kind] == "number" and {int, float}.issuperset(map(type, value)):
            self._count("values", path, len(value))  # a vector, which is looked at as a whole
        elif kind == "list":
            for position, item in enumerate(value):
                self.check(item, kinds[kind], f"{path}[{position}]")
        elif kind == "object":
            self._check_object(value, kinds[kind], path)

    def _check_text(self, text: str, shape: Shape, path: str) -> None:
        if shape.startswith("="):
            if text != shape[2:]:
                raise ClauseNotAllowed(f"{path} is {text!r}", value=path, expected=shape[2:])
            return
        name = f"characters of {_LIMITS.get(shape, 'a text')}"
        if len(text) > self.bounds[name]:
            raise TextTooLong(
                f"{path} has {len(text)} characters", value=len(text), expected=f"at most {self.bounds[name]}"
            )
        self._count("characters of all texts", path, len(text))
        if shape in _EXPENSIVE:
            self._count("patterns", path)
            self._count("characters of all patterns", path, len(text))
        brackets = text.count("(")
        if brackets > _BRACKETS.get(shape, brackets):
            expected = f"at most {_BRACKETS[shape]} opening brackets"
            raise BadInput(f"{path} has {brackets} opening brackets", value=text, expected=expected)

    def _check_object(self, value: Mapping[str, Any], shape: Shape, path: str) -> None:
        level = f"{_LEVELS.get(shape, 'other')} levels"
        self._count(level, path)
        buckets = self.buckets
        if shape == "aggregation":
            self.buckets *= _buckets(value)
            self._count("buckets", path, self.buckets)
        self._count(shape, path)
        self.hits = min(self.hits, search_list()["hit counts"].get(shape, self.hits))
        if shape in _LEVELS:
            self._count(f"{_LEVELS[shape]}s", path)
        if shape in _TABLES and len(value) != 1:
            raise BadInput(f"{path} has {len(value)} keys", value=", ".join(value), expected="the name of one clause")
        keys = _keys(shape)
        if (required := search_list()["required"].get(shape)) and required not in value:
            # empty buckets may be more than a node can hold, which ends it
            raise BadInput(f"{path} has no {required}", value=f"{path}.{required}", expected=keys[required])
        if "fuzziness" in value and "query" in keys:
            keys = {**keys, "query": "query string text"}  # of which each word may match many others
        for name, inner in value.items():
            self._count("characters of all texts", path, len(name))
            is_field = shape not in _LABELLED and name in search_list()["refused names"]
            expected = keys.get(name, None if is_field else keys.get("*"))
            if expected is None:
                raise ClauseNotAllowed(
                    f"{path}.{name} is not among what may be asked",
                    value=f"{path}.{name}",
                    expected="a clause or option of the list (docs/http.md), or a key of the scope body",
                )
            self.check(inner, expected, f"{path}.{name}")
        self.counts[level] -= 1
        self.buckets = buckets

    def _count(self, name: str, path: str, count: int = 1) -> None:
        self.counts[name] += count
        limit = self.bounds.get(name)
        if limit is not None and self.counts[name] > limit:
            raise TextTooLong(f"too many {name}, at {path}", value=path, expected=f"at most {limit} {name}")


def _check_number(number: float, shape: Shape, path: str) -> None:
    _, sign, limit = shape.rpartition("number")[2].partition("= ")
    if sign and (number > float(limit) if "<" in shape else number < float(limit)):
        raise BadInput(f"{path} is {number}", value=number, expected=shape)


def _buckets(aggregation: Mapping[str, Any]) -> int:
    """How many buckets an aggregation may make in each one around it."""
    for kind, usual in search_list()["bucket counts"].items():
        if isinstance(settings := aggregation.get(kind), dict):
            asked = settings.get("size", settings.get("buckets", usual))
            return max(1, int(asked)) if isinstance(asked, (int, float)) and abs(asked) < 1e9 else usual
    return 1


def _kind(value: Any) -> str:
    """What JSON calls a value."""
    if isinstance(value, bool):
        return "boolean"
    kinds = {str: "text", int: "number", float: "number", list: "list", dict: "object"}
    return kinds.get(type(value), "null")


def _described(kinds: Mapping[str, Shape]) -> str:
    """What a value may be, in words."""
    return " or ".join(kinds[kind] if kind in _SCALARS else kind for kind in kinds)


@cache
def _alternatives(shape: Shape) -> dict[str, Shape]:
    """For each kind of value that a shape may have, the shape of it."""
    if shape in _TABLES or shape in _objects():
        return {"object": shape}
    found: dict[str, Shape] = {}
    for one in _SEPARATOR.split(shape):
        if one[0] in "[{":
            found |= {"list": one[1:-1]} if one[0] == "[" else {"object": one}
        elif one == "value":
            found |= {kind: kind for kind in ("text", "number", "boolean")}
        elif one != shape:
            found |= _alternatives(one)
        elif one in search_list()["shapes"]:
            found |= _alternatives(search_list()["shapes"][one])
        else:
            found[one.split()[0] if one.split()[0] in _SCALARS else "text"] = one
    return found


@cache
def _keys(shape: Shape) -> dict[str, Shape]:
    """The keys that an object of a shape may have, each with its own shape; under * that of any other key."""
    return {"*": shape[1:-1]} if shape[0] == "{" else _objects()[_TABLES.get(shape, shape)]


@cache
def _objects() -> dict[str, dict[str, Shape]]:
    """The keys of each object in the list, those that stand inside of others by their paths."""
    listed, objects = search_list(), dict[str, dict[str, Shape]]()

    def add(name: str, keys: Mapping[str, Any], is_table: bool = False) -> None:
        taken = keys.get("...")
        found = {**(listed.get(taken) or listed["shapes"][taken])} if taken else {}
        found |= {} if is_table or "*" in keys or "*" in found else listed["everywhere"]
        found |= {key: inner for key, inner in keys.items() if key != "..."}
        objects[name] = {}
        for key, inner in found.items():
            if isinstance(inner, dict):
                add(f"{name}.{key}", inner)
            objects[name][key] = f"{name}.{key}" if isinstance(inner, dict) else inner

    for name in _TABLES.values():
        add(name, listed[name], is_table=True)
    add("body", listed["body"])
    for name, inner in listed["shapes"].items():
        if isinstance(inner, dict):
            add(name, inner)
    return objects
