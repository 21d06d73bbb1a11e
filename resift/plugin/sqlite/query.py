"""OpenSearch's query language, the part that the embedded engine knows, as a tree of clauses.

Known are ``match_all``, ``match_none``, ``match``, ``multi_match``, ``ids``, ``term``, ``terms``, ``range``, ``exists``
and ``knn``, and ``bool``, ``constant_score``, ``script_score`` and ``function_score`` of them, to any depth that a
person writes; at the top also ``hybrid``. They mean what they mean on OpenSearch, scores included.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NoReturn

import numpy as np

from resift.contracts.query_dsl import MAX_RESULTS, VECTOR_FIELD
from resift.errors import BadInput, UnsupportedQuery
from resift.plugin.sqlite.analysis import terms_of
from resift.plugin.sqlite.clauses import (
    Bool,
    Clause,
    Constant,
    Everything,
    Ids,
    Nearest,
    Passing,
    Query,
    Scripted,
    Text,
    Weighted,
    parts_of,
)
from resift.plugin.sqlite.fields import Comparison, Exists, OneOf, scalar
from resift.plugin.sqlite.tables import IndexTables
from resift.plugin.sqlite.vectors import checked_numbers, lucene_scores, parse_script

MAX_CLAUSES, MAX_TERMS = 1024, 65_536  # OpenSearch's own limits
MAX_DEPTH = 100  # below the depth of Python's stack; OpenSearch takes about 300
_COMPARISONS = ("gt", "gte", "lt", "lte")
_DATE_MATH = re.compile(r"^now([-+/].*)?$|\|\|")  # now-7d/d, 2024-01-01||+1M
_REACHES = {"k", "min_score", "max_distance"}  # of which a knn query has one
_MAX_QUERIES = 5  # in a hybrid query
_BY_FIELD = {"match", "term", "range", "knn"}  # their settings stand under the name of a field


def parse_query(query: Any, tables: IndexTables, whole: bool = False) -> Query:
    """A query over an index, checked in every part.

    ``whole``: whether it is that of a search body, which may be hybrid. Raises UnsupportedQuery for what the embedded
    engine does not know, and BadInput for what no engine does.
    """
    parser = _Parser(tables)
    if whole and isinstance(query, Mapping) and query.keys() == {"hybrid"}:
        parsed = parser.hybrid(query["hybrid"])
    else:
        parsed = Query(parser.clause(query), parser.names)
    count = sum(_count(part) for part in parts_of(parsed.clause))
    if count > MAX_CLAUSES:
        raise _too_many(count)
    return parsed


def _too_many(count: int) -> BadInput:
    return BadInput(f"the query has {count} clauses", value=count, expected=f"at most {MAX_CLAUSES}")


def _count(clause: Clause) -> int:
    """What a clause counts of MAX_CLAUSES: each word in each field by itself, as Lucene does."""
    if isinstance(clause, Text):
        return len(clause.boosts) * len(clause.terms)
    return 0 if isinstance(clause, (Bool, Constant, Scripted, Weighted)) else 1


class _Parser:
    """Query clauses to :data:`Clause`, one method for each kind."""

    def __init__(self, tables: IndexTables) -> None:
        self.fields, self.analyzer, self.dim, self.space = (
            tables.fields,
            tables.analyzer,
            tables.dim,
            tables.meta["space"],
        )
        self.words = self.depth = 0
        self.names: dict[str, Clause] = {}
        self.kinds: dict[str, Callable[[Mapping[str, Any]], Clause]] = {
            "match_all": self._match_all,
            "match_none": self._match_none,
            "match": self._match,
            "multi_match": self._multi_match,
            "ids": self._ids,
            "term": self._term,
            "terms": self._terms,
            "range": self._range,
            "exists": self._exists,
            "knn": self._knn,
            "constant_score": self._constant_score,
            "script_score": self._script_score,
            "function_score": self._function_score,
            "bool": self._bool,
            "dis_max": self._dis_max,
        }

    def clause(self, query: Any) -> Clause:
        kind, body = single(query, "query")
        if kind not in self.kinds:
            unsupported(f"query {kind!r}", " | ".join(self.kinds))
        if not isinstance(body, Mapping):
            raise BadInput(f"malformed {kind} query", value=body, expected="an object")
        settings = next(iter(body.values()), None) if kind in _BY_FIELD else body
        return self._named(settings, kind, self.kinds[kind](body))

    def _named(self, settings: Any, kind: str, clause: Clause) -> Clause:
        """A clause, which is noted if its settings give it a name."""
        if isinstance(settings, Mapping) and "_name" in settings:
            name = settings["_name"]
            if not isinstance(name, str):
                raise BadInput(f"malformed _name of {kind}", value=name, expected="a text")
            self.names[str(scalar(name, "_name"))] = clause
        return clause

    def _inner(self, query: Any) -> Clause:
        """A clause inside another one."""
        if self.depth == MAX_DEPTH:
            expected = f"at most {MAX_DEPTH} of them"
            raise BadInput("queries are too deep inside each other", value=MAX_DEPTH + 1, expected=expected)
        self.depth += 1
        clause = self.clause(query)
        self.depth -= 1
        return clause

    def _match_all(self, body: Mapping[str, Any]) -> Clause:
        return Everything(_boost_of("match_all", body))

    def _match_none(self, body: Mapping[str, Any]) -> Clause:
        return Ids(frozenset(), _boost_of("match_none", body))

    def _knn(self, body: Mapping[str, Any]) -> Clause:
        settings = body.get(VECTOR_FIELD) if len(body) == 1 else None
        if not isinstance(settings, Mapping) or "vector" not in settings or len(_REACHES & set(settings)) != 1:
            expected = f'{{"{VECTOR_FIELD}": {{"vector", {" or ".join(sorted(_REACHES))}, "filter"}}}}'
            raise BadInput("malformed knn query", value=body, expected=expected)
        # every index of this engine has the field, and its k-NN is exact
        without_effect = ("ignore_unmapped", "method_parameters", "rescore")
        boost = _boost_of("knn", settings, "vector", *_REACHES, "filter", *without_effect)
        vector = checked_numbers("query vector", settings["vector"], self.dim).astype(np.float32)
        k, least, filtering = None, 0.0, settings.get("filter")
        if "k" in settings:
            k = _up_to_all(settings, "k")
        elif "min_score" in settings:
            least = _number("min_score", settings["min_score"], 1.0 if self.space == "l2" else math.inf)
        else:
            lowest = 0.0 if self.space == "l2" else -math.inf
            distance = _number("max_distance", settings["max_distance"], math.inf, lowest)
            least = float(lucene_scores(np.array(distance), self.space))
        return Nearest(vector, k, least, None if filtering is None else self._inner(filtering), boost)

    def hybrid(self, body: Any) -> Query:
        """A hybrid query, which stands at the top of a body alone."""
        if not isinstance(body, Mapping) or _boost_of("hybrid", body, "queries", "filter", "pagination_depth") != 1:
            raise BadInput("malformed hybrid query", value=body, expected="an object without a boost")
        queries = _as_list(body.get("queries", []))
        if not 0 < len(queries) <= _MAX_QUERIES:
            expected = f"1 to {_MAX_QUERIES} queries"
            raise BadInput(f"a hybrid query has {len(queries)} queries", value=len(queries), expected=expected)
        condition = body.get("filter")
        clauses = tuple(self._inner(query if condition is None else _filtered(query, condition)) for query in queries)
        depth = _up_to_all(body, "pagination_depth") if "pagination_depth" in body else None
        return Query(self._named(body, "hybrid", Bool(should=clauses, least=1)), self.names, clauses, depth)

    def _constant_score(self, body: Mapping[str, Any]) -> Clause:
        return Constant(self._inner(body.get("filter")), _boost_of("constant_score", body, "filter"))

    def _script_score(self, body: Mapping[str, Any]) -> Clause:
        boost = _boost_of("script_score", body, "query", "script")
        return Scripted(self._inner(body.get("query")), parse_script(body.get("script"), self.dim), boost)

    def _function_score(self, body: Mapping[str, Any]) -> Clause:
        boost = _boost_of("function_score", body, "query", "functions", "score_mode", "boost_mode")
        mode, functions = body.get("score_mode", "multiply"), _as_list(body.get("functions", []))
        if mode not in ("multiply", "first") or body.get("boost_mode", "multiply") != "multiply":
            unsupported("these modes of function_score", "score_mode multiply | first; boost_mode multiply")
        if not all(isinstance(one, Mapping) and one.keys() == {"filter", "weight"} for one in functions):
            unsupported("these functions of function_score", '{"filter", "weight"}')
        weights = tuple((self._inner(one["filter"]), _number("weight", one["weight"], math.inf)) for one in functions)
        return Weighted(self._inner(body.get("query", {"match_all": {}})), weights, mode == "first", boost)

    def _ids(self, body: Mapping[str, Any]) -> Clause:
        boost = _boost_of("ids", body, "values")
        return Ids(frozenset(_text(value, "ids") for value in _as_list(body.get("values"))), boost)

    def _term(self, body: Mapping[str, Any]) -> Clause:
        name, value = _field(body, "term")
        boost = 1.0
        if isinstance(value, Mapping):
            boost = _boost_of("term", value, "value")
            value = value.get("value")
        return self._one_of(name, [value], boost)

    def _terms(self, body: Mapping[str, Any]) -> Clause:
        name, values = _field({name: value for name, value in body.items() if name not in ("boost", "_name")}, "terms")
        if not isinstance(values, list):
            raise BadInput(f"malformed terms on {name!r}", value=values, expected="a list")
        if len(values) > MAX_TERMS:
            message = f"{len(values)} terms on {name!r}"
            raise BadInput(message, value=len(values), expected=f"at most {MAX_TERMS}")
        return self._one_of(name, values, _boost(body.get("boost", 1.0)))

    def _one_of(self, name: str, values: Sequence[Any], boost: float) -> Clause:
        checked = [scalar(value, name) for value in values]
        if name in self.fields:  # a text field has its words for values
            terms = dict.fromkeys(str(value) for value in checked)
            if len(checked) == 1:
                return Text({name: 1.0}, tuple(terms), boost=boost)
            # Several terms are a filter with one score, and not each with a score of its own.
            either = Bool(should=tuple(Text({name: 1.0}, (term,)) for term in terms), least=1)
            return Bool(must=(Everything(),), filter=(either,), boost=boost)
        return Passing(OneOf.of(name, checked), boost)

    def _range(self, body: Mapping[str, Any]) -> Clause:
        name, bounds = _field(body, "range")
        if not isinstance(bounds, Mapping):
            raise BadInput(f"malformed range on {name!r}", value=bounds, expected=" | ".join(_COMPARISONS))
        boost = _boost_of("range", bounds, *_COMPARISONS)
        limits = [(op, scalar(bounds[op], name)) for op in _COMPARISONS if bounds.get(op) is not None]
        for _, limit in limits:
            # dates are texts here, and as a text it would be compared letter by letter
            if isinstance(limit, str) and _DATE_MATH.search(limit):
                unsupported(f"the date {limit!r} in a range", "a date without arithmetic, such as 2024-01-31")
        return Passing(Comparison(name, tuple(limits)) if limits else Exists(name), boost)

    def _exists(self, body: Mapping[str, Any]) -> Clause:
        boost = _boost_of("exists", body, "field")
        return Passing(Exists(_field_name(body.get("field"))), boost)

    def _match(self, body: Mapping[str, Any]) -> Clause:
        name, settings = _field(body, "match")
        if name not in self.fields:
            self._not_text(name)
        return self._words("match", {name: 1.0}, settings if isinstance(settings, Mapping) else {"query": settings})

    def _multi_match(self, body: Mapping[str, Any]) -> Clause:
        if body.get("type", "best_fields") != "best_fields":
            unsupported(f"the multi_match type {body['type']!r}", "best_fields")
        settings = {name: value for name, value in body.items() if name not in ("fields", "type", "tie_breaker")}
        tie_breaker = _number("tie_breaker", body.get("tie_breaker", 0.0), 1.0)
        return self._words("multi_match", self._boosts(_as_list(body.get("fields") or ["*"])), settings, tie_breaker)

    def _words(self, kind: str, boosts: dict[str, float], body: Mapping[str, Any], tie_breaker: float = 0.0) -> Clause:
        """The clause for the words of a text in some fields."""
        boost = _boost_of(kind, body, "query", "operator", "zero_terms_query", "lenient")
        operator = str(body.get("operator", "or")).lower()
        when_empty = body.get("zero_terms_query", "none")
        lenient = body.get("lenient", False)  # says what becomes of other fields' types, of which there are none here
        if operator not in ("or", "and") or when_empty not in ("none", "all") or not isinstance(lenient, bool):
            expected = "operator or | and; zero_terms_query none | all; lenient true | false"
            raise BadInput(f"malformed {kind} query", value=body, expected=expected)
        terms = terms_of(str(scalar(body.get("query"), "query")), self.analyzer)
        self.words += len(terms)
        if self.words > MAX_CLAUSES:  # at once, for to cut further texts into words would take long
            raise _too_many(self.words)
        if not terms and when_empty == "all":
            best = max(boosts.values())
            return Everything(boost * (best + tie_breaker * (sum(boosts.values()) - best)))
        return Text(boosts, tuple(terms), operator == "and", boost, tie_breaker)

    def _boosts(self, names: Sequence[Any]) -> dict[str, float]:
        """The text fields that names or patterns stand for, each with the number after its ``^``, or 1."""
        boosts: dict[str, float] = {}
        for name in names:
            pattern, _, boost = _text(name, "fields").partition("^")
            for field in self.fields:
                if fnmatchcase(field, pattern):
                    boosts[field] = _boost(boost) if boost else 1.0  # the last name of a field counts
        return boosts or self._not_text(names[0])

    def _not_text(self, name: Any) -> NoReturn:
        raise BadInput(f"{name!r} is not a text field of this index", value=name, expected=" | ".join(self.fields))

    def _bool(self, body: Mapping[str, Any]) -> Clause:
        boost = _boost_of("bool", body, "must", "should", "filter", "must_not", "minimum_should_match")

        def clauses(occurrence: str) -> tuple[Clause, ...]:
            return tuple(self._inner(clause) for clause in _as_list(body.get(occurrence, [])))

        # In OpenSearch's order, for of clauses with one name the last counts.
        must, must_not, should, filtering = map(clauses, ("must", "must_not", "should", "filter"))
        if not (must or should or filtering or must_not):
            return Everything(boost)
        # Where nothing else has to match, one of the alternatives must.
        alone = 0 if must or filtering or not should else 1
        least = max(alone, natural_number(body, "minimum_should_match", alone))
        if not (must or should or filtering):
            least = 0  # of a bool that only excludes OpenSearch forgets how many alternatives were wanted
        return Bool(must, should, filtering, must_not, least, boost)

    def _dis_max(self, body: Mapping[str, Any]) -> Clause:
        boost = _boost_of("dis_max", body, "queries")
        return Bool(should=tuple(map(self._inner, _as_list(body.get("queries", [])))), least=1, boost=boost, best=True)


def _boost_of(kind: str, body: Mapping[str, Any], *known: str) -> float:
    """A clause's boost. Raises UnsupportedQuery for a setting that is neither ``known`` nor common to all clauses."""
    unknown = sorted(map(str, set(body) - {"boost", "_name", *known}))
    if unknown:
        unsupported(f"{unknown[0]!r} in {kind}", " | ".join([*known, "boost"]))
    return _boost(body.get("boost", 1.0))


