"""Fixtures: the application with an index of seven documents."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from resift import Model
from resift.contracts.engine import Engine
from resift.ingest.indexing import DeadLetters, Indexer
from resift.ingest.readers import Record
from resift.reranker import Config, create_app
from resift.service.connect import open_engine
from resift.service.words import THREAD_NAME

TEXTS = {
    "bush": "fire in the bush with smoke",
    "wood": "fire in the forest with flame",
    "tree": "fire of tree and forest and smoke and bush",
    "army": "fire of the army with a gun",
    "war": "fire of a soldier in the war",
    "rain": "rain water in the river",
    "none": "zzz qqq",
}
RECORDS = [Record("f", i, id, {"text": text, "n": i}) for i, (id, text) in enumerate(TEXTS.items())]


@pytest.fixture
def filled(engine: Engine, index: str, model: Model, tmp_path: Path) -> str:
    """Return an index with seven documents."""
    assert Indexer(engine, model, index, DeadLetters(tmp_path / "dead")).run(RECORDS, ["text"]).refused == 0
    return index


@pytest.fixture
def config(tmp_path: Path) -> Config:
    """Return small limits, so that tests can exceed them."""
    return Config(store=str(tmp_path / "sessions.db"), max_text=10_000, max_body=200_000, alpha=0.5)


@pytest.fixture
def app(engine: Engine, model: Model, config: Config) -> Flask:
    """Return an application over both kinds of engines."""
    return create_app(config, engine=engine, model=model)


@pytest.fixture
def client(app: Flask) -> FlaskClient:
    """Return the application's client."""
    return app.test_client()


@pytest.fixture(scope="module", params=["sqlite", "opensearch"])
def lasting(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, model: Model
) -> Iterator[tuple[FlaskClient, str]]:
    """Return the application's client and the index of seven documents, shared by all tests of a file."""
    folder, index = tmp_path_factory.mktemp("lasting"), f"resift-test-{uuid.uuid4().hex[:12]}"
    url = str(folder / "engine.db") if request.param == "sqlite" else request.getfixturevalue("opensearch_url")
    engine = open_engine(url)
    Indexer(engine, model, index, DeadLetters(folder / "dead")).run(RECORDS, ["text"])
    config = Config(store=str(folder / "sessions.db"), max_text=10_000, max_body=200_000, alpha=0.5)
    yield create_app(config, engine=engine, model=model).test_client(), index
    engine.drop_if_exists(index)
    engine.close()


@pytest.fixture
def plain(tmp_path: Path, model: Model, config: Config) -> Iterator[FlaskClient]:
    """Return an application over an embedded engine, for tests that do not depend on the engine."""
    from resift.embedded.engine import SqliteEngine

    engine = SqliteEngine(str(tmp_path / "plain.db"))
    app = create_app(config, engine=engine, model=model)
    yield app.test_client()
    app.extensions["resift"].sessions.store.close()
    engine.close()


def post(client: FlaskClient, path: str, status: int = 200, **body: Any) -> dict[str, Any]:
    """Return the JSON response to a POST request, and check its status."""
    response = client.post(path, json=body)
    answer: dict[str, Any] = response.get_json()
    assert response.status_code == status, answer
    return answer


def ids(answer: dict[str, Any]) -> list[str]:
    """Return the ids of the hits."""
    return [hit["_id"] for hit in answer["hits"]["hits"]]


def break_session_store(client: FlaskClient) -> str:
    """Replace the sessions' file by a folder, and return its path."""
    path = Path(client.application.config["RESIFT"].store)
    client.application.extensions["resift"].sessions.store.close()
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()
    path.mkdir()
    return str(path)


def wait_for_sample() -> None:
    """Wait until the threads that sample words have ended."""
    for thread in threading.enumerate():
        if thread.name == THREAD_NAME:
            thread.join()


@pytest.fixture
def known(lasting: tuple[FlaskClient, str]) -> FlaskClient:
    """Return an application over both kinds of engines, with an index and a session that has learned something."""
    client, index = lasting
    post(client, "/v1/feedback", session="anna", index=index, query="fire", relevant=["bush"], irrelevant=["army"])
    return client
