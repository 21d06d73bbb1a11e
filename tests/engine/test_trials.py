"""Tests of trials: interleaved searches over HTTP, their evaluation by clicks, and their end."""

from __future__ import annotations

import random
import threading
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from flask import Flask
from msgspec.structs import replace
from service_app import filled as filled
from service_app import ids, post
from ubi_events import event
from waiting import until

from resift import Model
from resift.cli.main import main
from resift.contracts.engine import Engine
from resift.contracts.session_store import SessionRecord
from resift.contracts.ubi import EVENTS, QUERIES, UbiLog
from resift.errors import BadInput
from resift.plugin.addresses import is_cluster
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.reranker import Config, create_app
from resift.reranker.access.keys import KeyFile
from resift.service.connect import open_session_store
from resift.sessions.clicks import ACTIONS
from resift.sessions.trials import (
    SESSIONS,
    STOPPED,
    VISIT_SECONDS,
    ShownPage,
    Trial,
    Trials,
    client_preferences,
    evaluate_trial,
    interleave_by_team_draft,
    mean_preference,
)

HOUR = 3600.0


@pytest.fixture
def app(engine_url: str, engine: Engine, model: Model, ubi_names: tuple[str, str], tmp_path: Path) -> Flask:
    """Return an application with a UBI log."""
    events, queries = ubi_names
    store = str(tmp_path / "sessions.db") if is_cluster(engine_url) else engine_url
    config = Config(engine=engine_url, store=store, ubi_events=events, ubi_queries=queries, alpha=0.5)
    return create_app(config, engine=engine, model=model)


@pytest.fixture
def trials(app: Flask) -> Trials:
    """Return the service's trials, as another process sees them."""
    return Trials(app.extensions["resift"].sessions.store)


@pytest.fixture
def settled(app: Flask, engine: Engine, ubi_names: tuple[str, str]) -> Callable[[], None]:
    """Wait for background work, and let the service read the trial again."""

    def run() -> None:
        interleaved = app.extensions["resift"].interleaved
        interleaved.background.submit(int).result(30)
        interleaved._trials.clear()
        if isinstance(engine, OpenSearchEngine):
            engine.client.indices.refresh(index=",".join(ubi_names), params={"ignore_unavailable": "true"})

    return run


def search(app: Flask, index: str, session: str = "anna", **asked: Any) -> Any:
    """Return the response to a search in a session that has judgements about fire."""
    client = app.test_client()
    post(client, "/v1/feedback", index=index, session=session, query="fire", relevant=["army"], irrelevant=["bush"])
    return post(client, "/v1/search", **{"index": index, "query": "fire", "session": session, **asked})


def test_clicks_on_an_interleaved_search_are_credited(
    app: Flask, filled: str, trials: Trials, ubi_log: UbiLog, engine: Engine, settled: Callable[[], None]
) -> None:
    assert "interleaved" not in search(app, filled)["resift"]
    trial = trials.start(filled, 1.0)
    settled()
    found = search(app, filled, reasons=True)
    assert found["resift"]["interleaved"]
    assert set(ids(found)) == {"bush", "wood", "tree", "army", "war"}
    # a page is part of the same draft
    pages = [ids(search(app, filled, size=2, **{"from": start})) for start in (0, 2, 4)]
    assert [id for page in pages for id in page] == ids(found)
    settled()
    stored = ubi_log.application_queries(trial.application, 0, trials.clock() + HOUR)
    whole = max(filter(None, map(ShownPage.from_ubi_query, stored)), key=lambda page: len(page.teams))
    won = next(id for id, team in whole.teams.items() if team)
    ubi_log.add(EVENTS, [event("click", won, 1, trials.clock(), event_attributes={"object": {"object_id": won}})])
    settled()
    report = evaluate_trial(trial, ubi_log, engine, ACTIONS, trials.clock() + 3 * VISIT_SECONDS)
    assert (report.searches, report.clients, report.preferred.outcomes, report.preferred.mean) == (4, 1, 1, 1.0)
    # a visit does not count before it is over
    assert evaluate_trial(trial, ubi_log, engine, ACTIONS, trials.clock()).preferred.outcomes == 0


def test_a_trial_ends_when_it_is_decided(
    app: Flask, filled: str, trials: Trials, ubi_log: UbiLog, settled: Callable[[], None]
) -> None:
    trial = trials.start(filled, 1.0)
    begun = trial.started - 24 * HOUR
    trial = trials.change(trial, started=begun) or trial
    teams = {"bush": False, "army": True}
    pages = [ShownPage(f"c{n}", begun + n, teams).to_ubi_query(trial, "fire") for n in range(60)]
    clicks = [
        event("click", client_id=f"c{n}", event_attributes={"object": {"object_id": "army"}}, at=begun + n + 1)
        for n in range(60)
    ]
    ubi_log.add(QUERIES, pages)
    ubi_log.add(EVENTS, clicks)
    settled()
    assert search(app, filled)["resift"]["interleaved"]
    settled()
    assert trials.find(filled) == Trial(filled, trial.id, 1.0, begun, pytest.approx(trials.clock(), abs=60), SESSIONS)
    assert "interleaved" not in search(app, filled)["resift"]


