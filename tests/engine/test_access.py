"""Tests of access control over HTTP: scopes of keys, owners of sessions, and credentials for the engine."""

from __future__ import annotations

import os
import re
import stat
from base64 import b64encode
from collections.abc import Iterator
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from msgspec.structs import replace
from service_app import post, wait_for_sample
from test_openapi import OPERATIONS
from werkzeug.test import TestResponse

from resift import Model
from resift.contracts.documents import Document
from resift.contracts.session_store import SessionRecord, SessionStore
from resift.embedded.engine import SqliteEngine
from resift.ingest.indexing import DeadLetters
from resift.ingest.readers import BadLine
from resift.reranker import Config, create_app
from resift.reranker.access.keys import OPEN, SCOPE_OF, SCOPES, KeyFile, required_scope
from resift.service.connect import open_session_store

DOCUMENTS = {"1": "fire in the bush", "2": "fire of the army", "3": "rain in the forest"}
UNKNOWN = "rsf_" + "u" * 43


@pytest.fixture
def engine(tmp_path: Path, model: Model) -> Iterator[SqliteEngine]:
    """Return an embedded engine with three documents."""
    engine = SqliteEngine(str(tmp_path / "engine.db"))
    engine.create("docs", ["text"], model)
    vectors = model.encode(DOCUMENTS.values())
    assert (
        engine.bulk("docs", [Document(id, {"text": DOCUMENTS[id]}, vectors[i]) for i, id in enumerate(DOCUMENTS)]) == []
    )
    yield engine
    engine.close()


@pytest.fixture
def keys(tmp_path: Path) -> KeyFile:
    """Return an empty file of API keys."""
    return KeyFile(str(tmp_path / "keys.jsonl"))


@pytest.fixture
def app(tmp_path: Path, engine: SqliteEngine, model: Model, keys: KeyFile) -> Flask:
    """Return an application with API keys."""
    keys.create("somebody", ["search"])
    config = Config(store=str(tmp_path / "sessions.db"), keys=str(keys.path), index="docs")
    return create_app(config, engine=engine, model=model)


def endpoints(app: Flask) -> list[tuple[str, str, str]]:
    """Yield the name of each endpoint, a method and a path."""
    return [
        (rule.endpoint, method, re.sub(r"<[^>]+>", "search.js" if rule.endpoint == "static" else "s", rule.rule))
        for rule in app.url_map.iter_rules()
        for method in sorted((rule.methods or set()) - {"HEAD", "OPTIONS"})
    ]


def test_every_endpoint_names_its_scope(app: Flask) -> None:
    assert {endpoint for endpoint, _, _ in endpoints(app)} == set(SCOPE_OF)
    # Whole search bodies are not a separate endpoint.
    assert set(SCOPE_OF.values()) == {*SCOPES, OPEN} - {"body"}
    assert required_scope("an endpoint of tomorrow") == "admin"


def test_scopes_are_documented(app: Flask) -> None:
    for endpoint, _, _ in endpoints(app):
        if endpoint == "static":
            continue
        name = re.sub(r"[_.](\w)", lambda found: found[1].upper(), endpoint.removeprefix("api."))
        described = [scopes for either in OPERATIONS[name][2]["security"] for scopes in either.values() if scopes]
        wanted = required_scope(endpoint)
        assert {scope for scopes in described for scope in scopes} == (set() if wanted == OPEN else {wanted}), endpoint


def assert_refused(endpoint: str, answer: TestResponse, status: int, code: str, expected: str) -> None:
    """Assert that a response is this error."""
    assert answer.status_code == status, endpoint
    assert (answer.get_json()["error"]["code"], answer.get_json()["error"]["expected"]) == (code, expected)


@pytest.mark.parametrize("given", SCOPES)
def test_a_key_opens_what_its_scope_names_and_nothing_else(app: Flask, keys: KeyFile, given: str) -> None:
    key = keys.create("one", [given])
    app = create_app(app.config["RESIFT"], engine=app.extensions["resift"].engine, model=app.extensions["resift"].model)
    for endpoint, method, path in endpoints(app):
        wanted = required_scope(endpoint)
        json = {} if method in ("POST", "PUT") else None
        for headers in ({"X-Api-Key": key}, {"Authorization": f"Bearer {key}"}, {"Authorization": f"bearer  {key} "}):
            with app.test_client().open(path, method=method, json=json, headers=headers) as answer:
                if wanted in (given, OPEN):
                    assert answer.status_code not in (401, 403), (endpoint, answer.text)
                else:
                    assert_refused(endpoint, answer, 403, "forbidden", f"the scope {wanted}")


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"X-Api-Key": UNKNOWN},
        {"X-Api-Key": "rsf_"},
        {"X-Api-Key": "é"},
        {"Authorization": f"Bearer {UNKNOWN}"},
        {"Authorization": "Bearer token-of-the-cluster"},
        {"Authorization": "Basic " + b64encode(b"admin:admin").decode()},
        {"Authorization": f"Basic {UNKNOWN}"},
    ],
)
def test_nothing_is_done_without_a_known_key(app: Flask, headers: dict[str, str]) -> None:
    for endpoint, method, path in endpoints(app):
        if required_scope(endpoint) != OPEN:
            answer = app.test_client().open(
                path, method=method, json={} if method in ("POST", "PUT") else None, headers=headers
            )
            assert_refused(endpoint, answer, 401, "unauthorized", "Authorization: Bearer rsf_… or X-Api-Key: rsf_…")
            assert answer.headers["WWW-Authenticate"].startswith("Bearer")
            assert UNKNOWN not in answer.text


METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "TRACE", "OPTIONS")


@pytest.mark.parametrize("caller", ["nobody", "a stranger", *SCOPES])
def test_each_method_of_each_path_is_open_to_its_scope_alone(app: Flask, keys: KeyFile, caller: str) -> None:
    key = keys.create("one", [caller]) if caller in SCOPES else UNKNOWN
    headers = {} if caller == "nobody" else {"X-Api-Key": key}
    app = create_app(app.config["RESIFT"], engine=app.extensions["resift"].engine, model=app.extensions["resift"].model)
    scopes = {(path, method): required_scope(endpoint) for endpoint, method, path in endpoints(app)}
    scopes |= {(path, "HEAD"): scope for (path, method), scope in scopes.items() if method == "GET"}
    for path in {path for path, _ in scopes}:
        for method in METHODS:
            json = {} if method in ("POST", "PUT", "PATCH") else None
            with app.test_client().open(path, method=method, json=json, headers=headers) as answer:
                wanted, status = scopes.get((path, method)), answer.status_code
                if wanted is None:  # OPTIONS lists the allowed methods
                    assert (status, answer.data) == (200, b"") if method == "OPTIONS" else status == 405, (path, method)
                elif wanted in (OPEN, caller):
                    assert status not in (401, 403), (path, method)
                else:
                    assert status == (403 if caller in SCOPES else 401), (path, method)


@pytest.mark.parametrize(
    ("host", "address"), [("localhost", "127.0.0.1"), ("shop.example", "127.0.0.1"), ("localhost", "10.0.0.7")]
)
def test_without_keys_reviews_and_metrics_are_for_this_machine(
    tmp_path: Path, engine: SqliteEngine, model: Model, host: str, address: str
) -> None:
    config = Config(store=str(tmp_path / "sessions.db"), index="docs", hosts=("shop.example",))
    app = create_app(config, engine=engine, model=model)
    for endpoint, method, path in endpoints(app):
        json = {} if method in ("POST", "PUT") else None
        where: dict[str, Any] = {"headers": {"Host": host}, "environ_base": {"REMOTE_ADDR": address}}
        with app.test_client().open(path, method=method, json=json, **where) as answer:
            is_local = (host, address) == ("localhost", "127.0.0.1")
            is_answered = is_local or required_scope(endpoint) not in ("review", "admin")
            assert (answer.status_code != 403) == is_answered, (endpoint, answer.status_code)


def test_a_wrong_path_is_not_found_with_and_without_a_key(app: Flask) -> None:
    assert app.test_client().get("/v1/nothing").status_code == 404
    assert app.test_client().put("/v1/search", json={}).status_code == 405


