"""Tests of what sessions read from an index, if the engine fails for a moment."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from clock import Clock

from resift.contracts.documents import IndexInfo
from resift.contracts.engine import Engine
from resift.errors import CorruptEngine, EngineError, EngineUnavailable, ResiftError
from resift.feedback.feedback import Feedback
from resift.sessions.samples import BackgroundSampler, WordSelector

INFO = IndexInfo(name="papers", model="m", model_name="m", dim=2, fields=("text",))
TOO_MANY_REQUESTS = EngineError("rejected execution", status=429)
UNAVAILABLE = EngineUnavailable("no node answers")


class FailingEngine:
    """An engine that raises an error until it is None.

    Attributes:
        error: The error.
        calls: The number of requests.
    """

    def __init__(self, error: ResiftError) -> None:
        self.error: ResiftError | None = error
        self.calls = 0

    def _request(self) -> None:
        self.calls += 1
        if self.error is not None:
            raise self.error

    def sample(self, *arguments: Any) -> Any:
        """Return the vectors of two documents."""
        self._request()
        return SimpleNamespace(vectors=[np.array([1.0, 0.0]), np.array([0.0, 1.0])])

    def search(self, *arguments: Any, **options: Any) -> Any:
        """Return a response without hits."""
        self._request()
        return SimpleNamespace(response={"hits": {"total": {"value": 0}}})

    def word_counts(self, info: IndexInfo, fields: Any, words: list[str], headers: Any) -> tuple[int, list[int]]:
        """Count 1,000 documents. The word ``rare`` is in a single one."""
        self._request()
        return 1000, [1 if word == "rare" else 50 for word in words]


def results(engine: FailingEngine, clock: Clock) -> list[Any]:
    """Return functions that request a sample, the hits of a query, and the selected words."""
    samples, selector = BackgroundSampler(cast(Engine, engine), clock), WordSelector(cast(Engine, engine), clock)
    feedback = cast(Feedback, SimpleNamespace(expansion_terms={"rare": 1.0, "usual": 1.0}))
    return [
        lambda: len(samples.draw(INFO).vectors) > 0,
        lambda: not selector.has_enough_hits({"match": {"text": "fire"}}, INFO),
        lambda: list(selector.select(feedback, INFO)) == ["usual"],
    ]


@pytest.mark.parametrize("number", range(3))
def test_a_failure_counts_for_seconds_and_a_result_for_minutes(number: int) -> None:
    engine, clock = FailingEngine(TOO_MANY_REQUESTS), Clock()
    is_read = results(engine, clock)[number]
    assert not is_read()
    engine.error = None
    assert not is_read()
    assert engine.calls == 1, "an overloaded engine is not asked again at once"
    clock.now += 11
    assert is_read()
    clock.now += 500
    assert is_read()
    assert engine.calls == 2


@pytest.mark.parametrize("number", [1, 2])
def test_an_engine_that_was_unavailable_is_asked_again_after_seconds(number: int) -> None:
    engine, clock = FailingEngine(UNAVAILABLE), Clock()
    is_read = results(engine, clock)[number]
    assert not is_read()
    engine.error = None
    clock.now += 11
    assert is_read()


def test_only_an_engine_that_cannot_be_reached_prevents_a_search() -> None:
    clock = Clock()
    with pytest.raises(EngineUnavailable):
        BackgroundSampler(cast(Engine, FailingEngine(UNAVAILABLE)), clock).draw(INFO)
    damaged = FailingEngine(CorruptEngine("document '1' is damaged"))
    assert len(BackgroundSampler(cast(Engine, damaged), clock).draw(INFO).vectors) == 0


def test_a_failure_does_not_concern_other_indices() -> None:
    engine, clock = FailingEngine(TOO_MANY_REQUESTS), Clock()
    samples = BackgroundSampler(cast(Engine, engine), clock)
    assert len(samples.draw(INFO).vectors) == 0
    engine.error = None
    assert len(samples.draw(replace(INFO, name="news")).vectors) == 2


def test_long_queries_take_little_room_in_the_cache() -> None:
    engine = FailingEngine(TOO_MANY_REQUESTS)
    engine.error = None
    selector = WordSelector(cast(Engine, engine))
    query = {"terms": {"id": [f"document-{number}" for number in range(10_000)]}}
    assert not selector.has_enough_hits(query, INFO)
    tracemalloc.start()
    for number in range(20):
        selector.has_enough_hits({"bool": {"filter": [query], "must": [{"match": {"text": str(number)}}]}}, INFO)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 100_000
