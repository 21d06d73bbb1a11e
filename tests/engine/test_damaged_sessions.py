"""Tests of damaged stored sessions: other sessions still work, and the damaged session can be deleted."""

from __future__ import annotations

import copy
import logging
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opensearchpy.exceptions import OpenSearchException
from service_app import RECORDS, ids, post

from resift import Model
from resift.contracts.session_store import SessionRecord, SessionStore
from resift.embedded.database import SqliteSessionStore
from resift.embedded.engine import SqliteEngine
from resift.errors import SessionDamaged, SessionNotFound, SessionsUnavailable
from resift.ingest.indexing import DeadLetters, Indexer
from resift.plugin.opensearch.client import create_if_missing
from resift.plugin.opensearch.sessions import MAPPINGS, SETTINGS, OpenSearchSessionStore
from resift.reranker import Config, create_app
from resift.reranker.access.keys import Caller
from resift.sessions.sessions import Sessions

LATER = 4e9
BODY = {"at": 1.5, "q": ["fire é", "gun"], "j": [[1, 0, 0, 0, "bush", 1, 0], [2, 9, 1, 0, "army", -0.5, 3]]}
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([0, -1, 1, 2**63, 10**400, 1e300, "", "bush", "docs", "a b", "*", "_all", "\ud800", "x" * 5000])
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)


@pytest.fixture
def client(store_url: str, session_index: str, tmp_path: Path, model: Model) -> Iterator[FlaskClient]:
    """Return an application over an index, with both kinds of stores."""
    engine = SqliteEngine(str(tmp_path / "engine.db"))
    Indexer(engine, model, "docs", DeadLetters(tmp_path / "dead")).run(RECORDS, ["text"])
    config = Config(engine=engine.path, store=store_url, session_index=session_index)
    app = create_app(config, engine=engine, model=model)
    yield app.test_client()
    app.extensions["resift"].sessions.store.close()
    engine.close()


def store_of(client: FlaskClient) -> SessionStore:
    """Return the store of an application."""
    store: SessionStore = client.application.extensions["resift"].sessions.store
    return store


