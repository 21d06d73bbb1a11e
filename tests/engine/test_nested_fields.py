"""A query text finds words in nested objects, and sessions look for theirs there too."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient
from service_app import ids, post

from resift import Model
from resift.contracts.documents import IndexInfo
from resift.ingest.verify import verify
from resift.plugin.cluster.client import Cluster
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.plugin.opensearch.mappings import STORED_ONLY, vector_mapping
from resift.query.body import parse
from resift.query.dsl import GUARD_FIELD, NestedField, text_clause
from resift.query.questions import question_clause
from resift.reranker import Config, create_app

FIELDS = ["title", "parts.text", "parts.notes.text"]
DOCUMENTS: dict[str, tuple[str, list[str], str]] = {
    "top": ("fire forest", ["rain"], "river"),
    "inner": ("army", ["rain river", "fire forest"], "water"),
    "deep": ("army gun", ["soldier"], "fire forest"),
    "apart": ("war", ["fire", "forest"], "gun"),
    "none": ("war gun", ["soldier"], "army"),
}
TEXT = {"type": "text", "analyzer": "english"}


def made(cluster: OpenSearchEngine, model: Model, nests: bool) -> str:
    """An index whose parts are nested objects, with notes in them, or plain ones."""
    kind = {"type": "nested"} if nests else {}
    notes = {**kind, "properties": {"text": TEXT}}
    parts = {**kind, "properties": {"text": TEXT, "notes": notes}}
    properties = {"title": TEXT, "parts": parts, "resift_vector": vector_mapping(model), GUARD_FIELD: STORED_ONLY}
    meta = {"resift": IndexInfo.from_model(model, FIELDS).to_meta()}
    settings = {"number_of_shards": 2, "number_of_replicas": 0, "index.knn": True}
    name, request = f"nested-{uuid.uuid4().hex[:8]}", Cluster(cluster).request
    request("PUT", f"/{name}", {"settings": settings, "mappings": {"properties": properties, "_meta": meta}})
    lines = []
    for id, (title, texts, note) in DOCUMENTS.items():
        inner: list[dict[str, Any]] = [{"text": text} for text in texts]
        inner[0]["notes"] = [{"text": note}]
        lines += [json.dumps({"index": {"_id": id}}), json.dumps({"title": title, "parts": inner})]
    request("POST", f"/{name}/_bulk", "\n".join(lines) + "\n", refresh="true")
    assert verify(cluster, model, name, repair=True).repaired == len(DOCUMENTS)
    cluster.refresh(name)
    return name


@pytest.fixture(scope="module")
def nested(cluster: OpenSearchEngine, model: Model) -> Iterator[str]:
    """An index with nested objects."""
    name = made(cluster, model, True)
    yield name
    cluster.drop_if_exists(name)


@pytest.fixture
def client(cluster: OpenSearchEngine, model: Model, tmp_path: Path) -> FlaskClient:
    """An application over the cluster."""
    config = Config(store=str(tmp_path / "sessions.db"), alpha=0.5)
    return create_app(config, engine=cluster, model=model).test_client()


def test_an_index_says_where_its_fields_are(cluster: OpenSearchEngine, nested: str) -> None:
    fields = cluster.info(nested).fields
    assert fields == tuple(FIELDS)
    assert [getattr(field, "path", None) for field in fields] == [None, "parts", "parts.notes"]


def test_texts_in_nested_objects_are_searched(client: FlaskClient, nested: str) -> None:
    answer = post(client, "/v1/search", index=nested, query="fire forest", reasons=True, highlight=True)
    assert set(ids(answer)) == {"top", "inner", "deep", "apart"}
    assert answer["hits"]["total"]["value"] == 4
    plain = post(client, "/v1/search", index=nested, query="fire forest", alpha=0)
    scores = {hit["_id"]: hit["_score"] for hit in plain["hits"]["hits"]}
    # both words in one object say more than each in another
    assert scores["inner"] > scores["apart"]
    assert ids(post(client, "/v1/search", index=nested, query="what is the soldier", alpha=0)) in (
        ["deep", "none"],
        ["none", "deep"],
    )


def test_a_session_asks_for_its_words_in_nested_objects(client: FlaskClient, nested: str) -> None:
    before = post(client, "/v1/search", index=nested, query="rain", size=5)
    assert set(ids(before)) == {"top", "inner"}
    post(client, "/v1/feedback", session="a", index=nested, query="rain", relevant=["deep"])
    after = post(client, "/v1/search", index=nested, query="rain", size=5, session="a")
    assert {"deep", "none"} <= set(ids(after))  # by "soldier", in a nested object
    body = {"query": {"match": {"title": "war"}}, "ext": {"ml_inference": {"query": "rain", "session": "a"}}}
    rewritten = post(client, "/v1/rewrite", index=nested, body=body)["body"]
    assert '"path": "parts"' in json.dumps(rewritten["rescore"])


@pytest.fixture
def foreign(cluster: OpenSearchEngine) -> Iterator[str]:
    """An index with nested objects that Resift has never changed."""
    name, request = f"foreign-{uuid.uuid4().hex[:8]}", Cluster(cluster).request
    parts = {"type": "nested", "properties": {"text": TEXT, "n": {"type": "integer"}}}
    request("PUT", f"/{name}", {"mappings": {"properties": {"title": TEXT, "parts": parts}}})
    lines = []
    for id, (title, texts, _) in DOCUMENTS.items():
        document = {"title": title, "parts": [{"text": text, "n": 1} for text in texts]}
        lines += [json.dumps({"index": {"_id": id}}), json.dumps(document)]
    request("POST", f"/{name}/_bulk", "\n".join(lines) + "\n", refresh="true")
    yield name
    cluster.drop_if_exists(name)


def test_texts_in_nested_objects_of_any_index_are_searched(
    cluster: OpenSearchEngine, client: FlaskClient, foreign: str
) -> None:
    answer = post(client, "/v1/search", index=foreign, query="fire forest", highlight=True)
    assert set(ids(answer)) == {"top", "inner", "apart"}
    scores = {hit["_id"]: hit["_score"] for hit in answer["hits"]["hits"]}
    assert scores["inner"] > scores["apart"]  # both words are in one object
    # a session learns from the nested objects, and searches its words in them
    assert set(ids(post(client, "/v1/search", index=foreign, query="rain"))) == {"top", "inner"}
    post(client, "/v1/feedback", session="a", index=foreign, query="rain", relevant=["deep"])
    after = post(client, "/v1/search", index=foreign, query="rain", session="a")
    assert {"deep", "none"} <= set(ids(after))  # by "soldier"
    # a text that would have too many clauses does not fail
    long = " ".join(f"word{n}" for n in range(300))
    assert ids(post(client, "/v1/search", index=foreign, query=f"{long} gun")) != []
    # OpenSearch refuses nested queries if ``parts`` is a plain object in another index
    flat = f"flat-{uuid.uuid4().hex[:8]}"
    Cluster(cluster).request("PUT", f"/{flat}", {"mappings": {"properties": {"parts": {"properties": {"text": TEXT}}}}})
    try:
        assert "top" in ids(post(client, "/v1/search", index=f"{flat},{foreign}", query="fire forest"))
    finally:
        cluster.drop(flat)


def test_names_of_indices_that_nest_and_that_do_not(
    cluster: OpenSearchEngine, model: Model, client: FlaskClient, nested: str
) -> None:
    flat = made(cluster, model, False)
    try:
        info = cluster.info(f"{flat},{nested}")
        assert [type(field) for field in info.fields] == [str, str, str]
        found = post(client, "/v1/search", index=f"{flat},{nested}", query="fire forest")["hits"]["hits"]
        assert {hit["_id"] for hit in found if hit["_index"] == flat} == {"top", "inner", "deep", "apart"}
    finally:
        cluster.drop(flat)


def test_clauses_of_nested_fields() -> None:
    fields = ["title", NestedField("parts.text", "parts"), NestedField("parts.title", "parts")]
    clause = question_clause("what is fire", fields)
    weak = text_clause("what is", fields, tie_breaker=0.3, boost=0.1)
    strong = text_clause("fire", fields, tie_breaker=0.3)
    assert clause == {"bool": {"should": [strong, weak]}}
    flat, inner = strong["dis_max"]["queries"]
    assert flat == {"multi_match": {"query": "fire", "fields": ["title"], "lenient": True, "tie_breaker": 0.3}}
    assert (inner["nested"]["path"], inner["nested"]["score_mode"]) == ("parts", "max")
    query = parse({"query": clause})
    assert query.text == "fire"
    # it may be widened, as any other text may
    assert query.text_query is not None
    assert query.text_query.clause == clause
    assert parse({"query": {"dis_max": {"queries": [{"term": {"a": 1}}]}}}).text_query is None
    assert text_clause("fire", fields[1:]) == {
        "nested": {
            "path": "parts",
            "query": {"multi_match": {"query": "fire", "fields": ["parts.text", "parts.title"], "lenient": True}},
            "score_mode": "max",
            "ignore_unmapped": True,
        }
    }