def _boost(value: Any) -> float:
    return _number("boost", value, math.inf)


def _number(name: str, value: Any, high: float, low: float = 0.0) -> float:
    """A setting of a clause: a number from ``low`` to ``high``, finite, or its text. Raises BadInput for others."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if isinstance(value, bool) or not low <= number <= high or math.isinf(number):
        expected = f"a number from {low:g} to {high:g}"
        raise BadInput(f"{name} is {value!r}", value=value, expected=expected)
    return number


def single(query: Any, what: str) -> tuple[str, Any]:
    """The key and the value of an object that has one."""
    if not isinstance(query, Mapping) or len(query) != 1:
        raise BadInput(f"malformed {what}", value=query, expected="an object with one key")
    ((kind, body),) = query.items()
    return str(kind), body


def _field(body: Mapping[str, Any], kind: str) -> tuple[str, Any]:
    """The field's name and what is asked of it, in the body of a clause about one field."""
    name, value = single(body, f"{kind} query")
    return _field_name(name), value


def _field_name(name: Any) -> str:
    # A name with a NUL means nothing to any client, and nobody's document has such a field.
    if not name or "\0" in _text(name, "field"):
        raise BadInput(f"malformed field name {name!r}", value=name, expected="a field's name")
    return str(name)


def _text(value: Any, what: str) -> str:
    """A value that has to be a text, or for an id a whole number."""
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise BadInput(f"malformed {what}: {value!r}", value=value, expected="a text")
    return str(scalar(value, what))


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def natural_number(body: Mapping[str, Any], name: str, default: int) -> int:
    """A whole number of a search body. Raises BadInput if it is negative, or something else."""
    value = body.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise BadInput(f"{name} is {value!r}", value=value, expected="a whole number, 0 or more")
    return value


