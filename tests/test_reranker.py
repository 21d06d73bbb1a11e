"""The HTTP API on both engines: answers, sessions, fallbacks, and bad input."""

from __future__ import annotations

import json
import logging
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flask import Flask
from flask.testing import FlaskClient

from resift import Model, WordVectors, build_model
from resift.errors import BadInput, EngineError
from resift.ingest.indexing import DeadLetters, Indexer
from resift.ingest.readers import Record
from resift.plugin.documents import Document, SearchResult
from resift.plugin.engine import Engine
from resift.plugin.vector_code import encode_vector
from resift.ranking.fusion import combine
from resift.reranker import Config, create_app
from resift.vectors.similarity import dynamax

TEXTS = {
    "bush": "fire in the bush with smoke",
    "wood": "fire in the forest with flame",
    "tree": "fire of tree and forest and smoke and bush",
    "army": "fire of the army with a gun",
    "war": "fire of a soldier in the war",
    "rain": "rain water in the river",
    "none": "zzz qqq",
}


@pytest.fixture
def filled(engine: Engine, index: str, model: Model, tmp_path: Path) -> str:
    """An index with seven documents."""
    records = [Record("f", i, id, {"text": text, "n": i}) for i, (id, text) in enumerate(TEXTS.items())]
    assert Indexer(engine, model, index, DeadLetters(tmp_path / "dead")).run(records, ["text"]).dead == 0
    return index


@pytest.fixture
def config(tmp_path: Path) -> Config:
    """Small limits, so that tests can pass them."""
    return Config(store=str(tmp_path / "sessions.db"), max_text=10_000, max_body=200_000, alpha=0.5)


@pytest.fixture
def app(engine: Engine, model: Model, config: Config) -> Flask:
    """The application over an engine of either kind."""
    return create_app(config, engine=engine, model=model)


@pytest.fixture
def client(app: Flask) -> FlaskClient:
    """Its client."""
    return app.test_client()


@pytest.fixture
def plain(tmp_path: Path, model: Model, config: Config) -> Iterator[FlaskClient]:
    """An application over an embedded engine, for what has nothing to do with engines."""
    from resift.plugin.sqlite.engine import SqliteEngine

    engine = SqliteEngine(str(tmp_path / "plain.db"))
    yield create_app(config, engine=engine, model=model).test_client()
    engine.close()


def post(client: FlaskClient, path: str, status: int = 200, **body: Any) -> dict[str, Any]:
    """The JSON answer to a POST with this status."""
    response = client.post(path, json=body)
    answer: dict[str, Any] = response.get_json()
    assert response.status_code == status, answer
    return answer


def ids(answer: dict[str, Any]) -> list[str]:
    """Ids of the hits."""
    return [hit["_id"] for hit in answer["hits"]["hits"]]


def test_embeddings(plain: FlaskClient, model: Model) -> None:
    answer = post(plain, "/v1/embeddings", input=["fire", "", "zzz", None], model=model.hash)
    assert [item["index"] for item in answer["data"]] == [0, 1, 2, 3]
    np.testing.assert_allclose(
        [i["embedding"] for i in answer["data"]], model.encode(["fire", "", "zzz", ""]), rtol=1e-6
    )
    assert len(post(plain, "/v1/embeddings", input="fire")["data"]) == 1
    assert post(plain, "/v1/embeddings", input=[])["data"] == []
    coded = post(plain, "/v1/embeddings", input=["fire", "gun"], encoding_format="base64")["data"]
    rows = [np.frombuffer(b64decode(item["embedding"]), "<f4") for item in coded]
    np.testing.assert_array_equal(rows, model.encode(["fire", "gun"]))
    answer = plain.post("/v1/embeddings", json={"input": "fire", "encoding_format": "int8"})
    assert (answer.status_code, answer.json["error"]["expected"]) == (400, "float | base64")


