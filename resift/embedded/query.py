"""Parser of OpenSearch's query language. It creates the clauses of the embedded engine.

The parser supports the clauses that query rewriting generates and the most common others, nested to any practical
depth. ``hybrid`` is allowed at the top level only. Clauses have the same meaning and the same scores as in OpenSearch.
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
from resift.embedded.clauses import (
    Bool,
    Clause,
    ConstantScore,
    FunctionScore,
    Knn,
    Query,
    RowFilter,
    ScriptScore,
    TextMatch,
)
from resift.embedded.fields import COMPARISONS, FieldTest, checked_scalar, exists, has_any_value, in_range
from resift.embedded.scoring import checked_numbers, parse_script
from resift.embedded.tables import IndexTables
from resift.errors import BadInput, UnsupportedQuery
from resift.query.clause_count import MAX_ENGINE_CLAUSES
from resift.query.dsl import MAX_RESULTS, VECTOR_FIELD
from resift.schema import convert

Natural = Annotated[int, msgspec.Meta(ge=0)]
ResultCount = Annotated[int, msgspec.Meta(ge=1, le=MAX_RESULTS)]  # a number of documents to retrieve
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Weight = Annotated[float, msgspec.Meta(ge=0, le=sys.float_info.max, title="a finite number, 0 or more")]
_MAX_TERMS_VALUES = 65_536  # OpenSearch's limit on the values of a terms query
_MAX_LEVELS = 100  # levels of clauses, within Python's recursion limit; OpenSearch accepts about 300
_DATE_MATH = re.compile(r"^now([-+/].*)?$|\|\|")  # now-7d/d, 2024-01-01||+1M
_MAX_QUERIES = 5  # maximum number of sub-queries of a hybrid query, in OpenSearch and here
_COMMON = ("boost", "_name")  # settings of all kinds of clauses
# Further settings of clauses that are nested under a field name. Some settings of a knn query have no effect, because
# every index of this engine has the vector field, and its k-NN is exact.
_FIELD_CLAUSES: dict[str, tuple[str, ...]] = {
    "match": ("query", "operator", "zero_terms_query", "lenient"),
    "term": ("value",),
    "terms": ("values",),
    "range": tuple(COMPARISONS),
    "knn": ("vector", "k", "filter", "ignore_unmapped", "method_parameters", "rescore"),
}
# For clauses whose settings can be replaced with a plain value, as in {"match": {"title": "fire"}}: the setting that
# the value stands for.
_SHORTHANDS = {"match": "query", "term": "value"}
# Further settings of the other clauses.
_OTHER_CLAUSES: dict[str, tuple[str, ...]] = {
    "match_all": (),
    "match_none": (),
    "multi_match": ("query", "operator", "zero_terms_query", "lenient", "fields", "type", "tie_breaker"),
    "ids": ("values",),
    "exists": ("field",),
    "constant_score": ("filter",),
    "script_score": ("query", "script"),
    "function_score": ("query", "functions", "score_mode", "script_score", "boost_mode"),
    "bool": ("must", "should", "filter", "must_not", "minimum_should_match"),
    "dis_max": ("queries",),
}


def parse_query(query: Any, tables: IndexTables, whole: bool = False) -> Query:
    """Parse a query in OpenSearch's query language.

    Args:
        query: The query as a JSON value.
        tables: The database tables of the index.
        whole: Whether this is the complete query of a search, not a part of another query. Only a complete query may be
            a hybrid query.

    Raises:
        UnsupportedQuery: If the embedded engine does not support a part of the query.
        BadInput: If the query is malformed.
    """
    parser = _Parser(tables)
    if whole and isinstance(query, Mapping) and query.keys() == {"hybrid"}:
        return parser.hybrid(query["hybrid"])
    return Query(parser.clause(query), parser.names)


class _Parser:
    """A parser for OpenSearch queries, with a method for each kind of clause.

    Args:
        tables: The database tables of the index that is searched.
    """

    def __init__(self, tables: IndexTables) -> None:
        self.tables = tables
        self.count = 0  # number of leaf clauses so far
        self.depth = 0  # nesting depth of the current clause
        self.names: dict[str, Clause] = {}

    def clause(self, query: Any) -> Clause:
        """Parse a query clause of any kind except ``hybrid``, including its inner clauses.

        Args:
            query: The clause as JSON: an object whose only key is the kind of the clause.

        Raises:
            UnsupportedQuery: If the embedded engine does not support a part of the clause.
            BadInput: If the clause is malformed.
        """
        kind, settings = only_entry(query, "query")
        field_argument: tuple[str, ...] = ()
        if kind == "terms" and isinstance(settings, Mapping):  # the boost of a terms query is next to the field name
            common = {name: value for name, value in settings.items() if name in _COMMON}
            field, values = only_entry(
                {name: value for name, value in settings.items() if name not in _COMMON}, "terms query"
            )
            settings = {field: {"values": values, **common}}
        if kind in _FIELD_CLAUSES:
            field, settings = only_entry(settings, f"{kind} query")
            field_argument = (field,)
            if kind in _SHORTHANDS and not isinstance(settings, Mapping):
                settings = {_SHORTHANDS[kind]: settings}
        elif kind not in _OTHER_CLAUSES:
            raise_unsupported(f"query {kind!r}", " | ".join([*_FIELD_CLAUSES, *_OTHER_CLAUSES]))
        known = (_FIELD_CLAUSES | _OTHER_CLAUSES)[kind]
        settings = checked_settings(settings, kind, *known, *_COMMON)
        parse = getattr(self, f"_{kind}")
        clause: Clause = parse(*field_argument, settings, _weight("boost", settings.get("boost", 1.0)))
        return self._named(settings, clause)

    def _named(self, settings: Mapping[str, Any], clause: Clause) -> Clause:
        """Remember a clause under its name, if its settings contain a name (``_name``), and return the clause.

        Args:
            settings: The settings of the clause.
            clause: The parsed clause.
        """
        if "_name" in settings:
            self.names[str(checked_scalar(convert("_name", settings["_name"], str), "_name"))] = clause
        return clause

    def _count_clauses(self, count: int = 1) -> None:
        """Increase the number of clauses that the query contains so far, and check the limit.

        Each word in each searched field counts as one clause.

        Args:
            count: The number of clauses to add.

        Raises:
            BadInput: If the query now has more than MAX_ENGINE_CLAUSES clauses.
        """
        self.count += count
        if self.count > MAX_ENGINE_CLAUSES:
            raise BadInput(
                f"the query has {self.count} clauses", value=self.count, expected=f"at most {MAX_ENGINE_CLAUSES}"
            )

    def _inner_clause(self, query: Any) -> Clause:
        """Parse a clause that is nested in another clause.

        Args:
            query: The clause as JSON.

        Raises:
            BadInput: If the clauses are nested too deeply.
        """
        if self.depth == _MAX_LEVELS:
            expected = f"at most {_MAX_LEVELS} levels"
            raise BadInput("queries are nested too deeply", value=_MAX_LEVELS + 1, expected=expected)
        self.depth += 1
        clause = self.clause(query)
        self.depth -= 1
        return clause

    def _inner_clauses(self, body: Mapping[str, Any], name: str) -> tuple[Clause, ...]:
        """Parse the inner clauses in a part of a compound clause, such as ``must`` of a ``bool`` clause.

        Args:
            body: The compound clause as JSON.
            name: The name of the part. It contains a clause or a list of clauses.
        """
        return tuple(map(self._inner_clause, _as_list(body.get(name, []))))

    def _match_all(self, settings: Mapping[str, Any], boost: float) -> Clause:
        return self._id_clause(None, boost)

    def _match_none(self, settings: Mapping[str, Any], boost: float) -> Clause:
        return self._id_clause(frozenset(), boost)

    def _ids(self, settings: Mapping[str, Any], boost: float) -> Clause:
        return self._id_clause(frozenset(_as_text(value, "ids") for value in _as_list(settings.get("values"))), boost)

    def _id_clause(self, ids: frozenset[str] | None, boost: float) -> Clause:
        """Return a clause that matches the documents with these ids, or all documents if ``ids`` is None."""
        self._count_clauses()
        return RowFilter(lambda view, within: view.row_numbers(ids, within), boost=boost)

    def _test_clause(self, test: FieldTest, boost: float) -> Clause:
        """Return a clause that matches the documents whose fields pass a test.

        Args:
            test: A function that receives the fields of a document, and returns whether the document matches.
            boost: The score of each matching document.
        """
        self._count_clauses()
        return RowFilter(lambda view, within: view.passing_rows(test, within), boost=boost)

    def _knn(self, name: str, settings: Mapping[str, Any], boost: float) -> Clause:
        if name != VECTOR_FIELD or not {"vector", "k"} <= settings.keys():
            expected = f'{{"{VECTOR_FIELD}": {{"vector", "k", "filter"}}}}'
            raise BadInput("malformed knn query", value={name: settings}, expected=expected)
        vector = checked_numbers("query vector", settings["vector"], self.tables.meta.dim).astype(np.float32)
        self._count_clauses()
        condition = None if settings.get("filter") is None else self._inner_clause(settings["filter"])
        return Knn(vector, convert("k", settings["k"], ResultCount), condition, boost=boost)

    def hybrid(self, body: Any) -> Query:
        """Parse a ``hybrid`` query, which combines the hits of several sub-queries.

        A ``hybrid`` query cannot be a clause of another query.

        Args:
            body: The settings of the query: the value of the key ``hybrid`` in the search body.

        Raises:
            BadInput: If there are too many sub-queries or none, or if a setting is invalid.
        """
        body = checked_settings(body, "hybrid", "queries", "filter", "pagination_depth", "_name")
        queries = _as_list(body.get("queries", []))
        if not 0 < len(queries) <= _MAX_QUERIES:
            expected = f"1 to {_MAX_QUERIES} queries"
            raise BadInput(f"a hybrid query has {len(queries)} queries", value=len(queries), expected=expected)
        condition = body.get("filter")
        clauses = tuple(
            self._inner_clause(query if condition is None else _with_filter(query, condition)) for query in queries
        )
        depth = (
            convert("pagination_depth", body["pagination_depth"], ResultCount) if "pagination_depth" in body else None
        )
        combined = self._named(body, Bool(should=clauses, minimum_should_match=1))
        return Query(combined, self.names, clauses, depth)

    def _constant_score(self, settings: Mapping[str, Any], boost: float) -> Clause:
        return ConstantScore(self._inner_clause(settings.get("filter")), boost=boost)

    def _script_score(self, settings: Mapping[str, Any], boost: float) -> Clause:
        script = parse_script(settings.get("script"), self.tables.meta.dim)
        return ScriptScore(self._inner_clause(settings.get("query")), script, boost=boost)

    def _function_score(self, settings: Mapping[str, Any], boost: float) -> Clause:
        query = self._inner_clause(settings.get("query", {"match_all": {}}))
        if "script_score" in settings:
            return self._scripted_score(query, settings, boost)
        if settings.get("boost_mode", "multiply") != "multiply":
            raise_unsupported("this boost_mode of function_score", '"multiply"')
        mode = convert("score_mode", settings.get("score_mode", "multiply"), Literal["multiply", "first"])
        functions = _as_list(settings.get("functions", []))
        if not all(isinstance(entry, Mapping) and entry.keys() == {"filter", "weight"} for entry in functions):
            raise_unsupported("these functions of function_score", '{"filter", "weight"}')
        weights = tuple(
            (self._inner_clause(entry["filter"]), _weight("weight", entry["weight"])) for entry in functions
        )
        return FunctionScore(query, weights, mode == "first", boost=boost)

    def _scripted_score(self, query: Clause, settings: Mapping[str, Any], boost: float) -> Clause:
        """Return a clause whose scores are those of a script, for a ``function_score`` clause with ``script_score``.

        Args:
            query: The query inside the clause.
            settings: The settings of the clause.
            boost: The factor by which the scores are multiplied.
        """
        if settings.get("boost_mode") != "replace" or "functions" in settings:
            raise_unsupported("this script_score of function_score", '"boost_mode": "replace", and no other functions')
        function = checked_settings(settings["script_score"], "script_score", "script")
        return ScriptScore(query, parse_script(function.get("script"), self.tables.meta.dim), boost=boost)

    def _term(self, name: str, settings: Mapping[str, Any], boost: float) -> Clause:
        return self._value_clause(name, [settings.get("value")], boost)

    def _terms(self, name: str, settings: Mapping[str, Any], boost: float) -> Clause:
        values = convert(name, settings["values"], list[Any])
        if len(values) > _MAX_TERMS_VALUES:
            message = f"{len(values)} terms on {name!r}"
            raise BadInput(message, value=len(values), expected=f"at most {_MAX_TERMS_VALUES}")
        return self._value_clause(name, values, boost)

    def _value_clause(self, name: str, values: Sequence[Any], boost: float) -> Clause:
        """Return a clause that matches the documents with at least one of some values in a field.

        Args:
            name: The name of the field.
            values: The values in the query.
            boost: The factor by which the scores are multiplied.
        """
        checked = [checked_scalar(value, name) for value in values]
        if name not in self.tables.meta.fields:
            return self._test_clause(has_any_value(name, checked), boost)
        # The values of a text field are its words. A single value has a BM25 score, several values a constant score.
        texts = [TextMatch({name: 1.0}, (term,), boost=boost) for term in dict.fromkeys(map(str, checked))]
        self._count_clauses(len(texts))
        if len(checked) == 1:
            return texts[0]
        return ConstantScore(Bool(should=tuple(texts), minimum_should_match=1), boost=boost)

    def _range(self, name: str, bounds: Mapping[str, Any], boost: float) -> Clause:
        limits = [(op, checked_scalar(bounds[op], name)) for op in COMPARISONS if bounds.get(op) is not None]
        for _, limit in limits:
            # Dates are strings here, and date math would be compared as a string.
            if isinstance(limit, str) and _DATE_MATH.search(limit):
                raise_unsupported(f"the date {limit!r} in a range", "a date without arithmetic, such as 2024-01-31")
        return self._test_clause(in_range(name, limits) if limits else exists(name), boost)

    def _exists(self, settings: Mapping[str, Any], boost: float) -> Clause:
        return self._test_clause(exists(_as_text(settings.get("field"), "field")), boost)

    def _match(self, name: str, settings: Mapping[str, Any], boost: float) -> Clause:
        return self._text_clause(
            {name: 1.0} if name in self.tables.meta.fields else self._raise_not_text(name), settings, boost
        )

    def _multi_match(self, settings: Mapping[str, Any], boost: float) -> Clause:
        if settings.get("type", "best_fields") != "best_fields":
            raise_unsupported(f"the multi_match type {settings['type']!r}", "best_fields")
        return self._text_clause(self._field_weights(_as_list(settings.get("fields") or ["*"])), settings, boost)

    def _text_clause(self, boosts: dict[str, float], settings: Mapping[str, Any], boost: float) -> Clause:
        """Return a clause that searches for the words of a text in some fields.

        Args:
            boosts: Maps the names of the fields to their weights.
            settings: The settings of the clause, which contain the text ("query").
            boost: The factor by which the scores are multiplied.
        """
        # The setting `lenient` has no effect, because all searched fields are text fields.
        operator = convert("operator", str(settings.get("operator", "or")).lower(), Literal["or", "and"])
        tie_breaker = convert("tie_breaker", settings.get("tie_breaker", 0.0), Share, strict=False)
        terms = terms_of(str(checked_scalar(settings.get("query"), "query")), self.tables.meta.analyzer)
        if not terms and settings.get("zero_terms_query") == "all":
            best = max(boosts.values())
            return self._id_clause(None, boost * (best + tie_breaker * (sum(boosts.values()) - best)))
        self._count_clauses(len(terms) * len(boosts))
        return TextMatch(boosts, tuple(terms), operator == "and", tie_breaker, boost=boost)

    def _field_weights(self, names: Sequence[Any]) -> dict[str, float]:
        """Return the weights of the text fields that a ``multi_match`` clause searches, by field name.

        Args:
            names: Names or patterns of fields, such as "title^2". The number after ``^`` is the weight, 1 by default.

        Raises:
            BadInput: If no text field matches.
        """
        boosts: dict[str, float] = {}
        for name in names:
            pattern, _, boost = _as_text(name, "fields").partition("^")
            for field in self.tables.meta.fields:
                if fnmatchcase(field, pattern):
                    boosts[field] = _weight("boost", boost or 1.0)  # the last matching pattern applies
        return boosts or self._raise_not_text(names[0])

    def _raise_not_text(self, name: Any) -> NoReturn:
        """Raise the error for a field that is not a text field, and therefore cannot be searched for words."""
        expected = " | ".join(self.tables.meta.fields)
        raise BadInput(f"{name!r} is not a text field of this index", value=name, expected=expected)

    def _bool(self, settings: Mapping[str, Any], boost: float) -> Clause:
        # Parse in OpenSearch's order. If several clauses have the same name, the last one keeps it.
        must, must_not, should, filtering = (
            self._inner_clauses(settings, name) for name in ("must", "must_not", "should", "filter")
        )
        # A bool with nothing but `should` clauses requires at least one match.
        default = 0 if must or filtering or not should else 1
        minimum = max(default, convert("minimum_should_match", settings.get("minimum_should_match", default), Natural))
        if not (must or should or filtering):
            minimum = 0  # OpenSearch ignores minimum_should_match if there are only must_not clauses
            must = () if must_not else (self._id_clause(None, 1.0),)
        return Bool(must, should, filtering, must_not, minimum, boost=boost)

    def _dis_max(self, settings: Mapping[str, Any], boost: float) -> Clause:
        queries = self._inner_clauses(settings, "queries")
        return Bool(should=queries, minimum_should_match=1, take_maximum=True, boost=boost)


def checked_settings(value: Any, what: str, *supported: str) -> Mapping[str, Any]:
    """Check that a part of a search body is a JSON object with supported keys only, and return it.

    Args:
        value: The part of the search body.
        what: The name of the part, for error messages.
        supported: The supported keys.

    Raises:
        BadInput: If the value is not an object.
        UnsupportedQuery: If the object contains an unsupported key.
    """
    if not isinstance(value, Mapping):
        raise BadInput(f"malformed {what}", value=value, expected="an object")
    unknown = sorted(map(str, value.keys() - set(supported)))
    if unknown:
        raise_unsupported(f"{unknown[0]!r} in {what}", " | ".join(supported))
    return value


def _weight(name: str, value: Any) -> float:
    """Convert a boost or weight from a query to a float. The value may be a number or a numeric string.

    Args:
        name: The name of the setting, for error messages.
        value: The value in the query.

    Raises:
        BadInput: If the value is not a finite number of at least 0.
    """
    number: float = convert(name, value, Weight, strict=False)
    return number


def only_entry(query: Any, what: str) -> tuple[str, Any]:
    """Return the key and the value of a JSON object that has exactly one key.

    Args:
        query: The object.
        what: The name of the object, for error messages.

    Raises:
        BadInput: If ``query`` is not an object with exactly one key.
    """
    if not isinstance(query, Mapping) or len(query) != 1:
        raise BadInput(f"malformed {what}", value=query, expected="an object with one key")
    ((kind, body),) = query.items()
    return str(kind), body


def _as_text(value: Any, what: str) -> str:
    """Return a string from a query. Integers, which occur as ids, are converted to strings.

    Args:
        value: The value in the query.
        what: The name of the value, for error messages.

    Raises:
        BadInput: If the value is neither a string nor an integer.
    """
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise BadInput(f"malformed {what}: {value!r}", value=value, expected="a text")
    return str(checked_scalar(value, what))


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _with_filter(query: Any, condition: Any) -> dict[str, Any]:
    """Return a copy of a sub-query of a hybrid query, with a filter added to it.

    A ``bool`` or ``knn`` query gets the filter itself, as in OpenSearch. Any other query is wrapped in a ``bool`` query
    with the filter.

    Args:
        query: The sub-query.
        condition: The filter of the hybrid query.
    """
    kind, body = only_entry(query, "query")
    if kind == "bool" and isinstance(body, Mapping):
        return {kind: {**body, "filter": [*_as_list(body.get("filter", [])), condition]}}
    settings = body.get(VECTOR_FIELD) if kind == "knn" and isinstance(body, Mapping) else None
    if not isinstance(settings, Mapping):
        return {"bool": {"must": query, "filter": condition}}
    conditions = [] if settings.get("filter") is None else [settings["filter"]]
    # OpenSearch drops the boost and the name of a knn query here.
    remaining = {name: value for name, value in settings.items() if name not in ("boost", "_name")}
    return {kind: {VECTOR_FIELD: {**remaining, "filter": {"bool": {"filter": [*conditions, condition]}}}}}


def raise_unsupported(what: str, expected: str) -> NoReturn:
    """Raise an UnsupportedQuery error that names the unsupported part of a query.

    Args:
        what: The unsupported part.
        expected: The supported alternatives.
    """
    raise UnsupportedQuery(f"the embedded engine does not support {what}", value=what, expected=expected)
