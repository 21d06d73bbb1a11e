"""Tests of sessions in searches on both engines: effects of marks, their explanations, and what is stored."""

from __future__ import annotations

import logging
import math
from pathlib import Path
from typing import Any, NoReturn

import pytest
from clock import Clock
from flask.testing import FlaskClient
from msgspec import structs
from service_app import TEXTS, break_session_store, ids, post, wait_for_sample
from service_app import app as app
from service_app import client as client
from service_app import config as config
from service_app import filled as filled
from service_app import plain as plain

from resift import Model
from resift.cache import TtlCache
from resift.contracts.documents import Document
from resift.contracts.engine import Engine
from resift.errors import EngineUnavailable, SessionsUnavailable
from resift.feedback.judgements import Judgement
from resift.reranker import Config, create_app
from resift.service.connect import open_session_store
from resift.service.search_service import SearchService
from resift.sessions.samples import MAX_EXPANSION_WORDS, WordSelector
from resift.sessions.sessions import Sessions, StoredSession


def test_a_sessions_words_are_highlighted_where_the_querys_are_not(client: FlaskClient, filled: str) -> None:
    asked = {"index": filled, "query": "gun", "highlight": True, "size": 9}
    assert ids(post(client, "/v1/search", **asked)) == ["army"]
    # without these, three rarer words of the marked document would be the only expansion words
    post(client, "/v1/feedback", session="a", index=filled, query="gun", relevant=["tree"])
    whole = post(client, "/v1/search", **asked, session="a")["hits"]["hits"]
    shown = {hit["_id"]: hit["highlight"]["text"][0] for hit in whole if "highlight" in hit}
    assert "<em>gun</em>" in shown.pop("army")
    assert {"bush", "wood", "tree"} <= set(shown)
    assert all("<em>" in text and "<em>gun" not in text for text in shown.values())
    pages = [post(client, "/v1/search", **{**asked, "size": 2}, session="a", **{"from": i}) for i in range(0, 8, 2)]
    assert [hit.get("highlight") for page in pages for hit in page["hits"]["hits"]] == [
        hit.get("highlight") for hit in whole
    ]


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
        explain=True,
    )
    assert {(mark["document"], mark["grade"]) for mark in answer["judgements"]} == {("bush", 1), ("army", -1)}
    after = post(client, "/v1/search", index=filled, query="fire", session="a", alpha=0.9)
    assert after["resift"]["session"] == "a"
    assert set(ids(after)[:3]) == {"bush", "tree", "wood"}
    assert set(ids(after)[3:]) - {"rain"} == {"army", "war"}
    for other in (None, "b"):
        assert ids(post(client, "/v1/search", index=filled, query="fire", session=other)) == before


def test_a_search_chooses_the_method_by_which_it_learns(client: FlaskClient, filled: str) -> None:
    marks = {"session": "a", "index": filled, "query": "fire", "relevant": ["bush"], "irrelevant": ["army"]}
    post(client, "/v1/feedback", **marks)
    search = {"index": filled, "query": {"match": {"text": "fire"}}, "alpha": 0.9}
    plain = post(client, "/v1/search", **search)
    answers = {
        method: post(client, "/v1/search", **search, session="a", feedback=method)
        for method in ("mask", "lexical", "ridge+lexical")
    }
    scores = {
        method: {hit["_id"]: hit["_score"] for hit in answer["hits"]["hits"]}
        for method, answer in {"plain": plain, **answers}.items()
    }
    assert len({tuple(sorted(by_id.items())) for by_id in scores.values()}) == 4
    assert scores["ridge+lexical"] == {
        hit["_id"]: hit["_score"] for hit in post(client, "/v1/search", **search, session="a")["hits"]["hits"]
    }
    ext = {"ml_inference": {"session": "a", "feedback": "mask"}}
    rewritten = post(client, "/v1/rewrite", index=filled, body={"query": search["query"], "ext": ext})["body"]
    (stage,) = rewritten["rescore"]  # without a stage of expansion words
    similarity, sinking = stage["query"]["rescore_query"]["bool"]["should"]
    assert "mask" in similarity["function_score"]["script_score"]["script"]["params"]
    assert sinking["constant_score"]["filter"] == {"ids": {"values": ["army"]}}
    refused = post(client, "/v1/search", **search, feedback="rocchio", status=400)
    assert refused["error"]["expected"] == "lexical | mask | ridge+lexical"

    explained = client.get("/v1/sessions/a?feedback=mask").get_json()["learned"]
    assert explained["mask"]["gained"][0]["weight"] > 1 > explained["mask"]["lost"][0]["weight"]
    assert explained["asked"] == []
    default = client.get("/v1/sessions/a").get_json()["learned"]
    assert default["mask"] is None
    assert default["asked"]
    assert client.get("/v1/sessions/a?feedback=rocchio").status_code == 400