def test_rerank(plain: FlaskClient, model: Model) -> None:
    documents = ["gun of the army", "bush fire", "", {"text": "forest flame"}]
    answer = post(plain, "/v1/rerank", query="fire", documents=documents, return_documents=True)
    results = answer["results"]
    assert sorted(result["index"] for result in results) == [0, 1, 2, 3]
    scores = [result["relevance_score"] for result in results]
    assert scores == sorted(scores, reverse=True)
    assert results[0]["document"]["text"] in ("bush fire", "forest flame")
    expected = (1 + model.score(model.encode(["fire"])[0], model.encode(["bush fire"]))[0]) / 2
    assert next(r for r in results if r["index"] == 1)["relevance_score"] == pytest.approx(expected, abs=1e-6)
    assert len(post(plain, "/v1/rerank", query="fire", documents=documents, top_n=2)["results"]) == 2


def test_rerank_by_dynamax(plain: FlaskClient, model: Model) -> None:
    documents = ["gun of the army", "bush fire", "", "fire"]
    results = post(plain, "/v1/rerank", query="fire", documents=documents, method="dynamax")["results"]
    assert {result["index"] for result in results[:2]} == {1, 3}
    words = model.word_rows(["fire", *documents])
    for result in results:
        expected = (1 + dynamax(words[0], words[1 + result["index"]])) / 2
        assert result["relevance_score"] == pytest.approx(expected, abs=1e-6)


def test_rerank_numbers_are_what_ml_commons_can_read(plain: FlaskClient, model: Model) -> None:
    query = "fire"
    opposite = list(model.table.words)
    raw = plain.post("/v1/rerank", json={"query": query, "documents": opposite}).get_data(as_text=True)
    for number in raw.replace(" ", "").split('"relevance_score":')[1:]:
        text = number.split("}")[0].split(",")[0]
        assert "." in text
        assert "e" not in text.lower()
        assert len(text) <= 18


def test_score_keeps_the_order_of_its_input(plain: FlaskClient, model: Model) -> None:
    texts = ["gun of the army", "bush fire", "forest flame"]
    vectors = model.encode(texts).tolist()
    by_text = post(plain, "/v1/score", query="fire", documents=texts)
    by_vector = post(plain, "/v1/score", query="fire", vectors=vectors)
    assert by_text["scores"] == by_vector["scores"]
    similar = model.score(model.encode(["fire"])[0], model.encode(texts))
    np.testing.assert_allclose(by_vector["scores"], combine(np.array([0, -1, -2]), similar, 0.5), atol=1e-5)
    codes = [encode_vector(vector) for vector in model.encode(texts)]
    by_code = post(plain, "/v1/score", query="fire", vectors=codes)
    np.testing.assert_allclose(by_code["scores"], by_vector["scores"], atol=0.02)
    answer = plain.post("/v1/score", json={"query": "fire", "vectors": [codes[0], "AAAA"]})
    assert (answer.status_code, answer.json["error"]["expected"]) == (400, f"a list of codes of {model.dim} numbers")
    given = post(plain, "/v1/score", query="fire", vectors=vectors, engine_scores=[1, 5, 2], alpha=0.2)
    np.testing.assert_allclose(given["scores"], combine(np.array([1, 5, 2]), similar, 0.2), atol=1e-5)
    assert post(plain, "/v1/score", query="fire", vectors=[])["scores"] == []


def test_one_line_names_session_and_query(client: FlaskClient, filled: str, model: Model) -> None:
    post(client, "/v1/feedback", session="a", index=filled, relevant=[next(iter(TEXTS))])
    codes = [
        encode_vector(vector) for vector in model.encode(["gun of the army", "bush fire", "forest flame", "qqzzy"])
    ]
    for line, query, session in [
        ("fire", "fire", None),
        ("\nfire\narmy", "fire\narmy", None),
        ('a\nfire: of the "army"', 'fire: of the "army"', "a"),
        ("a\n", "", "a"),
    ]:
        scores = post(client, "/v1/score", query=query, session=session, vectors=codes)["scores"]
        results = post(client, "/v1/score", line=line, vectors=codes)["results"]
        assert [one["index"] for one in results] == [0, 1, 2, 3]
        np.testing.assert_allclose([one["relevance_score"] for one in results], scores, atol=1e-4)
    post(client, "/v1/score", 400, line="", vectors=codes)
    post(client, "/v1/score", 400, line="not a session\nfire", vectors=codes)


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


