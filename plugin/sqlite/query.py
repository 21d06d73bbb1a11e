"""OpenSearch's query language, the part that the embedded engine knows, as SQL.

Known are ``match_all``, ``match``, ``multi_match``, ``ids``, ``term``, ``terms``, ``range``, ``exists`` and ``bool``
of them. One text clause, alone or in ``bool.must``, and those in ``bool.should`` beside it or alone, give the BM25
score, each times its ``boost``; a text in any other place only filters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from resift.errors import BadInput, UnsupportedQuery
from resift.text import tokenize

_KNOWN = "match_all | match | multi_match | ids | term | terms | range | exists | bool"
_COMPARE = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
_TEXT = ("match", "multi_match")
Scored = tuple[str, float]  # an FTS5 expression, and the boost of its BM25 score
Where = tuple[str, tuple[Any, ...]]  # an SQL condition, and the values of its question marks


@dataclass(frozen=True)
class Condition:
    """A query as SQL: ``where`` over the documents table ``d`` with its ``values``, and the expressions that score.

    The text ``required`` must match if there is one, and ``optional`` texts add to its score; without it one of the
    optional texts must match.
    """

    where: str
    values: tuple[Any, ...]
    required: Scored | None = None
    optional: tuple[Scored, ...] = ()

    @property
    def expression(self) -> str | None:
        """One FTS5 expression for all that scores; None if nothing does."""
        scored = [*([self.required] if self.required else []), *self.optional]
        return " OR ".join(f"({expression})" for expression, _ in scored) or None


def translate(query: Any, fields: Sequence[str], words: str) -> Condition:
    """The condition of a query clause over an index whose text ``fields`` are the columns of the table ``words``.

    Raises UnsupportedQuery for what the embedded engine does not know, and BadInput for what no engine does.
    """
    kind, body = _single(query)
    if kind in _TEXT:
        return Condition("1", (), _scored(query, fields))
    if kind == "bool":
        return _translate_bool(body, fields, words)
    return Condition(*_Filter(fields, words).clause(query))


def _translate_bool(body: Any, fields: Sequence[str], words: str) -> Condition:
    """The condition of a ``bool`` at the top, whose texts score; whatever else it holds becomes a filter."""
    must, should = _as_list(body.get("must", [])), _as_list(body.get("should", []))
    required, optional = _text_clauses(must), _text_clauses(should)
    if len(required) > 1:
        _unsupported("bool.must with several text clauses", "one text clause")
    at_least = body.get("minimum_should_match", 0 if must or body.get("filter") else 1)
    filtering = {**body, "must": [clause for clause in must if clause not in required]}
    filtering["minimum_should_match"] = at_least
    if not required:
        if at_least == 1 and len(optional) == len(should):
            # Searching for the texts finds nothing but what matches one of them: no need to filter by them as well.
            del filtering["minimum_should_match"]
            filtering.pop("should", None)
        else:
            # Searching for the texts would lose the documents that match without them, so they only filter.
            optional = []
    where, values = _Filter(fields, words).clause({"bool": filtering})
    scored = [_scored(clause, fields) for clause in (*required, *optional)]
    return Condition(where, values, scored[0] if required else None, tuple(scored[len(required) :]))


def _text_clauses(clauses: list[Any]) -> list[Any]:
    return [clause for clause in clauses if _single(clause)[0] in _TEXT]


class _Filter:
    """Query clauses as SQL conditions, one method for each kind of clause."""

    def __init__(self, fields: Sequence[str], words: str) -> None:
        self.fields, self.words = fields, words

    def clause(self, query: Any) -> Where:
        kind, body = _single(query)
        if kind in _TEXT:
            matching = f"d.row IN (SELECT rowid FROM {self.words} WHERE {self.words} MATCH ?)"
            return matching, (_expression(kind, body, self.fields),)
        handler = getattr(self, f"_{kind}", None)
        if handler is None:
            _unsupported(f"query {kind!r}", _KNOWN)
        result: Where = handler(body)
        return result

    def _match_all(self, body: Any) -> Where:
        return "1", ()

    def _ids(self, body: Any) -> Where:
        values = _as_list(body.get("values", []))
        return f"d.id IN ({', '.join('?' * len(values))})", tuple(map(str, values))

    def _term(self, body: Any) -> Where:
        name, value = _single(body)
        return self._terms({name: [value["value"] if isinstance(value, Mapping) else value]})

    def _terms(self, body: Any) -> Where:
        name, values = _single(body)
        if not isinstance(values, list):
            raise BadInput(f"malformed terms on {name!r}", value=values, expected="a list")
        return _each(name, f"value IN ({', '.join('?' * len(values))})", values)

    def _range(self, body: Any) -> Where:
        name, bounds = _single(body)
        if not isinstance(bounds, Mapping) or not bounds or set(bounds) - set(_COMPARE):
            raise BadInput(f"malformed range on {name!r}", value=bounds, expected=" | ".join(_COMPARE))
        return _each(name, " AND ".join(f"value {_COMPARE[op]} ?" for op in bounds), list(bounds.values()))

    def _exists(self, body: Any) -> Where:
        return _each(body.get("field", ""), "value IS NOT NULL", [])

    def _bool(self, body: Any) -> Where:
        # A boost changes nothing: a filter has no score, and a bool at the top would multiply all scores alike.
        unknown = set(body) - {"must", "filter", "must_not", "should", "minimum_should_match", "boost"}
        if unknown or body.get("minimum_should_match", 1) not in (0, 1):
            _unsupported("this bool query", "must, filter, must_not, should, minimum_should_match of 0 or 1")
        required = _as_list(body.get("must", [])) + _as_list(body.get("filter", []))
        parts = [self.clause(clause) for clause in required]
        for clause in _as_list(body.get("must_not", [])):
            where, values = self.clause(clause)
            parts.append((f"NOT ({where})", values))
        optional = [self.clause(clause) for clause in _as_list(body.get("should", []))]
        if optional and body.get("minimum_should_match", 0 if required else 1):
            parts.append((" OR ".join(where for where, _ in optional), sum((v for _, v in optional), ())))
        return " AND ".join(f"({where})" for where, _ in parts) or "1", sum((v for _, v in parts), ())


def _each(name: str, test: str, values: Sequence[Any]) -> Where:
    """The condition that a value of a field, or one of a list of values, passes an SQL test."""
    # json_each gives one row for a single value and one for each item of a list, so that a list matches by any item.
    # Strings are whole values here already, which OpenSearch's default mapping has under NAME.keyword.
    path = "$" + "".join(f'."{part}"' for part in name.removesuffix(".keyword").split("."))
    if not name or '"' in name:
        raise BadInput(f"malformed field name {name!r}", value=name, expected="a field's name")
    return f"EXISTS (SELECT 1 FROM json_each(d.source, ?) WHERE {test})", (path, *values)


def _scored(query: Any, fields: Sequence[str]) -> Scored:
    """A text clause's FTS5 expression and its boost."""
    kind, body = _single(query)
    settings = _single(body)[1] if kind == "match" else body
    boost = settings.get("boost", 1.0) if isinstance(settings, Mapping) else 1.0
    if isinstance(boost, bool) or not isinstance(boost, (int, float)) or not 0 <= boost < math.inf:
        raise BadInput(f"boost is {boost!r}", value=boost, expected="a number, 0 or more")
    return _expression(kind, body, fields), float(boost)


