"""POST /v1/rewrite: a search body in, the rewritten one out; what goes wrong leaves the body as it is."""

from __future__ import annotations

import json
import logging
import re
import threading
from collections import Counter
from typing import Any

import pytest
from flask.testing import FlaskClient
from msgspec import structs
from service_app import app as app
from service_app import break_session_store, post
from service_app import client as client
from service_app import config as config
from service_app import filled as filled

from resift import Model, WordVectors, build_model
from resift.cache import TtlCache
from resift.contracts.engine import Engine
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.query.body import parse
from resift.reranker import Config, create_app, queueing
from resift.reranker.access.keys import KeyFile
from resift.rewriting.options import read_options
from resift.rewriting.outcome import Outcome
from resift.sessions.loading import THREADS

QUERY = {"match": {"text": "fire"}}
BY_SENTENCE = {outcome.english: outcome.code for outcome in Outcome}


def asking(clause: Any = QUERY, **options: Any) -> dict[str, Any]:
    """A body of a search pipeline."""
    return {"query": clause, "ext": {"ml_inference": options}}


def test_options_are_read_from_either_section(client: FlaskClient, filled: str) -> None:
    post(client, "/v1/feedback", session="a", index=filled, query="fire", relevant=["bush"])
    ubi = {"application": "shop"}
    native = {"query": QUERY, "ext": {"ubi": ubi, "resift": {"session": "a", "alpha": 0.2}}}
    answer = post(client, "/v1/rewrite", index=filled, body=native)
    through_ml_inference = post(client, "/v1/rewrite", index=filled, body=asking(session="a", alpha=0.2))
    # OpenSearch without Resift's plugin refuses ext.resift, so the service removes it. Other sections stay.
    assert answer["body"]["ext"] == {"ubi": ubi}
    assert {**answer["body"], "ext": {}} == {**through_ml_inference["body"], "ext": {}}
    both = {"query": QUERY, "ext": {"resift": {"session": "a"}, "ml_inference": {"session": "b", "alpha": 0.2}}}
    rewritten = post(client, "/v1/rewrite", index=filled, body=both)["body"]
    assert {**rewritten, "ext": {}} == {**answer["body"], "ext": {}}


KNOWN_KEYS = "known keys: window, alpha, widen, knn, judged, feedback, without, query, session, scroll"


def test_unknown_keys_are_ignored_and_named(
    client: FlaskClient, filled: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(queueing, "_LOG_SECONDS", 0.0)
    post(client, "/v1/feedback", session="a", index=filled, query="fire", relevant=["bush"])
    misspelt = {"query": QUERY, "ext": {"resift": {"sesion": "a", "limit": 3}}}
    expected = f"ext.resift has the unknown keys 'sesion', 'limit' ({KNOWN_KEYS})"
    assert expected in post(client, "/v1/rewrite", index=filled, body=misspelt)["resift"]["reason"]
    assert expected in post(client, "/v1/search", index=filled, query=misspelt)["resift"]["reason"]
    assert expected in caplog.text
    # Other search processors may have options of their own in this section.
    caplog.clear()
    answer = post(client, "/v1/rewrite", index=filled, body=asking(session="a", Aplha=0.2, limit=3))
    expected = f"ext.ml_inference has the unknown key 'Aplha' ({KNOWN_KEYS})"
    assert answer["resift"] == {"rewritten": True, "outcome": "in_part", "reason": expected, "warning": True}
    assert expected in caplog.text
    caplog.clear()
    answer = post(client, "/v1/rewrite", index=filled, body=asking(session="a", limit=3))
    assert answer["resift"] == {"rewritten": True, "outcome": "rewritten"}
    assert caplog.text == ""


def test_the_section_is_removed_from_a_body_that_is_not_rewritten(client: FlaskClient) -> None:
    body = {"query": QUERY, "size": 3, "ext": {"resift": {"session": "a"}}}
    answer = post(client, "/v1/rewrite", index="missing", body=body)
    assert answer["resift"]["rewritten"] is False
    assert answer["body"] == {"query": QUERY, "size": 3}


def test_a_malformed_section_is_reported(client: FlaskClient, filled: str) -> None:
    answer = post(client, "/v1/rewrite", index=filled, body={"query": QUERY, "ext": {"resift": "x"}})
    assert answer["body"] == {"query": QUERY}
    assert answer["resift"]["reason"].startswith("failed: ext.resift is malformed")


FIRE, OTHER = {"match": {"text": "fire"}}, {"match": {"text": "army"}}


@pytest.mark.parametrize(
    ("clause", "text"),
    [
        ({"bool": {"must_not": [OTHER], "should": [FIRE]}}, "fire"),
        ({"bool": {"filter": [OTHER], "must_not": [OTHER], "should": [FIRE]}}, "fire"),
        ({"bool": {"filter": [FIRE], "must_not": [OTHER]}}, ""),
        ({"bool": {"must_not": [OTHER]}}, ""),
        ({"boosting": {"negative": OTHER, "positive": FIRE, "negative_boost": 0.2}}, "fire"),
        ({"function_score": {"functions": [{"filter": OTHER, "weight": 2}], "query": FIRE}}, "fire"),
        ({"constant_score": {"filter": FIRE}}, "fire"),
        ({"match": {"filter": "fire"}}, "fire"),
        ({"match_phrase_prefix": {"text": {"query": "fire"}}}, "fire"),
        ({"match_bool_prefix": {"text": "fire"}}, "fire"),
    ],
)
def test_a_body_asks_for_the_text_that_hits_are_to_have(clause: Any, text: str) -> None:
    assert read_options(parse({"query": clause})).text == text


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("bush fire", "bush fire"),
        ("title:(bush fire)^2 AND text:sydney~1", "(bush fire) sydney"),
        ('fire NOT army -text:"cease fire" !(sale OR shop)', "fire"),
        ("fire AND year:[1990 TO 1999] AND n:>=5 AND _exists_:title", "fire"),
        ("e-mail of a\\:b", "e-mail of a\\:b"),
        ("-army", ""),
        ("*:*", ""),
    ],
)
def test_a_query_string_asks_for_its_words_alone(query: str, text: str) -> None:
    assert read_options(parse({"query": {"query_string": {"query": query}}})).text == text


