"""Tests of the UBI collector: events of ubi.js are stored, and malformed events are counted without an error."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from clock import Clock
from flask.testing import FlaskClient
from kept_memory import keeps_less_than
from ubi_events import LOST_EVENTS, NOW, ODD_EVENTS, event, query

from resift import Model
from resift.contracts.ubi import END_OF_TIME, EVENTS, QUERIES, UbiLog
from resift.errors import QuotaExceeded
from resift.reranker import Config, create_app
from resift.reranker.collector import MAX_ITEM_BYTES, MAX_ITEMS, MAX_ITEMS_PER_MINUTE, Collector
from resift.service.connect import open_ubi_log
from resift.sessions.quotas import Quotas
from resift.sessions.trials import ShownPage, Trial

ORIGIN = "https://shop.example"


@pytest.fixture
def log(tmp_path: Path) -> Iterator[UbiLog]:
    """Return an empty log in a file."""
    found = open_ubi_log(str(tmp_path / "log.db"), "", "")
    yield found
    found.close()


@pytest.fixture
def clock() -> Clock:
    """Return a clock that is set to a whole minute."""
    clock = Clock()
    clock.now = NOW - NOW % 60
    return clock


@pytest.fixture
def collector(log: UbiLog, clock: Clock) -> Collector:
    """Return a collector with this log and clock."""
    return Collector(log, Quotas(marks=2, bytes=10**6, clock=clock), clock)


@pytest.fixture
def client(model: Model, tmp_path: Path) -> FlaskClient:
    """Return an application over an embedded engine, which pages of another origin may use."""
    config = Config(engine=str(tmp_path / "engine.db"), cors=(ORIGIN,), max_body=2_000_000)
    return create_app(config, model=model).test_client()


def objects(log: UbiLog) -> list[str]:
    """Return the object ids of the stored events."""
    return [one.object for one in log.scan()]


def test_what_ubi_js_sends_is_stored(collector: Collector, log: UbiLog) -> None:
    assert collector.store(EVENTS, [event("click", "A1", 1)]) == {"stored": 1}
    assert collector.store(QUERIES, [query()]) == {"stored": 1}
    (found,) = log.scan()
    assert (found.action, found.client, found.object, found.at) == ("click", "anna", "A1", NOW)
    assert log.queries(["q1"])["q1"].text == "fire"


def test_a_key_stores_no_more_than_its_quota_of_a_day(collector: Collector, log: UbiLog, clock: Clock) -> None:
    assert collector.store(EVENTS, [event("click", name, 1) for name in "ab"], "shop") == {"stored": 2}
    with pytest.raises(QuotaExceeded, match="'shop' has reached its daily limit of marks"):
        collector.store(QUERIES, [query()], "shop")
    assert len(objects(log)) == 2
    assert collector.store(EVENTS, [event("click", "c", 1)], "other") == {"stored": 1}
    assert collector.store(EVENTS, [event("click", "d", 1)] * 3) == {"stored": 3}  # without an API key
    large = {**event("click", "e", 1), "message": "x" * 10_000}
    collector.quotas.limits["marks"] = 0
    assert collector.store(EVENTS, [large] * 100, "large") == {"stored": 100}
    with pytest.raises(QuotaExceeded, match="'large' has reached its daily limit of bytes"):
        collector.store(EVENTS, [event("click", "f", 1)], "large")
    collector.quotas.limits["marks"] = 2
    clock.now += 86_400
    assert collector.store(QUERIES, [query()], "shop") == {"stored": 1}


def test_odd_events_are_stored_and_malformed_ones_dropped(collector: Collector, log: UbiLog) -> None:
    whole = [one for one in LOST_EVENTS if one.get("action_name")]
    sent: list[Any] = [*ODD_EVENTS, *whole, {"client_id": "anna"}, 3, None, [], "x", event(""), event("a\ud800")]
    taken = collector.store(EVENTS, sent)
    # Two items have no valid time, and get the current time.
    assert taken == {"stored": len(ODD_EVENTS) + len(whole), "malformed": 7, "clock": len(whole)}
    assert len(objects(log)) == len(ODD_EVENTS) + len(whole)


def test_integer_ids_are_stored_as_texts(collector: Collector, log: UbiLog) -> None:
    assert collector.store(QUERIES, [{**query(), "query_id": 12, "client_id": 9}]) == {"stored": 1}
    clicked = {**event("click", "A1", 1), "query_id": 12, "client_id": 9}
    clicked["event_attributes"]["object"]["object_id"] = 123
    assert collector.store(EVENTS, [clicked]) == {"stored": 1}
    (found,) = log.scan()
    assert (found.client, found.query_id, found.object) == ("9", "12", "123")
    assert log.queries(["12"])["12"].text == "fire"
    assert [one.object for one in log.events("9", NOW - 1, NOW + 1)] == ["123"]


def test_a_query_needs_an_id(collector: Collector) -> None:
    assert collector.store(QUERIES, [query(id=""), {"user_query": "fire"}]) == {"malformed": 2}


def test_a_clock_in_the_future_is_put_right(collector: Collector, log: UbiLog, clock: Clock) -> None:
    taken = collector.store(
        EVENTS, [event("click", "A1", at=clock.now + 86_400), event("click", "B2", at=clock.now + 60)]
    )
    assert taken == {"stored": 2, "clock": 1}
    assert {one.object: one.at - clock.now for one in log.scan()} == {"A1": 0, "B2": 60}


def test_long_client_ids_do_not_fill_the_memory(log: UbiLog, clock: Clock) -> None:
    collector = Collector(log, Quotas(), clock)
    with keeps_less_than(5_000_000):
        for batch in range(5):
            clients = [f"{batch} {number} {'c' * 10_000}" for number in range(MAX_ITEMS)]
            events = [{"action_name": "click", "client_id": client} for client in clients]
            assert collector.store(EVENTS, events) == {"clock": MAX_ITEMS, "stored": MAX_ITEMS}
            del clients, events


def test_events_of_a_flooding_client_are_limited_and_other_clients_are_not(
    collector: Collector, log: UbiLog, clock: Clock
) -> None:
    flood = [event("click", str(n)) for n in range(MAX_ITEMS_PER_MINUTE - 1)]
    assert collector.store(EVENTS, flood) == {"stored": MAX_ITEMS_PER_MINUTE - 1}
    assert collector.store(EVENTS, [event("click"), event("click"), event("click", client_id="bob")]) == {
        "stored": 2,
        "flood": 1,
    }
    assert collector.store(QUERIES, [query()]) == {"stored": 1}
    clock.now += 60
    assert collector.store(EVENTS, [event("click")]) == {"stored": 1}


def test_the_limit_counts_events_of_concurrent_requests(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    collector.quotas = Quotas()
    put, both_read = collector._counts.put, threading.Barrier(2)

    def wait_for_the_other_thread(*arguments: Any) -> int:
        with suppress(threading.BrokenBarrierError):
            both_read.wait(0.5)
        return put(*arguments)

    monkeypatch.setattr(collector._counts, "put", wait_for_the_other_thread)
    events = [event("click", "A1")] * 400
    with ThreadPoolExecutor(2) as pool:
        outcomes = list(pool.map(lambda _: collector.store(EVENTS, events), range(2)))
    assert sum(outcome["flood"] for outcome in outcomes) == 800 - MAX_ITEMS_PER_MINUTE


def test_a_key_does_not_use_up_the_limit_of_another_keys_clients(collector: Collector, log: UbiLog) -> None:
    collector.quotas = Quotas()
    flood = [event("click", str(n)) for n in range(MAX_ITEMS_PER_MINUTE + 1)]
    assert collector.store(EVENTS, flood, "one") == {"stored": MAX_ITEMS_PER_MINUTE, "flood": 1}
    assert collector.store(EVENTS, [event("click", "A1")], "two") == {"stored": 1}


def test_no_caller_stores_pages_of_a_trial(collector: Collector, log: UbiLog) -> None:
    trial = Trial("news", "a1b2c3d4", 1.0, NOW)
    page = ShownPage("anna", NOW, {"1": True, "2": False}).to_ubi_query(trial, "fire")
    assert collector.store(QUERIES, [page, {**page, "application": "shop"}]) == {"stored": 1, "malformed": 1}
    assert log.application_queries(trial.application, 0.0, END_OF_TIME) == []


def test_too_many_events_and_too_large_ones_are_dropped(collector: Collector) -> None:
    many = [event("click", client_id=str(n)) for n in range(MAX_ITEMS + 2)]
    assert collector.store(EVENTS, many) == {"stored": MAX_ITEMS, "too_many": 2}
    large = event("click", message="ü" * (MAX_ITEM_BYTES // 2))
    assert collector.store(EVENTS, [large, event("click")]) == {"stored": 1, "too_large": 1}


def test_the_response_counts_stored_and_dropped_events(client: FlaskClient) -> None:
    answer = client.post("/ubi_events", json=[event("click", "A1"), event("click", at=NOW + 9999), {}])
    assert (answer.status_code, answer.get_json()) == (200, {"stored": 2, "dropped": {"malformed": 1}})
    assert client.post("/ubi_queries", json=[]).get_json() == {"stored": 0, "dropped": {}}
    metrics = client.get("/metrics").text
    for outcome, items in (("stored", 2), ("malformed", 1), ("clock", 1)):
        assert f'resift_ubi_total{{outcome="events_{outcome}"}} {items:.1f}' in metrics


@pytest.mark.parametrize("path", ["/ubi_events", "/ubi_queries"])
@pytest.mark.parametrize("data", ["{}", "[", "null", '"click"', "[NaN]", ""])
def test_a_body_that_is_no_array_is_refused(client: FlaskClient, path: str, data: str) -> None:
    answer = client.post(path, data=data, content_type="application/json")
    assert answer.status_code == 400
    error = answer.get_json()["error"]
    assert (error["code"], error["expected"]) in {
        ("malformed_json", "a JSON array"),
        ("malformed_json", "finite numbers"),
    }


def test_pages_of_other_sites_send_events_where_that_is_allowed(client: FlaskClient) -> None:
    body = json.dumps([event("click", "A1")])
    asked = client.options("/ubi_events", headers={"Origin": ORIGIN, "Access-Control-Request-Method": "POST"})
    assert asked.headers["Access-Control-Allow-Origin"] == ORIGIN
    for origin, kind, status in (
        (ORIGIN, "application/json", 200),
        ("https://elsewhere.example", "application/json", 403),
        (ORIGIN, "text/plain", 415),
    ):
        answer = client.post("/ubi_events", data=body, content_type=kind, headers={"Origin": origin})
        assert answer.status_code == status


def test_a_log_that_cannot_be_written_is_reported_to_the_sender(model: Model, nowhere: str, tmp_path: Path) -> None:
    config = Config(engine=nowhere, store=str(tmp_path / "sessions.db"))
    answer = create_app(config, model=model).test_client().post("/ubi_events", json=[event("click", "A1")])
    assert (answer.status_code, answer.get_json()["error"]["code"]) == (503, "engine_unavailable")


def test_actions_are_a_setting(client: FlaskClient, model: Model, tmp_path: Path) -> None:
    found: dict[str, Any] = {}
    for actions in (("click=0.5",), ("click=-1",)):
        config = Config(engine=str(tmp_path / "engine.db"), ubi_actions=actions)
        found[actions[0]] = create_app(config, model=model).extensions["resift"].knowledge.clicks.actions
    assert found == {"click=0.5": {"click": 0.5}, "click=-1": {"click": -1}}
