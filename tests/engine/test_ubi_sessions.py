"""Tests of clicks in the UBI log and their effect on searches of the same client, on each engine and end to end."""

from __future__ import annotations

import json
import re
import uuid
from base64 import b64encode
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest
from flask.testing import FlaskClient
from rewritten_node import Node
from service_app import RECORDS, TEXTS, ids, post
from ubi_events import NOW, ODD_EVENTS, event, query
from waiting import until

from resift import Model
from resift.contracts.documents import Document
from resift.contracts.engine import Engine
from resift.contracts.ubi import EVENTS, QUERIES, UbiLog
from resift.errors import EngineError
from resift.feedback.judgements import Judgement
from resift.ingest.indexing import DeadLetters, Indexer
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.query.body import parse
from resift.reranker import Config, create_app
from resift.reranker.access.keys import KeyFile
from resift.sessions.clicks import ACTIONS, CLOCK_TOLERANCE, Clicks, look_up_document_ids

SKUS = {record.id: f"sku-{record.id}" for record in RECORDS}


@pytest.fixture
def shop(engine: Engine, index: str, model: Model, tmp_path: Path) -> str:
    """Return an index whose documents have a SKU in addition to the id. The SKU of ``rain`` is not unique."""
    names = {**SKUS, "none": SKUS["rain"]}
    named = [
        replace(record, source={**record.source, "sku": names[record.id], "offer": {"sku": f"offer-{record.id}"}})
        for record in RECORDS
    ]
    assert Indexer(engine, model, index, DeadLetters(tmp_path / "dead")).run(named, ["text"]).refused == 0
    return index


@pytest.fixture
def client(engine_url: str, engine: Engine, model: Model, ubi_names: tuple[str, str], tmp_path: Path) -> FlaskClient:
    """Return the application with its own UBI log."""
    store = str(tmp_path / "sessions.db")
    config = Config(engine=engine_url, store=store, ubi_events=ubi_names[0], ubi_queries=ubi_names[1], alpha=0.5)
    return create_app(config, engine=engine, model=model).test_client()


@pytest.fixture
def refresh(engine: Engine, ubi_names: tuple[str, str]) -> Callable[[], None]:
    """Return a function that makes the log visible at once, instead of within a second."""

    def run() -> None:
        if isinstance(engine, OpenSearchEngine):
            engine.client.indices.refresh(index=",".join(ubi_names), params={"ignore_unavailable": "true"})

    return run


@pytest.fixture
def clicks(ubi_log: UbiLog, engine: Engine) -> Clicks:
    """Return the reader of the log."""
    return Clicks(ubi_log, engine, ACTIONS, 3600.0, clock=lambda: NOW)


EMBEDDED = pytest.mark.parametrize("engine_url", ["sqlite"], indirect=True)


def send(client: FlaskClient, path: str, *items: Any) -> dict[str, Any]:
    """Send events to the collector and return the response."""
    answer = client.post(path, json=list(items))
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.get_json()
    return found


def counted(client: FlaskClient, outcome: str) -> float:
    """Return the metric of an outcome."""
    found = re.search(rf'resift_ubi_total{{outcome="{outcome}"}} (\S+)', client.get("/metrics").text)
    return float(found[1]) if found else 0


def test_a_click_moves_the_same_clients_next_search_and_nobody_elses(
    client: FlaskClient, shop: str, refresh: Callable[[], None]
) -> None:
    asked: dict[str, Any] = {"index": shop, "query": "fire", "session": "anna"}
    before = ids(post(client, "/v1/search", **asked))
    send(client, "/ubi_queries", query())
    shown = [event("impression", SKUS[id], place) for place, id in enumerate(before)]
    send(client, "/ubi_events", *shown, event("click", SKUS[before[-1]], len(before) - 1))
    refresh()
    after = post(client, "/v1/search", reasons=True, **asked)
    assert ids(after).index(before[-1]) < len(before) - 1
    because = [hit["resift"]["because"] for hit in after["hits"]["hits"] if hit["resift"]["because"]]
    assert {one["document"]: one["grade"] > 0 for one in because}[before[-1]]
    for other in ("bob", "ann"):
        assert ids(post(client, "/v1/search", **{**asked, "session": other})) == before
    assert ids(post(client, "/v1/search", **{**asked, "session": "visit-1"})) == ids(after)


