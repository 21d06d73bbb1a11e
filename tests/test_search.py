"""Searches through the reranker, on both engines: order, pages, parts of a body, and fallbacks."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flask.testing import FlaskClient
from reranker_app import TEXTS, ids, post
from reranker_app import app as app
from reranker_app import client as client
from reranker_app import config as config
from reranker_app import filled as filled
from reranker_app import plain as plain

from resift import Model, WordVectors, build_model
from resift.errors import EngineError
from resift.ingest.indexing import DeadLetters, Indexer
from resift.ingest.readers import Record
from resift.plugin.documents import Document, SearchResult
from resift.plugin.engine import Engine
from resift.ranking.fusion import combine
from resift.reranker import Config, create_app


def test_search_reranks(client: FlaskClient, filled: str, engine: Engine, model: Model) -> None:
    body = {"multi_match": {"query": "fire forest", "fields": ["text"]}}
    hits = engine.search(filled, {"query": body, "size": 10}).hits
    similar = model.score(model.encode(["fire forest"])[0], model.encode([TEXTS[hit["_id"]] for hit in hits]))
    expected = combine(np.array([hit["_score"] for hit in hits]), similar, 0.5)
    answer = post(client, "/v1/search", index=filled, query="fire forest")
    assert ids(answer) == [hits[i]["_id"] for i in np.argsort(-expected, kind="stable")]
    for hit in answer["hits"]["hits"]:
        i = hit["resift"]["engine_rank"] - 1
        assert hits[i]["_id"] == hit["_id"]
        assert hit["resift"]["engine_score"] == pytest.approx(hits[i]["_score"], rel=1e-5)
        assert hit["resift"]["similarity"] == pytest.approx(similar[i], abs=1e-5)
        assert hit["_score"] == pytest.approx(expected[i], abs=1e-5)
        assert "resift_vector" not in hit["_source"]
    assert answer["hits"]["max_score"] == answer["hits"]["hits"][0]["_score"]
    assert answer["hits"]["total"]["value"] == 5
    assert answer["resift"]["reranked"] is True
    assert answer["resift"]["model"] == model.hash


def test_alpha_zero_is_the_engines_order(client: FlaskClient, filled: str, engine: Engine) -> None:
    hits = engine.search(filled, {"query": {"match": {"text": "fire forest"}}}).hits
    assert ids(post(client, "/v1/search", index=filled, query="fire forest", alpha=0)) == [hit["_id"] for hit in hits]


def test_an_adapted_models_similarity_weighs_more(tmp_path: Path, model: Model, config: Config) -> None:
    from resift.plugin.sqlite.engine import SqliteEngine

    adapted = Model(model.name, model.table, model.pool, model.similarity, alpha=0.5)
    found = {}
    for name, given, weight in [("plain", model, None), ("adapted", adapted, None), ("set", adapted, 0.9)]:
        engine = SqliteEngine(str(tmp_path / f"{name}.db"))
        app = create_app(replace(config, alpha=weight), engine=engine, model=given).test_client()
        Indexer(engine, given, "docs", DeadLetters(tmp_path / name)).run(
            [Record("f", 0, "a", {"text": "fire and smoke"})], ["text"]
        )
        found[name] = post(app, "/v1/search", index="docs", query="fire")["resift"]["alpha"]
        scored = post(app, "/v1/score", query="fire", documents=["rain", "fire"], engine_scores=[1, 0])["scores"]
        assert scored == pytest.approx([1 - found[name], found[name]])
        engine.close()
    assert found == {"plain": 0.3, "adapted": 0.5, "set": 0.9}


def test_pages_are_parts_of_one_ranking(client: FlaskClient, filled: str) -> None:
    whole = ids(post(client, "/v1/search", index=filled, query="fire forest smoke rain", size=7))
    assert len(whole) == 6
    paged = [
        id
        for start in (0, 2, 4)
        for id in ids(
            post(client, "/v1/search", index=filled, query="fire forest smoke rain", size=2, **{"from": start})
        )
    ]
    assert paged == whole
    beyond = post(client, "/v1/search", index=filled, query="fire forest smoke rain", window=3, size=7)
    assert len(set(ids(beyond))) == 6
    assert [hit["_score"] is None for hit in beyond["hits"]["hits"]] == [False] * 3 + [True] * 3
    assert [hit["resift"]["engine_rank"] for hit in beyond["hits"]["hits"]][3:] == [4, 5, 6]


def test_filter_and_highlight(client: FlaskClient, filled: str) -> None:
    answer = post(client, "/v1/search", index=filled, query="fire", highlight=True, filter={"range": {"n": {"lte": 1}}})
    assert set(ids(answer)) == {"bush", "wood"}
    assert all("<em>fire</em>" in hit["highlight"]["text"][0] for hit in answer["hits"]["hits"])
    both = post(client, "/v1/search", index=filled, query={"match": {"text": "fire"}}, filter={"term": {"n": 0}})
    assert ids(both) == ["bush"]


def test_highlights_are_safe_html(client: FlaskClient, filled: str, engine: Engine) -> None:
    engine.bulk(filled, [Document("x", {"text": "<script>alert(1)</script> river & rain"}, None)])
    engine.refresh(filled)
    answer = post(client, "/v1/search", index=filled, query="alert", highlight=True)
    assert answer["hits"]["hits"][0]["highlight"]["text"][0].startswith("&lt;script&gt;<em>alert</em>")


def test_whole_bodies_come_back_as_the_engine_gave_them(client: FlaskClient, filled: str, engine: Engine) -> None:
    body: dict[str, Any] = {"query": {"match": {"text": "fire"}}, "_source": ["n"], "size": 3, "from": 1}
    answer = post(client, "/v1/search", index=filled, query=body)
    assert len(ids(answer)) == 3
    assert answer["resift"]["reranked"] is True
    assert all(set(hit["_source"]) == {"n"} for hit in answer["hits"]["hits"])
    if "sqlite" not in type(engine).__name__.lower():
        body["aggs"] = {"numbers": {"sum": {"field": "n"}}}
        body["highlight"] = {"fields": {"text": {}}}
        answer = post(client, "/v1/search", index=filled, query=body)
        direct = engine.search(filled, body).response
        assert answer["aggregations"] == direct["aggregations"]
        assert answer["hits"]["total"] == direct["hits"]["total"]
        assert all(hit["highlight"] for hit in answer["hits"]["hits"])
        ordered = post(client, "/v1/search", index=filled, query={**body, "sort": [{"n": "desc"}]})
        assert ids(ordered) == ids(engine.search(filled, {**body, "sort": [{"n": "desc"}]}).response)
        assert ordered["resift"] == {"reranked": False, "reason": "the query has 'sort'"}


def test_searches_without_hits_or_text(client: FlaskClient, filled: str) -> None:
    assert ids(post(client, "/v1/search", index=filled, query="nothing")) == []
    none = post(client, "/v1/search", index=filled, query="fire", size=0)
    assert (ids(none), none["hits"]["total"]["value"], none["resift"]["reranked"]) == ([], 5, False)
    everything = post(client, "/v1/search", index=filled, query={"match_all": {}})
    assert len(ids(everything)) == 7
    assert everything["resift"] == {"reranked": False, "reason": "the query has no text"}


def test_knn_brings_what_bm25_does_not_find(client: FlaskClient, filled: str) -> None:
    assert "wood" not in ids(post(client, "/v1/search", index=filled, query="smoke"))
    answer = post(client, "/v1/search", index=filled, query="smoke", knn=4)
    assert "wood" in ids(answer)
    found = next(hit for hit in answer["hits"]["hits"] if hit["_id"] == "wood")
    assert (found["resift"]["engine_rank"], found["resift"]["engine_score"]) == (None, None)
    limited = post(client, "/v1/search", index=filled, query="smoke", knn=4, filter={"term": {"n": 0}})
    assert ids(limited) == ["bush"]


def test_documents_without_a_vector_are_encoded_on_the_way(client: FlaskClient, filled: str, engine: Engine) -> None:
    before = post(client, "/v1/search", index=filled, query="fire forest")
    source, version = engine.get(filled, "tree")
    assert engine.put(filled, Document("tree", source, None), version)
    engine.refresh(filled)
    after = post(client, "/v1/search", index=filled, query="fire forest")
    assert {h["_id"]: h["resift"]["similarity"] for h in after["hits"]["hits"]} == pytest.approx(
        {h["_id"]: h["resift"]["similarity"] for h in before["hits"]["hits"]}, abs=1e-6
    )


def test_without_nearest_documents_there_is_still_a_ranking(
    client: FlaskClient,
    filled: str,
    engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    post(client, "/v1/feedback", session="a", index=filled, relevant=["bush"])

    def refused(*_: Any) -> list[SearchResult]:
        raise EngineError("no such field", status=400)

    monkeypatch.setattr(engine, "search_all", refused)
    with caplog.at_level(logging.CRITICAL):
        answer = post(client, "/v1/search", index=filled, query="fire", session="a")
    assert len(ids(answer)) == 5
    assert answer["resift"]["session"] == "a"
    reason = "no nearest documents: no such field; without the session's words: no such field"
    assert answer["resift"]["reason"] == reason


@pytest.mark.parametrize("engine_url", ["opensearch"], indirect=True)
def test_an_index_without_resift_is_searched_too(client: FlaskClient, engine: Engine, index: str, model: Model) -> None:
    engine.client.indices.create(index=index)  # type: ignore[attr-defined]
    engine.bulk(index, [Document(id, {"text": text}, None) for id, text in TEXTS.items()])
    engine.refresh(index)
    answer = post(client, "/v1/search", index=index, query="fire forest")
    assert answer["resift"]["reranked"] is True
    similar = model.score(model.encode(["fire forest"])[0], model.encode([TEXTS[id] for id in ids(answer)]))
    np.testing.assert_allclose([hit["resift"]["similarity"] for hit in answer["hits"]["hits"]], similar, atol=1e-5)
    assert post(client, "/v1/feedback", session="a", index=index, relevant=["bush"])["steps"] == 1


def test_an_index_of_another_model_is_an_error(
    engine: Engine, filled: str, vectors: WordVectors, config: Config
) -> None:
    client = create_app(config, engine=engine, model=build_model("boew:4", vectors)).test_client()
    for path, body in (
        ("/v1/search", {"query": "fire"}),
        ("/v1/feedback", {"session": "a", "relevant": ["bush"]}),
    ):
        error = post(client, path, 409, index=filled, **body)["error"]
        assert error["code"] == "model_mismatch"
        assert "index the documents again" in error["expected"]


def test_a_failing_model_leaves_the_engines_order(
    client: FlaskClient,
    filled: str,
    engine: Engine,
    model: Model,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("out of order")

    monkeypatch.setattr(Model, "score", broken)
    with caplog.at_level(logging.CRITICAL):
        answer = post(client, "/v1/search", index=filled, query="fire forest")
    hits = engine.search(filled, {"query": {"match": {"text": "fire forest"}}}).hits
    assert ids(answer) == [hit["_id"] for hit in hits]
    assert answer["resift"] == {"reranked": False, "reason": "reranking failed: RuntimeError"}
    with caplog.at_level(logging.CRITICAL):
        error = post(client, "/v1/rerank", 500, query="fire", documents=["x"])["error"]
    assert error["code"] == "internal_error"
    assert "out of order" not in json.dumps(error)


def test_the_callers_credentials_are_passed_on(
    plain: FlaskClient, monkeypatch: pytest.MonkeyPatch, model: Model
) -> None:
    engine = plain.application.extensions["resift"].engine
    engine.create("docs", ["text"], model)
    seen = []
    original = engine.search

    def search(*args: Any, headers: Any = None, **rest: Any) -> SearchResult:
        seen.append(headers)
        result: SearchResult = original(*args, headers=headers, **rest)
        return result

    monkeypatch.setattr(engine, "search", search)
    plain.post("/v1/search", json={"index": "docs", "query": "x"}, headers={"Authorization": "Basic eDp5"})
    post(plain, "/v1/search", index="docs", query="x")
    assert seen == [{"Authorization": "Basic eDp5"}, None]
