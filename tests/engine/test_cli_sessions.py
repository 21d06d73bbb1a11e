"""Tests of `resift sessions` with both stores."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from ubi_events import event, new_names, query

from resift.cli.main import main
from resift.contracts.session_store import SessionRecord
from resift.contracts.ubi import EVENTS, QUERIES
from resift.feedback.judgements import Judgement
from resift.plugin.addresses import is_cluster
from resift.service.connect import open_engine, open_session_store, open_ubi_log
from resift.sessions.sessions import Sessions


def resift(*arguments: str, status: int = 0) -> Result:
    """Run a command and check its exit status."""
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == status, result.output
    return result


def test_sessions_are_purged_and_forgotten(store_url: str, session_index: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where = ["--store", store_url]
    monkeypatch.setenv("RESIFT_SESSION_INDEX", session_index)
    store = open_session_store(store_url, session_index)
    assert resift("sessions", "purge", *where).output == f"0 expired sessions deleted from {store_url}\n"
    for name, expires, index in (("a", 1.0, "x"), ("b", 2e9, "x"), ("c", 2e9, "y"), ("d", 2e9, "y"), ("e", 2e9, "y")):
        assert store.write(name, SessionRecord({}, expires, [index]))
    assert resift("sessions", "purge", *where).output == f"1 expired sessions deleted from {store_url}\n"
    assert resift("sessions", "delete", "--index", "y", *where).output == f"3 sessions deleted from {store_url}\n"
    assert store.read("b") is not None
    assert resift("sessions", "delete", "b", *where).output == f"1 sessions deleted from {store_url}\n"
    assert "no session 'b'" in resift("sessions", "delete", "b", *where, status=2).output
    assert "a session or --index is required, but not both" in resift("sessions", "delete", *where, status=2).output
    assert len([*store.scan()]) == 0
    store.close()


def test_a_person_is_exported_and_forgotten_and_nobody_else(
    store_url: str, session_index: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = new_names()
    for setting, value in zip(("SESSION_INDEX", "UBI_EVENTS", "UBI_QUERIES"), (session_index, *names), strict=True):
        monkeypatch.setenv(f"RESIFT_{setting}", value)
    where = ["--store", store_url, "--engine", store_url]
    store, log = open_session_store(store_url, session_index), open_ubi_log(store_url, *names)
    for id in ("anna", "bob"):
        Sessions(store).add(id, "fire", [Judgement("news", "d1", 1)])
        log.add(QUERIES, [query(id=f"of-{id}", client_id=id)])
        log.add(EVENTS, [event("click", "A1", client_id=id, session_id="")])
    expires = store.read("anna")
    found = json.loads(resift("sessions", "export", "--client", "anna", *where).stdout)
    assert [(one["document"], one["query"], one["grade"]) for one in found["session"]["judgements"]] == [
        ("d1", "fire", 1)
    ]
    assert [one["client_id"] for one in (*found["events"], *found["queries"])] == ["anna", "anna"]
    assert store.read("anna") == expires
    # A client id may be an invalid session id.
    assert json.loads(resift("sessions", "export", "--client", "a b", *where).stdout)["session"] is None
    refused = resift("sessions", "forget", "--client", "anna", *where, status=2)
    assert f"Delete 1 sessions and 2 events and queries of anna from {store_url}?" in refused.output
    assert store.read("anna") is not None
    forgotten = resift("sessions", "forget", "--client", "anna", "--yes", *where)
    assert forgotten.stdout == f"1 sessions, 2 events and queries deleted from {store_url}\n"
    assert store.read("anna") is None
    assert log.client_documents("anna") == {EVENTS: [], QUERIES: []}
    assert store.read("bob") is not None
    assert [len(log.client_documents("bob")[kind]) for kind in (EVENTS, QUERIES)] == [1, 1]
    again = resift("sessions", "forget", "--client", "anna", "--yes", *where, status=3)
    assert f"nothing about anna in {store_url}" in again.stdout
    store.close()
    log.close()
    if is_cluster(store_url):
        engine = open_engine(store_url)
        for name in names:
            engine.drop_if_exists(name)
        engine.close()


SESSION_COMMANDS = [
    ["list"],
    ["purge"],
    ["delete", "anna"],
    ["delete", "--index", "news"],
    ["export", "--client", "anna"],
    ["forget", "--client", "anna", "--yes"],
]


@pytest.mark.parametrize("arguments", SESSION_COMMANDS, ids=" ".join)
def test_a_command_in_another_folder_than_the_service_fails_and_creates_nothing(
    here: Path, arguments: list[str]
) -> None:
    result = resift("sessions", *arguments, "--store", "sessions.db", status=2)
    assert f"no sessions: {here / 'sessions.db'} does not exist" in result.stderr
    assert "RESIFT_STORE" in result.stderr
    assert list(here.iterdir()) == []


def test_a_review_in_another_folder_than_the_service_fails_and_creates_nothing(here: Path) -> None:
    result = resift("review", "wilson", "--store", "sessions.db", status=2)
    assert f"no reviews: {here / 'sessions.db'} does not exist" in result.stderr
    assert list(here.iterdir()) == []


def test_the_commands_name_their_store(here: Path) -> None:
    store = open_session_store("sessions.db", "")
    Sessions(store).add("anna", "fire", [Judgement("news", "d1", 1)])
    path, where = here / "sessions.db", ["--store", "sessions.db", "--engine", "sessions.db"]
    assert f"sessions in {path}" in resift("sessions", "list", "--store", "sessions.db").stderr
    assert f"data of anna in {path}" in resift("sessions", "export", "--client", "anna", *where).stderr
    assert f"nothing about bob in {path}" in resift("sessions", "export", "--client", "bob", *where).stderr
    store.close()
