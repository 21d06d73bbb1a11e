"""Tests of spelling suggestions on both engines: their words, the rights of their sample, and waiting."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Any

import pytest
from clock import Clock
from service_app import wait_for_sample

from resift import Model
from resift.contracts.documents import Document, SearchResult
from resift.contracts.engine import Engine
from resift.embedded.engine import SqliteEngine
from resift.errors import EngineError, EngineUnavailable, ResiftError
from resift.ingest.indexing import DeadLetters, Indexer
from resift.ingest.readers import Record
from resift.service import words
from resift.service.bodies import Search
from resift.service.config import Config
from resift.service.connect import open_session_store
from resift.service.search_service import SearchService
from resift.service.words import FAILURE_SECONDS, SAMPLE_SECONDS, THREAD_NAME, SampledWords
from resift.sessions.sessions import Sessions

TEXTS = [
    "bush fire in the forest",
    "the bush fire of 2001",
    "forest and river",
    "soldiers of the army",
    "the army returned fire",
]


@pytest.fixture
def filled(engine: Engine, index: str, model: Model, tmp_path: Path) -> str:
    """Return an index with five documents."""
    records = [Record("f", i, str(i), {"text": text, "n": i}) for i, text in enumerate(TEXTS)]
    assert Indexer(engine, model, index, DeadLetters(tmp_path / "dead")).run(records, ["text"]).refused == 0
    return index


@pytest.fixture
def service(engine: Engine, model: Model, tmp_path: Path, clock: Clock) -> SearchService:
    """Return a service over both kinds of engines, with a clock for its samples."""
    store = open_session_store(str(tmp_path / "sessions.db"), "sessions")
    service = SearchService(engine, model, Sessions(store), Config())
    service.words = service.rewriter.words = SampledWords(engine, model, clock)
    return service


def suggestion(service: SearchService, index: str, query: Any, **more: Any) -> str | None:
    """Search, and repeat the search once the sample was read."""
    service.search(Search(query, index=index, **more))
    wait_for_sample()
    found: str | None = service.search(Search(query, index=index, **more)).resift.get("did_you_mean")
    return found


def test_misspelt_words_are_replaced(service: SearchService, filled: str) -> None:
    assert suggestion(service, filled, "bush fier") == "bush fire"
    assert suggestion(service, filled, '"Bsuh" fier, 2001!') == '"bush" fire, 2001!'
    assert suggestion(service, filled, "forrest or rivre") == "forest or river"
    assert suggestion(service, filled, "bushfire") == "bush fire"
    assert suggestion(service, filled, "fier", size=0) == "fire"


def test_a_patient_search_returns_the_suggestion_immediately(
    service: SearchService, filled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sampled = []
    sample = service.words._sample
    monkeypatch.setattr(service.words, "_sample", lambda *given: (sampled.append(given), sample(*given)))
    service.words.wait_seconds = 60.0
    assert "did_you_mean" not in service.search(Search("bush fire", index=filled, widen=False)).resift
    assert sampled == [], "words of the index need no suggestion, and nobody waits for one"
    assert service.search(Search("bush fier", index=filled)).resift["did_you_mean"] == "bush fire"
    assert service.search(Search("forrest", index=filled)).resift["did_you_mean"] == "forest"
    assert len(sampled) == 1


def test_patience_ends(service: SearchService, filled: str, monkeypatch: pytest.MonkeyPatch) -> None:
    goes_on = threading.Event()
    sample = service.words._sample
    monkeypatch.setattr(service.words, "_sample", lambda *given: (goes_on.wait(), sample(*given)))
    service.words.wait_seconds = 0.05
    assert "did_you_mean" not in service.search(Search("bush fier", index=filled)).resift
    goes_on.set()
    wait_for_sample()
    assert service.search(Search("bush fier", index=filled)).resift["did_you_mean"] == "bush fire"


def test_a_correct_query_gets_no_suggestion(service: SearchService, filled: str) -> None:
    for query in ("bush fire", "FIRE, forest", "fires", "army of soldier", "fire 2010", "a in of", "", "東京 タワー"):
        assert suggestion(service, filled, query) is None, query


def test_numbers_short_words_and_unknown_words_stay(service: SearchService, filled: str) -> None:
    assert suggestion(service, filled, "20012") is None
    assert suggestion(service, filled, "fire2 bsh") is None
    assert suggestion(service, filled, "zyxwvut") is None
    assert suggestion(service, filled, "20012 zyxwvut bsh fier") == "20012 zyxwvut bsh fire"


def test_bodies_and_long_texts_get_no_suggestion(service: SearchService, filled: str) -> None:
    assert suggestion(service, filled, {"match": {"text": "fier"}}) is None
    assert suggestion(service, filled, "fier " * 30) == "fire " * 30
    assert suggestion(service, filled, " ".join(f"fier{letter}" for letter in "abcdefghijklmnopq")) is None
    most = "fier " + " ".join(f"unknown{letter}" for letter in "abcdefghijklmno")
    assert len(most.split()) == 16
    assert suggestion(service, filled, most) == most.replace("fier", "fire")
    assert suggestion(service, filled, f"{most} unknownp") is None
    assert suggestion(service, filled, "f" * 50_000) is None


def test_what_a_filter_excludes_is_not_suggested(service: SearchService, filled: str) -> None:
    early = {"range": {"n": {"lte": 2}}}
    assert suggestion(service, filled, "forrest soldeirs", filter=early) == "forest soldeirs"
    assert suggestion(service, filled, "soldeirs", filter=early) is None
    assert suggestion(service, filled, "bushfire", filter={"term": {"n": 4}}) is None, "fire alone is in it"
    assert suggestion(service, filled, "bushfire", filter=early) == "bush fire"


def test_what_the_index_holds_is_right_even_if_the_sample_lacks_it(
    service: SearchService, filled: str, engine: Engine, model: Model
) -> None:
    assert suggestion(service, filled, "forext") == "forest"
    engine.bulk(filled, [Document("new", {"text": "forext"}, model.encode(["forext"])[0])])
    engine.refresh(filled)
    assert suggestion(service, filled, "forext fier") == "forext fire"


def test_the_sample_is_read_again_after_a_while(
    service: SearchService, filled: str, engine: Engine, model: Model, clock: Clock
) -> None:
    assert suggestion(service, filled, "caterpilar") is None
    engine.bulk(filled, [Document("new", {"text": "caterpillar"}, model.encode(["caterpillar"])[0])])
    engine.refresh(filled)
    assert suggestion(service, filled, "caterpilar") is None
    clock.now += SAMPLE_SECONDS + 1
    assert suggestion(service, filled, "caterpilar") == "caterpillar"


def test_every_caller_has_a_sample_of_what_it_may_read(
    service: SearchService, filled: str, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, samples = engine.search, []

    def search(index: str, body: dict[str, Any], vectors: Any = None, headers: Any = None) -> SearchResult:
        """Search, but return only two documents to callers with credentials."""
        if "knn" not in str(body) and body.get("size", 0) > 20:
            samples.append(headers)
            body = {**body, "query": {"ids": {"values": ["3", "4"]}}} if headers else body
        return original(index, body, vectors, headers)

    monkeypatch.setattr(engine, "search", search)
    anna = {"Authorization": "Basic YW5uYTp4"}
    assert suggestion(service, filled, "forrest") == "forest"
    assert suggestion(service, filled, "forrest", headers=anna) is None
    assert suggestion(service, filled, "soldires", headers=anna) == "soldiers"
    assert suggestion(service, filled, "forrest") == "forest"
    assert {str(headers) for headers in samples} == {"None", str(anna)}


def test_many_callers_do_not_evict_each_others_samples(
    service: SearchService, filled: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(words, "_CACHE_SIZE", 2)
    service.words = service.rewriter.words = SampledWords(service.engine, service.model, clock)
    anna, bob, carl = ({"Authorization": f"Basic {name}"} for name in ("anna", "bob", "carl"))
    first = [suggestion(service, filled, "forrest", headers=headers) for headers in (anna, bob, carl, anna)]
    assert first == ["forest", "forest", None, "forest"]
    clock.now += SAMPLE_SECONDS + 1
    assert suggestion(service, filled, "forrest", headers=carl) == "forest"


def test_no_search_waits_for_the_sample(
    service: SearchService, filled: str, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, released, began = engine.search, threading.Event(), threading.Semaphore(0)

    def slow(index: str, body: dict[str, Any], *rest: Any, **more: Any) -> SearchResult:
        if threading.current_thread().name == THREAD_NAME:
            began.release()
            released.wait()
        return original(index, body, *rest, **more)

    monkeypatch.setattr(engine, "search", slow)
    try:
        for _ in range(3):
            answer = service.search(Search("bush fier", index=filled))
            assert answer.result.hits
            assert "did_you_mean" not in answer.resift
        assert began.acquire(timeout=30)
        # a daemon thread does not keep the process from ending
        assert [one.daemon for one in threading.enumerate() if one.name == THREAD_NAME] == [True]
    finally:
        released.set()
    assert suggestion(service, filled, "bush fier") == "bush fire"


def test_a_failing_sample_does_not_fail_searches(
    service: SearchService, filled: str, engine: Engine, clock: Clock, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    original, asked = engine.search, []

    def refused(index: str, body: dict[str, Any], *rest: Any, **more: Any) -> SearchResult:
        if threading.current_thread().name == THREAD_NAME:
            asked.append(body)
            raise EngineError("too large", status=413)
        return original(index, body, *rest, **more)

    with caplog.at_level(logging.WARNING):
        monkeypatch.setattr(engine, "search", refused)
        assert suggestion(service, filled, "bush fier") is None
        assert suggestion(service, filled, "bush fier") is None
        assert len(asked) == 1
        monkeypatch.undo()
        clock.now += FAILURE_SECONDS + 1
        assert suggestion(service, filled, "bush fier") == "bush fire"

        def broken(*_: Any, **__: Any) -> list[SearchResult]:
            raise RuntimeError("out of order")

        monkeypatch.setattr(engine, "document_counts", broken)
        answer = service.search(Search("bush fier", index=filled))
    assert answer.result.hits
    assert "did_you_mean" not in answer.resift
    assert "too large" in caplog.text
    assert "out of order" in caplog.text


@pytest.mark.parametrize(
    ("error", "remains"),
    [
        (EngineUnavailable("no answer"), True),
        (EngineError("too many requests", status=429), True),
        (EngineError("no shards", status=503), True),
        (EngineError("no permission", status=403), False),
    ],
    ids=["unavailable", "overloaded", "failed", "forbidden"],
)
def test_a_sample_survives_a_failed_refresh_unless_the_caller_lost_its_rights(
    service: SearchService,
    filled: str,
    engine: Engine,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    error: ResiftError,
    remains: bool,
) -> None:
    assert suggestion(service, filled, "bush fier") == "bush fire"
    original, attempts = engine.search, []

    def refused(index: str, body: dict[str, Any], *rest: Any, **more: Any) -> SearchResult:
        if threading.current_thread().name == THREAD_NAME:
            attempts.append(body)
            raise error
        return original(index, body, *rest, **more)

    clock.now += SAMPLE_SECONDS + 1
    monkeypatch.setattr(engine, "search", refused)
    expected = "bush fire" if remains else None
    assert [suggestion(service, filled, "bush fier") for _ in range(2)] == [expected, expected]
    assert len(attempts) == 1
    clock.now += FAILURE_SECONDS + 1
    assert suggestion(service, filled, "bush fier") == expected
    assert len(attempts) == 2
    monkeypatch.undo()
    clock.now += FAILURE_SECONDS + 1
    assert suggestion(service, filled, "bush fier") == "bush fire"


def test_the_words_come_from_the_text_fields(engine: Engine, index: str, model: Model, service: SearchService) -> None:
    engine.create(index, ["title"], model)
    source = {"title": "forest", "author": "meadowlark"}
    engine.bulk(index, [Document("1", source, model.encode(["forest"])[0])])
    engine.refresh(index)
    assert suggestion(service, index, "forrest meadowlerk") == "forest meadowlerk"


@pytest.mark.parametrize("engine_url", ["opensearch"], indirect=True)
def test_stop_words_are_not_corrected(service: SearchService, filled: str) -> None:
    assert suggestion(service, filled, "these soldires") == "these soldiers"


def test_sampling_the_embedded_engine_needs_a_single_search(tmp_path: Path, model: Model) -> None:
    engine = SqliteEngine(str(tmp_path / "engine.db"))
    engine.create("docs", ["text"], model)
    engine.bulk("docs", [Document("1", {"text": "forest"}, None)])
    words, info = SampledWords(engine, model), engine.info("docs")
    assert words.suggest_correction("forrest", info) is None
    wait_for_sample()
    assert words.suggest_correction("forrest", info) == "forest"
    engine.close()


def test_a_thread_that_cannot_start_does_not_prevent_later_samples(
    service: SearchService, filled: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    info = service.infos.get(filled)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        assert service.words.get(info) is None
    assert "can't start new thread" in caplog.text
    assert suggestion(service, filled, "bush fier") == "bush fire"
