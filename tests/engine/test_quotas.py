"""Tests of the sizes of marks, and of the daily quotas of API keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from clock import Clock
from flask.testing import FlaskClient
from service_app import RECORDS

import resift
from resift import Model
from resift.contracts.documents import MAX_ID_BYTES
from resift.contracts.session_store import SessionStore
from resift.embedded.engine import SqliteEngine
from resift.errors import BadInput, QuotaExceeded, TextTooLong
from resift.feedback.judgements import Judgement
from resift.ingest.indexing import DeadLetters, Indexer
from resift.reranker import Config, create_app
from resift.reranker.access.keys import Caller, KeyFile
from resift.sessions.quotas import Quotas
from resift.sessions.sessions import Sessions

DAY = 86_400
NOON = 20_000.5 * DAY  # the quotas do not begin anew during a test
MARK = {"session": "anna", "index": "docs", "query": "fire"}


@pytest.fixture
def opened(tmp_path: Path, model: Model) -> Iterator[Callable[..., FlaskClient]]:
    """Return a function that creates an application with given settings, seven documents and the API key ``shop``."""
    engine = SqliteEngine(str(tmp_path / "engine.db"))
    Indexer(engine, model, "docs", DeadLetters(tmp_path / "dead")).run(RECORDS, ["text"])
    keys = KeyFile(str(tmp_path / "keys.jsonl"))
    clients: list[FlaskClient] = []

    def client(**settings: Any) -> FlaskClient:
        headers = {name: {"X-Api-Key": keys.create(name, ["feedback", "search"])} for name in ("shop", "other")}
        config = Config(engine=engine.path, store=str(tmp_path / "s.db"), keys=str(keys.path), **settings)
        client = create_app(config, engine=engine, model=model).test_client()
        client.environ_base["HTTP_X_API_KEY"] = headers["shop"]["X-Api-Key"]
        client.application.config["OTHER"] = headers["other"]
        client.application.extensions["resift"].sessions.quotas.clock = lambda: NOON
        clients.append(client)
        return client

    yield client
    for one in clients:
        one.application.extensions["resift"].sessions.store.close()
    engine.close()


@pytest.mark.parametrize("field", ["relevant", "irrelevant", "clicked", "skipped", "neutral", "scores"])
def test_no_mark_has_a_longer_id_than_a_document_can(opened: Callable[..., FlaskClient], field: str) -> None:
    client = opened()
    for id, status, code in (
        ("é" * 257, 413, "too_large"),
        ("x" * 8_000, 413, "too_large"),
        ("a\ud800", 400, "bad_input"),
        ("é" * 256, 200 if field == "neutral" else 404, "not_found"),
    ):
        answer = client.post("/v1/feedback", json={**MARK, field: {id: 1} if field == "scores" else [id]})
        assert answer.status_code == status, id
        if status != 200:
            assert answer.get_json()["error"]["code"] == code


def test_the_library_has_the_same_bounds(tmp_path: Path, model: Model) -> None:
    with resift.open(tmp_path / "docs.db", model) as library:
        session = library.index("docs", fields=["text"]).session("anna")
        with pytest.raises(TextTooLong, match="the document id has 513 bytes"):
            session.mark(neutral=["x" * (MAX_ID_BYTES + 1)])
        with pytest.raises(BadInput, match="lone surrogate"):
            session.mark(neutral=["\ud800"])


def error_of(answer: Any) -> dict[str, Any]:
    """Return the error of a response, and assert that it is an exceeded quota."""
    error: dict[str, Any] = answer.get_json()["error"]
    assert (answer.status_code, error["code"], error["value"]) == (429, "quota_exceeded", "shop")
    assert 0 < int(answer.headers["Retry-After"]) <= DAY
    return error


def test_a_key_makes_no_more_marks_a_day(opened: Callable[..., FlaskClient]) -> None:
    client = opened(max_marks_per_day=3)
    mark = {**MARK, "relevant": ["bush", "wood"]}
    assert [client.post("/v1/feedback", json=mark).status_code for _ in range(2)] == [200, 200]
    refused = client.post("/v1/feedback", json=mark)
    assert error_of(refused)["expected"] == "at most 3 marks per day (RESIFT_MAX_MARKS_PER_DAY)"
    error_of(client.post("/ubi_events", json=[{"action_name": "click"}]))
    # Other callers, and requests that store nothing, still succeed.
    told = client.post("/v1/feedback", json={**mark, "session": "o"}, headers=client.application.config["OTHER"])
    assert told.status_code == 200
    assert client.post("/v1/search", json={"index": "docs", "query": "fire", "session": "anna"}).status_code == 200
    assert client.get("/v1/sessions/anna").get_json()["steps"] == 2
    assert client.post("/v1/sessions/anna/undo").status_code == 200
    assert client.delete("/v1/sessions/anna").status_code == 200


def test_a_key_begins_no_more_sessions_a_day(opened: Callable[..., FlaskClient]) -> None:
    client = opened(max_sessions_per_day=2)
    for session in ("a", "b"):
        assert client.post("/v1/feedback", json={**MARK, "session": session, "relevant": ["bush"]}).status_code == 200
    refused = client.post("/v1/feedback", json={**MARK, "session": "c", "relevant": ["bush"]})
    assert "sessions per day" in error_of(refused)["expected"]
    assert client.post("/v1/feedback", json={**MARK, "session": "a", "relevant": ["wood"]}).status_code == 200
    assert client.get("/v1/sessions/c").status_code == 404


def test_a_key_writes_no_more_bytes_a_day(opened: Callable[..., FlaskClient]) -> None:
    client = opened(max_bytes_per_day=50_000)
    mark = {**MARK, "neutral": [f"{i:0512}" for i in range(100)]}
    assert client.post("/v1/feedback", json={**mark, "session": "a"}).status_code == 200
    error_of(client.post("/v1/feedback", json={**mark, "session": "b"}))
    error_of(client.post("/ubi_queries", json=[{"query_id": "1"}]))


def test_days_and_keys_are_counted_apart(open_stores: Callable[[], SessionStore], clock: Clock) -> None:
    clock.now = 10 * DAY + 100.0
    quotas, key = Quotas(marks=2, clock=clock), "shop"
    sessions = Sessions(open_stores(), 100, clock, lambda: Caller(key, frozenset({"feedback"})), quotas)
    marks = [Judgement("docs", "a", 1), Judgement("docs", "b", 1)]
    sessions.add("s", "q", marks)
    with pytest.raises(QuotaExceeded) as caught:
        sessions.add("s", "q", marks)
    assert caught.value.seconds == DAY - 100
    key = "other"
    sessions.add("o", "q", marks)
    clock.now, key = 11 * DAY + 1.0, "shop"
    sessions.add("s", "q", marks)


def test_without_a_key_nothing_is_bounded(open_stores: Callable[[], SessionStore], clock: Clock) -> None:
    sessions = Sessions(open_stores(), 1, clock, quotas=Quotas(1, 1, 1, clock))
    for number in range(3):
        sessions.add(f"s{number}", "q", [Judgement("docs", "a", 1)])


@pytest.mark.parametrize("name", ["max_marks_per_day", "max_sessions_per_day", "max_bytes_per_day"])
def test_a_bound_of_a_day_is_no_negative_number(name: str) -> None:
    with pytest.raises(BadInput, match=name):
        Config(**{name: -1})  # type: ignore[arg-type]
    assert getattr(Config(**{name: 0}), name) == 0  # type: ignore[arg-type]
