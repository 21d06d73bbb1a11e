"""Fixtures that several test files share."""

from __future__ import annotations

import os
import signal
import socket
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

# One thread for torch and for numpy, which read this as they are imported: tests run side by side, and on small
# networks threads that wait for one another take several times as long as one.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pytest
from clock import Clock
from engine_documents import CONTENT_WORDS, documents

from resift import Model, WordVectors, build_model, load_model
from resift.contracts.engine import Engine
from resift.contracts.session_store import SessionStore
from resift.plugin.connect import open_engine, open_session_store
from resift.plugin.opensearch.engine import OpenSearchEngine

# A suite that a shell starts in the background inherits an ignored SIGINT, and so would commands that tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A machine that is busy with several suites may take longer for a search than anybody would wait for it.
os.environ.setdefault("RESIFT_SEARCH_TIMEOUT", "30")

pytest_plugins = [
    *("opensearch_fixture", "evaluation_fixtures", "ubi_events", "rewritten_node", "secured_node", "wrong_vectors"),
    *("browser", "page_app", "workers"),
]

WORDS = [*CONTENT_WORDS, "the", "of", "a"]
TOPICS = {"fire": "fire bush flame smoke forest tree", "war": "army gun soldier war ceasefire peace"}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, and no settings from outside."""
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.startswith("RESIFT_") or name == "OPENSEARCH_URL":
            monkeypatch.delenv(name)
    return tmp_path


@pytest.fixture(scope="session")
def nowhere() -> Iterator[str]:
    """An address that nothing answers at: its port is taken, and nobody listens on it."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


@pytest.fixture(scope="session")
def vectors() -> WordVectors:
    """Word vectors of eight dimensions; words of one topic are near each other."""
    rng = np.random.default_rng(7)
    centres = {topic: rng.normal(size=8) for topic in TOPICS}
    rows = [
        next((centres[t] for t, members in TOPICS.items() if word in members.split()), 0) + 0.3 * rng.normal(size=8)
        for word in WORDS
    ]
    return WordVectors.build(WORDS, np.asarray(rows, np.float32))


@pytest.fixture(scope="session")
def model(vectors: WordVectors) -> Model:
    """The weighted mean of those vectors."""
    return build_model("mean", vectors)


@pytest.fixture(scope="session")
def packaged() -> Model:
    """The model that users start with."""
    return load_model()


@pytest.fixture(scope="session")
def cluster(opensearch_url: str) -> Iterator[OpenSearchEngine]:
    """The real cluster."""
    engine = OpenSearchEngine(opensearch_url, timeout=60)
    yield engine
    engine.close()


def address(request: pytest.FixtureRequest, file: Path) -> str:
    """The file or the real OpenSearch, as the fixture's parameter says."""
    return str(file) if request.param == "sqlite" else str(request.getfixturevalue("opensearch_url"))


@pytest.fixture
def clock() -> Clock:
    """A clock that stands at 0."""
    return Clock()


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
