"""Tests of searches through the service on both engines: order, pages, parts of bodies and fallbacks."""

from __future__ import annotations

import json
import logging
import re
import threading
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from clock import Clock
from flask.testing import FlaskClient
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from msgspec import structs
from service_app import TEXTS, ids, post
from service_app import app as app
from service_app import client as client
from service_app import config as config
from service_app import filled as filled
from service_app import plain as plain

from resift import Model, WordVectors, build_model
from resift.contracts.documents import Document, IndexInfo, SearchResult
from resift.contracts.engine import Engine, Headers
from resift.errors import CorruptEngine, EngineError, EngineUnavailable, ResiftError
from resift.ingest.indexing import DeadLetters, Indexer
from resift.ingest.readers import Record
from resift.reranker import Config, create_app
from resift.service.words import THREAD_NAME
from resift.sessions.documents import join_texts, read_documents
from resift.vectors.weights import Alphas, alpha_from_beta


def test_search_reranks(client: FlaskClient, filled: str, engine: Engine, model: Model) -> None:
    body = {"multi_match": {"query": "fire forest", "fields": ["text"]}}
    hits = engine.search(filled, {"query": body, "size": 10}).hits
    similar = model.score(model.encode(["fire forest"])[0], model.encode([TEXTS[hit["_id"]] for hit in hits]))
    expected = np.array([hit["_score"] for hit in hits]) * np.exp(1 + similar)
    answer = post(client, "/v1/search", index=filled, query="fire forest", reasons=True)
    assert ids(answer) == [hits[i]["_id"] for i in np.argsort(-expected, kind="stable")]
    for hit in answer["hits"]["hits"]:
        i = [one["_id"] for one in hits].index(hit["_id"])
        # the stored vector is rounded
        assert hit["resift"]["similarity"] == pytest.approx(similar[i], abs=1e-4)
        assert hit["_score"] == pytest.approx(expected[i], rel=1e-5)
        assert "resift_vector" not in hit["_source"]
    assert answer["hits"]["max_score"] == answer["hits"]["hits"][0]["_score"]
    # Without ``reasons``, hits are unchanged.
    bare = post(client, "/v1/search", index=filled, query="fire forest")
    for hit in answer["hits"]["hits"]:
        del hit["resift"]
    assert bare | {"took": 0} == answer | {"took": 0}
    assert answer["hits"]["total"]["value"] == 5
    assert answer["resift"]["reranked"] is True
    assert answer["resift"]["model"] == model.hash


def test_alpha_zero_is_the_engines_order(client: FlaskClient, filled: str, engine: Engine) -> None:
    hits = engine.search(filled, {"query": {"match": {"text": "fire forest"}}}).hits
    assert ids(post(client, "/v1/search", index=filled, query="fire forest", alpha=0)) == [hit["_id"] for hit in hits]


def test_a_models_own_weight_counts_unless_another_is_set(tmp_path: Path, model: Model, config: Config) -> None:
    from resift.embedded.engine import SqliteEngine

    adapted = Model(model.name, model.table, model.pool, model.similarity, alphas=Alphas(alpha=0.7))
    found = {}
    for name, chosen, weight in [("plain", model, None), ("adapted", adapted, None), ("set", adapted, 0.9)]:
        engine = SqliteEngine(str(tmp_path / f"{name}.db"))
        app = create_app(structs.replace(config, alpha=weight), engine=engine, model=chosen).test_client()
        Indexer(engine, chosen, "docs", DeadLetters(tmp_path / name)).run(
            [Record("f", 0, "a", {"text": "fire and smoke"})], ["text"]
        )
        found[name] = post(app, "/v1/search", index="docs", query="fire")["resift"]["alpha"]
        engine.close()
    assert found == {"plain": 0.5, "adapted": 0.7, "set": 0.9}


