"""The tree of a query: kinds and roles of its clauses, what it says about them, and that it never changes a clause."""

from __future__ import annotations

import json
from base64 import b64encode
from itertools import permutations
from typing import Any

import pytest
from differential import WEIGHTED, hybrids
from fuzzed_searches import fuzzed, places_of, unlisted_clauses
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from odd_bodies import CLAUSES, QUERIES, changed

from resift.errors import BadInput, TextTooLong
from resift.query.allow_list import read_allow_list
from resift.query.body import TextQuery, parse
from resift.query.dsl import REWRITTEN_NAME, NestedField
from resift.query.kinds import KNOWN_KINDS, Role
from resift.query.limits import (
    MAX_DEPTH,
    MAX_EXPRESSION,
    MAX_QUERY_VALUES,
    check_brackets,
    check_limits,
    collect_contents,
)
from resift.query.lookups import named_indices
from resift.query.text import searched_text
from resift.query.tree import Clause, SemanticClause, SparseClause, VectorClause, parse_clause

MATCH = {"match": {"title": "bush fire"}}
OTHER = {"match": {"text": "army"}}
TERM = {"term": {"n": 1}}
KNN = {"knn": {"v": {"vector": [1.0, 2.0], "k": 3}}}
SPARSE = {"neural_sparse": {"tokens": {"query_tokens": {"fire": 1}}}}
SCRIPT = {"lang": "knn", "source": "knn_score", "params": {"field": "v", "query_value": [1.0, 2.0]}}
SCRIPTED = {"script_score": {"query": MATCH, "script": SCRIPT}}
UNKNOWN = {"future": {"queries": [MATCH, {"bool": {"must": [OTHER]}}]}}
NAMED = {"bool": {"must": [MATCH], "filter": [{"match_all": {"boost": 1.0, "_name": REWRITTEN_NAME}}]}}


def clause_of(query: Any) -> Clause:
    return parse_clause(query)


# ---- the tree never changes a clause


def assert_is_unchanged(body: dict[str, Any]) -> None:
    """Parse a body, and assert that its tree is made of the body's own objects and writes them back."""
    before = json.dumps(body)
    query = parse(body)
    assert json.dumps(body) == before
    if "query" in query.body:
        assert query.root.raw is query.body["query"]
    for clause in query.root.walk():
        if clause.kind is not None:
            assert clause.settings is clause.raw[clause.kind]
        for name, inner in clause.parts.items():
            value = clause.settings[name]
            assert all(
                node.raw is raw for node, raw in zip(inner, value if isinstance(value, list) else [value], strict=True)
            )
        assert clause.replace_scoring_clauses(lambda inner: inner.raw) is clause.raw
        assert (
            clause.replace_scoring_clauses(lambda inner: inner.replace_scoring_clauses(lambda leaf: leaf.raw))
            is clause.raw
        )
    # every other question about any body has an answer
    assert isinstance(query.text, str)
    assert query.root.searched_fields is None or isinstance(query.root.searched_fields, list)
    assert query.text_query is None or isinstance(query.text_query, TextQuery)
    for clause in query.root.semantic_clauses():
        assert clause.role in (Role.VECTOR, Role.SPARSE)
        assert isinstance(clause.is_radial, bool)
    assert isinstance(query.is_malformed, bool)
    assert isinstance(query.root.is_rewritten, bool)
    assert isinstance(query.is_sorted_by_score(allow_further_criteria=True), bool)
    assert json.dumps(body) == before


def as_body(query: Any) -> dict[str, Any]:
    """Return a whole body; a clause is put into one."""
    return query if "query" in query else {"query": query}


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
LEAVES = st.sampled_from([MATCH, OTHER, TERM, KNN, SPARSE, SCRIPTED, UNKNOWN, NAMED]) | ANYTHING
KINDS = st.sampled_from([*sorted(KNOWN_KINDS), "future", "match_x"])
PARTS = st.sampled_from(
    ["must", "should", "filter", "must_not", "queries", "query", "positive", "negative", "functions"]
)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.dictionaries(KINDS, st.dictionaries(PARTS, inner | st.lists(inner, max_size=3)), max_size=2),
    max_leaves=10,
)
BROAD = settings(
    max_examples=300, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)


@BROAD
@given(TREES)
def test_values_that_look_like_queries_are_not_changed(query: Any) -> None:
    assert_is_unchanged({"query": query, "size": 3})