def test_words_excluded_by_a_simple_query_string_are_not_searched() -> None:
    assert read_options(parse({"query": {"simple_query_string": {"query": "fire + bush -army"}}})).text == "fire + bush"


def test_the_text_of_a_filter_is_not_asked_for(client: FlaskClient, filled: str) -> None:
    for query in ('tag:old OR tag:"brand new"', "fire AND tag:old"):
        browsing = {"bool": {"must": {"match_all": {}}, "filter": [{"query_string": {"query": query}}]}}
        assert read_options(parse({"query": browsing})).text == ""
    body = {"query": {"bool": {"must": {"match_all": {}}, "filter": {"query_string": {"query": "tag:old"}}}}}
    answer = post(client, "/v1/rewrite", index=filled, body=body)
    assert answer == {
        "body": body,
        "resift": {"rewritten": False, "outcome": "no_text", "reason": "the query has no text"},
    }


def rewrites(client: FlaskClient) -> dict[str, float]:
    """How often what became of a search."""
    lines = re.findall(r'^resift_rewrites_total\{outcome="(.*?)"\} (.*)$', metrics(client), re.MULTILINE)
    return {outcome: float(count) for outcome, count in lines}


def metrics(client: FlaskClient) -> str:
    return str(client.get("/metrics").get_data(as_text=True))


def test_the_engine_runs_what_comes_back_as_a_search_does(client: FlaskClient, filled: str, engine: Engine) -> None:
    post(client, "/v1/feedback", session="a", index=filled, query="fire", relevant=["bush"], irrelevant=["army"])
    for options in (
        {},
        {"session": "a"},
        {"session": "a", "alpha": 0.2, "window": 2},
        {"judged": "hide", "session": "a"},
    ):
        answer = post(client, "/v1/rewrite", index=filled, body=asking(**options))
        assert answer["resift"] == {"rewritten": True, "outcome": "rewritten"}
        assert answer["body"]["ext"] == {"ml_inference": options}
        body = {name: value for name, value in answer["body"].items() if name != "ext"}
        found = [(hit["_id"], hit["_score"]) for hit in engine.search(filled, body).hits]
        searched = post(client, "/v1/search", index=filled, query=QUERY, **options)["hits"]["hits"]
        assert found == [(hit["_id"], hit["_score"]) for hit in searched]
        again = post(client, "/v1/rewrite", index=filled, body=answer["body"])
        assert again == {
            "body": answer["body"],
            "resift": {"rewritten": False, "outcome": "already_rewritten", "reason": "the query is rewritten already"},
        }
    assert rewrites(client) == {"rewritten": 4, "already_rewritten": 4}