def test_what_cannot_be_interleaved_is_left_alone(
    app: Flask, filled: str, trials: Trials, settled: Callable[[], None]
) -> None:
    trials.start(filled, 1.0)
    settled()
    client, match = app.test_client(), {"match": {"text": "fire"}}
    assert "interleaved" not in post(client, "/v1/search", index=filled, query="fire", session="new")["resift"]
    assert "interleaved" not in search(app, filled, query={"query": match, "collapse": {"field": "n"}})["resift"]
    assert "interleaved" not in search(app, filled, size=0)["resift"]
    asked = {"index": filled, "query": {"query": match, "size": "x"}, "session": "anna"}
    assert client.post("/v1/search", json=asked).status_code == 400
    found = search(app, filled, query={"query": match, "size": 3, "from": 1})
    assert found["resift"]["interleaved"]
    assert len(ids(found)) == 3


def test_pages_are_bounded(
    app: Flask, filled: str, trials: Trials, ubi_log: UbiLog, settled: Callable[[], None]
) -> None:
    trial = trials.start(filled, 1.0)
    settled()
    match = {"match": {"text": "fire"}}
    for large in ({"size": 101}, {"query": {"query": match, "from": 950, "size": 100}}):
        assert "interleaved" not in search(app, filled, **large)["resift"]
    assert search(app, filled, size=100)["resift"]["interleaved"]
    settled()
    assert len(ubi_log.application_queries(trial.application, 0, trials.clock() + HOUR)) == 1