def test_a_mark_only_checks_that_its_documents_exist(
    client: FlaskClient, filled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, requests = client.application.extensions["resift"].engine, list[str]()
    for name in ("documents", "sample", "word_counts"):
        original = getattr(engine, name)

        def recorded(*args: Any, original: Any = original, name: str = name, **options: Any) -> Any:
            requests.append(name)
            return original(*args, **options)

        monkeypatch.setattr(engine, name, recorded)
    body = {"session": "a", "index": filled, "query": "fire"}
    answer = post(client, "/v1/feedback", **body, relevant=["bush"], irrelevant=["army"])
    assert set(answer) == {"session", "created", "expires", "steps"}
    assert requests == ["documents"]
    explained = post(client, "/v1/feedback", **body, relevant=["tree"], explain=True)
    assert explained == client.get("/v1/sessions/a").get_json()
    assert "sample" in requests


def test_a_malformed_session_is_reported_before_a_missing_document(client: FlaskClient, filled: str) -> None:
    response = client.post("/v1/feedback", json={"session": "a b", "index": filled, "relevant": ["missing"]})
    error = response.get_json()["error"]
    assert (response.status_code, error["code"], error["value"]) == (400, "bad_input", "a b")


def test_implicit_judgements_are_noted_with_their_grades(client: FlaskClient, filled: str) -> None:
    body = {"session": "a", "index": filled, "explain": True}
    answer = post(client, "/v1/feedback", **body, clicked=["bush"], skipped=["war"])
    assert [(mark["document"], mark["grade"]) for mark in answer["judgements"]] == [("bush", 0.5), ("war", -0.25)]
    marked = post(client, "/v1/feedback", **body, relevant=["bush"])
    again = post(client, "/v1/feedback", **body, clicked=["bush"])
    assert again["learned"] == marked["learned"]
    assert [mark["counts"] for mark in again["judgements"]] == [False, True, True, False]


def test_documents_that_are_gone_can_be_withdrawn_and_passed_over(client: FlaskClient, filled: str) -> None:
    body = {"session": "a", "index": filled, "query": "fire", "explain": True}
    post(client, "/v1/feedback", **body, relevant=["rain"])
    engine = client.application.extensions["resift"].engine
    engine.delete(filled, ["rain"])
    engine.refresh(filled)
    answer = post(client, "/v1/feedback", **body, clicked=["bush"], skipped=["rain", "war"])
    assert [one["document"] for one in answer["judgements"]] == ["rain", "bush", "war"]
    answer = post(client, "/v1/feedback", **body, neutral=["rain"])
    assert [one["document"] for one in answer["judgements"] if one["counts"]] == ["bush", "war"]
    for marks in ({"clicked": ["rain"]}, {"skipped": ["rain"]}, {"clicked": ["rain"], "skipped": ["war"]}):
        refused = client.post("/v1/feedback", json={**body, **marks})
        assert (refused.status_code, refused.get_json()["error"]["value"]) == (404, "rain")


def test_a_model_marks_by_scores(client: FlaskClient, filled: str) -> None:
    marks = {"relevant": ["tree"], "scores": {"bush": 0.8, "army": -0.3, "war": 0}}
    body = {"session": "a", "index": filled, "query": "fire", "explain": True}
    answer = post(client, "/v1/feedback", **body, **marks)
    grades = {one["document"]: (one["grade"], one["counts"]) for one in answer["judgements"]}
    assert grades == {"bush": (0.8, True), "army": (-0.3, True), "war": (0, False), "tree": (1, True)}
    again = post(client, "/v1/feedback", **body, scores={"bush": 0.1})
    assert [one["counts"] for one in again["judgements"] if one["document"] == "bush"] == [False, True]
    for wrong in ({"bush": 1.5}, {"bush": "much"}, ["bush"], {"": 1}):
        refused = post(client, "/v1/feedback", 400, session="a", index=filled, scores=wrong)
        assert refused["error"]["code"] == "bad_input"


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


def test_an_index_that_is_gone_does_not_fail_searches_of_another(
    client: FlaskClient, filled: str, engine: Engine, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, model = f"{filled}-old", _model(client)
    engine.create(old, ["text"], model)
    engine.bulk(old, [Document("1", {"text": TEXTS["bush"]}, model.encode_one(TEXTS["bush"]))])
    engine.refresh(old)
    monkeypatch.setattr(client.application.extensions["resift"].infos._cache, "clock", clock)
    post(client, "/v1/feedback", session="a", index=old, query="fire", relevant=["1"])
    engine.drop(old)
    clock.now = 6  # The index is cached for five seconds, and its documents for five minutes.
    for _ in range(2):
        found = post(client, "/v1/search", index=filled, query="fire", session="a", judged="hide")
        assert found["resift"]["session"] == "a"
        assert ids(found)[0] == "bush"
    marks = {"session": "a", "index": old, "query": "fire"}
    assert post(client, "/v1/feedback", 404, **marks, relevant=["2"], neutral=["1"])["error"]["value"] == old
    taken_back = post(client, "/v1/feedback", **marks, neutral=["1"], explain=True)
    assert (taken_back["steps"], taken_back["learned"]) == (2, None)


def _model(client: FlaskClient) -> Model:
    model: Model = client.application.extensions["resift"].model
    return model


def test_a_session_says_why(client: FlaskClient, filled: str) -> None:
    marks = {"relevant": ["bush"], "irrelevant": ["army"]}
    learned = post(client, "/v1/feedback", session="a", index=filled, query="fire", explain=True, **marks)["learned"]
    because = {one["document"]: one for one in learned["because"]}
    assert because["bush"]["title"] == TEXTS["bush"]
    assert because["bush"]["words"]
    assert set(because["bush"]["words"]) <= set(TEXTS["bush"].split())
    assert "army" in because["army"]["words"]
    body = {"index": filled, "query": "fire", "reasons": True}
    hits = post(client, "/v1/search", session="a", **body)["hits"]["hits"]
    before = ids(post(client, "/v1/search", **body))
    moved = {hit["_id"]: before.index(hit["_id"]) - rank for rank, hit in enumerate(hits)}
    assert any(moved.values())
    for hit in hits:
        reason, places = hit["resift"]["because"], moved[hit["_id"]]
        assert reason is None or (
            reason["moved"] == places and reason["document"] == ("bush" if places > 0 else "army")
        )
    assert any(hit["resift"]["because"] for hit in hits)
    plain = post(client, "/v1/search", **body)["hits"]["hits"]
    assert all("because" not in hit["resift"] for hit in plain)


def test_an_error_in_the_reasons_does_not_change_the_ranking(
    client: FlaskClient, filled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    post(client, "/v1/feedback", session="a", index=filled, query="fire", relevant=["bush"], irrelevant=["army"])
    body = {"index": filled, "query": "fire", "session": "a"}
    expected = post(client, "/v1/search", **body)

    def fail(*arguments: Any) -> NoReturn:
        raise ValueError("shapes")

    monkeypatch.setattr("resift.service.answers.explain_moves", fail)
    answer = post(client, "/v1/search", **body, reasons=True)
    assert ids(answer) == ids(expected)
    assert [hit["resift"]["because"] for hit in answer["hits"]["hits"]] == [None] * len(ids(expected))
    assert (answer["resift"]["reranked"], answer["resift"]["outcome"]) == (True, "rewritten")
    assert answer["resift"]["reason"] == "the reasons of the hits are left out: ValueError"


@pytest.mark.parametrize("query", ["", "   ", "???"])
def test_a_query_without_words_finds_nothing_in_a_session_either(client: FlaskClient, filled: str, query: str) -> None:
    post(client, "/v1/feedback", session="a", index=filled, query="fire", relevant=["tree"])
    assert ids(post(client, "/v1/search", index=filled, query="fire", session="a"))
    post(client, "/v1/feedback", session="b", index=filled, query=query, relevant=["tree"])
    for session in ("a", "b"):
        answer = post(client, "/v1/search", index=filled, query=query, session=session)
        assert answer["hits"]["total"]["value"] == 0
        assert answer["hits"]["hits"] == []


def test_a_mark_counts_for_its_query_in_upper_and_lower_case(client: FlaskClient, filled: str) -> None:
    post(client, "/v1/feedback", session="a", index=filled, query="fire", relevant=["tree"], irrelevant=["army"])
    hits = [
        post(client, "/v1/search", session="a", index=filled, query=query)["hits"]["hits"]
        for query in ("fire", "Fire", " FIRE  ", "fires")
    ]
    scores = [{hit["_id"]: hit["_score"] for hit in page} for page in hits]
    assert scores[0] == scores[1] == scores[2] != scores[3]


def test_a_reason_goes_by_places_on_every_page(client: FlaskClient, filled: str) -> None:
    post(client, "/v1/feedback", session="a", index=filled, query="fire", relevant=["war"], irrelevant=["bush"])
    body = {"index": filled, "query": "fire", "session": "a", "reasons": True}
    whole = post(client, "/v1/search", **body)["hits"]["hits"]
    paged = [
        hit for at in range(5) for hit in post(client, "/v1/search", size=1, **{**body, "from": at})["hits"]["hits"]
    ]
    assert [hit["resift"]["because"] for hit in paged] == [hit["resift"]["because"] for hit in whole]


def test_expansion_words_without_vectors_change_the_ranking(client: FlaskClient, filled: str) -> None:
    post(client, "/v1/feedback", session="a", index=filled, query="fire", relevant=["tree"], irrelevant=["army"])
    body = {"index": filled, "query": "fire", "session": "a", "alpha": 0, "reasons": True}
    hits = post(client, "/v1/search", **body)["hits"]["hits"]
    assert "tree" in [hit["resift"]["because"]["document"] for hit in hits if hit["resift"]["because"]]


def test_unavailable_sessions_are_ignored(client: FlaskClient, filled: str, caplog: pytest.LogCaptureFixture) -> None:
    plain = post(client, "/v1/search", index=filled, query="fire forest")
    path = break_session_store(client)
    with caplog.at_level(logging.CRITICAL):
        answer = post(client, "/v1/search", index=filled, query="fire forest", session="a")
        error = post(client, "/v1/feedback", 503, session="a", index=filled, relevant=["bush"])["error"]
    assert ids(answer) == ids(plain)
    assert (answer["resift"]["reranked"], answer["resift"]["session"]) == (True, None)
    assert path in answer["resift"]["reason"]
    assert error["code"] == "sessions_unavailable"


def test_marks_wait_for_a_slow_store_and_searches_do_not(
    client: FlaskClient, filled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = client.application.extensions["resift"].sessions.store
    read = store.read

    def slow(id: str, wait: bool = True) -> Any:
        """Fail without ``wait``, as a store does that takes a second to answer."""
        if not wait:
            raise SessionsUnavailable("no answer in half a second")
        return read(id, wait)

    monkeypatch.setattr(store, "read", slow)
    body = {"session": "a", "index": filled, "query": "fire", "explain": True}
    assert post(client, "/v1/feedback", **body, relevant=["bush"])["learned"]
    again = post(client, "/v1/feedback", **body, relevant=["wood"])
    assert [mark["document"] for mark in again["judgements"]] == ["bush", "wood"]
    answer = post(client, "/v1/search", index=filled, query="fire", session="a")["resift"]
    assert (answer["session"], answer["reason"]) == (None, "no answer in half a second")


def test_in_a_session_documents_come_up_that_bm25_never_finds(client: FlaskClient, filled: str) -> None:
    query = "ceasefire peace"
    assert ids(post(client, "/v1/search", index=filled, query=query)) == []
    post(client, "/v1/feedback", session="a", index=filled, query=query, relevant=["army"], irrelevant=["rain"])
    words = post(client, "/v1/search", index=filled, query=query, session="a")
    assert ids(words)[0] == "army"
    answer = post(client, "/v1/search", index=filled, query=query, session="a", size=2, knn=4)
    assert set(ids(answer)) == {"army", "war"}
    plain = post(client, "/v1/search", index=filled, query=query, session="a", widen=False)
    assert ids(plain) == []


@pytest.fixture
def shop(engine: Engine, index: str, model: Model) -> str:
    """An index with twelve jackets, three tents, and a watch that is described like the first jacket."""
    sold = {f"jacket {number}": f"jacket of {cloth}" for number, cloth in enumerate(["fire", "river", "tree"] * 4)}
    sold |= {"tent 0": "tent fire", "tent 1": "tent river", "tent 2": "tent tree", "watch": "fire watch"}
    engine.create(index, ["text"], model)
    vectors = model.encode(list(sold.values()))
    documents = zip(sold.items(), vectors, strict=True)
    assert engine.bulk(index, [Document(id, {"text": text}, vector) for (id, text), vector in documents]) == []
    engine.refresh(index)
    return index


def test_a_first_mark_narrows_a_query_that_finds_enough(client: FlaskClient, shop: str) -> None:
    post(client, "/v1/feedback", session="a", index=shop, query="jacket", relevant=["jacket 0"])
    found = post(client, "/v1/search", index=shop, query="jacket", session="a", size=20)
    assert found["hits"]["total"]["value"] == 12
    assert set(ids(found)[:4]) == {"jacket 0", "jacket 3", "jacket 6", "jacket 9"}  # those of the same cloth
    assert "watch" not in ids(found)


def test_a_mark_finds_more_for_a_query_that_finds_less_than_a_page(client: FlaskClient, shop: str) -> None:
    assert len(ids(post(client, "/v1/search", index=shop, query="tent", size=20))) == 3
    post(client, "/v1/feedback", session="a", index=shop, query="tent", relevant=["tent 0"])
    found = ids(post(client, "/v1/search", index=shop, query="tent", session="a", size=20))
    assert found[0] == "tent 0"
    assert "watch" in found


@pytest.mark.parametrize("number", [2**70, object()])
def test_hits_of_a_query_that_is_not_json_are_not_counted(engine: Engine, shop: str, number: object) -> None:
    query = {"bool": {"must": {"match": {"text": "jacket"}}, "filter": {"range": {"price": {"gt": number}}}}}
    assert WordSelector(engine).has_enough_hits(query, engine.info(shop))


@pytest.mark.parametrize("search", ["jacket", {"match": {"text": "jacket"}}])
def test_a_hit_that_was_marked_irrelevant_is_the_last(client: FlaskClient, shop: str, search: Any) -> None:
    first = ids(post(client, "/v1/search", index=shop, query=search, size=20))
    post(client, "/v1/feedback", session="a", index=shop, query="jacket", irrelevant=first[:1])
    found = ids(post(client, "/v1/search", index=shop, query=search, session="a", size=20))
    assert (len(found), found[-1]) == (12, first[0])
    # withdrawing the mark restores the order
    post(client, "/v1/feedback", session="a", index=shop, query="jacket", neutral=first[:1])
    assert ids(post(client, "/v1/search", index=shop, query=search, session="a", size=20)) == first


@pytest.mark.parametrize("search", ["fire", {"match": {"text": "fire"}}])
def test_a_hit_that_was_marked_irrelevant_keeps_its_rank_in_other_searches(
    client: FlaskClient, shop: str, search: Any
) -> None:
    first = ids(post(client, "/v1/search", index=shop, query=search))
    post(client, "/v1/feedback", session="a", index=shop, query="jacket", irrelevant=["jacket 0", "jacket 3"])
    assert ids(post(client, "/v1/search", index=shop, query=search, session="a")) == first


@pytest.mark.parametrize("engine_url", ["opensearch"], indirect=True)
def test_a_session_needs_at_most_one_more_request(
    engine: Engine, engine_url: str, filled: str, model: Model, config: Config, session_index: str
) -> None:
    """Count the requests of the engine's and the store's clients."""
    away = structs.replace(config, store=engine_url, session_index=session_index)
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
            # Nothing expires between the two measurements, even on a busy machine.
            patch.setattr(TtlCache, "seconds", property(lambda _: math.inf, lambda *_: None), raising=False)
            found = {}
            for name, more in (("plain", {}), ("session", {"session": "a"})) * 2:
                wait_for_sample()  # words are sampled in the background, which is not counted here
                asked.clear()
                assert post(client, "/v1/search", index=filled, query="fire", **more)["resift"]["reranked"]
                found[name] = len(asked)  # the second time, when the index and vectors are cached
        store.delete("a")
        store.close()
        assert found == expected


def test_a_session_is_read_undone_and_forgotten(client: FlaskClient, filled: str) -> None:
    before = post(client, "/v1/search", index=filled, query="fire", session="a")
    post(client, "/v1/feedback", session="a", index=filled, query="fire", relevant=["war"])
    post(client, "/v1/feedback", session="a", index=filled, query="fire", irrelevant=["bush"], neutral=["war"])
    session = client.get("/v1/sessions/a").get_json()
    assert session["steps"] == 2
    assert set(session["learned"]) == {"because", "towards", "away", "asked", "mask"}
    assert session["learned"]["mask"] is None  # only the method "mask" has a mask
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


def test_a_document_that_is_gone_is_remembered_for_five_minutes(
    engine: Engine, indexed: str, model: Model, clock: Clock, tmp_path: Path
) -> None:
    sessions = Sessions(open_session_store(str(tmp_path / "sessions.db"), "unused"))
    service = SearchService(engine, model, sessions, Config())
    loader = service.knowledge
    loader._contents.clock = clock
    session = StoredSession("s", 0, 9, (Judgement(indexed, "0", 1.0, "fire"), Judgement(indexed, "1", 1.0, "fire")))
    found = loader.read_judged_documents(session.effective_judgements, None)
    assert [one.judgement.document for one in found] == ["0", "1"]
    engine.delete(indexed, ["0"])
    engine.refresh(indexed)
    for clock.now, known in ((299, ["0", "1"]), (301, ["1"])):
        assert [
            one.judgement.document for one in loader.read_judged_documents(session.effective_judgements, None)
        ] == known
    # Callers see all judgements of their own sessions. Callers with their own rights only see readable documents.
    for headers, known in ((None, ["0", "1"]), ({"X-Opaque-Id": "a"}, ["1"])):
        described = service.marks.describe_session(session, headers)["judgements"]
        assert [one["document"] for one in described] == known
    sessions.store.close()


def test_documents_that_were_read_before_a_change_are_not_cached_after_it(
    client: FlaskClient, filled: str, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    service: SearchService = client.application.extensions["resift"]
    engine, knowledge, judgements = service.engine, service.knowledge, [Judgement(filled, "bush", 1.0)]
    read = engine.documents

    def read_before_a_change(*arguments: Any) -> Any:
        monkeypatch.undo()
        documents = read(*arguments)
        # As in another thread, which changes the document while this thread still has its old text.
        engine.bulk(filled, [Document("bush", {"text": "river"}, model.encode_one("river"))])
        engine.refresh(filled)
        knowledge.clear_document_cache()
        return documents

    monkeypatch.setattr(engine, "documents", read_before_a_change)
    texts = [knowledge.read_judged_documents(judgements, None)[0].text for _ in range(2)]
    assert texts == [TEXTS["bush"], "river"]


def test_an_explained_mark_reads_each_judged_document_once(
    client: FlaskClient, filled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = {"session": "a", "index": filled, "query": "fire"}
    post(client, "/v1/feedback", **body, relevant=["bush"], irrelevant=["army"])
    service = client.application.extensions["resift"]
    service.knowledge.clear_document_cache()
    read, original = list[str](), service.engine.documents
    monkeypatch.setattr(service.engine, "documents", lambda *of: (read.extend(of[1]), original(*of))[1])
    post(client, "/v1/feedback", **body, relevant=["bush", "tree"], explain=True)
    assert sorted(read) == ["army", "bush", "tree"]


def test_expansion_words_without_other_documents_are_not_searched(
    client: FlaskClient, filled: str, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = client.application.extensions["resift"]
    texts = {"serial": "bush xk2278 18305 forest", **{f"other{n}": "river forest 18305" for n in range(100)}}
    service.engine.bulk(filled, [Document(id, {"text": text}, model.encode_one(text)) for id, text in texts.items()])
    service.engine.refresh(filled)
    body = {"index": filled, "query": "gun", "session": "a"}
    answer = post(client, "/v1/feedback", **body, relevant=["serial"], explain=True)
    assert {"bush", "forest"} <= set(answer["learned"]["asked"])
    assert {"xk2278", "18305"}.isdisjoint(answer["learned"]["asked"])
    wait_for_sample()  # sampling counts words, too
    monkeypatch.setattr(service.words, "enabled", False)
    counted, original = list[Any](), service.engine.word_counts
    monkeypatch.setattr(service.engine, "word_counts", lambda *of: (counted.append(of), original(*of))[1])
    found = post(client, "/v1/rewrite", index=filled, body={"query": {"match": {"text": "gun"}}, "ext": ext_of("a")})
    assert "forest" in str(found["body"]["rescore"])
    assert "xk2278" not in str(found)
    # the explanation has counted the words, so the search needs no counts
    assert counted == []


def test_words_that_find_most_are_asked_for(client: FlaskClient, filled: str, model: Model) -> None:
    service = client.application.extensions["resift"]
    letters = "abcdefghijklmnopqrstuvwxyzäöü"  # unknown words have equal weights
    rare, often = [f"zq{one}" for one in letters], ["yqa", "yqb", "yqc"]
    marked = " ".join([*rare, *often])
    texts = {"marked": marked, "twin": marked, **{f"other{n}": " ".join(["river", *often]) for n in range(38)}}
    texts |= {f"else{n}": "river" for n in range(200)}
    service.engine.bulk(filled, [Document(id, {"text": text}, model.encode_one(text)) for id, text in texts.items()])
    service.engine.refresh(filled)
    post(client, "/v1/feedback", index=filled, query="gun", session="a", relevant=["marked"])
    found = post(client, "/v1/rewrite", index=filled, body={"query": {"match": {"text": "gun"}}, "ext": ext_of("a")})
    asked = {word for word in (*rare, *often) if f"'{word}'" in str(found["body"]["rescore"])}
    # Two documents have each rare word, and forty have the frequent words, which are still informative.
    assert len(asked) == MAX_EXPANSION_WORDS
    assert set(often) <= asked


def test_expansion_words_of_little_weight_are_not_searched(client: FlaskClient, filled: str, model: Model) -> None:
    service = client.application.extensions["resift"]
    counts = {"zqa": 150, "xqa": 4, "yqa": 1}  # unknown words: the weight of each is the square root of its count
    marked = " ".join(f"{word} " * count for word, count in counts.items())
    texts = {"marked": marked, "twin": marked, **{f"else{n}": "river" for n in range(200)}}
    service.engine.bulk(filled, [Document(id, {"text": text}, model.encode_one(text)) for id, text in texts.items()])
    service.engine.refresh(filled)
    body = {"index": filled, "query": "gun", "session": "a", "explain": True}
    answer = post(client, "/v1/feedback", **body, relevant=["marked"])
    assert answer["learned"]["asked"] == ["zqa", "xqa"]


def ext_of(session: str) -> dict[str, Any]:
    """Return an ``ext`` that names a session."""
    return {"ml_inference": {"session": session}}


def test_a_session_has_a_window_of_its_own(
    engine: Engine, model: Model, config: Config, filled: str, session_index: str
) -> None:
    given = structs.replace(config, window=60, session_index=session_index)
    client = create_app(given, engine=engine, model=model).test_client()
    assert post(client, "/v1/search", index=filled, query="fire", session="a")["resift"]["window"] == 60
    post(client, "/v1/feedback", session="a", index=filled, query="fire", relevant=["bush"])
    assert post(client, "/v1/search", index=filled, query="fire", session="a")["resift"]["window"] == 400
    assert post(client, "/v1/search", index=filled, query="fire", session="a", window=7)["resift"]["window"] == 7


def test_a_stored_change_is_reported_although_the_engine_fails_afterwards(
    client: FlaskClient, filled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    service: SearchService = client.application.extensions["resift"]
    mark = {"session": "anna", "index": filled, "query": "fire", "explain": True}
    post(client, "/v1/feedback", **mark, relevant=["bush"])

    def fail(*arguments: Any) -> NoReturn:
        raise EngineUnavailable("the engine does not answer", value="engine")

    with monkeypatch.context() as broken:
        broken.setattr(service.knowledge, "read_judged_documents", fail)
        marked = post(client, "/v1/feedback", **mark, relevant=["tree"])
        undone = post(client, "/v1/sessions/anna/undo")
        assert client.get("/v1/sessions/anna").status_code == 503
    assert [answer["steps"] for answer in (marked, undone)] == [2, 1]
    assert "the engine does not answer" in undone["notes"][0]
    assert [one["document"] for one in client.get("/v1/sessions/anna").get_json()["judgements"]] == ["bush"]