def test_the_query_text_may_stand_beside_the_query(client: FlaskClient, filled: str) -> None:
    body = {"bool": {"filter": [{"range": {"n": {"gte": 0}}}], "should": [{"match_all": {}}]}}
    without = post(client, "/v1/rewrite", index=filled, body=asking(body))
    assert without["resift"] == {"rewritten": False, "outcome": "no_text", "reason": "the query has no text"}
    assert post(client, "/v1/rewrite", index=filled, body=asking(body, query="fire"))["resift"]["rewritten"] is True


@pytest.mark.usefixtures("engine")
def test_the_body_is_returned_as_json_text_on_request(client: FlaskClient, filled: str) -> None:
    body = {**asking(), "post_filter": {"terms": {"n": [2**63 - 1], "t": ['\ud800"\\ ${body}']}}}
    plain = post(client, "/v1/rewrite", index=filled, body=body)
    text = post(client, "/v1/rewrite", index=filled, body=body, as_text=True)
    assert json.loads(text["body"]) == plain["body"]
    assert text["resift"] == plain["resift"] == {"rewritten": True, "outcome": "rewritten"}


def test_a_scroll_is_not_rescored(client: FlaskClient, filled: str) -> None:
    post(client, "/v1/feedback", session="a", index=filled, query="fire", relevant=["bush"])
    for stated, options in (({"scroll": True}, {}), ({}, {"scroll": True})):
        answer = post(client, "/v1/rewrite", index=filled, body=asking(session="a", **options), **stated)
        assert answer["resift"]["outcome"] == "sliced_scroll"
        # the words of the session count, but not the similarity
        assert "rescore" not in answer["body"]
        assert answer["body"]["query"]["bool"]["should"]


@pytest.mark.usefixtures("engine")
def test_vectors_are_excluded_from_source_on_request(client: FlaskClient, filled: str) -> None:
    def asked(source: Any, **body: Any) -> Any:
        body |= {} if source is None else {"_source": source}
        return post(client, "/v1/rewrite", index=filled, body={**asking(), **body}, hide_vectors=True)["body"].get(
            "_source"
        )

    hidden = ["resift_vector*", "resift_needs_mapping"]
    assert asked(None) == {"excludes": hidden}
    assert asked(["t*"]) == {"includes": ["t*"], "excludes": hidden}
    assert asked(["title", "resift_vector"]) == {"includes": ["title", "resift_vector"]}
    assert asked(False) is False
    assert asked({"includes": 3}) == {"includes": 3}  # for OpenSearch to say what is wrong
    assert asked(None, stored_fields=["_none_"]) is None


COMES_BACK: list[tuple[dict[str, Any], str]] = [
    ({"query": "fire"}, "the query has no text"),
    ({"query": [1]}, "the query has no text"),
    ({"query": {}}, "the query has no text"),
    ({"query": {**QUERY, "term": {"n": 1}}}, "the query is malformed"),
    ({}, "the query has no text"),
    ({"query": QUERY, "size": 0}, "no hits are requested"),
    ({"query": QUERY, "sort": ["n"]}, "the search has 'sort'"),
    ({"query": {"hybrid": {"queries": [QUERY]}}}, "there is nothing to add"),
    ({"query": {"hybrid": [QUERY]}}, "the query is malformed"),
    ({"query": QUERY, "ext": {"ml_inference": "x"}}, "failed: ext.ml_inference is malformed"),
    (asking(session="a b"), "failed: malformed session id"),
    (asking(session=3), "failed: session is 3"),
    (asking(alpha=2), "failed: alpha is 2"),
    (asking(alpha=True), "failed: alpha is True"),
    (asking(alpha="0.5"), "failed: alpha is '0.5'"),
    (asking(window=0), "failed: window is 0"),
    (asking(window=2.5), "failed: window is 2.5"),
    (asking(knn=-1), "failed: knn is -1"),
    (asking(widen=1), "failed: widen is 1"),
    (asking(judged="away"), "failed: judged is 'away'"),
    (asking(query=["fire"]), "failed: query is"),
    (asking({"match": {"text": "f" * 10_001}}), "failed: a text of the body has 10001 characters"),
]