@BROAD
@given(changed([as_body(query) for query in QUERIES if isinstance(query, dict)]))
def test_odd_bodies_are_not_changed(body: dict[str, Any]) -> None:
    assert_is_unchanged(body)


@BROAD
@given(st.one_of(hybrids(), WEIGHTED.map(as_body)))
def test_bodies_of_all_engines_are_not_changed(body: dict[str, Any]) -> None:
    assert_is_unchanged(body)


def test_bodies_made_of_the_allow_list_are_not_changed() -> None:
    for number in range(300):
        assert_is_unchanged(as_body(fuzzed(number, "docs")[1]))
    for clause in [*CLAUSES, *unlisted_clauses()]:
        for body in places_of(clause).values():
            assert_is_unchanged(body)


def test_changing_a_clause_leaves_all_other_clauses_unchanged() -> None:
    query = {"bool": {"should": [MATCH, {"dis_max": {"queries": [OTHER, KNN], "tie_breaker": 0.3}}], "filter": [TERM]}}

    def change(clause: Clause) -> Any:
        return {"match_none": {}} if clause.raw is OTHER else clause.replace_scoring_clauses(change)

    changed_query = clause_of(query).replace_scoring_clauses(change)
    assert changed_query == {
        "bool": {
            "should": [MATCH, {"dis_max": {"queries": [{"match_none": {}}, KNN], "tie_breaker": 0.3}}],
            "filter": [TERM],
        }
    }
    inner = changed_query["bool"]["should"]
    assert inner[0] is MATCH
    assert inner[1]["dis_max"]["queries"][1] is KNN
    assert changed_query["bool"]["filter"] is query["bool"]["filter"]


def test_a_part_with_a_single_clause_stays_a_single_clause() -> None:
    assert clause_of({"bool": {"must": MATCH}}).replace_scoring_clauses(lambda _: TERM) == {"bool": {"must": TERM}}


@pytest.mark.parametrize("kind", ["function_score", "script_score", "has_child"])
def test_a_clause_filtered_by_min_score_is_never_changed(kind: str) -> None:
    query = {kind: {"query": MATCH, "min_score": 0.5}}
    assert clause_of(query).replace_scoring_clauses(lambda _: TERM) is query
    assert clause_of({kind: {"query": MATCH, "min_score": None}}).replace_scoring_clauses(lambda _: TERM) != query


# ---- kinds and roles


def roles(query: Any) -> list[tuple[str | None, str]]:
    """Return the kind and the role of each clause in a query, depth first."""
    return [(clause.kind, clause.role.value) for clause in clause_of(query).walk()]


def test_a_clause_has_the_role_of_its_position() -> None:
    query = {"bool": {"must": MATCH, "should": [KNN, SPARSE], "filter": [KNN, {"bool": {"must": [TERM]}}]}}
    query["bool"]["must_not"] = [{"bool": {"should": [OTHER]}}]
    assert roles(query) == [
        ("bool", "scoring"),
        ("match", "scoring"),
        ("knn", "vector"),
        ("neural_sparse", "sparse"),
        ("knn", "filter"),
        ("bool", "filter"),
        ("term", "filter"),
        ("bool", "excluded"),
        ("match", "excluded"),
    ]


def test_exclusion_inside_a_filter_is_exclusion() -> None:
    assert roles({"constant_score": {"filter": {"bool": {"must_not": [TERM]}}}})[-1] == ("term", "excluded")
    assert roles({"boosting": {"positive": MATCH, "negative": OTHER}}) == [
        ("boosting", "scoring"),
        ("match", "scoring"),
        ("match", "excluded"),
    ]


def test_the_score_of_a_query_that_a_vector_script_replaces_does_not_count() -> None:
    assert roles(SCRIPTED) == [("script_score", "vector"), ("match", "filter")]
    plain = {"script_score": {"query": MATCH, "script": {"source": "_score * 2"}}}
    assert roles(plain) == [("script_score", "scoring"), ("match", "scoring")]


def test_unknown_and_malformed_clauses_are_opaque() -> None:
    assert roles(UNKNOWN) == [("future", "opaque")]
    assert clause_of(UNKNOWN).replace_scoring_clauses(lambda _: TERM) is UNKNOWN
    for malformed in (None, "fire", [], {}, {"match": "fire"}, {"match": {}, "term": {}}, 3):
        assert roles(malformed) == [(None, "opaque")]
    assert roles({"bool": {"must": [{"bool": "fire"}, MATCH]}}) == [
        ("bool", "scoring"),
        (None, "opaque"),
        ("match", "scoring"),
    ]