@pytest.mark.parametrize("engine_url", ["opensearch"], indirect=True)
def test_clicks_and_marks_on_documents_that_were_hidden_since_teach_nothing(
    client: FlaskClient, engine: OpenSearchEngine, model: Model, shop: str, refresh: Callable[[], None]
) -> None:
    name = f"{shop}-open"
    engine.client.indices.put_alias(index=shop, name=name)
    send(client, "/ubi_queries", query())
    send(client, "/ubi_events", event("click", SKUS["army"]))
    post(client, "/v1/feedback", session="anna", index=name, query="fire", relevant=["war"])
    refresh()

    def answers(client: FlaskClient) -> str:
        """Return what a search and a rewriting in the session say."""
        match = {"query": {"match": {"text": "fire"}}, "ext": {"ml_inference": {"session": "anna"}}}
        found = post(client, "/v1/search", index=name, query="fire", session="anna", reasons=True)
        rewritten = post(client, "/v1/rewrite", index=name, body=match)
        return json.dumps([found, rewritten, client.get("/v1/sessions/anna").get_json()["learned"]])

    assert {"army", "war"} <= {*re.findall(r"\w+", answers(client))}
    hiding = {"filter": {"bool": {"must_not": [{"ids": {"values": ["army", "war"]}}]}}}
    engine.client.indices.put_alias(index=shop, name=name, body=hiding)
    service = client.application.extensions["resift"]
    restarted = create_app(service.config, engine=engine, model=model).test_client()  # without caches
    hidden = {"army", "war", "gun", "soldiers"}
    assert not hidden & {*re.findall(r"\w+", answers(restarted))}


@EMBEDDED
def test_a_mark_says_more_than_a_click(client: FlaskClient, shop: str, refresh: Callable[[], None]) -> None:
    send(client, "/ubi_queries", query())
    send(client, "/ubi_events", event("purchase", SKUS["war"], 1))
    for session in ("anna", "carl"):
        post(client, "/v1/feedback", session=session, index=shop, query="fire", irrelevant=["war"])
    refresh()
    hits = [post(client, "/v1/search", index=shop, query="fire", session=one)["hits"] for one in ("anna", "carl")]
    assert hits[0] == hits[1]


def test_judgements_are_of_documents_by_the_field_that_an_event_names(
    clicks: Clicks, ubi_log: UbiLog, shop: str, refresh: Callable[[], None]
) -> None:
    by_id = event("view", event_attributes={"object": {"object_id": "wood"}}, at=NOW - 3)
    deep = event(
        "view", event_attributes={"object": {"object_id": "offer-war", "object_id_field": "offer.sku"}}, at=NOW
    )
    ubi_log.add(QUERIES, [query()])
    ubi_log.add(EVENTS, [event("click", SKUS["tree"], at=NOW - 5), by_id, deep, event("purchase", "bush"), *ODD_EVENTS])
    refresh()
    assert clicks.judgements("anna", shop) == [
        Judgement(shop, "tree", 0.5, "fire", NOW - 5, source="click"),
        Judgement(shop, "wood", 0.25, "fire", NOW - 3, source="click"),
        Judgement(shop, "war", 0.25, "fire", NOW, source="click"),
    ]