def test_a_sessions_words_are_highlighted_where_the_querys_are_not(client: FlaskClient, filled: str) -> None:
    asked = {"index": filled, "query": "gun", "highlight": True, "size": 9}
    assert ids(post(client, "/v1/search", **asked)) == ["army"]
    post(client, "/v1/feedback", session="a", index=filled, query="gun", relevant=["army"])
    whole = post(client, "/v1/search", **asked, session="a")["hits"]["hits"]
    shown = {hit["_id"]: hit["highlight"]["text"][0] for hit in whole if "highlight" in hit}
    assert "<em>gun</em>" in shown.pop("army")
    assert {"bush", "wood", "tree", "war"} <= set(shown)
    assert all("<em>" in text and "<em>gun" not in text for text in shown.values())
    pages = [post(client, "/v1/search", **{**asked, "size": 2}, session="a", **{"from": i}) for i in range(0, 8, 2)]
    assert [hit.get("highlight") for page in pages for hit in page["hits"]["hits"]] == [
        hit.get("highlight") for hit in whole
    ]


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


def test_feedback_changes_the_next_search_of_this_session_only(client: FlaskClient, filled: str) -> None:
    before = ids(post(client, "/v1/search", index=filled, query="fire", session="a"))
    answer = post(
        client,
        "/v1/feedback",
        session="a",
        index=filled,
        query="fire",
        relevant=["bush"],
        irrelevant=["army"],
    )
    assert answer["changed"]["shift"] > 0
    assert {(mark["document"], mark["grade"]) for mark in answer["judgements"]} == {("bush", 1), ("army", -1)}
    after = post(client, "/v1/search", index=filled, query="fire", session="a", alpha=0.9)
    assert after["resift"]["session"] == "a"
    assert set(ids(after)[:3]) == {"bush", "tree", "wood"}
    assert set(ids(after)[3:]) - {"rain"} == {"army", "war"}
    for other in (None, "b"):
        assert ids(post(client, "/v1/search", index=filled, query="fire", session=other)) == before


def test_implicit_judgements_are_noted_with_their_grades(client: FlaskClient, filled: str) -> None:
    answer = post(client, "/v1/feedback", session="a", index=filled, clicked=["bush"], skipped=["war"])
    assert [(mark["document"], mark["grade"]) for mark in answer["judgements"]] == [("bush", 0.5), ("war", -0.25)]
    marked = post(client, "/v1/feedback", session="a", index=filled, relevant=["bush"])["changed"]["shift"]
    assert marked >= 0
    again = post(client, "/v1/feedback", session="a", index=filled, clicked=["bush"])
    assert again["changed"] == {"mask": 0, "shift": 0}
    assert [mark["counts"] for mark in again["judgements"]] == [False, True, True, False]


def test_a_session_follows_what_its_documents_became(client: FlaskClient, filled: str, engine: Engine) -> None:
    post(client, "/v1/feedback", session="a", index=filled, relevant=["bush"])
    post(client, "/v1/feedback", session="b", index=filled, relevant=["bush", "war"])
    fresh = create_app(client.application.config["RESIFT"], engine=engine, model=_model(client)).test_client()
    engine.delete(filled, ["bush"])
    engine.refresh(filled)
    gone = fresh.get("/v1/sessions/a").get_json()
    assert (gone["learned"], gone["steps"]) == (None, 1)
    assert post(fresh, "/v1/search", index=filled, query="fire", session="a")["resift"]["session"] is None
    assert [one["document"] for one in fresh.get("/v1/sessions/b").get_json()["learned"]["because"]] == ["war"]
    engine.drop(filled)
    assert fresh.get("/v1/sessions/b").get_json()["steps"] == 1


def _model(client: FlaskClient) -> Model:
    model: Model = client.application.extensions["resift"].model
    return model


def test_a_session_says_why(client: FlaskClient, filled: str) -> None:
    marks = {"relevant": ["bush"], "irrelevant": ["army"]}
    learned = post(client, "/v1/feedback", session="a", index=filled, query="fire", **marks)["learned"]
    because = {one["document"]: one for one in learned["because"]}
    assert because["bush"]["title"] == TEXTS["bush"]
    assert because["bush"]["words"]
    assert set(because["bush"]["words"]) <= set(TEXTS["bush"].split())
    assert "army" in because["army"]["words"]
    hits = post(client, "/v1/search", index=filled, query="fire", session="a")["hits"]["hits"]
    plain = post(client, "/v1/search", index=filled, query="fire")["hits"]["hits"]
    before = {hit["_id"]: hit["resift"]["similarity"] for hit in plain}
    for hit in hits:
        if hit["_id"] in before:
            reason = hit["resift"]["because"]
            gain = hit["resift"]["similarity"] - before[hit["_id"]]
            assert reason["gain"] == pytest.approx(gain, abs=1e-5)
            assert reason["document"] == ("bush" if gain > 0 else "army")
    assert "because" not in plain[0]["resift"]