def test_a_body_that_cannot_be_rewritten_comes_back(
    client: FlaskClient, filled: str, caplog: pytest.LogCaptureFixture
) -> None:
    counted: Counter[str] = Counter()
    for body, reason in COMES_BACK:
        with caplog.at_level(logging.ERROR):
            answer = post(client, "/v1/rewrite", index=filled, body=body)
        assert answer["body"] == body
        assert answer["resift"]["rewritten"] is False, body
        assert answer["resift"]["reason"].startswith(reason), body
        assert caplog.text == "", body
        outcome = "failed" if reason.startswith("failed") else BY_SENTENCE[reason]
        assert answer["resift"]["outcome"] == outcome, body
        counted[outcome] += 1
        assert rewrites(client) == counted, body


def test_the_ends_of_numbers_are_taken(client: FlaskClient, filled: str) -> None:
    for options in ({"window": 1}, {"window": 1000}, {"alpha": 0.01}, {"alpha": 1}, {"knn": 0}, {"knn": 1000}):
        answer = post(client, "/v1/rewrite", index=filled, body=asking(widen=True, **options))
        assert answer["resift"] == {"rewritten": True, "outcome": "rewritten"}, options
        if "window" in options:
            assert answer["body"]["rescore"][-1]["window_size"] == options["window"]
    # by the words alone there is nothing to add, which is no failure
    alone = post(client, "/v1/rewrite", index=filled, body=asking(alpha=0))["resift"]
    assert alone == {"rewritten": False, "outcome": "nothing_to_add", "reason": "there is nothing to add"}


def test_a_body_of_many_levels_comes_back(client: FlaskClient, filled: str) -> None:
    query: dict[str, Any] = QUERY
    for _ in range(150):
        query = {"bool": {"must": query}}
    answer = post(client, "/v1/rewrite", index=filled, body={"query": query})
    assert answer["body"] == {"query": query}
    assert "nested more than 100 levels deep" in answer["resift"]["reason"]


@pytest.mark.parametrize("engine_url", ["opensearch"], indirect=True)
def test_a_body_without_options_comes_back_as_it_was_written(
    client: FlaskClient, engine: OpenSearchEngine, index: str
) -> None:
    """The service does not parse such a body if the index has no vectors of Resift."""
    engine.client.indices.create(index=index)
    body = '{"size": 1e1,  "query": {"match": {"text": "fire"}}}'
    sent = f'{{"index": "{index}", "body": {body}}}'
    answer = client.post("/v1/rewrite", data=sent, content_type="application/json")
    engine.client.indices.delete(index=index)
    assert body in answer.text
    assert answer.get_json()["resift"]["outcome"] == "nothing_to_add"


@pytest.mark.parametrize("engine_url", ["opensearch"], indirect=True)
def test_a_search_says_that_its_session_is_not_loaded_yet(
    client: FlaskClient, engine: OpenSearchEngine, index: str
) -> None:
    for id, text in (("1", "forest fire"), ("2", "gun fire")):
        engine.client.index(index=index, id=id, body={"text": text}, refresh=True)
    body = {"query": {"match": {"text": "fire"}}, "ext": {"resift": {"session": "a"}}}
    post(client, "/v1/feedback", session="a", index=index, query="fire", relevant=["1"])
    loader = client.application.extensions["resift"].knowledge.loader
    loader.start()
    release = threading.Event()
    busy = [loader.submit(number, lambda: release.wait(60)) for number in range(THREADS)]
    try:
        answer = post(client, "/v1/rewrite", index=index, body=body)["resift"]
    finally:
        release.set()
    assert answer == {
        "rewritten": False,
        "outcome": "session_not_loaded",
        "reason": "there is nothing to add without the session; the session is still being loaded",
        "warning": True,
    }
    assert rewrites(client)["session_not_loaded"] == 1
    for call in busy:
        call.result(60)
    assert post(client, "/v1/rewrite", index=index, body=body)["resift"]["outcome"] == "rewritten"
    engine.client.indices.delete(index=index)