def test_searches_are_not_interleaved_while_pages_wait_to_be_written(
    app: Flask, filled: str, trials: Trials, settled: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    trials.start(filled, 1.0)
    settled()
    interleaved = app.extensions["resift"].interleaved
    interleaved._waiting = threading.BoundedSemaphore(2)
    written = threading.Event()
    interleaved.background.submit(written.wait, 60)
    states = ["interleaved" in search(app, filled)["resift"] for _ in range(4)]
    written.set()
    assert states == [True, True, False, False]
    assert caplog.text.count("takes pages too slowly") == 1, "a warning is not logged for every search"
    settled()
    interleaved._failed.clear()
    assert search(app, filled)["resift"]["interleaved"]


def test_a_service_that_is_closed_drops_pages_that_wait_to_be_written(app: Flask) -> None:
    service, written = app.extensions["resift"], threading.Event()
    background = service.interleaved.background
    background.submit(written.wait, 60)
    waiting = background.submit(int)
    with ThreadPoolExecutor(1) as pool:
        closing = pool.submit(service.close)
        until(waiting.cancelled)
        written.set()
        closing.result(60)


def test_any_error_of_a_trial_is_logged(
    app: Flask,
    filled: str,
    trials: Trials,
    settled: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(*arguments: Any) -> None:
        raise ZeroDivisionError("an evaluation without outcomes")

    trials.start(filled, 1.0)
    settled()
    monkeypatch.setattr(app.extensions["resift"].interleaved.clicks.log, "add", fail)
    assert search(app, filled)["resift"]["interleaved"]
    settled()
    assert "an evaluation without outcomes" in caplog.text
    assert "interleaved" not in search(app, filled)["resift"], "as after other failures"


def test_a_search_succeeds_although_its_trial_is_damaged(app: Flask, filled: str, trials: Trials) -> None:
    trial = trials.start(filled, 1.0)
    body = {**asdict(trial), "started": None}
    trials.store.delete(f"trial {filled}")
    trials.store.write(f"trial {filled}", SessionRecord(body, trial.started + HOUR, [filled]))
    assert trials.find(filled) is None
    assert search(app, filled)["resift"]["reranked"]


def test_a_search_succeeds_although_interleaving_fails(
    app: Flask,
    filled: str,
    trials: Trials,
    settled: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(*arguments: Any) -> None:
        raise ZeroDivisionError("an empty ranking")

    trials.start(filled, 1.0)
    settled()
    monkeypatch.setattr("resift.service.interleaved.interleave_by_team_draft", fail)
    assert "interleaved" not in search(app, filled)["resift"]
    assert "an empty ranking" in caplog.text


def test_pages_count_in_the_quota_of_their_key_and_in_no_others(
    app: Flask, engine: Engine, model: Model, filled: str, trials: Trials, settled: Callable[[], None], tmp_path: Path
) -> None:
    keys, config = KeyFile(str(tmp_path / "keys.jsonl")), app.extensions["resift"].config
    headers = [{"X-Api-Key": keys.create(name, ["search", "feedback"])} for name in ("one", "two")]
    trials.start(filled, 1.0)
    limited = replace(config, keys=str(keys.path), max_bytes_per_day=1000)
    client = create_app(limited, engine=engine, model=model).test_client()

    def send(key: int, path: str, **body: Any) -> Any:
        return client.post(path, json={"index": filled, **body}, headers=headers[key]).get_json()

    def is_interleaved(key: int, session: str) -> bool:
        return "interleaved" in send(key, "/v1/search", query="fire", session=session)["resift"]

    for key, session in enumerate(("anna", "ben")):
        send(key, "/v1/feedback", session=session, query="fire", relevant=["army"], irrelevant=["bush"])
    interleaved = [is_interleaved(0, "anna") for _ in range(10)]
    assert (interleaved[0], interleaved[-1]) == (True, False)
    assert is_interleaved(1, "ben")
    assert not is_interleaved(1, "anna")  # the session of another key


def test_entries_of_other_programs_are_no_pages(
    filled: str, trials: Trials, ubi_log: UbiLog, engine: Engine, settled: Callable[[], None]
) -> None:
    trial = trials.start(filled, 1.0)
    page = ShownPage("anna", trial.started + 1, {"army": True}).to_ubi_query(trial, "fire")
    odd = [{}, {"teams": "army"}, {"teams": {"plain": "army"}}, {"teams": {"session": [7]}}, "army", None]
    ubi_log.add(QUERIES, [page, *({**page, "query_attributes": attributes} for attributes in odd)])
    settled()
    assert evaluate_trial(trial, ubi_log, engine, ACTIONS, trials.clock()).searches == 1


def test_a_share_of_the_clients_is_in_a_trial_and_stays_in_it() -> None:
    trial = Trial("news", "a", 0.1, 0.0)
    taken = {n for n in range(5000) if trial.includes(f"c{n}", 1.0)}
    assert 400 < len(taken) < 600
    assert taken == {n for n in range(5000) if trial.includes(f"c{n}", 27 * 24 * HOUR)}
    assert not any(trial.includes(f"c{n}", 29 * 24 * HOUR) for n in range(5000))


def test_a_client_decides_once_by_its_first_visit_that_tells() -> None:
    teams = {"nobodys": None, "plain": False, "session": True, "other": True}
    shown = [ShownPage("a", at, teams) for at in (0.0, 60.0, 3 * VISIT_SECONDS)] + [
        ShownPage("b", 5.0, teams),
        ShownPage("c", 9e9, teams),
    ]
    clicks = [("a", "nobodys", 1.0), ("a", "plain", 61.0), ("a", "session", 62.0), ("a", "session", 63.0)]
    clicks += [
        ("a", "session", 3 * VISIT_SECONDS),
        ("b", "other", -100.0),
        ("b", "unseen", 6.0),
        ("c", "plain", 9e9 + 1),
    ]
    # b's clock is slow; c's visit is not over
    assert client_preferences(shown, clicks, 9e9 + 2) == [1.0, 0.0]


def test_teams_are_drawn_fairly_and_nothing_is_lost() -> None:
    drafts = [interleave_by_team_draft("abcdef", "abfedc", str(seed)) for seed in range(400)]
    assert all(sorted(draft) == list("abcdef") and draft["a"] is draft["b"] is None for draft in drafts)
    assert 140 < sum(list(draft)[2] == "f" for draft in drafts) < 260
    assert list(interleave_by_team_draft("", "ab", "x").values()) == [True, True]


def test_the_interval_of_many_clients_takes_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(1)
    outcomes = [chance.choice([-1.0, 0.0, 1.0]) for _ in range(20_000)]
    tracemalloc.start()
    interval = mean_preference(outcomes)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 32e6
    monkeypatch.setattr("resift.sessions.trials._BLOCK", 3000)
    assert mean_preference(outcomes) == interval


def test_an_interval_holds_at_any_time() -> None:
    rng = random.Random(0)
    fair = [mean_preference([rng.choice([-1.0, 1.0]) for _ in range(400)]) for _ in range(50)]
    assert sum(not one.low <= 0 <= one.high for one in fair) <= 3
    found = mean_preference([1.0 if rng.random() < 0.65 else -1.0 for _ in range(1000)])
    assert 0 < found.low < 0.3 < found.high
    assert mean_preference([]) == mean_preference([0.0][:0])
    assert mean_preference([1.0] * 50).low > 0 > mean_preference([-1.0] * 50).high


@pytest.mark.parametrize("engine_url", ["sqlite"], indirect=True)
def test_the_command_begins_shows_and_ends_a_trial(engine_url: str, filled: str, tmp_path: Path) -> None:
    store = str(tmp_path / "store.db")
    open_session_store(store, "").close()  # as the service does when it starts

    def run(live: str) -> Any:
        return CliRunner().invoke(main, ["prove", filled, "--live", live, "--engine", engine_url, "--store", store])

    assert "no trial" in run("status").output
    for wrong in ("0", "150%", "nan", "all"):
        assert run(wrong).exit_code in (1, 2), wrong
    assert "for 10 % of the clients: running" in run("10%").output
    assert "is already running" in run("0.5").output
    assert "0 searches of 0 clients" in run("status").output
    assert f"clients: {STOPPED}" in run("stop").output
    kept = open_session_store(store, "resift_sessions")
    with pytest.raises(BadInput):
        Trials(kept).start(filled, float("nan"))
    kept.close()
    assert "running" in run("50%").output
