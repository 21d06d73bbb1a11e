"""What was chosen for an index counts in all of its searches, and in no others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from resift import Model
from resift.contracts.engine import Engine
from resift.contracts.tuning import DEFAULT_TUNING, Tuning
from resift.feedback.judgements import Mark
from resift.rewriting.options import Options
from resift.service.bodies import Search
from resift.service.config import Config
from resift.service.connect import open_session_store
from resift.service.search_service import SearchService
from resift.sessions.sessions import Sessions
from resift.vectors.weights import beta_from_alpha, discount_alpha


@pytest.fixture
def service(engine: Engine, indexed: str, model: Model, tmp_path: Path) -> SearchService:
    """The service; it remembers an index for seconds, so that tests tune before they search."""
    sessions = Sessions(open_session_store(str(tmp_path / "sessions.db"), "resift_sessions"))
    return SearchService(engine, model, sessions, Config(engine=":memory:", store=":memory:"))


def weight(service: SearchService, index: str, **options: Any) -> float:
    """The similarity's weight in a search."""
    told = service.search(Search("fire", 5, index=index, **options)).resift
    return float(told.get("alpha", 0.0))


def test_the_weight_is_the_indexs_own(service: SearchService, engine: Engine, indexed: str, model: Model) -> None:
    engine.tune(indexed, Tuning(0.25, model.hash))
    assert weight(service, indexed) == 0.25
    assert weight(service, indexed, alpha=0.4) == 0.4, "who names a weight gets it"


def test_a_weight_for_another_models_vectors_is_not(service: SearchService, engine: Engine, indexed: str) -> None:
    engine.tune(indexed, Tuning(0.25, "0" * 16))
    assert weight(service, indexed) == 0.5


def test_a_session_has_the_constants_of_the_index(
    service: SearchService, engine: Engine, indexed: str, model: Model
) -> None:
    engine.tune(indexed, Tuning(0, model.hash, words=2, strength=3, carried=0))
    service.marks.add("s", indexed, "fire", {"0": Mark(1.0)})
    info, load = service.infos.get(indexed), service.knowledge.load
    usual = replace(info, tuning=DEFAULT_TUNING)
    fire, forest = Options(text="fire", session="s"), Options(text="forest", session="s")
    words = load(usual, fire).expansion_words
    assert words
    assert load(info, fire).expansion_words == pytest.approx({word: 2 * weight for word, weight in words.items()})
    assert load(usual, forest).feedback is not None
    assert load(info, forest).feedback is None, "nothing is carried over"
    assert weight(service, indexed) == 0 < weight(service, indexed, session="s"), "what marks teach, vectors may say"
    assert beta_from_alpha(discount_alpha(0.2, None, info.tuning.strength)) == pytest.approx(3 * beta_from_alpha(0.2))
