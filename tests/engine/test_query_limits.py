"""Tests of refused queries: too large, too deep, malformed, or unsupported by the embedded engine."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from engine_documents import documents, ids, knn_body

from resift import Model, ResiftError
from resift.contracts.engine import Engine
from resift.embedded.engine import SqliteEngine
from resift.errors import UnsupportedQuery
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.query.clause_count import MAX_ENGINE_CLAUSES, ClauseCounter
from resift.query.dsl import VECTOR_FIELD
from resift.query.tree import parse_clause

MATCH = {"match": {"text": "fire"}}


def nested(depth: int) -> dict[str, Any]:
    """Return a query inside ``depth`` bool queries."""
    query: dict[str, Any] = MATCH
    for _ in range(depth):
        query = {"bool": {"must": [query]}}
    return query


def years(count: int) -> list[dict[str, Any]]:
    """Return a number of clauses."""
    return [{"term": {"year": year}} for year in range(count)]


# Queries at the limit, which both engines accept, and beyond it.
TAKEN = [
    {"bool": {"filter": years(1024)}},
    {"bool": {"should": years(1024)}},
    {"terms": {"year": list(range(65_536))}},
    {"ids": {"values": [str(number) for number in range(300_000)]}},
    {"match": {"text": " ".join(f"w{number}" for number in range(1024))}},
    nested(100),
]
REFUSED = [
    {"bool": {"filter": years(1025)}},
    {"bool": {"filter": [{"term": {"year": 2001}}] * 1100}},
    {"terms": {"year": list(range(65_537))}},
    {"match": {"text": " ".join(f"w{number}" for number in range(1025))}},
    {"match": {"text": "fire " * 1025}},
    nested(480),
]


@pytest.mark.since(3, "a term of a number counts as two clauses")
@pytest.mark.parametrize("query", TAKEN, ids=range(len(TAKEN)))
def test_large_queries_within_the_limits_are_accepted(engine: Engine, indexed: str, query: dict[str, Any]) -> None:
    ids(engine, indexed, query)


@pytest.mark.parametrize("query", REFUSED, ids=range(len(REFUSED)))
def test_queries_above_the_limits_are_refused(engine: Engine, indexed: str, query: dict[str, Any]) -> None:
    with pytest.raises(ResiftError) as caught:
        ids(engine, indexed, query)
    assert caught.value.status == 400


@pytest.fixture
def embedded(tmp_path: Path, model: Model) -> Iterator[Engine]:
    """Return the embedded engine with the five documents."""
    with closing(SqliteEngine(str(tmp_path / "engine.db"))) as engine:
        engine.create("docs", ["title", "text"], model)
        engine.bulk("docs", documents(model))
        yield engine


@pytest.fixture(scope="module")
def words(cluster: OpenSearchEngine, model: Model) -> Iterator[str]:
    """Return an index with the five documents on the cluster."""
    name = f"resift-test-{uuid.uuid4().hex[:12]}"
    cluster.create(name, ["title", "text"], model)
    assert cluster.bulk(name, documents(model)) == []
    cluster.refresh(name)
    yield name
    cluster.drop_if_exists(name)


REPEATED = " ".join(f"w{number}" for number in range(100)) + " " + " ".join(f"w{number}" for number in range(100))


@pytest.mark.parametrize(
    "query",
    [
        {"match": {"title": REPEATED}},
        {"match": {"title": {"query": REPEATED, "operator": "and"}}},
        {"match": {"title": {"query": REPEATED, "minimum_should_match": 2}}},
        {"multi_match": {"query": REPEATED, "fields": ["title^2", "text"], "tie_breaker": 0.3}},
        {"multi_match": {"query": REPEATED, "fields": ["title", "text"], "type": "most_fields"}},
        {"multi_match": {"query": REPEATED, "fields": ["title", "text"], "type": "cross_fields"}},
    ],
)
def test_opensearch_counts_repeated_words_as_estimated(
    cluster: OpenSearchEngine, words: str, query: dict[str, Any]
) -> None:
    room = MAX_ENGINE_CLAUSES - ClauseCounter([{"title": "text", "text": "text"}]).count_clauses(parse_clause(query))

    def search(further: int) -> None:
        terms = [{"term": {"text": f"x{number}"}} for number in range(further)]
        cluster.search(words, {"query": {"bool": {"must": [query], "should": terms}}})

    search(room)
    with pytest.raises(ResiftError):
        search(room + 2)  # Lucene accepts one clause more than the limit if the clauses are in several ``bool`` queries


def test_the_depth_that_the_embedded_engine_takes(embedded: Engine) -> None:
    assert ids(embedded, "docs", nested(100)) == ids(embedded, "docs", MATCH)
    for depth in (101, 300, 900):
        with pytest.raises(ResiftError, match="too deep") as caught:
            ids(embedded, "docs", nested(depth))
        assert (caught.value.status, caught.value.expected) == (400, "at most 100 levels")


def multi(**settings: Any) -> dict[str, Any]:
    """Return a body with a multi_match query with these settings."""
    return {"query": {"multi_match": {"query": "fire", **settings}}}


MALFORMED: list[tuple[dict[str, Any], str]] = [
    ({"query": {"match": {"a\0b": "x"}}}, "not a text field"),
    ({"query": {"exists": {}}}, "field"),
    ({"query": {"exists": {"field": ["a"]}}}, "field"),
    ({"query": {"term": {"year": [2001]}}}, "value"),
    ({"query": {"term": {"year": None}}}, "value"),
    ({"query": {"term": {"year": {"value": {}}}}}, "value"),
    ({"query": {"term": {"tags": "\ud800"}}}, "surrogate"),
    ({"query": {"term": {"year": 1, "tags": 2}}}, "term"),
    ({"query": {"terms": {"tags": "odd"}}}, "list"),
    ({"query": {"terms": {"tags": [None]}}}, "value"),
    ({"query": {"range": {"year": {"gt": 10**30}}}}, "value"),
    ({"query": {"range": {"year": {"gt": float("nan")}}}}, "value"),
    ({"query": {"ids": {"values": [[]]}}}, "ids"),
    ({"query": {"ids": {"values": [True]}}}, "ids"),
    ({"query": {"match": {"text": None}}}, "value"),
    ({"query": {"match": {"text": ["fire"]}}}, "value"),
    ({"query": {"match": {"text": {"query": "fire", "operator": "nor"}}}}, "operator"),
    ({"query": {"match": {"text": {"query": "fire", "boost": -1}}}}, "boost"),
    ({"query": {"match": {"text": {"query": "fire", "boost": "x"}}}}, "boost"),
    ({"query": {"match": {"text": {"query": "fire", "boost": 1e999}}}}, "boost"),
    ({"query": {"match": {"year": "2001"}}}, "not a text field"),
    (multi(fields=["nope"]), "not a text field"),
    (multi(fields=["nope", "neither"]), "'nope' is not a text field"),
    ({"query": {"term": {"year": 2**63}}}, "value"),
    ({"query": {"range": {"year": {"gte": -(2**63) - 1}}}}, "value"),
    (multi(fields=[5.5]), "fields"),
    (multi(fields=[{}]), "fields"),
    (multi(fields=["text^x"]), "boost"),
    (multi(tie_breaker=1.5), "tie_breaker"),
    (multi(tie_breaker=-0.1), "tie_breaker"),
    (multi(tie_breaker="x"), "tie_breaker"),
    ({"query": {"bool": []}}, "bool"),
    ({"query": {"bool": {"must": [5]}}}, "query"),
    ({"query": {"bool": {"must": [{}]}}}, "query"),
    ({"query": {"bool": {"should": [MATCH], "minimum_should_match": -1}}}, "minimum_should_match"),
    ({"query": {"bool": {"should": [MATCH], "minimum_should_match": "75%"}}}, "minimum_should_match"),
    ({"query": []}, "query"),
    ({"query": MATCH, "size": -1}, "size"),
    ({"query": MATCH, "from": 9_999}, "from"),
    ({"query": MATCH, "size": "ten"}, "size"),
    ({"query": MATCH, "_source": 5}, "_source"),
    ({"query": MATCH, "_source": [["a"]]}, "_source"),
    ({"query": MATCH, "_source": {"includes": {"a": 1}}}, "_source"),
    ({"query": MATCH, "highlight": []} | {"highlight": [5]}, "highlight"),
    ({"query": MATCH, "highlight": {"fields": "text"}}, "highlight"),
    ({"query": MATCH, "highlight": {"fields": {"text": {}}, "pre_tags": [], "post_tags": []}}, "pre_tags"),
    ({"query": MATCH, "highlight": {"fields": {}, "pre_tags": [], "post_tags": ["x"]}}, "pre_tags"),
    ({"query": MATCH, "highlight": {"fields": {"text": {}}, "pre_tags": ["<b>"], "post_tags": []}}, "post_tags"),
    ({"query": MATCH, "highlight": {"fields": {"text": {}}, "number_of_fragments": -1}}, "number_of_fragments"),
    ({"query": {"knn": {VECTOR_FIELD: {"vector": ["a"], "k": 1}}}}, "vector"),
    ({"query": {"knn": {VECTOR_FIELD: {"vector": [[1.0] * 8], "k": 1}}}}, "vector"),
    ({"query": {"knn": {VECTOR_FIELD: {"vector": [1.0] * 8, "k": "1"}}}}, "k"),
    ({"query": {"knn": {VECTOR_FIELD: {"vector": [1.0] * 8}}}}, "knn"),
    ({"query": {"knn": []}}, "knn"),
]


@pytest.mark.parametrize(("body", "named"), MALFORMED, ids=range(len(MALFORMED)))
def test_malformed_bodies(embedded: Engine, body: dict[str, Any], named: str) -> None:
    with pytest.raises(ResiftError) as caught:
        embedded.search("docs", body)
    error = caught.value
    assert (error.status, error.code) == (400, "bad_input")
    assert named in f"{error.message} {error.expected}"
    assert error.expected is not None


UNKNOWN = [
    {"query": {"match_phrase": {"text": "bush fires"}}},
    {"query": {"query_string": {"query": "fire"}}},
    {"query": {"match": {"text": {"query": "fire", "fuzziness": 1}}}},
    {"query": {"match": {"text": {"query": "fire", "minimum_should_match": 2}}}},
    {"query": {"term": {"tags": {"value": "ODD", "case_insensitive": True}}}},
    {"query": {"range": {"year": {"gte": 1, "format": "yyyy"}}}},
    *({"query": {"range": {"opened": {"gte": date}}}} for date in ("now", "now-7d/d", "2024-01-01||+1M")),
    {"query": {"__class__": {}}},
    {"query": {"bool": {"must": [{"nested": {}}]}}},
    {"query": {"bool": {"filter": {"lang": "python"}}}},  # a field instead of a clause
    multi(type="cross_fields"),
    {"query": MATCH, "sort": ["year"]},
    {"query": MATCH, "post_filter": MATCH},
    {"query": MATCH, "rescore": {"query": {"rescore_query": MATCH, "query_weight": 0.5}}},
    {"query": {"hybrid": {"queries": [MATCH]}}, "search_pipeline": {"request_processors": []}},
    {"query": {"knn": {VECTOR_FIELD: {"vector": [1.0] * 8, "k": 3, "min_score": 1}}}},
    {"query": MATCH, "highlight": {"fields": {"text": {"pre_tags": ["<b>"]}}}},
]


@pytest.mark.parametrize("body", UNKNOWN, ids=range(len(UNKNOWN)))
def test_unknown_clauses_are_refused_and_never_ignored(embedded: Engine, body: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedQuery, match="does not support") as caught:
        embedded.search("docs", body)
    assert caught.value.status == 400


def test_errors_name_the_unknown_clause_and_the_known_clauses(embedded: Engine) -> None:
    with pytest.raises(UnsupportedQuery, match="does not support 'fuzziness' in match") as caught:
        embedded.search("docs", {"query": {"match": {"text": {"query": "fire", "fuzziness": 1}}}})
    assert caught.value.value == "'fuzziness' in match"
    assert str(caught.value.expected).split(" | ")[0] == "query"


def test_no_fields_are_all_fields(engine: Engine, indexed: str) -> None:
    for settings in ({}, {"fields": []}, {"fields": ["*"]}, {"fields": "t*"}):
        found = engine.search(indexed, multi(**settings)).hits
        assert {hit["_id"] for hit in found} == {"0", "1"}


def test_a_filter_of_nearest_documents_is_checked_too(embedded: Engine, model: Model) -> None:
    vector = model.encode(["fire"])[0]
    with pytest.raises(UnsupportedQuery):
        embedded.search("docs", knn_body(vector, 3, {"prefix": {"text": "f"}}))
    assert len(embedded.search("docs", knn_body(vector, 3, nested(50))).hits) == 2
