"""Tests of the responses of searches, including unusual indices and bodies, on both engines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from flask.testing import FlaskClient
from service_app import TEXTS, break_session_store, ids, post
from service_app import app as app
from service_app import client as client
from service_app import config as config
from service_app import filled as filled

from resift import Model, WordVectors, build_model
from resift.contracts.documents import Document
from resift.contracts.engine import Engine
from resift.encoders.late_interaction import LateInteraction, ScoringParameters
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.service.reranking import ServedReranker

on_opensearch = pytest.mark.parametrize("engine_url", ["opensearch"], indirect=True)


def test_a_score_is_the_engines_times_a_power_of_e(client: FlaskClient, filled: str) -> None:
    def only(query: str, alpha: float | None) -> tuple[str, float]:
        (hit,) = post(client, "/v1/search", index=filled, query=query, alpha=alpha)["hits"]["hits"]
        return hit["_id"], hit["_score"]

    service = client.application.extensions["resift"].model
    similarity = float(service.score(service.encode_one("gun"), service.encode([TEXTS["army"]]))[0])
    id, own = only("gun", 0)
    for alpha, beta in ((None, 1.0), (0.4, 2 / 3), (0.75, 3.0), (1, 32.0)):
        assert only("gun", alpha) == (id, pytest.approx(own * np.exp(beta * (1 + similarity)), rel=1e-4))
    # a query of unknown words has no similarity to any document
    assert only("zzz", 0.4) == only("zzz", 0) == ("none", only("zzz", 1)[1])


def test_the_same_keys_with_and_without_a_session(client: FlaskClient, filled: str) -> None:
    plain = post(client, "/v1/search", index=filled, query="fire")
    post(client, "/v1/feedback", session="a", index=filled, query="fire", relevant=["bush"])
    learned = post(client, "/v1/search", index=filled, query="fire", session="a", highlight=True)
    assert learned["resift"]["session"] == "a"
    assert set(learned) == set(plain)


@pytest.fixture
def others(engine: Engine, filled: str) -> Iterator[list[str]]:
    """Return the names of two more indices that match the pattern of the filled index, and delete them at the end."""
    names = [f"{filled}-x", f"{filled}-y"]
    yield names
    for name in names:
        engine.drop_if_exists(name)


def write(engine: OpenSearchEngine, index: str, **texts: str) -> None:
    """Index documents without vectors, with a plain OpenSearch client."""
    for id, text in texts.items():
        engine.client.index(index=index, id=id, body={"text": text}, refresh=True)


@on_opensearch
def test_an_index_without_vectors_is_searched_with_other_indices(
    client: FlaskClient, filled: str, others: list[str], engine: OpenSearchEngine, model: Model
) -> None:
    write(engine, others[0], bush="fire flame and smoke", other="a river of fire")
    asked = {"knn": 5, "highlight": True, "size": 20, "reasons": True}
    answer = post(client, "/v1/search", index=f"{filled}*", query="fire", **asked)
    assert "reason" not in answer["resift"]
    assert answer["_shards"]["failed"] == 0
    found = {(hit["_index"], hit["_id"]): hit["resift"]["similarity"] for hit in answer["hits"]["hits"]}
    assert {(others[0], "bush"), (others[0], "other"), (filled, "bush")} <= set(found)
    (similar,) = model.score(model.encode(["fire"])[0], model.encode([TEXTS["bush"]])).tolist()
    assert [found[others[0], "bush"], found[filled, "bush"]] == [None, pytest.approx(similar, abs=1e-4)]
    post(client, "/v1/feedback", session="a", index=filled, query="fire", relevant=["bush"])
    learned = post(client, "/v1/search", index=f"{filled}*", query="fire", session="a", size=20)
    assert (learned["resift"]["session"], learned["_shards"]["failed"]) == ("a", 0)
    assert "reason" not in learned["resift"]


@on_opensearch
def test_indices_of_one_model_with_other_fields_are_searched_together(
    client: FlaskClient, filled: str, others: list[str], engine: OpenSearchEngine, model: Model, vectors: WordVectors
) -> None:
    engine.create(others[0], ["title", "body"], model)
    engine.bulk(others[0], [Document("1", {"title": "fire", "body": "gun"}, model.encode(["fire\ngun"])[0])])
    engine.refresh(others[0])
    answer = post(client, "/v1/search", index=f"{filled}*", query="gun")
    assert {(hit["_index"], hit["_id"]) for hit in answer["hits"]["hits"]} == {(others[0], "1"), (filled, "army")}
    engine.create(others[1], ["text"], build_model("boew:4", vectors))
    error = post(client, "/v1/search", 409, index=f"{filled},{others[1]}", query="gun")["error"]
    assert (error["code"], error["value"]) == ("model_mismatch", others[1])


@on_opensearch
def test_the_trained_reranker_reads_each_hit_in_its_own_index(
    client: FlaskClient, filled: str, others: list[str], engine: OpenSearchEngine, vectors: WordVectors, tmp_path: Path
) -> None:
    write(engine, others[0], bush="the river the river the river fire", war="fire fire fire")
    late = LateInteraction("late", vectors, parameters=ScoringParameters(mean_length=6))
    late.save(tmp_path / "late")
    service = client.application.extensions["resift"]
    service.served_reranker = service.runner.served_reranker = ServedReranker(str(tmp_path / "late"))
    body = {"query": {"match": {"text": "fire"}}, "_source": ["n"], "size": 20}
    hits = post(client, "/v1/search", index=f"{filled}*", query=body, method="late")["hits"]["hits"]
    found = {(hit["_index"], hit["_id"]): hit["resift"]["reranker"] for hit in hits}
    texts = {
        (filled, "bush"): TEXTS["bush"],
        (others[0], "bush"): "the river the river the river fire",
        (filled, "war"): TEXTS["war"],
        (others[0], "war"): "fire fire fire",
    }
    expected = late.scores("fire", list(texts.values()))
    np.testing.assert_allclose([found[key] for key in texts], expected, atol=1e-4)
    # hits without ids cannot be read
    bare = {**body, "stored_fields": "_none_", "_source": False}
    hidden = post(client, "/v1/search", index=filled, query=bare, method="late")
    assert hidden["resift"].get("method") != "late"
    assert len(hidden["hits"]["hits"]) == 5


@on_opensearch
def test_bodies_with_stored_fields_come_back_as_the_engine_gives_them(
    client: FlaskClient, filled: str, engine: OpenSearchEngine
) -> None:
    for stored in ("_none_", ["_none_"], "text", ["text", "n"], []):
        body = {"query": {"match": {"text": "fire"}}, "stored_fields": stored}
        direct = engine.client.search(index=filled, body=body)["hits"]
        answer = post(client, "/v1/search", index=filled, query=body)
        # hits show that the search was rewritten
        assert [hit.pop("matched_queries") for hit in answer["hits"]["hits"]] == [["resift"]] * 5
        keys = [set(hit) - {"resift"} for hit in answer["hits"]["hits"]]
        assert keys == [set(hit) for hit in direct["hits"]]
        assert answer["hits"]["total"] == direct["total"]
        assert answer["resift"]["reranked"] is True


@on_opensearch
def test_a_hybrid_query_has_the_session_s_words_in_its_parts(client: FlaskClient, filled: str) -> None:
    parts = [{"match": {"text": "fire"}}, {"match": {"text": "smoke"}}]
    post(client, "/v1/feedback", session="a", index=filled, query="fire", relevant=["bush"], irrelevant=["war"])
    for session in (None, "a"):
        answer = post(client, "/v1/search", index=filled, query={"hybrid": {"queries": parts}}, session=session)
        assert set(ids(answer)) == {"bush", "wood", "tree", "army", "war"}
        assert answer["resift"]["reranked"] is (session is not None)
        assert answer["resift"]["outcome"] == ("rewritten" if session else "nothing_to_add")


def test_what_became_of_searches_is_counted(client: FlaskClient, filled: str) -> None:
    post(client, "/v1/feedback", session="a", index=filled, query="fire", relevant=["bush"], irrelevant=["war"])
    post(client, "/v1/search", index=filled, query="fire", session="a")
    post(client, "/v1/search", index=filled, query={"match_all": {}})
    break_session_store(client)
    post(client, "/v1/search", index=filled, query="fire", session="a")
    metrics = client.get("/metrics").get_data(as_text=True)
    for outcome in ("reranked", "engine_order", "in_part"):
        assert f'resift_searches_total{{outcome="{outcome}"}} 1.0' in metrics
