"""Searches in a session if settings restrict searches: ``index.max_rescore_window``, and expensive queries."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from flask.testing import FlaskClient
from service_app import TEXTS, post

from resift import Model
from resift.contracts.documents import Document
from resift.errors import EngineError
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.reranker import Config, create_app

LIMITS = {"a": 1000, "b": 50, "c": 20}
QUERY = {"match": {"text": "fire"}}
FIELDS = [f"f{number}" for number in range(6)]
COUNT = 120
LONG_WORDS = [
    *("fireplace", "bushcraft", "forestation", "smokehouse", "flamethrower", "armchair", "warehouse", "riverside"),
    *("rainwater", "valleyside", "lakefront", "stormproof", "trucking", "engineer", "hosepipe", "garden", "furniture"),
]


@pytest.fixture(scope="module")
def prefix(cluster: OpenSearchEngine) -> Iterator[str]:
    """The prefix of the names of three indices with the limits LIMITS, each with thirty documents."""
    prefix = f"resift-test-{uuid.uuid4().hex[:12]}-"
    for name, limit in LIMITS.items():
        settings = {"index": {"max_rescore_window": limit, "number_of_replicas": 0}}
        mapping = {"properties": {"text": {"type": "text"}}}
        cluster.client.indices.create(index=f"{prefix}{name}", body={"settings": settings, "mappings": mapping})
        for number in range(30):
            text = f"fire {'bush ' * (number % 3)}{'army ' * (number % 4)}"
            cluster.client.index(index=f"{prefix}{name}", id=f"{name}{number}", body={"text": text})
    cluster.refresh(f"{prefix}*")
    yield prefix
    cluster.client.indices.delete(index=f"{prefix}*")


@pytest.fixture
def client(cluster: OpenSearchEngine, model: Model, tmp_path: Path) -> FlaskClient:
    """A client of the service over the cluster."""
    return create_app(Config(store=str(tmp_path / "sessions.db")), engine=cluster, model=model).test_client()


@pytest.mark.parametrize(
    ("names", "window"), [("a", 500), ("b", 50), ("c", 20), ("a,b", 50), ("a,b,c", 20)], ids=lambda value: str(value)
)
def test_the_rescore_window_is_reduced_to_the_limit_of_the_index(
    cluster: OpenSearchEngine, prefix: str, client: FlaskClient, names: str, window: int
) -> None:
    index = ",".join(prefix + name for name in names.split(","))
    marks = {"relevant": [f"{names[0]}5"], "irrelevant": [f"{names[0]}3"]}
    post(client, "/v1/feedback", session="anna", index=index, query="fire", **marks)
    body = {"query": QUERY, "size": 100, "ext": {"resift": {"session": "anna"}}}
    rewritten = post(client, "/v1/rewrite", index=index, body=body)
    assert rewritten["resift"] == {"rewritten": True, "outcome": "rewritten"}
    assert {stage["window_size"] for stage in rewritten["body"]["rescore"]} == {window}
    answer = cluster.client.search(index=index, body=rewritten["body"])
    plain = cluster.client.search(index=index, body={"query": QUERY, "size": 100})
    assert answer["_shards"]["failed"] == 0
    assert answer["hits"]["total"] == plain["hits"]["total"]
    assert {hit["_id"] for hit in answer["hits"]["hits"]} == {hit["_id"] for hit in plain["hits"]["hits"]}


def test_a_stated_window_is_reduced_too(prefix: str, client: FlaskClient) -> None:
    index = f"{prefix}b"
    post(client, "/v1/feedback", session="anna", index=index, query="fire", relevant=["b5"])
    for window, expected in ((30, 30), (700, 50)):
        options = {"session": "anna", "window": window}
        body = post(client, "/v1/rewrite", index=index, body={"query": QUERY, "ext": {"resift": options}})["body"]
        assert {stage["window_size"] for stage in body["rescore"]} == {expected}
    found = post(client, "/v1/search", session="anna", index=index, query=QUERY)
    assert found["resift"]["outcome"] == "rewritten"


def test_a_search_is_rewritten_if_the_limit_cannot_be_read(
    cluster: OpenSearchEngine, prefix: str, client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = f"{prefix}a"
    post(client, "/v1/feedback", session="anna", index=index, query="fire", relevant=["a5"])

    def refuse(*_: object) -> int:
        raise EngineError("OpenSearch: too many requests", status=429)

    monkeypatch.setattr(cluster, "max_rescore_window", refuse)
    body = {"query": QUERY, "ext": {"resift": {"session": "anna"}}}
    rewritten = post(client, "/v1/rewrite", index=index, body=body)
    assert {stage["window_size"] for stage in rewritten["body"]["rescore"]} == {500}


@pytest.fixture
def with_vectors(cluster: OpenSearchEngine, model: Model) -> Iterator[str]:
    """An index with vectors of Resift, in a cluster that forbids expensive queries such as ``script_score``."""
    setting, index = "search.allow_expensive_queries", f"resift-test-{uuid.uuid4().hex[:12]}"
    cluster.create(index, ["text"], model)
    documents = [Document(id, {"text": text}, model.encode_one(text)) for id, text in TEXTS.items()]
    assert cluster.bulk(index, documents) == []
    cluster.refresh(index)
    cluster.client.cluster.put_settings(body={"persistent": {setting: False}})
    yield index
    cluster.client.cluster.put_settings(body={"persistent": {setting: None}})
    cluster.drop(index)


@pytest.mark.parametrize("session", [{}, {"session": "anna"}], ids=["without a session", "in a session"])
def test_vectors_are_compared_without_expensive_queries(
    cluster: OpenSearchEngine, client: FlaskClient, with_vectors: str, session: dict[str, str]
) -> None:
    marks = {"relevant": ["bush"], "irrelevant": ["army"]}
    post(client, "/v1/feedback", session="anna", index=with_vectors, query="fire", **marks)
    body = {"query": QUERY, "ext": {"resift": {**session, "alpha": 0.5}}}
    rewritten = post(client, "/v1/rewrite", index=with_vectors, body=body)
    assert "painless" in str(rewritten["body"]["rescore"])
    found = cluster.client.search(index=with_vectors, body=rewritten["body"])
    assert {hit["_id"] for hit in found["hits"]["hits"]} == {id for id, text in TEXTS.items() if "fire" in text}
    assert post(client, "/v1/search", index=with_vectors, query=QUERY, **session)["resift"]["outcome"] == "rewritten"


@pytest.fixture
def with_grams(cluster: OpenSearchEngine) -> Iterator[str]:
    """An index with six text fields whose analyzer makes several terms of each word."""
    index = f"resift-test-{uuid.uuid4().hex[:12]}"
    tokenizer = {"type": "ngram", "min_gram": 3, "max_gram": 4, "token_chars": ["letter"]}
    analysis = {"tokenizer": {"grams": tokenizer}, "analyzer": {"grams": {"tokenizer": "grams"}}}
    settings = {"number_of_replicas": 0, "analysis": analysis}
    properties = {"plain": {"type": "text"}} | {field: {"type": "text", "analyzer": "grams"} for field in FIELDS}
    cluster.client.indices.create(index=index, body={"settings": settings, "mappings": {"properties": properties}})
    random = np.random.default_rng(5)
    for number in range(COUNT):
        texts = {field: " ".join(random.choice(LONG_WORDS, 7)) for field in (*FIELDS, "plain")}
        cluster.client.index(index=index, id=str(number), body=texts)
    cluster.refresh(index)
    yield index
    cluster.drop(index)


@pytest.mark.parametrize("kind", ["rescored", "in place", "widened"])
def test_words_of_many_terms_do_not_exceed_the_limit_of_clauses(
    cluster: OpenSearchEngine, client: FlaskClient, with_grams: str, kind: str
) -> None:
    post(client, "/v1/feedback", session="anna", index=with_grams, query="garden furniture", relevant=["1", "2", "3"])
    clause = {"multi_match": {"query": "garden furniture", "fields": list(FIELDS)}}
    query = {"hybrid": {"queries": [clause, {"match_all": {}}]}} if kind == "in place" else clause
    options = {"session": "anna", "widen": kind == "widened"}
    answer = post(client, "/v1/rewrite", index=with_grams, body={"query": query, "ext": {"resift": options}})
    assert answer["resift"] == {"rewritten": True, "outcome": "rewritten"}
    found = cluster.client.search(index=with_grams, body=answer["body"])
    assert found["hits"]["total"] == cluster.client.search(index=with_grams, body={"query": query})["hits"]["total"]


def test_the_terms_of_a_word_are_counted_for_the_searched_fields(cluster: OpenSearchEngine, with_grams: str) -> None:
    info = cluster.info(with_grams)
    assert cluster.terms_per_word(info, ["plain"]) == 1
    # A word of twelve letters has nineteen parts of three or four letters. The result is a power of two.
    assert cluster.terms_per_word(info, ["f0"]) in (16, 32)
    assert cluster.terms_per_word(info, FIELDS) in (16, 32)