def _expression(kind: str, body: Any, fields: Sequence[str]) -> str:
    """The FTS5 expression of a text clause: its words, any or all of them, in some columns or all."""
    names, text, operator = _text_parts(kind, body)
    if not isinstance(text, str) or str(operator).lower() not in ("or", "and"):
        raise BadInput(f"malformed {kind} query", value=body, expected="a text, and operator or | and")
    columns = [f"c{i}" for i, name in enumerate(fields) if name in names or "*" in names]
    if not columns:
        raise BadInput(f"{names} are not text fields of this index", value=names[0], expected=" | ".join(fields))
    # An expression must not be empty; the empty string matches nothing, as a text without words should.
    joined = f" {str(operator).upper()} ".join(f'"{word}"' for word in dict.fromkeys(tokenize(text))) or '""'
    return f"{{{' '.join(columns)}}} : ({joined})"


def _text_parts(kind: str, body: Any) -> tuple[list[str], Any, Any]:
    """The field names, the text and the operator of a text clause."""
    if kind == "multi_match":
        names = [name.split("^")[0] for name in body.get("fields", ["*"])]
        return names, body.get("query"), body.get("operator", "or")
    name, settings = _single(body)
    if isinstance(settings, str):
        return [name], settings, "or"
    return [name], settings.get("query"), settings.get("operator", "or")


def _single(query: Any) -> tuple[str, Any]:
    """The key and the value of an object that has one."""
    if not isinstance(query, Mapping) or len(query) != 1:
        raise BadInput("malformed query", value=query, expected="an object with one key")
    ((kind, body),) = query.items()
    # _Filter finds its methods by the key with an underscore before it: another one would reach its special methods.
    if not isinstance(kind, str) or kind.startswith("_"):
        raise BadInput("malformed query", value=query, expected=_KNOWN)
    return kind, body


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def natural_number(body: Mapping[str, Any], name: str, default: int) -> int:
    """A whole number of a search body. Raises BadInput if it is negative, or something else."""
    value = body.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise BadInput(f"{name} is {value!r}", value=value, expected="a whole number, 0 or more")
    return value


def _unsupported(what: str, expected: str) -> NoReturn:
    raise UnsupportedQuery(f"the embedded engine does not know {what}", value=what, expected=expected)
