"""Fixtures of all test tiers. They need no engine, browser or network."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

# Limit torch and numpy, which read this when they are imported, to a single thread. Tests run in parallel, and on small
# networks several threads that wait for each other are several times slower.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pytest

pytest.register_assert_rewrite("resift.contracts.testing")  # before it is imported

from clock import Clock
from engine_documents import CONTENT_WORDS
from hypothesis import HealthCheck, settings

from resift import Model, WordVectors, build_model, load_model
from resift.encoders.tables import build_table

# The duration of an example depends on the machine, so there is no deadline. The examples are the same in each run.
# Random failures then occur in `make fuzz`, where they are expected.
FRESH = "RESIFT_FRESH_EXAMPLES" in os.environ
settings.register_profile("resift", deadline=None, derandomize=not FRESH, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("resift")

# A test suite in the background of a shell inherits an ignored SIGINT. Commands that tests interrupt must not.
signal.signal(signal.SIGINT, signal.default_int_handler)

pytest_plugins = ["workers"]  # each tier's own conftest.py loads further plugins

WORDS = [*CONTENT_WORDS, "the", "of", "a"]
TOPICS = {"fire": "fire bush flame smoke forest tree", "war": "army gun soldier war ceasefire peace"}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to an empty folder without environment settings of Resift. Settings of the tests' own nodes stay."""
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        is_of_tests = name.startswith(("RESIFT_NODE_", "RESIFT_REQUIRE_"))
        if (name.startswith("RESIFT_") and not is_of_tests) or name == "OPENSEARCH_URL":
            monkeypatch.delenv(name)
    return tmp_path


@pytest.fixture(scope="session")
def nowhere() -> Iterator[str]:
    """Return an address that does not answer: its port is in use, but nothing listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


@pytest.fixture(scope="session")
def vectors() -> WordVectors:
    """Return word vectors of eight dimensions, in which words of the same topic are similar."""
    rng = np.random.default_rng(7)
    centres = {topic: rng.normal(size=8) for topic in TOPICS}
    rows = [
        next((centres[t] for t, members in TOPICS.items() if word in members.split()), 0) + 0.3 * rng.normal(size=8)
        for word in WORDS
    ]
    return build_table(WORDS, np.asarray(rows, np.float32))


@pytest.fixture(scope="session")
def model(vectors: WordVectors) -> Model:
    """Return a model that computes the weighted mean of these vectors."""
    return build_model("mean", vectors)


@pytest.fixture(scope="session")
def packaged() -> Model:
    """Return the packaged model."""
    return load_model()


@pytest.fixture
def clock() -> Clock:
    """Return a clock that starts at 0."""
    return Clock()