def test_no_search_waits_for_documents_that_were_removed_from_the_cache(client: FlaskClient, filled: str) -> None:
    knowledge = client.application.extensions["resift"].knowledge
    knowledge.loader.start()
    body = asking(session="a")
    post(client, "/v1/feedback", session="a", index=filled, query="fire", relevant=["bush"])
    post(client, "/v1/search", index=filled, query=QUERY, session="a")  # waits for the session longer than a pipeline
    release = threading.Event()
    for number in range(THREADS):
        knowledge.loader.submit(number, lambda: release.wait(60))
    try:
        assert "reason" not in post(client, "/v1/rewrite", index=filled, body=body)["resift"]
        knowledge._contents = TtlCache(1, 300.0)
        assert "still being loaded" in post(client, "/v1/rewrite", index=filled, body=body)["resift"]["reason"]
    finally:
        release.set()


@pytest.mark.parametrize("engine_url", ["opensearch"], indirect=True)
def test_a_search_says_that_the_marked_documents_no_longer_exist(
    client: FlaskClient, engine: OpenSearchEngine, index: str
) -> None:
    old, alias = f"{index}-old", f"{index}-alias"
    for name in (old, index):
        engine.client.index(index=name, id="1", body={"text": "forest fire"}, refresh=True)
    engine.client.indices.put_alias(index=index, name=alias)
    # The first mark names the hit's own index, which is then deleted, and the second one the alias.
    post(client, "/v1/feedback", session="a", index=old, query="fire", relevant=["1"])
    post(client, "/v1/feedback", session="b", index=alias, query="fire", relevant=["1"])
    engine.client.indices.delete(index=old)
    client.application.extensions["resift"].knowledge.clear_document_cache()
    answers = [
        post(client, "/v1/rewrite", index=alias, body={"query": QUERY, "ext": {"resift": {"session": session}}})
        for session in ("a", "b")
    ]
    assert answers[0]["resift"] == {
        "rewritten": False,
        "outcome": "nothing_to_add",
        "reason": "there is nothing to add; marked documents that no longer exist: 1",
    }
    assert answers[1]["resift"]["outcome"] == "rewritten"


def test_what_is_no_body_is_refused(client: FlaskClient, filled: str) -> None:
    for broken in (None, [], "text", 3):
        assert post(client, "/v1/rewrite", 400, index=filled, body=broken)["error"]["code"] == "bad_input", broken


def test_another_model_is_refused(filled: str, model: Model, client: FlaskClient) -> None:
    wrong = post(client, "/v1/rewrite", 404, index=filled, model="0" * 16, body=asking())["error"]
    assert wrong["code"] == "model_not_found"
    assert post(client, "/v1/rewrite", index=filled, model=model.hash, body=asking())["resift"]["rewritten"] is True


# Nodes with system indices warn about "*".
@pytest.mark.filterwarnings("ignore:this request accesses system indices")
def test_an_index_that_cannot_be_rewritten_for_leaves_the_body_unchanged(
    engine: Engine, filled: str, model: Model, vectors: WordVectors, config: Config, client: FlaskClient
) -> None:
    """The search itself may tolerate the index, for example with ``ignore_unavailable``."""
    other = create_app(config, engine=engine, model=build_model("boew:4", vectors)).test_client()
    narrow = create_app(structs.replace(config, indices=("news-*",)), engine=engine, model=model).test_client()
    unavailable = "the index {!r} does not exist, or it is not served"
    for asked, index, outcome, reason in (
        (client, "none-such", "index_unavailable", unavailable),
        (client, "none-such-*", "index_unavailable", unavailable),
        (client, f"{filled},none-such", "index_unavailable", unavailable),
        (narrow, filled, "index_unavailable", unavailable),
        (narrow, "none-such", "index_unavailable", unavailable),
        (narrow, "*", "index_unavailable", unavailable),
        (narrow, "_all", "index_unavailable", unavailable),
        (other, filled, "failed", "has vectors of model"),
    ):
        answer = post(asked, "/v1/rewrite", index=index, body=asking(), hide_vectors=True)
        assert answer["body"] == asking()
        assert (answer["resift"]["rewritten"], answer["resift"]["outcome"]) == (False, outcome), index
        assert reason.format(index) in answer["resift"]["reason"]


