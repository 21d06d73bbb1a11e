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
Scored = tuple[str, float]


@dataclass(frozen=True)
class Condition:
    """``where`` over the documents table ``d`` with its ``values``, and the FTS5 expressions that score.

    ``match`` must match, if there is one; ``more`` adds to its score or, without it, one of them must match.
    """

    where: str
    values: tuple[Any, ...]
    match: Scored | None = None
    more: tuple[Scored, ...] = ()

    @property
    def words(self) -> str | None:
        """One FTS5 expression for all that scores."""
        expressions = [expression for expression, _ in (*([self.match] if self.match else []), *self.more)]
        return " OR ".join(f"({expression})" for expression in expressions) or None


def translate(query: Any, fields: Sequence[str], words: str) -> Condition:
    """``query`` over an index whose text ``fields`` are the columns c0, c1, … of the FTS5 table ``words``.

    Raises UnsupportedQuery for what the embedded engine does not know, BadInput for what no engine does.
    """
    kind, body = _single(query)
    if kind in _TEXT:
        return Condition("1", (), _scored(query, fields))
    if kind != "bool":
        return Condition(*_Filter(fields, words).clause(query))
    must = _as_list(body.get("must", []))
    texts = [clause for clause in must if _single(clause)[0] in _TEXT]
    rest = [clause for clause in must if clause not in texts[:1]]
    if len(texts) > 1:
        _unsupported("bool.must with several text clauses", "one text clause")
    should = _as_list(body.get("should", []))
    more = [clause for clause in should if _single(clause)[0] in _TEXT]
    alone = not texts and len(more) == len(should)
    least = body.get("minimum_should_match", 0 if must or body.get("filter") else 1)
    filtering = {**body, "must": rest, "minimum_should_match": least}
    if alone and least == 1:
        filtering = {name: value for name, value in filtering.items() if name not in ("should", "minimum_should_match")}
    elif not texts:
        more = []
    where, values = _Filter(fields, words).clause({"bool": filtering})
    match = _scored(texts[0], fields) if texts else None
    return Condition(where, values, match, tuple(_scored(clause, fields) for clause in more))


class _Filter:
    def __init__(self, fields: Sequence[str], words: str) -> None:
        self.fields, self.words = fields, words

    def clause(self, query: Any) -> tuple[str, tuple[Any, ...]]:
        kind, body = _single(query)
        if kind in _TEXT:
            matching = f"d.row IN (SELECT rowid FROM {self.words} WHERE {self.words} MATCH ?)"
            return matching, (_expression(kind, body, self.fields),)
        handler = getattr(self, f"_{kind}", None)
        if handler is None:
            _unsupported(f"query {kind!r}", _KNOWN)
        result: tuple[str, tuple[Any, ...]] = handler(body)
        return result

    def _match_all(self, body: Any) -> tuple[str, tuple[Any, ...]]:
        return "1", ()

    def _ids(self, body: Any) -> tuple[str, tuple[Any, ...]]:
        values = _as_list(body.get("values", []))
        return f"d.id IN ({', '.join('?' * len(values))})", tuple(map(str, values))

    def _term(self, body: Any) -> tuple[str, tuple[Any, ...]]:
        name, value = _single(body)
        return self._terms({name: [value["value"] if isinstance(value, Mapping) else value]})

    def _terms(self, body: Any) -> tuple[str, tuple[Any, ...]]:
        name, values = _single(body)
        if not isinstance(values, list):
            raise BadInput(f"malformed terms on {name!r}", value=values, expected="a list")
        return _each(name, f"value IN ({', '.join('?' * len(values))})", values)

    def _range(self, body: Any) -> tuple[str, tuple[Any, ...]]:
        name, bounds = _single(body)
        if not isinstance(bounds, Mapping) or not bounds or set(bounds) - set(_COMPARE):
            raise BadInput(f"malformed range on {name!r}", value=bounds, expected=" | ".join(_COMPARE))
        return _each(name, " AND ".join(f"value {_COMPARE[op]} ?" for op in bounds), list(bounds.values()))

    def _exists(self, body: Any) -> tuple[str, tuple[Any, ...]]:
        return _each(body.get("field", ""), "value IS NOT NULL", [])

    def _bool(self, body: Any) -> tuple[str, tuple[Any, ...]]:
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


def _each(name: str, test: str, values: Sequence[Any]) -> tuple[str, tuple[Any, ...]]:
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
    if kind == "match":
        name, settings = _single(body)
        names = [name]
        text, operator = (
            (settings, "or") if isinstance(settings, str) else (settings.get("query"), settings.get("operator", "or"))
        )
    else:
        text, operator = body.get("query"), body.get("operator", "or")
        names = [name.split("^")[0] for name in body.get("fields", ["*"])]
    if not isinstance(text, str) or str(operator).lower() not in ("or", "and"):
        raise BadInput(f"malformed {kind} query", value=body, expected="a text, and operator or | and")
    columns = [f"c{i}" for i, name in enumerate(fields) if name in names or "*" in names]
    if not columns:
        raise BadInput(f"{names} are not text fields of this index", value=names[0], expected=" | ".join(fields))
    joined = f" {str(operator).upper()} ".join(f'"{word}"' for word in dict.fromkeys(tokenize(text))) or '""'
    return f"{{{' '.join(columns)}}} : ({joined})"


def _single(query: Any) -> tuple[str, Any]:
    if not isinstance(query, Mapping) or len(query) != 1:
        raise BadInput("malformed query", value=query, expected="an object with one key")
    ((kind, body),) = query.items()
    if not isinstance(kind, str) or (kind not in ("match", "multi_match") and kind.startswith("_")):
        raise BadInput("malformed query", value=query, expected=_KNOWN)
    return kind, body


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _unsupported(what: str, expected: str) -> NoReturn:
    raise UnsupportedQuery(f"the embedded engine does not know {what}", value=what, expected=expected)