def test_a_deleted_key_is_refused_within_seconds(app: Flask, keys: KeyFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resift.reranker.access.requests._CHECK_SECONDS", -1.0)
    key = keys.create("late", ["search"])
    body = {"index": "docs", "query": "fire"}
    assert app.test_client().post("/v1/search", json=body, headers={"X-Api-Key": key}).status_code == 200
    keys.delete("late")
    assert app.test_client().post("/v1/search", json=body, headers={"X-Api-Key": key}).status_code == 401


@pytest.fixture
def seen(engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Record the headers of all requests to the engine."""
    headers: list[Any] = []
    for name in ("search", "info"):
        real = getattr(engine, name)

        def asked(*arguments: Any, real: Any = real, **named: Any) -> Any:
            headers.append(signature(real).bind(*arguments, **named).arguments.get("headers"))
            return real(*arguments, **named)

        monkeypatch.setattr(engine, name, asked)
    return headers


def test_only_the_callers_own_credentials_reach_the_engine(app: Flask, keys: KeyFile, seen: list[Any]) -> None:
    key = keys.create("reader", ["search"])
    engine = app.extensions["resift"].engine
    engine.uses_headers = True  # as the engine of a cluster
    app = create_app(app.config["RESIFT"], engine=engine, model=app.extensions["resift"].model)
    basic = "Basic " + b64encode(b"anna:secret").decode()
    for authorization, forwarded in (
        (basic, {"Authorization": basic}),
        ("Bearer token.of_the-cluster", {"Authorization": "Bearer token.of_the-cluster"}),
        ("Bearer eyJhbGciOiJIUzI1NiJ9xrsf_abc", {"Authorization": "Bearer eyJhbGciOiJIUzI1NiJ9xrsf_abc"}),
        (f"Bearer {key}", None),
        (f"bEaReR   {key}", None),
        (f"Bearer {UNKNOWN}", None),
        (f"{basic}, Bearer {key}", None),
        ("Basic " + b64encode(f"me:{key}".encode()).decode(), None),
        ("Basic " + b64encode(f"{key}:".encode()).decode(), None),
        (key, None),
    ):
        wait_for_sample()  # The sample is read in the background, with the headers of the previous search.
        seen.clear()
        headers = {"Authorization": authorization, "X-Api-Key": key}
        answer = app.test_client().post("/v1/search", json={"index": "docs", "query": "fire"}, headers=headers)
        assert answer.status_code == 200, answer.text
        assert seen
        assert all(one == forwarded for one in seen), authorization


MARKS = {"session": "anna", "index": "docs", "query": "fire", "relevant": ["2"]}


@pytest.fixture
def store(store_url: str, session_index: str) -> Iterator[SessionStore]:
    """Return the path of the store of sessions."""
    store = open_session_store(store_url, session_index)
    yield store
    store.close()


@pytest.fixture
def clients(
    engine: SqliteEngine, model: Model, keys: KeyFile, store_url: str, session_index: str
) -> dict[str, FlaskClient]:
    """Return clients of services that share their sessions, by the names of their API keys.

    The client "" belongs to a service without keys.
    """
    config = Config(store=store_url, session_index=session_index)
    made = {"": create_app(config, engine=engine, model=model).test_client()}
    secrets = {name: keys.create(name, ["search", "feedback", "embed"]) for name in ("shop", "wiki")}
    secrets["boss"] = keys.create("boss", SCOPES)
    config = Config(store=store_url, session_index=session_index, keys=str(keys.path))
    app = create_app(config, engine=engine, model=model)
    for name, key in secrets.items():
        made[name] = app.test_client()
        made[name].environ_base["HTTP_X_API_KEY"] = key
    return made


def test_a_session_is_its_keys(clients: dict[str, FlaskClient]) -> None:
    shop, wiki, boss = clients["shop"], clients["wiki"], clients["boss"]
    post(shop, "/v1/feedback", **MARKS)
    search: dict[str, Any] = {"index": "docs", "query": "fire", "session": "anna"}
    moved = post(shop, "/v1/search", **search)
    assert moved["resift"]["session"] == "anna"
    as_if_new = post(wiki, "/v1/search", **search)
    never = post(wiki, "/v1/search", **{**search, "session": "never"})
    assert as_if_new["hits"] == never["hits"] != moved["hits"]
    assert as_if_new["resift"]["session"] is None

    def refused(client: FlaskClient, id: str) -> list[Any]:
        same = {"X-Opaque-Id": "same"}
        answers = [
            client.get(f"/v1/sessions/{id}", headers=same),
            client.delete(f"/v1/sessions/{id}", headers=same),
            client.post(f"/v1/sessions/{id}/undo", headers=same),
        ]
        return [(answer.status_code, answer.text.replace(id, "ID")) for answer in answers]

    assert refused(wiki, "anna") == refused(wiki, "none")
    assert {status for status, _ in refused(wiki, "anna")} == {404}
    assert wiki.post("/v1/feedback", json=MARKS).status_code == 404
    assert shop.get("/v1/sessions/anna").get_json()["steps"] == 1
    assert boss.get("/v1/sessions/anna").get_json()["steps"] == 1
    post(boss, "/v1/feedback", **{**MARKS, "relevant": ["1"]})
    assert shop.get("/v1/sessions/anna").get_json()["steps"] == 2
    assert shop.delete("/v1/sessions/anna").status_code == 200
    post(wiki, "/v1/feedback", **MARKS)
    assert shop.get("/v1/sessions/anna").status_code == 404


def test_sessions_without_an_owner_are_for_admins(clients: dict[str, FlaskClient], store: SessionStore) -> None:
    old = SessionRecord({"at": 1.0, "q": ["fire"], "j": [[1, 0, 0, 0, "2", 1, 0]]}, 4e9, ["docs"])
    assert store.write("old", old)
    assert clients[""].get("/v1/sessions/old").get_json()["steps"] == 1
    assert clients["boss"].get("/v1/sessions/old").get_json()["steps"] == 1
    assert clients["shop"].get("/v1/sessions/old").status_code == 404
    post(clients["shop"], "/v1/feedback", **MARKS)
    assert clients[""].get("/v1/sessions/anna").get_json()["steps"] == 1


def test_a_key_that_is_made_anew_keeps_its_sessions(
    clients: dict[str, FlaskClient], keys: KeyFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("resift.reranker.access.requests._CHECK_SECONDS", -1.0)
    post(clients["shop"], "/v1/feedback", **MARKS)
    keys.delete("shop")
    assert clients["shop"].get("/v1/sessions/anna").status_code == 401
    clients["shop"].environ_base["HTTP_X_API_KEY"] = keys.create("shop", ["feedback"])
    assert clients["shop"].get("/v1/sessions/anna").get_json()["steps"] == 1


def test_two_services_share_a_store(app: Flask, keys: KeyFile, tmp_path: Path) -> None:
    service, others = app.extensions["resift"], KeyFile(str(tmp_path / "other-keys.jsonl"))
    scopes, clients = ["search", "feedback", "review"], {}
    for name, file in (("one", keys), ("two", others)):
        created = {key: file.create(key, scopes) for key in ("shop", name)} | {"root": file.create("root", ["admin"])}
        config = replace(service.config, keys=str(file.path))
        application = create_app(config, engine=service.engine, model=service.model)
        for key, value in created.items():
            clients[name, key] = application.test_client()
            clients[name, key].environ_base["HTTP_X_API_KEY"] = value
    first, second, stranger = clients["one", "shop"], clients["two", "shop"], clients["two", "two"]

    search: dict[str, Any] = {"index": "docs", "query": "fire", "session": "anna"}
    post(first, "/v1/feedback", **MARKS)
    post(second, "/v1/feedback", **{**MARKS, "relevant": ["1"]})
    assert post(first, "/v1/search", **search)["hits"] == post(second, "/v1/search", **search)["hits"]
    assert first.get("/v1/sessions/anna").get_json()["steps"] == 2
    second.post("/v1/sessions/anna/undo")
    assert first.get("/v1/sessions/anna").get_json()["steps"] == 1
    assert stranger.get("/v1/sessions/anna").status_code == 404
    assert second.delete("/v1/sessions/anna").status_code == 200
    assert post(first, "/v1/search", **search)["resift"]["session"] is None

    assert first.put("/v1/reviews/r", json={"index": "docs"}).status_code == 200
    given = [
        {document["id"] for document in client.post("/v1/reviews/r/next", json={"size": 1, "by": by}).json["documents"]}
        for client, by in ((first, "anna"), (second, "ben"), (stranger, "carl"))
    ]
    assert sorted(map(len, given)) == [1, 1, 1]
    assert len(set.union(*given)) == 3
    stranger.post("/v1/reviews/r/judgements", json={"relevant": [*given[2]], "by": "carl"})
    assert first.get("/v1/reviews/r").json["progress"]["read"] == 1
    assert clients["two", "root"].delete("/v1/reviews/r").status_code == 200
    assert first.get("/v1/reviews/r").status_code == 404
    assert second.put("/v1/reviews/r", json={"index": "docs"}).status_code == 200
    assert first.get("/v1/reviews/r").json["progress"]["read"] == 0


def test_files_are_their_owners_alone(tmp_path: Path, model: Model, keys: KeyFile) -> None:
    old = os.umask(0)
    try:
        config = Config(engine=str(tmp_path / "docs.db"), store=str(tmp_path / "own.db"), keys=str(keys.path))
        key = keys.create("shop", SCOPES)
        engine = SqliteEngine(config.engine)
        engine.create("docs", ["text"], model)
        assert engine.bulk("docs", [Document("2", {"text": "fire"}, model.encode(["fire"])[0])]) == []
        client = create_app(config, engine=engine, model=model).test_client()
        client.environ_base["HTTP_X_API_KEY"] = key
        post(client, "/v1/feedback", **MARKS)
        dead = DeadLetters(tmp_path / "dead.jsonl")
        dead.add(BadLine("docs.jsonl", 1, "no JSON", "{"), 400, "no JSON", "{")
        dead.close()
    finally:
        os.umask(old)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir() if path.is_file()}
    assert {"docs.db", "docs.db-wal", "own.db", "own.db-wal", "keys.jsonl", "dead.jsonl"} <= set(modes)
    assert set(modes.values()) == {0o600}
    engine.close()
