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

# A machine that runs several test suites may exceed the normal timeout of a search.
os.environ.setdefault("RESIFT_SEARCH_TIMEOUT", "30")


@pytest.fixture(scope="module", autouse=True)
def patience() -> Iterator[None]:
    """Increase the timeouts of clusters for the service, and of the service for sessions, clicks and models.

    On a busy machine a search may continue without them, but most tests are about searches with them. A module that
    tests timeouts overrides this fixture.
    """

    def patient(name: str) -> str:
        resource = read_resource(name).replace('_timeout": 1,', '_timeout": 30,')
        return resource.replace('"url": "{{urls}}",', '"url": "{{urls}}", "timeout": "60s",')

    with pytest.MonkeyPatch.context() as patched:
        for module in ("templates", "search_pipelines"):
            patched.setattr(f"resift.plugin.cluster.{module}.read_resource", patient)
        patched.setattr("resift.plugin.opensearch.models._SECONDS", 30.0)
        patched.setattr("resift.plugin.opensearch.client._PIPELINE_SECONDS", 30.0)
        patched.setattr("resift.plugin.operations.service_status._SERVICE_SECONDS", 30)
        for module in ("sessions", "ubi"):
            patched.setattr(f"resift.plugin.opensearch.{module}._TIMEOUT", 60.0)
        for module in ("plugin.opensearch.sessions", "plugin.opensearch.ubi", "embedded.database"):
            patched.setattr(f"resift.{module}.SEARCH_TIMEOUT", 30.0)
        yield


@pytest.fixture(scope="session")
def cluster(opensearch_url: str) -> Iterator[OpenSearchEngine]:
    """Return the real cluster."""
    engine = OpenSearchEngine(opensearch_url, timeout=60)
    yield engine
    engine.close()


def address(request: pytest.FixtureRequest, file: Path) -> str:
    """Return the address of the file or of the real OpenSearch, according to the parameter."""
    return str(file) if request.param == "sqlite" else str(request.getfixturevalue("opensearch_url"))


@pytest.fixture(params=["sqlite", "opensearch"])
def engine_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the address of each engine in turn: an embedded engine in a new file, and a real OpenSearch."""
    return address(request, tmp_path / "engine.db")


@pytest.fixture
def engine(engine_url: str) -> Iterator[Engine]:
    """Return an engine of either kind."""
    engine = open_engine(engine_url)
    yield engine
    engine.close()


@pytest.fixture
def index(engine: Engine) -> Iterator[str]:
    """Return a unique index name. The index is deleted at the end if it exists."""
    name = f"resift-test-{uuid.uuid4().hex[:12]}"
    yield name
    engine.drop_if_exists(name)


@pytest.fixture
def indexed(engine: Engine, index: str, model: Model) -> str:
    """Return an index with the five documents."""
    engine.create(index, ["title", "text"], model)
    assert engine.bulk(index, documents(model)) == []
    engine.refresh(index)
    return index


@pytest.fixture(params=["sqlite", "opensearch"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the address of each session store in turn: a new file, and a real OpenSearch."""
    return address(request, tmp_path / "sessions.db")


@pytest.fixture
def session_index(request: pytest.FixtureRequest) -> Iterator[str]:
    """Return a unique name for an index of sessions. The index is deleted at the end if it exists."""
    name = f"resift_sessions_{uuid.uuid4().hex[:12]}"
    yield name
    for url in {request.getfixturevalue(key) for key in ("store_url", "engine_url") if key in request.fixturenames}:
        if url.startswith("http"):
            engine = open_engine(url)
            engine.drop_if_exists(name)
            engine.close()


@pytest.fixture
def open_stores(store_url: str, session_index: str) -> Iterator[Callable[[], SessionStore]]:
    """Return a function that opens the same store again, as another replica would."""
    opened = []

    def open_one() -> SessionStore:
        opened.append(open_session_store(store_url, session_index))
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()