def test_a_session_is_whose_who_knows_its_id_through_the_cluster(
    engine: Engine, filled: str, model: Model, config: Config, tmp_path: Any
) -> None:
    """The pipeline's key is the cluster's: it cannot tell which caller's search it rewrites."""
    path = str(tmp_path / "keys.jsonl")
    keys = KeyFile(path)
    anna, cluster = keys.create("anna", ["search", "feedback"]), keys.create("cluster", ["search", "embed"])
    client = create_app(structs.replace(config, keys=path), engine=engine, model=model).test_client()

    def asked(key: str, path: str, **body: Any) -> dict[str, Any]:
        answer: dict[str, Any] = client.post(path, json=body, headers={"X-Api-Key": key}).get_json()
        return answer

    asked(anna, "/v1/feedback", session="a", index=filled, query="fire", relevant=["bush"], irrelevant=["army"])
    plain = asked(cluster, "/v1/rewrite", index=filled, body=asking())
    learned = asked(cluster, "/v1/rewrite", index=filled, body=asking(session="a"))
    assert learned["resift"] == {"rewritten": True, "outcome": "rewritten"}
    assert learned["body"]["rescore"] != plain["body"]["rescore"]
    # nothing else of another's session is to be had
    refused = asked(cluster, "/v1/search", index=filled, query="fire", session="a")
    assert refused["resift"]["session"] is None


def test_without_the_sessions_a_search_is_rewritten_all_the_same(
    client: FlaskClient, filled: str, caplog: pytest.LogCaptureFixture
) -> None:
    post(client, "/v1/feedback", session="a", index=filled, query="fire", relevant=["bush"])
    plain = post(client, "/v1/rewrite", index=filled, body=asking())
    path = break_session_store(client)
    with caplog.at_level(logging.CRITICAL):
        answer = post(client, "/v1/rewrite", index=filled, body=asking(session="a"))
    assert answer["body"]["rescore"] == plain["body"]["rescore"]
    assert (answer["resift"]["rewritten"], answer["resift"]["outcome"]) == (True, "in_part")
    assert path in answer["resift"]["reason"]


def test_a_failing_model_leaves_the_body(
    client: FlaskClient, filled: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("out of order")

    monkeypatch.setattr(Model, "encode_one", broken)
    with caplog.at_level(logging.CRITICAL):
        answer = post(client, "/v1/rewrite", index=filled, body=asking())
    assert answer == {
        "body": asking(),
        "resift": {"rewritten": False, "outcome": "failed", "reason": "failed: RuntimeError"},
    }
    assert rewrites(client) == {"failed": 1}


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"session": "a", "alpha": 7}, "alpha is 7"),
        ({"session": "a", "judged": "hid"}, "judged is 'hid'"),
        ({"session": 5}, "session is 5"),
    ],
)
def test_the_reason_of_a_failed_rewriting_is_logged(
    client: FlaskClient,
    filled: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, object],
    reason: str,
) -> None:
    monkeypatch.setattr(queueing, "_LOG_SECONDS", 0.0)
    monkeypatch.setattr(queueing.failed_log, "_count", 0)  # failures of other tests, which no message has counted yet
    body = {"query": {"match": {"text": "fire"}}, "ext": {"ml_inference": options}}
    answer = client.post("/v1/rewrite", json={"index": filled, "body": body}).get_json()
    assert answer["resift"]["outcome"] == "failed"
    assert reason in answer["resift"]["reason"]
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    (message,) = (warning for warning in warnings if warning.startswith("Not rewritten"))
    assert message.startswith(f"Not rewritten: 1 searches failed, the latest because {reason}")


def test_a_body_is_restored_once_and_an_error_in_this_does_not_fail_the_search(
    client: FlaskClient, filled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Any] = []

    def decode(clause: Any) -> Any:
        calls.append(clause)
        return {}

    monkeypatch.setattr("resift.query.body._decode_wrapper_clause", decode)
    body = {"query": QUERY, "ext": {"resift": {"session": "a"}}}
    assert post(client, "/v1/rewrite", index=filled, body=body)["resift"]["outcome"] != "failed"
    assert calls == [QUERY]

    def fail(clause: Any) -> Any:
        raise KeyError("an unexpected clause")

    monkeypatch.setattr("resift.query.body._decode_wrapper_clause", fail)
    answer = post(client, "/v1/rewrite", index=filled, body=body)
    assert (answer["body"], answer["resift"]["outcome"]) == ({"query": QUERY}, "failed")
