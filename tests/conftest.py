"""Fixtures that every tier of tests has: they need no engine, no browser and no network."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

# One thread for torch and for numpy, which read this as they are imported: tests run side by side, and on small
# networks threads that wait for one another take several times as long as one.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pytest

pytest.register_assert_rewrite("resift.contracts.testing")  # before it is imported

from clock import Clock
from engine_documents import CONTENT_WORDS
from hypothesis import HealthCheck, settings

from resift import Model, WordVectors, build_model, load_model
from resift.encoders.tables import build_table

# How long an example takes says something of the machine, and nothing of what is tested. The examples are the same each
# time, so that what fails by chance fails where somebody looks for it: in `make fuzz`.
FRESH = "RESIFT_FRESH_EXAMPLES" in os.environ
settings.register_profile("resift", deadline=None, derandomize=not FRESH, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("resift")

# A suite that a shell starts in the background inherits an ignored SIGINT, and so would commands that tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

pytest_plugins = ["workers"]  # what else a tier needs its own conftest.py loads

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
    return build_table(WORDS, np.asarray(rows, np.float32))


@pytest.fixture(scope="session")
def model(vectors: WordVectors) -> Model:
    """The weighted mean of those vectors."""
    return build_model("mean", vectors)


@pytest.fixture(scope="session")
def packaged() -> Model:
    """The model that users start with."""
    return load_model()


@pytest.fixture
def clock() -> Clock:
    """A clock that stands at 0."""
    return Clock()
