"""What an answer to a search says, and what of odd indices and bodies is ranked, on both engines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flask.testing import FlaskClient
from reranker_app import TEXTS, break_session_store, ids, post
from reranker_app import app as app
from reranker_app import client as client
from reranker_app import config as config
from reranker_app import filled as filled

from resift import Model, WordVectors, build_model
from resift.plugin.documents import Document
from resift.plugin.engine import Engine
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.ranking.late_interaction import LateInteraction
from resift.reranker.late_reranker import ServedReranker

on_opensearch = pytest.mark.parametrize("engine_url", ["opensearch"], indirect=True)


def test_an_only_hit_is_the_best_one(client: FlaskClient, filled: str) -> None:
    for alpha in (None, 0, 0.4, 1):
        (hit,) = post(client, "/v1/search", index=filled, query="gun", alpha=alpha)["hits"]["hits"]
        assert hit["_id"] == "army"
        assert hit["_score"] == pytest.approx(1)
    # it has nothing of the query but its word: the similarity has no part in its score
    unknown = post(client, "/v1/search", index=filled, query="zzz", alpha=0.4)["hits"]["hits"]
    assert [(hit["_id"], hit["_score"]) for hit in unknown] == [("none", pytest.approx(0.6))]


def test_every_vector_has_one_origin(client: FlaskClient, filled: str, engine: Engine, model: Model) -> None:
    for id in ("tree", "war", "bush"):
        source, version = engine.get(filled, id)
        assert engine.put(filled, Document(id, source, None), version)
    engine.refresh(filled)
    for _ in range(3):
        origins = post(client, "/v1/search", index=filled, query="fire forest", knn=4)["resift"]["vectors"]
        assert origins["encoded"] == 3
        assert min(origins.values()) >= 0
        # five hits and the four nearest documents: of those without a vector none is near
        assert sum(origins.values()) == 9


def test_the_same_keys_with_and_without_a_session(client: FlaskClient, filled: str) -> None:
    plain = post(client, "/v1/search", index=filled, query="fire")
    post(client, "/v1/feedback", session="a", index=filled, relevant=["bush"])
    learned = post(client, "/v1/search", index=filled, query="fire", session="a", highlight=True)
    assert learned["resift"]["session"] == "a"
    assert set(learned) == set(plain)


def test_missing_vectors_are_encoded_from_the_whole_text(client: FlaskClient, filled: str, engine: Engine) -> None:
    whole = post(client, "/v1/search", index=filled, query={"match": {"text": "fire"}})
    expected = {hit["_id"]: hit["resift"]["similarity"] for hit in whole["hits"]["hits"]}
    source, version = engine.get(filled, "tree")
    assert engine.put(filled, Document("tree", source, None), version)
    engine.refresh(filled)
    for shown in (["n"], False, {"excludes": ["text"]}):
        body = {"query": {"match": {"text": "fire"}}, "_source": shown}
        hits = post(client, "/v1/search", index=filled, query=body)["hits"]["hits"]
        assert {hit["_id"]: hit["resift"]["similarity"] for hit in hits} == pytest.approx(expected, abs=1e-6)
        assert all("text" not in hit.get("_source", {}) for hit in hits)


@pytest.fixture
def others(engine: Engine, filled: str) -> Iterator[list[str]]:
    """Names of two more indices, which one pattern stands for together with the filled one; dropped if made."""
    names = [f"{filled}-x", f"{filled}-y"]
    yield names
    for name in names:
        engine.drop_if_exists(name)


def write(engine: OpenSearchEngine, index: str, **texts: str) -> None:
    """Documents without vectors, by a client that knows nothing of Resift."""
    for id, text in texts.items():
        engine.client.index(index=index, id=id, body={"text": text}, refresh=True)


@on_opensearch
def test_an_index_without_vectors_is_ranked_among_others(
    client: FlaskClient, filled: str, others: list[str], engine: OpenSearchEngine, model: Model
) -> None:
    write(engine, others[0], bush="fire flame and smoke", other="a river of fire")
    answer = post(client, "/v1/search", index=f"{filled}*", query="fire", knn=5, highlight=True, size=20)
    assert "reason" not in answer["resift"]
    assert answer["_shards"]["failed"] == 0
    found = {(hit["_index"], hit["_id"]): hit["resift"]["similarity"] for hit in answer["hits"]["hits"]}
    assert {(others[0], "bush"), (others[0], "other"), (filled, "bush")} <= set(found)
    texts = ["fire flame and smoke", TEXTS["bush"]]
    similar = model.score(model.encode(["fire"])[0], model.encode(texts))
    assert [found[others[0], "bush"], found[filled, "bush"]] == pytest.approx(similar.tolist(), abs=1e-5)
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
    late = LateInteraction("late", vectors, mean_length=6)
    late.save(tmp_path / "late")
    service = client.application.extensions["resift"]
    service.served_reranker = ServedReranker(str(tmp_path / "late"))
    body = {"query": {"match": {"text": "fire"}}, "_source": ["n"], "size": 20}
    hits = post(client, "/v1/search", index=f"{filled}*", query=body, method="late")["hits"]["hits"]
    found = {(hit["_index"], hit["_id"]): hit["resift"]["similarity"] for hit in hits}
    texts = {
        (filled, "bush"): TEXTS["bush"],
        (others[0], "bush"): "the river the river the river fire",
        (filled, "war"): TEXTS["war"],
        (others[0], "war"): "fire fire fire",
    }
    expected = late.scores("fire", list(texts.values()))
    np.testing.assert_allclose([found[key] for key in texts], expected, atol=1e-5)


@on_opensearch
def test_bodies_with_stored_fields_come_back_as_the_engine_gives_them(
    client: FlaskClient, filled: str, engine: OpenSearchEngine
) -> None:
    for stored in ("_none_", ["_none_"], "text", ["text", "n"], []):
        body = {"query": {"match": {"text": "fire"}}, "stored_fields": stored}
        direct = engine.client.search(index=filled, body=body)["hits"]
        answer = post(client, "/v1/search", index=filled, query=body)
        keys = [set(hit) - {"resift"} for hit in answer["hits"]["hits"]]
        assert keys == [set(hit) for hit in direct["hits"]]
        assert answer["hits"]["total"] == direct["total"]
        assert answer["resift"]["reranked"] == ("_none_" not in stored)


@on_opensearch
def test_a_hybrid_query_is_reranked_in_a_session(client: FlaskClient, filled: str) -> None:
    parts = [{"match": {"text": "fire"}}, {"match": {"text": "smoke"}}]
    post(client, "/v1/feedback", session="a", index=filled, relevant=["bush"], irrelevant=["war"])
    for session in (None, "a"):
        answer = post(client, "/v1/search", index=filled, query={"hybrid": {"queries": parts}}, session=session)
        assert set(ids(answer)) == {"bush", "wood", "tree", "army", "war"}
        assert (answer["resift"]["reranked"], answer["resift"]["session"]) == (True, session)
        assert "reason" not in answer["resift"]


@pytest.mark.parametrize("path", ["/v1/score", "/v1/rerank"])
def test_texts_are_ranked_without_a_session_whose_store_is_away(client: FlaskClient, filled: str, path: str) -> None:
    post(client, "/v1/feedback", session="a", index=filled, relevant=["bush"], irrelevant=["war"])
    asked: dict[str, Any] = {"query": "fire", "documents": list(TEXTS.values())}
    learned = post(client, path, **asked, session="a")
    plain = post(client, path, **asked)
    assert learned != plain
    break_session_store(client)
    answer = post(client, path, **asked, session="a")
    said = answer.pop("resift")
    assert answer == plain
    assert said["session"] is None
    assert "sessions" in said["reason"]
    if path == "/v1/score":
        # nothing is left to rank by
        error = post(client, path, 503, query="", documents=asked["documents"], session="a")["error"]
        assert error["code"] == "sessions_unavailable"