def test_the_table_knows_everything_in_the_allow_list() -> None:
    assert set(read_allow_list()["clauses"]) <= KNOWN_KINDS


def test_clauses_beyond_the_limit_of_depth_are_opaque() -> None:
    deep: Any = MATCH
    for _ in range(10_000):
        deep = {"bool": {"must": [deep]}}
    clause = clause_of(deep)
    assert {node.kind for node in clause.walk()} == {"bool"}
    assert [node.role for node in clause.walk()][-1] is Role.OPAQUE
    fitting: Any = MATCH
    for _ in range(32):  # a level of bool takes three levels of the body
        fitting = {"bool": {"must": [fitting]}}
    check_limits("body", {"query": fitting}, 100)
    assert [node.kind for node in clause_of(fitting).walk()][-1] == "match"


# ---- what a query ranks by


@pytest.mark.parametrize("query", [KNN, SPARSE, SCRIPTED, {"hybrid": {"queries": [MATCH]}}, {"neural": {"v": {}}}])
def test_scoring_vector_and_sparse_clauses_rank_by_meaning(query: dict[str, Any]) -> None:
    assert clause_of(query).ranks_by_meaning
    assert clause_of({"bool": {"should": [MATCH, {"nested": {"path": "p", "query": query}}]}}).ranks_by_meaning
    assert not clause_of({"bool": {"must": [MATCH], "filter": [query]}}).ranks_by_meaning
    assert not clause_of({"future": {"query": query}}).ranks_by_meaning


def test_vector_and_sparse_clauses_have_a_field_and_a_value() -> None:
    knn, scripted, sparse = clause_of(KNN), clause_of(SCRIPTED), clause_of(SPARSE)
    assert isinstance(knn, VectorClause)
    assert isinstance(scripted, VectorClause)
    assert isinstance(sparse, SparseClause)
    assert (knn.field, knn.vector, knn.is_radial) == ("v", [1.0, 2.0], False)
    assert (scripted.field, scripted.vector) == ("v", [1.0, 2.0])
    assert (sparse.field, sparse.tokens) == ("tokens", {"fire": 1.0})
    both = clause_of({"hybrid": {"queries": [MATCH, KNN, {"bool": {"should": [SPARSE], "filter": [KNN]}}]}})
    assert [clause.raw for clause in both.semantic_clauses()] == [KNN, SPARSE]


@pytest.mark.parametrize(
    "query",
    [
        {"knn": {"v": 3}},
        {"knn": {"v": {}, "w": {}}},
        {"script_score": {"query": MATCH, "script": {**SCRIPT, "params": 3}}},
        {"script_score": {"query": MATCH, "script": {**SCRIPT, "params": {"field": 3}}}},
    ],
)
def test_a_malformed_clause_names_no_field(query: dict[str, Any]) -> None:
    clause = clause_of(query)
    assert isinstance(clause, SemanticClause)
    assert (clause.field, dict(clause.options)) == (None, {})


@pytest.mark.parametrize("option", ["min_score", "max_distance"])
def test_clauses_limited_by_score_or_distance_are_radial(option: str) -> None:
    for query in (
        {"knn": {"v": {"vector": [1.0], option: 0.5}}},
        {"script_score": {"query": MATCH, "script": SCRIPT, option: 0.5}},
    ):
        clause = clause_of(query)
        assert isinstance(clause, SemanticClause)
        assert clause.is_radial


@pytest.mark.parametrize("tokens", [None, {}, [], {"fire": "much"}, {"fire": 0}, {"fire": 1, "army": -1}, "fire"])
def test_invalid_tokens_are_ignored(tokens: Any) -> None:
    clause = clause_of({"neural_sparse": {"tokens": {"query_tokens": tokens}}})
    assert isinstance(clause, SparseClause)
    assert clause.tokens is None


# ---- texts and fields


def test_the_text_of_a_condition_is_not_the_text_of_the_query() -> None:
    assert (
        searched_text(clause_of({"bool": {"filter": [OTHER], "should": [MATCH], "must_not": [OTHER]}})) == "bush fire"
    )
    assert searched_text(clause_of({"bool": {"filter": [OTHER], "must_not": [MATCH]}})) == ""
    assert searched_text(clause_of({"knn": {"v": {"vector": [0.5] * 9, "filter": MATCH}}})) == ""
    assert searched_text(clause_of({"hybrid": {"queries": [KNN], "filter": MATCH}})) == ""
    assert searched_text(clause_of({"boosting": {"negative": OTHER, "positive": MATCH}})) == "bush fire"
    assert (
        searched_text(clause_of({"function_score": {"functions": [{"filter": OTHER}], "query": MATCH}})) == "bush fire"
    )
    assert searched_text(clause_of({"constant_score": {"filter": MATCH}})) == "bush fire"