def _up_to_all(body: Mapping[str, Any], name: str) -> int:
    """How many documents are looked for, 1 to MAX_RESULTS."""
    number = natural_number(body, name, 0)
    if not 0 < number <= MAX_RESULTS:
        raise BadInput(f"{name} is {number}", value=number, expected=f"a whole number from 1 to {MAX_RESULTS}")
    return number


def _filtered(query: Any, condition: Any) -> dict[str, Any]:
    """A sub-query under the filter of a hybrid query, in the place where OpenSearch puts it."""
    kind, body = single(query, "query")
    if kind == "bool" and isinstance(body, Mapping):
        return {kind: {**body, "filter": [*_as_list(body.get("filter", [])), condition]}}
    settings = body.get(VECTOR_FIELD) if kind == "knn" and isinstance(body, Mapping) else None
    if not isinstance(settings, Mapping):
        return {"bool": {"must": query, "filter": condition}}
    conditions = [settings[name] for name in ("filter",) if settings.get(name) is not None]
    # OpenSearch forgets the boost and the name of a knn query here
    kept = {name: value for name, value in settings.items() if name not in ("boost", "_name")}
    return {kind: {VECTOR_FIELD: {**kept, "filter": {"bool": {"filter": [*conditions, condition]}}}}}


def unsupported(what: str, expected: str) -> NoReturn:
    """Raise UnsupportedQuery."""
    raise UnsupportedQuery(f"the embedded engine does not know {what}", value=what, expected=expected)