def test_a_session_is_exported_and_imported(client: FlaskClient, filled: str) -> None:
    post(client, "/v1/feedback", session="a", index=filled, query="fire", relevant=["bush"], skipped=["army"])
    exported = client.get("/v1/sessions/a").get_json()
    imported = client.put("/v1/sessions/b", json=exported).get_json()
    assert imported["judgements"] == exported["judgements"]
    assert imported["learned"] == exported["learned"]
    for session in ("a", "b"):
        assert post(client, "/v1/search", index=filled, query="fire", session=session)["hits"]["hits"]
    other = {"index": "other", "document": "1", "grade": -1}
    assert client.put("/v1/sessions/c", json={"judgements": [other]}).get_json()["learned"] is None
    for wrong in ({"grade": 2}, {"grade": None}, {"document": ""}, {"step": 0}, {"at": "now"}, {"index": 1}):
        answer = client.put("/v1/sessions/c", json={"judgements": [{**other, **wrong}]})
        assert (answer.status_code, answer.get_json()["error"]["code"]) == (400, "bad_input")
    assert client.delete(f"/v1/sessions?index={filled}").get_json()["deleted"] == 2
    assert client.get("/v1/sessions/a").status_code == 404
    assert client.get("/v1/sessions/c").status_code == 200
    assert client.delete("/v1/sessions").status_code == 400