@pytest.mark.parametrize(
    ("kind", "clause"),
    [
        ("bool", {"should": {"match": {"text": "second"}}, "must": [{"match": {"text": "first"}}]}),
        ("bool", {"extra": {"match": {"text": "second"}}, "filter": [], "should": [{"match": {"text": "first"}}]}),
        ("boosting", {"negative": {"match": {"text": "second"}}, "positive": {"match": {"text": "first"}}}),
        ("function_score", {"functions": [], "boost": 2, "query": {"match": {"text": "first"}}}),
    ],
)
def test_the_text_of_a_query_does_not_depend_on_the_order_of_its_keys(kind: str, clause: dict[str, Any]) -> None:
    for names in permutations(clause):
        query = {kind: {name: clause[name] for name in names}}
        assert parse({"query": query}).text == "first"


def test_the_text_in_unknown_and_malformed_clauses_is_read() -> None:
    assert searched_text(clause_of(UNKNOWN)) == "bush fire"
    assert searched_text(clause_of({"intervals": {"text": {"match": {"query": "fire army"}}}})) == "fire army"
    assert searched_text(clause_of({**TERM, **MATCH})) == "bush fire"
    assert searched_text(clause_of([3, [MATCH]])) == "bush fire"


def test_the_query_text_of_neural_clauses_is_read() -> None:
    assert searched_text(clause_of({"neural": {"v": {"query_text": "fire", "k": 3}}})) == "fire"
    assert searched_text(clause_of({"neural_sparse": {"v": {"query_text": 3}}})) == ""


def test_searched_fields_are_the_fields_of_scoring_text_clauses() -> None:
    several = {"multi_match": {"query": "fire", "fields": ["title^2", "text", 3]}}
    assert clause_of(several).searched_fields == ["title^2", "text"]
    assert clause_of({"query_string": {"query": "fire"}}).searched_fields == []
    assert clause_of({"bool": {"must": [several, {"query_string": {"query": "fire"}}]}}).searched_fields == []
    assert clause_of({"bool": {"must": [TERM], "filter": [MATCH]}}).searched_fields is None
    assert clause_of({"match": {"a": "x", "b": "y"}}).searched_fields is None
    nested = clause_of({"nested": {"path": "parts", "query": {"match": {"parts.text": "fire"}}}}).searched_fields
    assert nested == ["parts.text"]
    assert isinstance(nested[0], NestedField)
    assert nested[0].path == "parts"


def test_hybrid_unknown_and_diversified_queries_must_stay_bare() -> None:
    hybrid: dict[str, Any] = {"hybrid": {"queries": [MATCH, KNN]}}
    for query in (hybrid, {"bool": {"must": [hybrid]}}, UNKNOWN, {"bool": {"must": [MATCH], "filter": [UNKNOWN]}}):
        assert parse({"query": query}).must_not_be_wrapped
    for query in (KNN, {"bool": {"must": [MATCH, KNN]}}):
        assert not parse({"query": query}).must_not_be_wrapped
        assert parse({"query": query, "ext": {"mmr": {"diversity": 0.5}}}).must_not_be_wrapped
    assert parse({"query": {"bool": {"must": [hybrid]}}}).has_inner_hybrid
    assert not parse({"query": hybrid}).has_inner_hybrid


def test_rewritten_queries_are_recognised() -> None:
    assert clause_of({"knn": {"v": {"vector": [1.0], "k": 1, "_name": REWRITTEN_NAME}}}).is_rewritten
    assert not clause_of({"knn": {"v": {"vector": [1.0], "k": 1, "_name": "mine"}}}).is_rewritten
    assert clause_of(NAMED).is_rewritten
    assert clause_of({"hybrid": {"queries": [NAMED, KNN]}}).is_rewritten
    assert not clause_of({"bool": {"must": [NAMED]}}).is_rewritten
    assert not clause_of({"bool": {"filter": [{"match_all": {"_name": "mine"}}]}}).is_rewritten


# ---- limits


