"""Fixtures for tests that run on each engine and each session store: an embedded one, and a real OpenSearch."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from engine_documents import documents

from resift import Model
from resift.contracts.engine import Engine
from resift.contracts.session_store import SessionStore
from resift.plugin import read_resource
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.service.connect import open_engine, open_session_store

# A machine that is busy with several suites may take longer for a search than anybody would wait for it.
os.environ.setdefault("RESIFT_SEARCH_TIMEOUT", "30")


@pytest.fixture(scope="module", autouse=True)
def patience() -> Iterator[None]:
    """Has clusters wait for a reranker, and rerankers for sessions and clicks, longer than they would in earnest.

    Where other tests keep the machine busy nothing would be wrong with a search that goes on without, but most tests
    are about one that does not. A module that is about waiting has a fixture of this name that changes nothing.
    """

    def patient(name: str) -> str:
        return read_resource(name).replace('_timeout": 1,', '_timeout": 30,')

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("resift.plugin.cluster.templates.read_resource", patient)
        for module in ("sessions", "ubi"):
            patched.setattr(f"resift.plugin.opensearch.{module}._TIMEOUT", 60.0)
        for module in ("plugin.opensearch.sessions", "plugin.opensearch.ubi", "embedded.database"):
            patched.setattr(f"resift.{module}.SEARCH_TIMEOUT", 30.0)
        yield


@pytest.fixture(scope="session")
def cluster(opensearch_url: str) -> Iterator[OpenSearchEngine]:
    """The real cluster."""
    engine = OpenSearchEngine(opensearch_url, timeout=60)
    yield engine
    engine.close()


def address(request: pytest.FixtureRequest, file: Path) -> str:
    """The file or the real OpenSearch, as the fixture's parameter says."""
    return str(file) if request.param == "sqlite" else str(request.getfixturevalue("opensearch_url"))


@pytest.fixture(params=["sqlite", "opensearch"])
def engine_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of each engine in turn: an embedded one in a fresh file, and a real OpenSearch."""
    return address(request, tmp_path / "engine.db")


@pytest.fixture
def engine(engine_url: str) -> Iterator[Engine]:
    """An engine of either kind."""
    engine = open_engine(engine_url)
    yield engine
    engine.close()


@pytest.fixture
def index(engine: Engine) -> Iterator[str]:
    """A name that no other test uses; the index, if made, is dropped."""
    name = f"resift-test-{uuid.uuid4().hex[:12]}"
    yield name
    engine.drop_if_exists(name)


@pytest.fixture
def indexed(engine: Engine, index: str, model: Model) -> str:
    """An index with the five documents."""
    engine.create(index, ["title", "text"], model)
    assert engine.bulk(index, documents(model)) == []
    engine.refresh(index)
    return index


@pytest.fixture(params=["sqlite", "opensearch"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of each session store in turn: a fresh file, and a real OpenSearch."""
    return address(request, tmp_path / "sessions.db")


@pytest.fixture
def session_index(request: pytest.FixtureRequest) -> Iterator[str]:
    """A name for an index of sessions that no other test uses; the index, if made, is dropped."""
    name = f"resift_sessions_{uuid.uuid4().hex[:12]}"
    yield name
    for url in {request.getfixturevalue(key) for key in ("store_url", "engine_url") if key in request.fixturenames}:
        if url.startswith("http"):
            engine = open_engine(url)
            engine.drop_if_exists(name)
            engine.close()


@pytest.fixture
def open_stores(store_url: str, session_index: str) -> Iterator[Callable[[], SessionStore]]:
    """A function that opens the same store again, as another replica would."""
    opened = []

    def open_one() -> SessionStore:
        opened.append(open_session_store(store_url, session_index))
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()