@EMBEDDED
def test_a_forbidden_log_is_not_read_again_immediately(
    clicks: Clicks, ubi_log: UbiLog, shop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def refuse(client: str, *_: Any) -> NoReturn:
        asked.append(client)
        raise EngineError("no permissions", status=403)

    monkeypatch.setattr(ubi_log, "events", refuse)
    assert [clicks.judgements("anna", shop), clicks.judgements("bob", shop)] == [[], []]
    assert asked == ["anna"]


def test_what_was_shown_is_known_from_the_query_where_its_objects_have_a_name(
    clicks: Clicks, ubi_log: UbiLog, shop: str, refresh: Callable[[], None]
) -> None:
    found = [SKUS[id] for id in ("army", "wood", "tree")]
    ubi_log.add(
        QUERIES, [query(query_response_hit_ids=found), query(id="q2", query_response_hit_ids=["0", "1", "wood"])]
    )
    # Without an object field, the plugin logs Lucene's document numbers, which may equal another document's id.
    unnamed = {"object": {"object_id": "wood"}}
    ubi_log.add(EVENTS, [event("click", SKUS["wood"]), event("click", query_id="q2", event_attributes=unnamed)])
    refresh()
    judged = {(one.document, one.grade > 0) for one in clicks.judgements("anna", shop)}
    assert judged == {("army", False), ("wood", True)}


@EMBEDDED
def test_a_name_that_several_documents_have_is_nobodys(
    clicks: Clicks, ubi_log: UbiLog, shop: str, refresh: Callable[[], None]
) -> None:
    ubi_log.add(EVENTS, [event("click", SKUS["rain"], user_query="rain"), event("click", "nothing", user_query="rain")])
    refresh()
    assert clicks.judgements("anna", shop) == []


def test_only_names_of_a_single_document_identify_it(engine: Engine, shop: str) -> None:
    names: dict[str, Any] = {"bush": "red", "wood": "red", "tree": "red", "rain": "red", "army": "blue", "war": "blue"}
    names["none"] = ["green", "olive"]
    rows = [Document(id, {"text": TEXTS[id], "colour": colour}) for id, colour in names.items()]
    assert engine.bulk(shop, rows) == []
    engine.refresh(shop)
    red, blue, green, olive = ((name, "colour") for name in ("red", "blue", "green", "olive"))
    assert look_up_document_ids(engine, shop, [red, blue]) == {}
    assert look_up_document_ids(engine, shop, [red, green]) == {green: "none"}
    assert look_up_document_ids(engine, shop, [olive, ("bush", "")]) == {olive: "none", ("bush", ""): "bush"}


@EMBEDDED
def test_marks_count_although_clicks_cannot_be_read(
    client: FlaskClient, shop: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*arguments: Any) -> NoReturn:
        raise KeyError("object_id")

    post(client, "/v1/feedback", session="anna", index=shop, query="fire", relevant=["war"])
    monkeypatch.setattr(client.application.extensions["resift"].knowledge.clicks, "judgements", fail)
    answer = post(client, "/v1/search", index=shop, query="fire", session="anna")
    assert answer["resift"]["session"] == "anna"
    assert "clicks: internal error" in answer["resift"]["reason"]
    assert "Searching without clicks" in caplog.text


@EMBEDDED
def test_unknown_objects_are_counted_and_ignored(client: FlaskClient, shop: str, refresh: Callable[[], None]) -> None:
    send(client, "/ubi_events", event("click", SKUS["tree"], query_id="q9"), event("click", "gone", user_query="fire"))
    refresh()
    answer = post(client, "/v1/search", index=shop, query="fire", session="anna")
    assert answer["resift"]["session"] is None
    assert (counted(client, "read_unknown_query"), counted(client, "read_unknown_document")) == (1, 1)


@EMBEDDED
def test_a_query_logged_after_its_click_is_used(
    ubi_log: UbiLog, engine: Engine, shop: str, refresh: Callable[[], None]
) -> None:
    clicks = Clicks(ubi_log, engine, ACTIONS, 3600.0, clock=lambda: NOW)
    ubi_log.add(EVENTS, [event("click", SKUS["tree"])])
    refresh()
    assert clicks.judgements("anna", shop) == []
    ubi_log.add(QUERIES, [query()])
    refresh()
    assert until(lambda: bool(clicks.judgements("anna", shop)))
    assert [one.document for one in clicks.judgements("anna", shop)] == ["tree"]


@EMBEDDED
def test_events_of_yesterday_and_of_tomorrow_do_not_count(
    clicks: Clicks, ubi_log: UbiLog, shop: str, refresh: Callable[[], None]
) -> None:
    times = {"tree": NOW - 3601, "wood": NOW + CLOCK_TOLERANCE + 1, "bush": NOW + CLOCK_TOLERANCE - 1}
    ubi_log.add(QUERIES, [query()])
    ubi_log.add(EVENTS, [event("click", SKUS[id], at=at) for id, at in times.items()])
    refresh()
    assert [one.document for one in clicks.judgements("anna", shop)] == ["bush"]


@EMBEDDED
def test_with_keys_clicks_are_the_clusters_and_an_admins(
    engine_url: str,
    engine: Engine,
    model: Model,
    shop: str,
    ubi_log: UbiLog,
    ubi_names: tuple[str, str],
    refresh: Callable[[], None],
    tmp_path: Path,
) -> None:
    keys = KeyFile(str(tmp_path / "keys.jsonl"))
    of = {scope: keys.create(scope, [scope]) for scope in ("search", "feedback")} | {
        "both": keys.create("both", ["search", "admin"])
    }
    config = Config(
        engine=engine_url,
        store=str(tmp_path / "s.db"),
        keys=str(tmp_path / "keys.jsonl"),
        ubi_events=ubi_names[0],
        ubi_queries=ubi_names[1],
    )
    client = create_app(config, engine=engine, model=model).test_client()
    for key, status in ((of["search"], 403), (of["feedback"], 200), ("", 401)):
        for path, item in (("/ubi_queries", query()), ("/ubi_events", event("click", SKUS["tree"], 2))):
            assert client.post(path, json=[item], headers={"X-Api-Key": key}).status_code == status
    refresh()
    sessions = []
    for key in (of["search"], of["both"]):
        asked = {"index": shop, "query": "fire", "session": "anna"}
        answer = client.post("/v1/search", json=asked, headers={"X-Api-Key": key}).get_json()
        sessions.append(answer["resift"]["session"])
    assert sessions == [None, "anna"]


def test_nobody_searches_the_log(client: FlaskClient, ubi_names: tuple[str, str], shop: str) -> None:
    send(client, "/ubi_events", event("click", SKUS["tree"]))
    for name in ubi_names:
        answer = post(client, "/v1/search", 403, index=name, query="fire")
        assert answer["error"]["code"] == "index_not_served"


@EMBEDDED
def test_without_the_log_a_search_goes_on_and_says_so(
    engine: Engine, model: Model, shop: str, nowhere: str, tmp_path: Path
) -> None:
    config = Config(engine=nowhere, store=str(tmp_path / "sessions.db"))
    client = create_app(config, engine=engine, model=model).test_client()
    answer = post(client, "/v1/search", index=shop, query="fire", session="anna")
    assert len(answer["hits"]["hits"]) == 5
    assert "clicks: no answer" in answer["resift"]["reason"]


def test_a_body_as_the_ubi_plugin_shows_it_is_read_and_put_back(
    client: FlaskClient, shop: str, refresh: Callable[[], None]
) -> None:
    send(client, "/ubi_queries", query())
    send(client, "/ubi_events", event("click", SKUS["tree"], 2, client_id="BugsBunny::Firefox@0967084"))
    refresh()
    said = {"query_id": "q7", "user_query": "fire", "client_id": "BugsBunny::Firefox@0967084"}
    shown: dict[str, Any] = {**said, "application": None, "object_id_field": None, "query_attributes": {}}
    clause = {"match": {"text": {"query": "FIRE!"}}}
    rewritten = [
        post(client, "/v1/rewrite", index=shop, body={"query": clause, "ext": ext})["body"]
        for ext in (shown, {"ubi": {**said, "query_attributes": {}}}, {"ubi": {**said, "client_id": "other"}})
    ]
    assert rewritten[0] == rewritten[1]
    assert rewritten[0]["ext"] == {"ubi": {**said, "query_attributes": {}}}
    assert rewritten[0]["rescore"] != rewritten[2]["rescore"]


def test_sections_of_plugins_are_restored_in_a_search_that_is_not_rewritten(rewritten_node: Node) -> None:
    """Neural search moves the fields of ``ext.rerank`` up into ``ext``, and OpenSearch cannot read the result."""
    sections = {"rerank": {"query_context": {"query_text": "fire"}}}
    body = {"query": {"match": {"text": "fire"}}, "sort": ["n"], "ext": sections}
    failed = rewritten_node.failed()
    hits = ids(rewritten_node.search(body))
    answer = rewritten_node.rewritten[-1]
    assert answer["resift"] == {"rewritten": False, "outcome": "sorted", "reason": "the search has 'sort'"}
    assert rewritten_node.failed() == failed
    assert json.loads(answer["body"])["ext"] == sections
    assert hits == ids(rewritten_node.plain(body))


@EMBEDDED
@pytest.mark.parametrize("ubi", ["anna", [], {"client_id": 5}, {"client_id": ""}, {"user_query": None}])
def test_an_odd_ext_of_ubi_is_left_alone(client: FlaskClient, shop: str, ubi: Any) -> None:
    body = {"query": {"match": {"text": "fire"}}, "ext": {"ubi": ubi}}
    answer = post(client, "/v1/rewrite", index=shop, body=body)
    assert answer["resift"] == {"rewritten": True, "outcome": "rewritten"}
    assert answer["body"]["ext"] == {"ubi": ubi}


@EMBEDDED
def test_a_wrapped_query_is_rewritten_as_the_same_query_is(client: FlaskClient, shop: str) -> None:
    clause = {"match": {"text": "fire"}}
    wrapped = {"wrapper": {"query": b64encode(json.dumps(clause).encode()).decode()}}
    answers = [post(client, "/v1/rewrite", index=shop, body={"query": one, "size": 3}) for one in (clause, wrapped)]
    assert answers[0] == answers[1]
    searches = [post(client, "/v1/search", index=shop, query={"query": one, "size": 3}) for one in (clause, wrapped)]
    assert searches[0]["hits"] == searches[1]["hits"]
    assert searches[0]["resift"] == searches[1]["resift"]
    for odd in ("no base64", b64encode(b"{").decode(), b64encode(b"[]").decode()):
        body = {"query": {"wrapper": {"query": odd}}}
        assert parse(body).body is body


def test_a_click_that_others_log_moves_the_same_clients_next_plain_search(rewritten_node: Node) -> None:
    node, config = rewritten_node, rewritten_node.app.config["RESIFT"]
    client_id = f"browser-{uuid.uuid4().hex}"
    body = {"query": {"match": {"text": "fire"}}, "size": 10, "ext": {"ml_inference": {"session": client_id}}}
    before = ids(node.search(body))
    by_id = {"object": {"object_id": before[-1]}, "position": {"ordinal": len(before)}}
    other = query(id="q-other", client_id=client_id, query_response_hit_ids=before)
    clicked = event("click", client_id=client_id, query_id="q-other", event_attributes=by_id)
    # Like the UBI plugin and other collectors, without waiting for a refresh.
    node.client.index(index=config.ubi_queries, body=other)
    node.client.index(index=config.ubi_events, body=clicked)
    assert until(lambda: ids(node.search(body)) != before)
    after = ids(node.search(body))
    assert after.index(before[-1]) < len(before) - 1
    assert ids(node.search({**body, "ext": {"ml_inference": {"session": "somebody-else"}}})) == before
    assert node.failed() == 0


def test_a_wrapped_query_goes_through_the_pipeline(rewritten_node: Node) -> None:
    node, clause = rewritten_node, {"match": {"text": "fire"}}
    wrapped = {"wrapper": {"query": b64encode(json.dumps(clause).encode()).decode()}}
    found = [ids(node.search({"query": one, "size": 20})) for one in (clause, wrapped)]
    assert found[0] == found[1] != ids(node.plain({"query": clause, "size": 20}))