def test_contents_are_listed_once() -> None:
    contents = collect_contents("query", {"a": [{"b": "x"}, "y", 1, [0.5] * 50], "c": {"d": None}})
    assert contents.texts == ["y", "x"]
    assert contents.objects[1:] == [{"d": None}, {"b": "x"}]
    assert contents.value_count == 2 + 4 + 1 + 1 + 50
    assert collect_contents("query", "fire").value_count == 0


def nested(depth: int) -> Any:
    """Return a text inside so many lists and objects."""
    value: Any = "fire"
    for level in range(depth):
        value = [value] if level % 2 else {"a": value}
    return value


def test_depth_values_and_texts_are_limited() -> None:
    check_limits("query", nested(MAX_DEPTH - 1), 100)
    with pytest.raises(BadInput, match=f"nested more than {MAX_DEPTH} levels"):
        check_limits("query", nested(MAX_DEPTH), 100)
    check_limits("query", {"a": ["x"] * (MAX_QUERY_VALUES - 1)}, 100)
    for many in (["x"] * MAX_QUERY_VALUES, [0.5] * MAX_QUERY_VALUES):
        with pytest.raises(BadInput, match=f"more than {MAX_QUERY_VALUES} values"):
            check_limits("query", {"a": many}, 100)
    check_limits("query", {"a": "x" * 100}, 100)
    with pytest.raises(TextTooLong, match="101 characters"):
        check_limits("query", {"a": {"b": "x" * 101}}, 100)


@pytest.mark.parametrize(
    "settings", [{"regex": "x" * (MAX_EXPRESSION + 1), "completion": {}}, {"lang": "expression", "source": "-" * 1001}]
)
def test_expressions_are_limited(settings: dict[str, Any]) -> None:
    with pytest.raises(TextTooLong, match="an expression has 1001 characters"):
        check_limits("query", {"a": settings}, 10_000)
    other = {name: value for name, value in settings.items() if name not in ("completion", "lang")}
    check_limits("query", {"a": other}, 10_000)


def test_brackets_are_limited() -> None:
    check_brackets("query", "(" * MAX_DEPTH)
    check_brackets("query", "()" * 1000)
    for text in ("(" * (MAX_DEPTH + 1), ")" * 50 + "[" * (MAX_DEPTH + 1), "({[" * 40):
        with pytest.raises(BadInput, match="levels deep"):
            check_brackets("query", text)


# ---- queries in base64


def wrapped(text: str | bytes) -> dict[str, Any]:
    """Return a ``wrapper`` clause that contains a text."""
    raw = text if isinstance(text, bytes) else text.encode()
    return {"wrapper": {"query": b64encode(raw).decode()}}


FILTERED = '{"bool": {"must": {"match": {"text": "fire"}}, "filter": {"range": {"price": {"gte": %s}}}}}'


def test_a_wrapped_query_is_opened() -> None:
    body = {"query": wrapped(FILTERED % 5), "size": 3}
    assert parse(body).body == {"query": json.loads(FILTERED % 5), "size": 3}


@pytest.mark.parametrize(
    "text",
    [
        FILTERED % "1e999",
        FILTERED % "NaN",
        FILTERED % "-Infinity",
        FILTERED % '5, "gte": 50',
        json.dumps({"terms": {"n": [{}] * 200_000}}),
        json.dumps({"terms": {"n": [1] * 600_000}}),
        '{"bool": {"must": [' * 60 + "{}" + "]}}" * 60,
        (FILTERED % 5).encode("utf-16"),
        b"\xbf\x61a\x01\xff",  # CBOR, which OpenSearch also accepts
        "{",
        "[]",
    ],
    ids=["huge", "nan", "infinity", "key twice", "objects", "values", "deep", "utf-16", "cbor", "cut", "list"],
)
def test_a_wrapped_query_that_opensearch_may_read_differently_stays_as_it_is(text: str | bytes) -> None:
    body = {"query": wrapped(text)}
    assert parse(body).body is body


def test_a_wrapper_with_unknown_options_stays_as_it_is() -> None:
    body = {"query": {"wrapper": {**wrapped(FILTERED % 5)["wrapper"], "boost": 2}}}
    assert parse(body).body is body


@pytest.mark.parametrize("text", [FILTERED % "1e999", FILTERED % '5, "gte": 50', json.dumps({"n": [{}] * 10**5})])
def test_a_wrapped_query_follows_the_rules_for_bodies(text: str) -> None:
    contents = collect_contents("query", wrapped(text))
    with pytest.raises(BadInput, match=r"finite numbers|each key once|values, including"):
        list(named_indices(contents))
