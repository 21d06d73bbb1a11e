"""Tests of the allow-list of clauses for API keys with the scope ``search``."""

from __future__ import annotations

import re
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from flask.testing import FlaskClient
from service_app import config as config
from service_app import post

from resift import Model
from resift.contracts.documents import Document
from resift.contracts.search_options import PipelineOptions
from resift.embedded.engine import SqliteEngine
from resift.errors import BadInput, ClauseNotAllowed, TextTooLong
from resift.query.allow_list import check_against_allow_list, read_allow_list
from resift.reranker import Config, create_app
from resift.reranker.access.keys import KeyFile

MATCH = {"match": {"text": "fire"}}
UNLISTED: list[tuple[dict[str, Any], str]] = [
    ({"bool": {"must": [MATCH, {"wrapper": {"query": "e30="}}]}}, "query.bool.must[1].wrapper"),
    ({"bool": {"must": MATCH, "mustNot": MATCH}}, "query.bool.mustNot"),
    ({"nested": {"path": "a", "query": {"has_parent": {}}}}, "query.nested.query.has_parent"),
    ({"match": {"text": {"query": "x", "script": "1"}}}, "query.match.text.script"),
    (
        {"script_score": {"query": MATCH, "script": {"source": "knn_score", "id": "mine"}}},
        "query.script_score.script.id",
    ),
    ({"term": {"_index": "secret"}}, "query.term._index"),
    ({"function_score": {"functions": [{"script_score": {}}]}}, "query.function_score.functions[0].script_score"),
]
FITTING: list[dict[str, Any]] = [
    # names of fields, aggregations and filters may equal keywords
    {"match": {"wrapper": {"query": "e30="}}},
    {"term": {"script": "x"}},
    {"terms": {"index": ["a", "b"], "boost": 2}},
    {"bool": {"should": [MATCH], "filter": {"range": {"n": {"gte": 1}}}, "_name": "mine"}},
    {"script_score": {"query": MATCH, "script": {"lang": "knn", "source": "knn_score", "params": {"field": "v"}}}},
    {"hybrid": {"queries": [MATCH, {"knn": {"v": {"vector": [0.5] * 768, "k": 10}}}]}},
    {"geo_distance": {"distance": "2km", "place": {"lat": 51, "lon": 0}}},
    {"function_score": {"query": MATCH, "gauss": {"day": {"origin": "now", "scale": "10d"}}}},
]


@pytest.mark.parametrize(("clause", "place"), UNLISTED, ids=[place for _, place in UNLISTED])
def test_unlisted_clauses_are_refused_with_their_position(clause: dict[str, Any], place: str) -> None:
    with pytest.raises(ClauseNotAllowed, match=re.escape(place)) as caught:
        check_against_allow_list("query", clause)
    assert caught.value.value == place


def test_all_options_of_a_rewriting_are_accepted() -> None:
    listed = read_allow_list()["shapes"]["options"]
    assert set(listed) == {field.encode_name for field in msgspec.structs.fields(PipelineOptions)}
    options = {"session": "anna", "feedback": "mask", "without": ["smoke"], "scroll": True}
    check_against_allow_list("query", {"query": MATCH, "ext": {"resift": options}}, "body")


@pytest.mark.parametrize("clause", FITTING, ids=str)
def test_ordinary_clauses_are_accepted(clause: dict[str, Any]) -> None:
    check_against_allow_list("query", clause)
    named = {name: {"filters": {"filters": {name: clause}}} for name in ("match_x", "wrapper", "_script", "aggs")}
    check_against_allow_list("query", {"query": clause, "aggs": named, "post_filter": clause}, "body")


TOO_MUCH: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a text": ({"match": {"a": "x" * 10_000}}, {"match": {"a": "x" * 10_001}}),
    "a pattern": ({"regexp": {"a": "x" * 200}}, {"regexp": {"a": "x" * 201}}),
    "a query string": ({"query_string": {"query": "x" * 1000}}, {"query_string": {"query": "x" * 1001}}),
    "all texts": (
        {"bool": {"should": [{"match": {"a": "x" * 9900}}] * 10}},
        {"bool": {"should": [{"match": {"a": "x" * 9900}}] * 11}},
    ),
    "patterns": (
        {"bool": {"should": [{"prefix": {"a": "x"}}] * 50}},
        {"bool": {"should": [{"prefix": {"a": "x"}}] * 51}},
    ),
    "clauses": ({"bool": {"filter": [{"term": {"a": 1}}] * 999}}, {"bool": {"filter": [{"term": {"a": 1}}] * 1000}}),
    "fuzzy text": (
        {"match": {"a": {"query": "x " * 499, "fuzziness": 2}}},
        {"match": {"a": {"query": "x " * 501, "fuzziness": 2}}},
    ),
    "patterns of fields": (
        {"multi_match": {"query": "fire", "fields": [f"attr_{number}*" for number in range(100)]}},
        {"multi_match": {"query": "fire", "fields": [f"attr_{number}*" for number in range(101)]}},
    ),
    "values": ({"terms": {"a": [1] * 19_990}}, {"terms": {"a": [1] * 20_000}}),
}


@pytest.mark.parametrize("what", TOO_MUCH)
def test_values_beyond_the_bounds_are_refused(what: str) -> None:
    fitting, too_much = TOO_MUCH[what]
    check_against_allow_list("query", fitting)
    with pytest.raises(TextTooLong):
        check_against_allow_list("query", too_much)