def test_the_models_own_weight_shrinks_with_what_it_does_not_know(tmp_path: Path, model: Model, config: Config) -> None:
    from resift.embedded.engine import SqliteEngine

    engine = SqliteEngine(str(tmp_path / "docs.db"))
    texts = {"known": "fire fire", "unknown": "zzyzx qwfp fire", "other": "a river"}
    records = [Record("f", row, id, {"text": text}) for row, (id, text) in enumerate(texts.items())]
    Indexer(engine, model, "docs", DeadLetters(tmp_path / "dead")).run(records, ["text"])
    app = create_app(structs.replace(config, alpha=None), engine=engine, model=model).test_client()

    def alpha(query: str, **asked: Any) -> float:
        return float(post(app, "/v1/search", index="docs", query=query, **asked)["resift"]["alpha"])

    whole, half, little = (alpha(f"fire {other}".strip()) for other in ("", "zzyzx", "zzyzx qwfp"))
    assert whole == model.alpha > half > little > 0
    assert alpha("fire zzyzx", alpha=0.5) == 0.5, "who names a weight gets it"
    for session, document in (("a", "known"), ("b", "unknown")):
        post(app, "/v1/feedback", session=session, index="docs", query="fire zzyzx", relevant=[document], irrelevant=[])
    assert half < alpha("fire zzyzx", session="a") < model.alpha, "marks make up for words without vectors"
    assert alpha("fire zzyzx", session="b") < half, "and for no more words than their own texts have vectors for"
    assert alpha("fire", session="a") == model.alpha
    for asked in ({}, {"alpha": 0.5}, {"session": "a"}, {"session": "a", "alpha": 0.2}):
        for query in ("fire", "fire zzyzx", "fire zzyzx qwfp"):
            weight = alpha(query, **asked)
            assert weight == pytest.approx(_weight_in_pipeline(app, query, asked), abs=1e-5), "both weigh alike"
    engine.close()
    learned = Model(model.name, model.table, model.pool, model.similarity, alphas=Alphas(0.5, max_alpha=0.75))
    assert (model.known_share("fire zzyzx"), learned.known_share("fire zzyzx")) == (pytest.approx(0.5, abs=0.2), 1)


def test_models_learned_from_documents_leave_numbers_to_the_engine(
    tmp_path: Path, model: Model, config: Config
) -> None:
    from resift.embedded.engine import SqliteEngine

    learned = Model(model.name, model.table, model.pool, model.similarity, alphas=Alphas(0.5, max_alpha=0.75))
    engine = SqliteEngine(str(tmp_path / "shop.db"))
    texts = {"asked": "fire 18/45", "near": "fire 18/30", "marked": "a fire of 2001 and 1999", "other": "a river"}
    records = [Record("f", row, id, {"text": text}) for row, (id, text) in enumerate(texts.items())]
    Indexer(engine, learned, "shop", DeadLetters(tmp_path / "dead")).run(records, ["text"])
    app = create_app(structs.replace(config, alpha=None), engine=engine, model=learned).test_client()

    def alpha(query: str, **asked: Any) -> float:
        return float(post(app, "/v1/search", index="shop", query=query, **asked)["resift"]["alpha"])

    assert alpha("fire") == 0.5 > 2 * alpha("fire 18/45") > 0
    post(app, "/v1/feedback", session="a", index="shop", query="fire", relevant=["marked"], irrelevant=[])
    assert alpha("fire", session="a") == pytest.approx(0.5 + 0.25 / 4), "numbers in what was marked cost nothing"
    engine.close()


def _weight_in_pipeline(app: FlaskClient, query: str, asked: dict[str, Any]) -> float:
    """Return the weight of the similarity in the body that search pipelines would get."""
    body = {"query": {"match": {"text": query}}, "ext": {"ml_inference": asked}}
    rewritten = str(post(app, "/v1/rewrite", index="docs", body=body)["body"])
    (beta,) = {float(found) for found in re.findall(r"'beta': ([\d.e-]+)", rewritten)}
    return alpha_from_beta(beta)