def test_sessions_that_cannot_be_asked_are_left_out(
    client: FlaskClient, filled: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    plain = post(client, "/v1/search", index=filled, query="fire forest")
    store = client.application.extensions["resift"].sessions.store
    store.close()
    monkeypatch.setattr(store, "path", "/nowhere/sessions.db")
    with caplog.at_level(logging.CRITICAL):
        answer = post(client, "/v1/search", index=filled, query="fire forest", session="a")
        error = post(client, "/v1/feedback", 503, session="a", index=filled, relevant=["bush"])["error"]
    assert ids(answer) == ids(plain)
    assert (answer["resift"]["reranked"], answer["resift"]["session"]) == (True, None)
    assert "/nowhere/sessions.db" in answer["resift"]["reason"]
    assert error["code"] == "sessions_unavailable"


def test_in_a_session_documents_come_up_that_bm25_never_finds(client: FlaskClient, filled: str) -> None:
    query = "ceasefire peace"
    assert ids(post(client, "/v1/search", index=filled, query=query)) == []
    post(client, "/v1/feedback", session="a", index=filled, query=query, relevant=["army"], irrelevant=["rain"])
    answer = post(client, "/v1/search", index=filled, query=query, session="a", size=2)
    assert set(ids(answer)) == {"army", "war"}
    words = post(client, "/v1/search", index=filled, query=query, session="a", knn=0)
    assert ids(words)[0] == "army"
    assert words["hits"]["hits"][0]["resift"]["engine_rank"] is None


@pytest.mark.parametrize("engine_url", ["opensearch"], indirect=True)
def test_a_session_costs_one_round_trip_more_at_most(
    engine: Engine, engine_url: str, filled: str, model: Model, config: Config, session_index: str
) -> None:
    """Counted in both the engine's and the store's client."""
    away = replace(config, store=engine_url, session_index=session_index)
    for given, expected in ((config, {"plain": 1, "session": 1}), (away, {"plain": 1, "session": 2})):
        client = create_app(given, engine=engine, model=model).test_client()
        post(client, "/v1/feedback", session="a", index=filled, relevant=["bush"], irrelevant=["war"])
        store = client.application.extensions["resift"].sessions.store
        asked: list[str] = []
        transports = [part.client.transport for part in (engine, store) if hasattr(part, "client")]
        with pytest.MonkeyPatch.context() as patch:
            for transport in transports:

                def counted(
                    *args: Any, perform: Any = transport.perform_request, asked: Any = asked, **rest: Any
                ) -> Any:
                    asked.append(args[1])
                    return perform(*args, **rest)

                patch.setattr(transport, "perform_request", counted)
            found = {}
            for name, more in (("plain", {}), ("session", {"session": "a"})) * 2:
                asked.clear()
                assert post(client, "/v1/search", index=filled, query="fire", **more)["resift"]["reranked"]
                found[name] = len(asked)  # of the second time, when index and vectors are known
        store.delete("a")
        store.close()
        assert found == expected


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


def test_a_session_is_read_undone_and_forgotten(client: FlaskClient, filled: str) -> None:
    before = post(client, "/v1/search", index=filled, query="fire", session="a")
    post(client, "/v1/feedback", session="a", index=filled, query="fire", relevant=["war"])
    post(client, "/v1/feedback", session="a", index=filled, query="fire", irrelevant=["bush"], neutral=["war"])
    session = client.get("/v1/sessions/a").get_json()
    assert session["steps"] == 2
    assert set(session["learned"]) == {"because", "towards", "away", "asked", "stronger", "weaker"}
    assert session["learned"]["towards"] == []
    assert session["learned"]["away"]
    assert [(mark["document"], mark["counts"]) for mark in session["judgements"]] == [
        ("war", False),
        ("bush", True),
        ("war", False),
    ]
    assert post(client, "/v1/sessions/a/undo")["steps"] == 1
    assert post(client, "/v1/sessions/a/undo")["steps"] == 0
    assert ids(post(client, "/v1/search", index=filled, query="fire", session="a")) == ids(before)
    assert post(client, "/v1/sessions/a/undo", 400)["error"]["code"] == "bad_input"
    assert client.delete("/v1/sessions/a").get_json() == {"session": "a", "deleted": True}
    for response in (
        client.get("/v1/sessions/a"),
        client.delete("/v1/sessions/a"),
        client.post("/v1/sessions/a/undo"),
    ):
        assert (response.status_code, response.get_json()["error"]["code"]) == (404, "session_not_found")


def test_sessions_reach_score_and_rerank(client: FlaskClient, filled: str, model: Model) -> None:
    texts = [TEXTS["army"], TEXTS["tree"], TEXTS["rain"]]
    post(client, "/v1/feedback", session="a", index=filled, relevant=["bush"], irrelevant=["war"])
    for path, body in (
        ("/v1/rerank", {"documents": texts}),
        ("/v1/score", {"vectors": model.encode(texts).tolist()}),
    ):
        plain, learned = (
            post(client, path, query="fire", **body),
            post(client, path, query="fire", session="a", **body),
        )
        assert plain != learned
    empty = post(client, "/v1/score", query="", session="a", vectors=model.encode(texts).tolist(), alpha=1)
    assert empty["scores"][1] > empty["scores"][0]


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


BAD = [
    ("/v1/embeddings", {}, 400, "bad_input", "input"),
    ("/v1/embeddings", {"input": 3}, 400, "bad_input", "input"),
    ("/v1/embeddings", {"input": ["a", 3]}, 400, "bad_input", "input[1]"),
    ("/v1/embeddings", {"input": "x", "model": "gpt"}, 404, "model_not_found", "gpt"),
    ("/v1/embeddings", {"input": "x" * 10_001}, 413, "too_large", "10001"),
    ("/v1/embeddings", {"input": "x" * 300_000}, 413, "too_large", "Too Large"),
    ("/v1/rerank", {"query": "x"}, 400, "bad_input", "documents"),
    ("/v1/rerank", {"query": "x", "documents": ["a"], "top_n": -1}, 400, "bad_input", "top_n"),
    ("/v1/rerank", {"query": "x", "documents": ["a"], "method": "magic"}, 400, "bad_input", "method"),
    ("/v1/rerank", {"query": ["x"], "documents": ["a"]}, 400, "bad_input", "query"),
    ("/v1/score", {"vectors": [[1] * 8]}, 400, "bad_input", "query"),
    ("/v1/score", {"query": "x", "vectors": [[1, 2]]}, 400, "dimension_mismatch", "2 dimensions"),
    ("/v1/score", {"query": "x", "vectors": [[1] * 8, [1] * 7]}, 400, "dimension_mismatch", "7 dimensions"),
    ("/v1/score", {"query": "x", "vectors": [["a"] * 8]}, 400, "bad_input", "vectors"),
    ("/v1/score", {"query": "x", "vectors": {"a": 1}}, 400, "bad_input", "vectors"),
    ("/v1/score", {"query": "x", "vectors": [[1e300] * 8]}, 400, "bad_input", "vectors"),
    (
        "/v1/score",
        {"query": "x", "documents": ["a"], "engine_scores": [1, 2]},
        400,
        "bad_input",
        "engine_scores",
    ),
    (
        "/v1/score",
        {"query": "x", "documents": ["a"], "normalization": "none"},
        400,
        "bad_input",
        "normalization",
    ),
    ("/v1/score", {"query": "x", "session": "a b", "documents": ["a"]}, 400, "bad_input", "session"),
    ("/v1/search", {"query": "x"}, 400, "bad_input", "index"),
    ("/v1/search", {"index": "docs"}, 400, "bad_input", "query"),
    ("/v1/search", {"index": "docs", "query": 3}, 400, "bad_input", "query"),
    ("/v1/search", {"index": "missing", "query": "x"}, 404, "index_not_found", "missing"),
    ("/v1/search", {"index": "docs", "query": "x", "alpha": 2}, 400, "bad_input", "alpha"),
    ("/v1/search", {"index": "docs", "query": "x", "alpha": True}, 400, "bad_input", "alpha"),
    ("/v1/search", {"index": "docs", "query": "x", "size": 1.5}, 400, "bad_input", "size"),
    ("/v1/search", {"index": "docs", "query": "x", "filter": "y"}, 400, "bad_input", "filter"),
    ("/v1/search", {"index": "docs", "query": "x" * 10_001}, 413, "too_large", "query"),
    ("/v1/search", {"index": "docs", "query": {"nonsense": {}}}, 400, "unsupported_query", "nonsense"),
    ("/v1/search", {"index": "docs", "query": {"match": {"text": 5}}}, 400, "bad_input", "malformed"),
    ("/v1/search", {"index": "docs", "query": {"exists": 5}}, 400, "bad_input", "malformed"),
    ("/v1/search", {"index": "docs", "query": {"terms": {"n": {"a": 1}}}}, 400, "bad_input", "malformed"),
    ("/v1/search", {"index": "docs", "query": {"range": {"n": {"gt": 10**20}}}}, 400, "bad_input", "malformed"),
    ("/v1/search", {"index": "docs", "query": {"range": {"n": {"gt": [1]}}}}, 400, "bad_input", "malformed"),
    (
        "/v1/search",
        {"index": "docs", "query": {"query": {"match_all": {}}, "_source": 5}},
        400,
        "bad_input",
        "malformed",
    ),
    (
        "/v1/search",
        {"index": "docs", "query": {"query": {"match": {"text": "x"}}, "highlight": 5}},
        400,
        "bad_input",
        "m",
    ),
    ("/v1/search", {"index": "docs", "query": "x", "window": 0}, 400, "bad_input", "window"),
    (
        "/v1/feedback",
        {"session": "a", "index": "docs", "query": "\ud800", "relevant": ["1"]},
        400,
        "bad_input",
        "query",
    ),
    ("/v1/search", {"index": "docs", "query": "x", "session": "é"}, 400, "bad_input", "session"),
    ("/v1/feedback", {"index": "docs", "relevant": ["1"]}, 400, "bad_input", "session"),
    ("/v1/feedback", {"session": "a", "index": "docs"}, 400, "bad_input", "no document"),
    ("/v1/feedback", {"session": "a", "index": "docs", "relevant": "1"}, 400, "bad_input", "relevant"),
    (
        "/v1/feedback",
        {"session": "a", "index": "docs", "relevant": ["1"], "irrelevant": ["1"]},
        400,
        "bad_input",
        "twice",
    ),
    ("/v1/feedback", {"session": "a", "index": "docs", "relevant": ["gone"]}, 404, "not_found", "gone"),
]


@pytest.mark.parametrize(("path", "body", "status", "code", "named"), BAD)
def test_bad_input(
    plain: FlaskClient, model: Model, path: str, body: dict[str, Any], status: int, code: str, named: str
) -> None:
    engine = plain.application.extensions["resift"].engine
    engine.create("docs", ["text"], model)
    engine.bulk("docs", [Document("1", {"text": "x"}, model.encode(["x"])[0])])
    error = post(plain, path, status, **body)["error"]
    assert error["code"] == code
    assert named in error["message"]
    assert error["expected"]
    assert len(json.dumps(error)) < 1000
    assert plain.get("/healthz").status_code == 200
    assert len(post(plain, "/v1/embeddings", input="fire")["data"]) == 1


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"[1]",
        b'"x"',
        b"\xff\xfe",
        b'{"input": NaN}',
        b'{"input": -Infinity}',
        b"[" * 50_000,
        b"null",
    ],
)
@pytest.mark.parametrize("path", ["embeddings", "rerank", "score", "search", "feedback"])
def test_malformed_json(plain: FlaskClient, path: str, raw: bytes) -> None:
    response = plain.post(f"/v1/{path}", data=raw, content_type="application/json")
    assert (response.status_code, response.get_json()["error"]["code"]) == (400, "malformed_json")