def test_the_depth_of_clauses_is_limited_but_not_their_number() -> None:
    deep: dict[str, Any] = MATCH
    for _ in range(19):
        deep = {"bool": {"must": deep}}
    check_against_allow_list("query", {"bool": {"must": [deep["bool"]["must"]] * 9}})
    with pytest.raises(TextTooLong):
        check_against_allow_list("query", {"bool": {"must": deep}})


@pytest.mark.parametrize(
    "clause",
    [
        {},
        {"match": {"text": "a"}, "term": {"n": 1}},
        {"match": "fire"},
        {"bool": {"must": ["fire"]}},
        {"knn": {"v": {"vector": [1, 2], "k": 10_001}}},
        {"terms": {"_id": {"index": "secret", "id": "1", "path": "ids"}}},
        {"more_like_this": {"like": [{"_id": "1"}]}},
        {"geo_distance": {"distance": "1km", "place": "POINT (1 1)"}},
        {"query_string": {"query": "(" * 51}},
        {"bool": {"boost": True}},
    ],
    ids=str,
)
def test_misplaced_clauses_are_refused(clause: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        check_against_allow_list("query", clause)


def terms(size: int, **inner: Any) -> dict[str, Any]:
    """Return a ``terms`` aggregation with nested aggregations."""
    return {"terms": {"field": "tag", "size": size}, "aggs": inner}


@pytest.mark.parametrize(
    ("body", "size", "is_listed"),
    [
        ({"aggs": {"a": terms(100, b=terms(500))}}, 10, True),
        ({"aggs": {"a": terms(100, b=terms(600))}}, 10, False),
        ({"aggs": {"a": terms(10_000), "b": terms(10_000)}}, 10, True),
        ({"aggs": {"days": {"date_histogram": {"field": "d", "calendar_interval": "day"}}}}, 10, False),
        (
            {"aggs": {"days": {"date_histogram": {"field": "d", "calendar_interval": "day", "min_doc_count": 1}}}},
            10,
            True,
        ),
        ({"highlight": {"fields": {"text": {}}}, "size": 1000}, 10, True),
        ({"highlight": {"fields": {"text": {}}}}, 1001, False),
        ({"collapse": {"field": "n", "inner_hits": [{"name": "a"}] * 3}, "size": 50}, 10, True),
        ({"collapse": {"field": "n", "inner_hits": [{"name": "a"}] * 4}}, 10, False),
        ({"collapse": {"field": "n", "inner_hits": {"name": "a"}}, "size": 51}, 10, False),
    ],
    ids=str,
)
def test_multiplying_work_is_limited(body: dict[str, Any], size: int, is_listed: bool) -> None:
    with nullcontext() if is_listed else pytest.raises(BadInput):
        check_against_allow_list("query", body, "body", size)


@pytest.fixture
def engine(tmp_path: Path, model: Model) -> SqliteEngine:
    """Return an embedded engine with one document."""
    engine = SqliteEngine(str(tmp_path / "engine.db"))
    engine.create("docs", ["text"], model)
    engine.bulk("docs", [Document("1", {"text": "fire"}, model.encode(["fire"])[0])])
    return engine


# the embedded engine does not support explain, and raises an error
BODY = {"index": "docs", "query": {"query": MATCH, "explain": True}}


@pytest.mark.parametrize(
    ("scopes", "status"),
    [("search", 403), ("search,feedback", 403), ("search,body", 400), ("search,admin", 400), ("body", 403)],
)
def test_whole_bodies_need_a_separate_scope(
    engine: SqliteEngine, model: Model, tmp_path: Path, config: Config, scopes: str, status: int
) -> None:
    file = KeyFile(str(tmp_path / "keys.jsonl"))
    key = file.create("mine", scopes.split(","))
    settings = Config(store=config.store, keys=str(file.path))
    client = create_app(settings, engine=engine, model=model).test_client()
    answer = client.post("/v1/search", json=BODY, headers={"X-Api-Key": key})
    assert answer.status_code == status, answer.text
    listed = client.post("/v1/search", json={**BODY, "query": MATCH}, headers={"X-Api-Key": key})
    assert listed.status_code == (403 if scopes == "body" else 200)


@pytest.mark.parametrize(
    ("host", "address", "status"),
    [("localhost", "127.0.0.1", 400), ("shop.example", "127.0.0.1", 403), ("localhost", "10.0.0.7", 403)],
)
def test_whole_bodies_without_keys_are_for_this_machine_only(
    engine: SqliteEngine, model: Model, config: Config, host: str, address: str, status: int
) -> None:
    client = create_app(Config(store=config.store, hosts=("shop.example",)), engine=engine, model=model).test_client()
    answer = client.post("/v1/search", json=BODY, headers={"Host": host}, environ_base={"REMOTE_ADDR": address})
    assert answer.status_code == status, answer.text


def test_unlisted_clauses_are_passed_on_in_the_cluster(engine: SqliteEngine, model: Model, config: Config) -> None:
    client: FlaskClient = create_app(config, engine=engine, model=model).test_client()
    body = {"query": {"wrapper": {"query": "!!"}}, "explain": True}
    assert post(client, "/v1/rewrite", index="docs", body=body)["body"] == body


def test_any_json_value_raises_bad_input_at_most() -> None:
    odd: list[Any] = [None, True, 1, 1.5, "x", [], [None], {}, {"x": {}}, {"query": []}]
    for shape in ("clause", "body"):
        for name in (*read_allow_list()["clauses"], *read_allow_list()["body"]):
            for value in odd:
                with suppress(BadInput, ClauseNotAllowed):  # no other exception is raised
                    check_against_allow_list("query", {name: value}, shape)