def test_pages_belong_to_the_same_ranking(client: FlaskClient, filled: str) -> None:
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
    plain = post(client, "/v1/search", index=filled, query="fire forest smoke rain", alpha=0, size=7)
    assert ids(beyond)[3:] == ids(plain)[3:]
    scores = [[hit["_score"] for hit in answer["hits"]["hits"]] for answer in (beyond, plain)]
    assert scores[0][3:] == pytest.approx(scores[1][3:])
    assert scores[0] == sorted(scores[0], reverse=True)


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
        assert ordered["resift"] == {"reranked": False, "outcome": "sorted", "reason": "the search has 'sort'"}


def test_searches_without_hits_or_text(client: FlaskClient, filled: str) -> None:
    assert ids(post(client, "/v1/search", index=filled, query="nothing")) == []
    none = post(client, "/v1/search", index=filled, query="fire", size=0)
    assert (ids(none), none["hits"]["total"]["value"], none["resift"]["reranked"]) == ([], 5, False)
    everything = post(client, "/v1/search", index=filled, query={"match_all": {}})
    assert len(ids(everything)) == 7
    assert everything["resift"] == {"reranked": False, "outcome": "no_text", "reason": "the query has no text"}


def test_knn_brings_what_bm25_does_not_find(client: FlaskClient, filled: str) -> None:
    assert "wood" not in ids(post(client, "/v1/search", index=filled, query="smoke"))
    answer = post(client, "/v1/search", index=filled, query="smoke", knn=4)
    assert "wood" in ids(answer)
    assert answer["hits"]["total"]["value"] == len(ids(answer)) == 4
    limited = post(client, "/v1/search", index=filled, query="smoke", knn=4, filter={"term": {"n": 0}})
    assert ids(limited) == ["bush"]


def test_a_document_without_a_vector_is_similar_to_nothing(client: FlaskClient, filled: str, engine: Engine) -> None:
    assert engine.bulk(filled, [Document("tree", engine.get(filled, "tree")[0], None)]) == []
    engine.refresh(filled)
    before = post(client, "/v1/search", index=filled, query="fire forest", alpha=0)["hits"]["hits"]
    for session in (None, "a"):
        asked = {"index": filled, "query": "fire forest", "session": session, "reasons": True}
        after = post(client, "/v1/search", **asked)["hits"]["hits"]
        assert {hit["_id"] for hit in after} == {hit["_id"] for hit in before}
        found = next(hit["resift"] for hit in after if hit["_id"] == "tree")
        assert found["similarity"] is None
        if session is None:
            (own,) = (hit["_score"] for hit in before if hit["_id"] == "tree")
            assert next(hit["_score"] for hit in after if hit["_id"] == "tree") == pytest.approx(own * np.e, rel=1e-3)
            post(client, "/v1/feedback", session="a", index=filled, query="fire forest", relevant=["bush"])
        else:
            assert found["because"] is None


@pytest.mark.parametrize("engine_url", ["opensearch"], indirect=True)
def test_of_an_index_without_resift_the_words_count(client: FlaskClient, engine: Engine, index: str) -> None:
    engine.client.indices.create(index=index)  # type: ignore[attr-defined]
    engine.bulk(index, [Document(id, {"text": text}, None) for id, text in TEXTS.items()])
    engine.refresh(index)
    answer = post(client, "/v1/search", index=index, query="fire forest")
    direct = engine.search(index, {"query": {"multi_match": {"query": "fire forest", "fields": ["*"]}}})
    assert ids(answer) == [hit["_id"] for hit in direct.hits]
    assert answer["resift"] == {"reranked": False, "outcome": "nothing_to_add", "reason": "there is nothing to add"}
    assert post(client, "/v1/feedback", session="a", index=index, query="rain", relevant=["rain"])["steps"] == 1
    assert ids(post(client, "/v1/search", index=index, query="rain", session="a"))[0] == "rain"
    post(client, "/v1/feedback", session="a", index=index, query="fire forest", relevant=["army"])
    learned = post(client, "/v1/search", index=index, query="fire forest", session="a", reasons=True)
    assert (learned["resift"]["reranked"], learned["resift"]["session"]) == (True, "a")
    before, after = (ids(one).index("army") for one in (answer, learned))
    assert after < before
    assert all(hit["resift"]["similarity"] is None for hit in learned["hits"]["hits"])


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
        assert error["expected"].startswith(f"the model {error['value']}: name its folder (--model, RESIFT_MODEL")
        assert "index the documents again with boew:4" in error["expected"]