def paths(value: Any) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each value within a JSON value, and the empty path."""
    yield ()
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from ((key, *rest) for rest in paths(inner))


@st.composite
def damaged(draw: st.DrawFn) -> dict[str, Any]:
    """Return a stored session with one value replaced or removed."""
    stored = copy.deepcopy({"body": BODY, "expires": LATER, "indices": ["docs"]})
    *way, last = draw(st.sampled_from([path for path in paths(stored) if path]))
    inner: Any = stored
    for key in way:
        inner = inner[key]
    if way and isinstance(inner, dict) and draw(st.booleans()):
        del inner[last]
    else:
        inner[last] = draw(VALUES)
    return stored


def put(store: SessionStore, id: str, stored: dict[str, Any]) -> bool:
    """Store any value under an id. Returns False if this kind of store cannot contain it."""
    body, expires, indices = stored["body"], stored["expires"], stored["indices"]
    try:
        if isinstance(store, OpenSearchSessionStore):
            create_if_missing(store.client, store.index, {"settings": SETTINGS, "mappings": MAPPINGS})
            seconds = expires * 1000 if type(expires) in (int, float) else expires
            document = {"session": body, "expires": seconds, "indices": indices}
            store.client.index(index=store.index, id=f"s:{id}", body=document)
            return True
        with suppress(SessionsUnavailable):
            store.delete(id)
        return store.write(id, SessionRecord(body, expires, indices))
    # the mapping refuses the value, or it cannot be serialized
    except (OpenSearchException, sqlite3.Error, SessionsUnavailable, OverflowError, TypeError, ValueError):
        return False


@pytest.mark.filterwarnings("ignore::opensearchpy.exceptions.OpenSearchWarning")
def test_a_corrupt_stored_session_causes_no_server_error(client: FlaskClient) -> None:
    search = {"index": "docs", "query": "fire", "session": "bad", "alpha": 0.7}
    post(client, "/v1/feedback", session="good", index="docs", query="fire", relevant=["army"])
    moved = ids(post(client, "/v1/search", **{**search, "session": "good"}))

    # both stores are read by the same code, and a cluster takes longer
    tried = 40 if isinstance(store_of(client), SqliteSessionStore) else 15

    @settings(
        max_examples=tried, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck)
    )
    @given(damaged())
    def try_out(stored: dict[str, Any]) -> None:
        if not put(store_of(client), "bad", stored):
            return
        assert post(client, "/v1/search", **search)["resift"]["reranked"]
        answer = post(client, "/v1/search", **{**search, "session": "good"})
        assert ids(answer) == moved, (answer["resift"], stored)
        statuses = {client.get("/v1/sessions/bad").status_code}
        statuses.add(client.post("/v1/sessions/bad/undo").status_code)
        mark = {"session": "bad", "index": "docs", "query": "fire", "relevant": ["war"]}
        statuses.add(client.post("/v1/feedback", json=mark).status_code)
        assert statuses <= {200, 400, 404, 409}, stored
        sessions: Sessions = client.application.extensions["resift"].sessions
        assert {"good"} <= {session.id for session in sessions.all_of_caller()} <= {"good", "bad"}
        assert ("good", "army") in {(id, one.document) for id, one in sessions.judgements("docs")}
        assert client.delete("/v1/sessions/bad").status_code == 200
        assert client.get("/v1/sessions/bad").status_code == 404

    try_out()
    post(client, "/v1/feedback", session="bad", index="docs", relevant=["bush"])


def test_a_damaged_session_is_named_and_deleted(client: FlaskClient, caplog: pytest.LogCaptureFixture) -> None:
    post(client, "/v1/feedback", session="good", index="docs", query="fire", relevant=["army"])
    assert store_of(client).write("bad", SessionRecord({"j": 3}, LATER, ["docs"]))
    told = post(client, "/v1/search", index="docs", query="fire", session="bad")["resift"]
    assert (told["reranked"], told["session"], told["reason"]) == (True, None, "session 'bad' is damaged")
    for answer in (
        client.get("/v1/sessions/bad"),
        client.post("/v1/feedback", json={"session": "bad", "index": "docs", "relevant": ["war"]}),
        client.post("/v1/sessions/bad/undo"),
    ):
        error = answer.get_json()["error"]
        assert (answer.status_code, error["code"], error["value"]) == (409, "session_damaged", "bad")
    caplog.set_level(logging.WARNING)
    assert [session.id for session in client.application.extensions["resift"].sessions.all_of_caller()] == ["good"]
    assert "a damaged session is ignored: session 'bad' is damaged" in caplog.messages
    assert client.delete("/v1/sessions/bad").status_code == 200


@pytest.mark.parametrize(
    ("body", "hidden_from"),
    [({"o": "shop"}, {"other"}), ({"o": 3}, {"other", "shop"}), ({}, {"other", "shop"}), (3, set())],
)
def test_a_damaged_session_appears_missing_to_other_keys(
    open_stores: Callable[[], SessionStore], body: Any, hidden_from: set[str]
) -> None:
    store = open_stores()
    assert put(store, "bad", {"body": body, "expires": LATER, "indices": ["docs"]})
    for name in ("other", "shop", "root"):
        scopes = frozenset({"admin"} if name == "root" else {"feedback"})
        sessions = Sessions(store, caller=lambda name=name, scopes=scopes: Caller(name, scopes))  # type: ignore[misc]
        for call in (sessions.get, sessions.undo, *([sessions.delete] if name in hidden_from else [])):
            with pytest.raises(SessionNotFound if name in hidden_from else SessionDamaged):
                call("bad")
    sessions.delete("bad")


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    "damage", ["body = '{'", "indices = x'ff00'", "body = x'80ff'", "expires = 'x', indices = '['"]
)
def test_damaged_rows_are_skipped(open_stores: Callable[[], SessionStore], store_url: str, damage: str) -> None:
    sessions = Sessions(open_stores(), caller=Caller)
    for id in ("good", "bad"):
        assert sessions.store.write(id, SessionRecord(BODY, LATER, ["docs"]))
    with closing(sqlite3.connect(store_url)) as db:
        db.execute(f"UPDATE session_log SET {damage} WHERE id = 'bad'")
        db.commit()
    assert [session.id for session in sessions.all_of_caller()] == ["good"]
    assert {id for id, _ in sessions.judgements("docs")} == {"good"}
    sessions.delete("bad")
    assert sessions.store.delete_index("docs") == 1
    assert len([*sessions.store.scan()]) == 0