def test_paths_and_methods(plain: FlaskClient) -> None:
    for response, status, code in (
        (plain.get("/nope"), 404, "no_such_path"),
        (plain.get("/v1/search"), 405, "method_not_allowed"),
        (plain.get("/v1/sessions/a%20b"), 400, "bad_input"),
    ):
        assert (response.status_code, response.get_json()["error"]["code"]) == (status, code)
    assert plain.get("/v1/search").headers["Allow"] == "OPTIONS, POST"


def test_long_texts_of_a_pipeline_are_cut_not_refused(plain: FlaskClient, model: Model) -> None:
    long = "fire " * 3000
    answer = post(plain, "/v1/embeddings", input=[long, "gun"], truncate=True)
    np.testing.assert_allclose(answer["data"][0]["embedding"], model.encode(["fire"])[0], rtol=1e-5)


def test_health_metrics_page(client: FlaskClient, filled: str, model: Model) -> None:
    assert client.get("/healthz").get_json()["model_hash"] == model.hash
    assert client.get("/readyz").get_json()["status"] == "ok"
    post(client, "/v1/search", index=filled, query="fire")
    metrics = client.get("/metrics").get_data(as_text=True)
    assert 'resift_requests_total{endpoint="api.search",status="200"} 1.0' in metrics
    page = client.get("/?index=%3Cscript%3E")
    assert page.status_code == 200
    assert '<script>"' not in page.get_data(as_text=True)
    assert 'value="&lt;script&gt;"' in page.get_data(as_text=True)