def test_an_indexs_fields_and_model_are_remembered_for_five_seconds(
    client: FlaskClient, filled: str, engine: Engine, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = client.application.extensions["resift"]
    monkeypatch.setattr(service.infos._cache, "clock", clock)
    info, field = engine.info, "text"
    monkeypatch.setattr(engine, "info", lambda *given: replace(info(*given), fields=(field,)))
    assert service.infos.get(filled).fields == ("text",)
    field = "title"
    for clock.now, expected in ((4, "text"), (6, "title")):
        assert service.infos.get(filled).fields == (expected,)
    for number in range(10):
        service.infos.get(filled, {"X-Opaque-Id": str(number)})
    field = "text"
    assert service.infos.get(filled).fields == ("title",), "what many callers see is remembered at once"


NAMES, VALUES = st.sampled_from(["Authorization", "X-Opaque-Id", "None"]), st.sampled_from(["", "None", "{}", "a", "b"])
HEADERS = st.none() | st.dictionaries(NAMES, VALUES | st.text(max_size=5), max_size=2)


@pytest.mark.parametrize("engine_url", ["sqlite"], indirect=True)  # which gets no request
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(callers=st.lists(HEADERS, min_size=2, max_size=4), allowed=st.sets(st.integers(0, 3)))
@example(callers=[None, {"Authorization": "Basic YW5uYTp4"}], allowed={0})
@example(callers=[None, {"Authorization": "Basic YW5uYTp4"}], allowed={1})
@example(callers=[{"Authorization": "None"}, {"Authorization": "Basic YW5uYTp4"}, None, {}], allowed={1, 3})
def test_index_information_is_cached_for_each_caller(
    engine: Engine, model: Model, callers: list[dict[str, str] | None], allowed: set[int]
) -> None:
    rights = [callers[number] for number in allowed if number < len(callers)]

    def info(index: str, headers: Headers = None) -> IndexInfo:
        if headers not in rights:
            raise EngineError("no permissions", status=403)
        return replace(IndexInfo.from_model(model, ["text"], index), fields=("text", repr(headers)))

    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as folder:
        patch.setattr(engine, "info", info)
        patch.setattr(engine, "resolve", lambda index, _: [index])
        app = create_app(Config(store=f"{folder}/sessions.db"), engine=engine, model=model)
        service = app.extensions["resift"]
        for headers in [*callers, *callers]:  # the second time with a filled cache
            if headers in rights:
                assert service.infos.get("news", headers).fields == ("text", repr(headers))
            else:
                with pytest.raises(EngineError, match="no permissions"):
                    service.infos.get("news", headers)
        service.sessions.store.close()


def test_vectors_that_an_index_lacks_are_encoded(engine: Engine, index: str, model: Model) -> None:
    fire, forest, river = model.encode(["fire", "forest", "river"])
    engine.create(index, ["text"], model)
    rows = {"a": ("fire", None), "b": ("not read", forest), "c": ("river", None)}
    engine.bulk(index, [Document(id, {"text": text}, vector) for id, (text, vector) in rows.items()])
    engine.refresh(index)
    found = read_documents(engine, model, engine.info(index), ["c", "a", "gone", "b"], None)
    assert [join_texts(texts) for _, texts in found.values()] == ["river", "fire", "not read"]
    np.testing.assert_allclose([vector for vector, _ in found.values()], [river, fire, forest], atol=1e-3)


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
        answer = post(client, "/v1/search", index=filled, query="fire forest", reasons=True)
    hits = engine.search(filled, {"query": {"match": {"text": "fire forest"}}}).hits
    assert ids(answer) == [hit["_id"] for hit in hits]
    assert answer["resift"] == {
        "reranked": False,
        "outcome": "failed",
        "reason": "the rewritten search failed: RuntimeError",
    }
    with caplog.at_level(logging.CRITICAL):
        error = post(client, "/v1/rerank", 500, query="fire", documents=["x"])["error"]
    assert error["code"] == "internal_error"
    assert "out of order" not in json.dumps(error)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (RuntimeError("out of order"), "rewriting failed: RuntimeError"),
        (CorruptEngine("document '1' is damaged"), "document '1' is damaged"),
        (EngineError("the cluster is overloaded", status=503), "the cluster is overloaded"),
    ],
)
def test_a_failing_rewriting_leaves_the_engines_order(
    client: FlaskClient,
    filled: str,
    engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    reason: str,
) -> None:
    def fail(*_: Any) -> None:
        raise error

    monkeypatch.setattr(client.application.extensions["resift"].knowledge, "load", fail)
    answer = post(client, "/v1/search", index=filled, query="fire forest")
    hits = engine.search(filled, {"query": {"match": {"text": "fire forest"}}}).hits
    assert ids(answer) == [hit["_id"] for hit in hits]
    assert answer["resift"] == {"reranked": False, "outcome": "failed", "reason": reason}


