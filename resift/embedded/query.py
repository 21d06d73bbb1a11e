"""OpenSearch's query language, the part that the embedded engine knows, as a tree of clauses.

Known are the clauses that rewriting makes, and what a person needs to try it, inside each other to any depth that a
person writes; ``hybrid`` stands at the top alone. They mean what they mean on OpenSearch, scores included.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal, NoReturn

import msgspec
import numpy as np

from resift.embedded.analysis import terms_of
from resift.embedded.clauses import Bool, Clause, Constant, Nearest, Query, Scored, Scripted, Text, Weighted
from resift.embedded.fields import COMPARISONS, FieldTest, exists, in_range, one_of, scalar
from resift.embedded.scoring import checked_numbers, parse_script
from resift.embedded.tables import IndexTables
from resift.errors import BadInput, UnsupportedQuery
from resift.query.dsl import MAX_RESULTS, VECTOR_FIELD
from resift.schema import convert

Natural = Annotated[int, msgspec.Meta(ge=0)]
UpToAll = Annotated[int, msgspec.Meta(ge=1, le=MAX_RESULTS)]  # how many documents are looked for
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Weight = Annotated[float, msgspec.Meta(ge=0, le=sys.float_info.max, title="a finite number, 0 or more")]
MAX_CLAUSES, MAX_TERMS = 1024, 65_536  # OpenSearch's own limits
MAX_DEPTH = 100  # below the depth of Python's stack; OpenSearch takes about 300
_DATE_MATH = re.compile(r"^now([-+/].*)?$|\|\|")  # now-7d/d, 2024-01-01||+1M
_MAX_QUERIES = 5  # in a hybrid query
_COMMON = ("boost", "_name")
# The settings that each kind of clause knows beside these; of a knn query some have no effect, since every
# index of this engine has the field, and its k-NN is exact.
_ABOUT_FIELDS: dict[str, tuple[str, ...]] = {  # they stand under the name of a field
    "match": ("query", "operator", "zero_terms_query", "lenient"),
    "term": ("value",),
    "terms": ("values",),
    "range": tuple(COMPARISONS),
    "knn": ("vector", "k", "filter", "ignore_unmapped", "method_parameters", "rescore"),
}
_ALONE = {"match": "query", "term": "value"}  # what can stand there alone
_OTHERS: dict[str, tuple[str, ...]] = {
    "match_all": (),
    "match_none": (),
    "multi_match": ("query", "operator", "zero_terms_query", "lenient", "fields", "type", "tie_breaker"),
    "ids": ("values",),
    "exists": ("field",),
    "constant_score": ("filter",),
    "script_score": ("query", "script"),
    "function_score": ("query", "functions", "score_mode"),
    "bool": ("must", "should", "filter", "must_not", "minimum_should_match"),
    "dis_max": ("queries",),
}


def parse_query(query: Any, tables: IndexTables, whole: bool = False) -> Query:
    """A query over an index, checked in every part.

    ``whole``: whether it is that of a search body, which may be hybrid. Raises UnsupportedQuery for what the embedded
    engine does not know, and BadInput for what no engine does.
    """
    parser = _Parser(tables)
    if whole and isinstance(query, Mapping) and query.keys() == {"hybrid"}:
        return parser.hybrid(query["hybrid"])
    return Query(parser.clause(query), parser.names)


class _Parser:
    """Query clauses to :class:`Clause`, one method for each kind."""

    def __init__(self, tables: IndexTables) -> None:
        self.tables, self.count, self.depth = tables, 0, 0
        self.names: dict[str, Clause] = {}

    def clause(self, query: Any) -> Clause:
        kind, settings = single(query, "query")
        about: tuple[str, ...] = ()
        if kind == "terms" and isinstance(settings, Mapping):  # whose boost stands beside the field
            common = {name: value for name, value in settings.items() if name in _COMMON}
            field, values = single(
                {name: value for name, value in settings.items() if name not in _COMMON}, "terms query"
            )
            settings = {field: {"values": values, **common}}
        if kind in _ABOUT_FIELDS:
            field, settings = single(settings, f"{kind} query")
            about = (field,)
            if kind in _ALONE and not isinstance(settings, Mapping):
                settings = {_ALONE[kind]: settings}
        elif kind not in _OTHERS:
            unsupported(f"query {kind!r}", " | ".join([*_ABOUT_FIELDS, *_OTHERS]))
        known = (_ABOUT_FIELDS | _OTHERS)[kind]
        settings = settings_of(settings, kind, *known, *_COMMON)
        made: Clause = getattr(self, f"_{kind}")(*about, settings, _weight("boost", settings.get("boost", 1.0)))
        return self._named(settings, made)

    def _named(self, settings: Mapping[str, Any], clause: Clause) -> Clause:
        """A clause, which is noted if its settings give it a name."""
        if "_name" in settings:
            self.names[str(scalar(convert("_name", settings["_name"], str), "_name"))] = clause
        return clause

    def _counted(self, count: int = 1) -> None:
        """Count what MAX_CLAUSES limits: clauses without others in them, each word in each field by itself."""
        self.count += count
        if self.count > MAX_CLAUSES:
            raise BadInput(f"the query has {self.count} clauses", value=self.count, expected=f"at most {MAX_CLAUSES}")

    def _inner(self, query: Any) -> Clause:
        """A clause inside another one."""
        if self.depth == MAX_DEPTH:
            expected = f"at most {MAX_DEPTH} of them"
            raise BadInput("queries are nested too deep", value=MAX_DEPTH + 1, expected=expected)
        self.depth += 1
        clause = self.clause(query)
        self.depth -= 1
        return clause

    def _inner_of(self, body: Mapping[str, Any], name: str) -> tuple[Clause, ...]:
        return tuple(map(self._inner, _as_list(body.get(name, []))))

    def _match_all(self, settings: Mapping[str, Any], boost: float) -> Clause:
        return self._by_id(None, boost)

    def _match_none(self, settings: Mapping[str, Any], boost: float) -> Clause:
        return self._by_id(frozenset(), boost)

    def _ids(self, settings: Mapping[str, Any], boost: float) -> Clause:
        return self._by_id(frozenset(_text(value, "ids") for value in _as_list(settings.get("values"))), boost)

    def _by_id(self, ids: frozenset[str] | None, boost: float) -> Clause:
        self._counted()
        return Constant(lambda view, within: view.rows(ids, within), boost=boost)

    def _passing(self, test: FieldTest, boost: float) -> Clause:
        self._counted()
        return Constant(lambda view, within: view.passing(test, within), boost=boost)

    def _knn(self, name: str, settings: Mapping[str, Any], boost: float) -> Clause:
        if name != VECTOR_FIELD or not {"vector", "k"} <= settings.keys():
            expected = f'{{"{VECTOR_FIELD}": {{"vector", "k", "filter"}}}}'
            raise BadInput("malformed knn query", value={name: settings}, expected=expected)
        vector = checked_numbers("query vector", settings["vector"], self.tables.meta.dim).astype(np.float32)
        self._counted()
        condition = None if settings.get("filter") is None else self._inner(settings["filter"])
        return Nearest(vector, convert("k", settings["k"], UpToAll), condition, boost=boost)

    def hybrid(self, body: Any) -> Query:
        """A hybrid query, which stands at the top of a body alone."""
        body = settings_of(body, "hybrid", "queries", "filter", "pagination_depth", "_name")
        queries = _as_list(body.get("queries", []))
        if not 0 < len(queries) <= _MAX_QUERIES:
            expected = f"1 to {_MAX_QUERIES} queries"
            raise BadInput(f"a hybrid query has {len(queries)} queries", value=len(queries), expected=expected)
        condition = body.get("filter")
        clauses = tuple(self._inner(query if condition is None else _filtered(query, condition)) for query in queries)
        depth = convert("pagination_depth", body["pagination_depth"], UpToAll) if "pagination_depth" in body else None
        return Query(self._named(body, Bool(should=clauses, least=1)), self.names, clauses, depth)

    def _constant_score(self, settings: Mapping[str, Any], boost: float) -> Clause:
        return Scored(self._inner(settings.get("filter")), boost=boost)

    def _script_score(self, settings: Mapping[str, Any], boost: float) -> Clause:
        script = parse_script(settings.get("script"), self.tables.meta.dim)
        return Scripted(self._inner(settings.get("query")), script, boost=boost)

    def _function_score(self, settings: Mapping[str, Any], boost: float) -> Clause:
        mode = convert("score_mode", settings.get("score_mode", "multiply"), Literal["multiply", "first"])
        functions = _as_list(settings.get("functions", []))
        if not all(isinstance(one, Mapping) and one.keys() == {"filter", "weight"} for one in functions):
            unsupported("these functions of function_score", '{"filter", "weight"}')
        weights = tuple((self._inner(one["filter"]), _weight("weight", one["weight"])) for one in functions)
        return Weighted(self._inner(settings.get("query", {"match_all": {}})), weights, mode == "first", boost=boost)

    def _term(self, name: str, settings: Mapping[str, Any], boost: float) -> Clause:
        return self._one_of(name, [settings.get("value")], boost)

    def _terms(self, name: str, settings: Mapping[str, Any], boost: float) -> Clause:
        values = convert(name, settings["values"], list[Any])
        if len(values) > MAX_TERMS:
            message = f"{len(values)} terms on {name!r}"
            raise BadInput(message, value=len(values), expected=f"at most {MAX_TERMS}")
        return self._one_of(name, values, boost)

    def _one_of(self, name: str, values: Sequence[Any], boost: float) -> Clause:
        checked = [scalar(value, name) for value in values]
        if name not in self.tables.meta.fields:
            return self._passing(one_of(name, checked), boost)
        # A text field has its words for values. Several are a filter with one score, and not each with one of its own.
        texts = [Text({name: 1.0}, (term,), boost=boost) for term in dict.fromkeys(map(str, checked))]
        self._counted(len(texts))
        return texts[0] if len(checked) == 1 else Scored(Bool(should=tuple(texts), least=1), boost=boost)

    def _range(self, name: str, bounds: Mapping[str, Any], boost: float) -> Clause:
        limits = [(op, scalar(bounds[op], name)) for op in COMPARISONS if bounds.get(op) is not None]
        for _, limit in limits:
            # dates are texts here, and as a text it would be compared letter by letter
            if isinstance(limit, str) and _DATE_MATH.search(limit):
                unsupported(f"the date {limit!r} in a range", "a date without arithmetic, such as 2024-01-31")
        return self._passing(in_range(name, limits) if limits else exists(name), boost)

    def _exists(self, settings: Mapping[str, Any], boost: float) -> Clause:
        return self._passing(exists(_text(settings.get("field"), "field")), boost)

    def _match(self, name: str, settings: Mapping[str, Any], boost: float) -> Clause:
        return self._words({name: 1.0} if name in self.tables.meta.fields else self._not_text(name), settings, boost)

    def _multi_match(self, settings: Mapping[str, Any], boost: float) -> Clause:
        if settings.get("type", "best_fields") != "best_fields":
            unsupported(f"the multi_match type {settings['type']!r}", "best_fields")
        return self._words(self._boosts(_as_list(settings.get("fields") or ["*"])), settings, boost)

    def _words(self, boosts: dict[str, float], settings: Mapping[str, Any], boost: float) -> Clause:
        """The clause for the words of a text in some fields."""
        # lenient says what becomes of other fields' types, of which there are none here
        operator = convert("operator", str(settings.get("operator", "or")).lower(), Literal["or", "and"])
        tie_breaker = convert("tie_breaker", settings.get("tie_breaker", 0.0), Share, strict=False)
        terms = terms_of(str(scalar(settings.get("query"), "query")), self.tables.meta.analyzer)
        if not terms and settings.get("zero_terms_query") == "all":
            best = max(boosts.values())
            return self._by_id(None, boost * (best + tie_breaker * (sum(boosts.values()) - best)))
        self._counted(len(terms) * len(boosts))
        return Text(boosts, tuple(terms), operator == "and", tie_breaker, boost=boost)

    def _boosts(self, names: Sequence[Any]) -> dict[str, float]:
        """The text fields that names or patterns stand for, each with the number after its ``^``, or 1."""
        boosts: dict[str, float] = {}
        for name in names:
            pattern, _, boost = _text(name, "fields").partition("^")
            for field in self.tables.meta.fields:
                if fnmatchcase(field, pattern):
                    boosts[field] = _weight("boost", boost or 1.0)  # the last name of a field counts
        return boosts or self._not_text(names[0])

    def _not_text(self, name: Any) -> NoReturn:
        expected = " | ".join(self.tables.meta.fields)
        raise BadInput(f"{name!r} is not a text field of this index", value=name, expected=expected)

    def _bool(self, settings: Mapping[str, Any], boost: float) -> Clause:
        # In OpenSearch's order, for of clauses with one name the last counts.
        must, must_not, should, filtering = (
            self._inner_of(settings, name) for name in ("must", "must_not", "should", "filter")
        )
        # Where nothing else has to match, one of the alternatives must.
        alone = 0 if must or filtering or not should else 1
        least = max(alone, convert("minimum_should_match", settings.get("minimum_should_match", alone), Natural))
        if not (must or should or filtering):
            least = 0  # of a bool that only excludes OpenSearch forgets how many alternatives were wanted
            must = () if must_not else (self._by_id(None, 1.0),)
        return Bool(must, should, filtering, must_not, least, boost=boost)

    def _dis_max(self, settings: Mapping[str, Any], boost: float) -> Clause:
        return Bool(should=self._inner_of(settings, "queries"), least=1, best=True, boost=boost)


def settings_of(value: Any, what: str, *known: str) -> Mapping[str, Any]:
    """A part of a body that is an object. Raises UnsupportedQuery for a setting that is not ``known``."""
    if not isinstance(value, Mapping):
        raise BadInput(f"malformed {what}", value=value, expected="an object")
    unknown = sorted(map(str, value.keys() - set(known)))
    if unknown:
        unsupported(f"{unknown[0]!r} in {what}", " | ".join(known))
    return value


def _weight(name: str, value: Any) -> float:
    """A setting of a clause that is a number, or its text. Raises BadInput for others."""
    number: float = convert(name, value, Weight, strict=False)
    return number


def single(query: Any, what: str) -> tuple[str, Any]:
    """The key and the value of an object that has one."""
    if not isinstance(query, Mapping) or len(query) != 1:
        raise BadInput(f"malformed {what}", value=query, expected="an object with one key")
    ((kind, body),) = query.items()
    return str(kind), body


def _text(value: Any, what: str) -> str:
    """A value that has to be a text, or for an id a whole number."""
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise BadInput(f"malformed {what}: {value!r}", value=value, expected="a text")
    return str(scalar(value, what))


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _filtered(query: Any, condition: Any) -> dict[str, Any]:
    """A sub-query under the filter of a hybrid query, in the place where OpenSearch puts it."""
    kind, body = single(query, "query")
    if kind == "bool" and isinstance(body, Mapping):
        return {kind: {**body, "filter": [*_as_list(body.get("filter", [])), condition]}}
    settings = body.get(VECTOR_FIELD) if kind == "knn" and isinstance(body, Mapping) else None
    if not isinstance(settings, Mapping):
        return {"bool": {"must": query, "filter": condition}}
    conditions = [] if settings.get("filter") is None else [settings["filter"]]
    # OpenSearch forgets the boost and the name of a knn query here
    kept = {name: value for name, value in settings.items() if name not in ("boost", "_name")}
    return {kind: {VECTOR_FIELD: {**kept, "filter": {"bool": {"filter": [*conditions, condition]}}}}}


def unsupported(what: str, expected: str) -> NoReturn:
    """Raise UnsupportedQuery."""
    raise UnsupportedQuery(f"the embedded engine does not know {what}", value=what, expected=expected)
