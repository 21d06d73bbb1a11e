"""Fixtures that several test files share."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from resift import Model, WordVectors, build_model
from resift.plugin.engine import Engine, open_engine

pytest_plugins = ["opensearch_fixture"]

WORDS = [
    "fire",
    "bush",
    "flame",
    "smoke",
    "forest",
    "tree",
    "army",
    "gun",
    "soldier",
    "war",
    "ceasefire",
    "peace",
    "rain",
    "river",
    "water",
    "the",
    "of",
    "a",
]
TOPICS = {"fire": "fire bush flame smoke forest tree", "war": "army gun soldier war ceasefire peace"}


@pytest.fixture(scope="session")
def vectors() -> WordVectors:
    """Eight dimensions, words of one topic near each other."""
    rng = np.random.default_rng(7)
    centres = {topic: rng.normal(size=8) for topic in TOPICS}
    rows = [
        next((centres[t] for t, members in TOPICS.items() if word in members.split()), 0) + 0.3 * rng.normal(size=8)
        for word in WORDS
    ]
    return WordVectors.build(WORDS, np.asarray(rows, np.float32))


@pytest.fixture(scope="session")
def model(vectors: WordVectors) -> Model:
    """The weighted mean over those vectors."""
    return build_model("mean", vectors)


@pytest.fixture(params=["sqlite", "opensearch"])
def engine_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Both engines in turn: an embedded one in a fresh file, and a real OpenSearch."""
    if request.param == "sqlite":
        return str(tmp_path / "engine.db")
    return str(request.getfixturevalue("opensearch_url"))


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