@pytest.mark.parametrize("error", [RuntimeError("out of order"), EngineError("overloaded", status=500)])
def test_facets_that_cannot_be_counted_leave_the_hits(
    client: FlaskClient, filled: str, engine: Engine, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: Any) -> None:
        raise error

    monkeypatch.setattr(engine, "value_counts", fail)
    answer = post(client, "/v1/search", index=filled, query="fire forest", facets=["n"])
    assert ids(answer)
    assert "facets" not in answer["resift"]
    assert answer["resift"]["outcome"] == "failed"


@pytest.mark.parametrize(
    ("error", "status"),
    [(EngineUnavailable("no node answers"), 503), (EngineError("the query is malformed", status=400), 400)],
)
def test_an_error_of_the_search_itself_is_the_answer(
    client: FlaskClient, filled: str, monkeypatch: pytest.MonkeyPatch, error: ResiftError, status: int
) -> None:
    def fail(*_: Any) -> None:
        raise error

    monkeypatch.setattr(client.application.extensions["resift"].knowledge, "load", fail)
    assert post(client, "/v1/search", status, index=filled, query="fire forest")["error"]["code"] == error.code


def test_the_callers_credentials_are_passed_on(
    plain: FlaskClient, monkeypatch: pytest.MonkeyPatch, model: Model
) -> None:
    engine = plain.application.extensions["resift"].engine
    engine.create("docs", ["text"], model)
    seen = []
    original = engine.search

    def search(index: str, body: Any, vectors: Any = None, headers: Any = None) -> SearchResult:
        if threading.current_thread().name != THREAD_NAME:  # this thread samples the words of the index
            seen.append(headers)
        result: SearchResult = original(index, body, vectors, headers=headers)
        return result

    monkeypatch.setattr(engine, "search", search)
    for uses_headers in (True, False):
        monkeypatch.setattr(engine, "uses_headers", uses_headers)
        plain.post("/v1/search", json={"index": "docs", "query": "x"}, headers={"Authorization": "Basic eDp5"})
        post(plain, "/v1/search", index="docs", query="x")
    # All callers share the caches of an engine that ignores headers.
    assert seen == [{"Authorization": "Basic eDp5"}, None, None, None]