def test_an_engine_that_is_away(model: Model, config: Config) -> None:
    from resift.plugin.opensearch.engine import OpenSearchEngine

    engine = OpenSearchEngine("http://127.0.0.1:1", timeout=2)
    client = create_app(config, engine=engine, model=model).test_client()
    assert client.get("/healthz").status_code == 200
    logging.disable(logging.CRITICAL)
    try:
        ready = client.get("/readyz")
        assert (ready.status_code, ready.get_json()["error"]["code"]) == (503, "engine_unavailable")
        assert post(client, "/v1/search", 503, index="docs", query="fire")["error"]["code"] == "engine_unavailable"
    finally:
        logging.disable(logging.NOTSET)
        engine.close()


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


def test_configuration_from_the_environment() -> None:
    config = Config.from_environment({"OPENSEARCH_URL": "http://x:9200", "RESIFT_ALPHA": "0.7", "RESIFT_WINDOW": "50"})
    assert (config.engine, config.alpha, config.window, config.model) == (
        "http://x:9200",
        0.7,
        50,
        "resift-en",
    )
    assert Config.from_environment({"RESIFT_ENGINE": "a.db", "OPENSEARCH_URL": "http://x"}).engine == "a.db"
    assert Config.from_environment({}).alpha is None
    with pytest.raises(BadInput, match="alpha is 5"):
        Config.from_environment({"RESIFT_ALPHA": "5"})
    with pytest.raises(BadInput, match="RESIFT_WINDOW"):
        Config.from_environment({"RESIFT_WINDOW": "many"})
