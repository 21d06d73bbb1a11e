"""Tests of closing a search service."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from resift import Model
from resift.contracts.documents import IndexInfo
from resift.reranker import Config, create_app
from resift.service.connect import open_engine
from resift.service.search_service import SearchService


@pytest.fixture
def service(tmp_path: Path, model: Model) -> SearchService:
    """Return a service over an embedded engine."""
    engine = open_engine(str(tmp_path / "engine.db"))
    app = create_app(Config(store=str(tmp_path / "sessions.db")), engine=engine, model=model)
    return app.extensions["resift"]  # type: ignore[no-any-return]


def test_background_threads_end_before_connections_are_closed(
    service: SearchService, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    started = threading.Barrier(3)

    def read(name: str) -> None:
        started.wait(60)
        threading.Event().wait(0.1)
        events.append(name)

    def sample(info: IndexInfo, headers: object) -> None:
        read("sampled")
        service.words._sampling.release()

    for name in ("reviews", "engine"):
        monkeypatch.setattr(getattr(service, name), "close", lambda name=name: events.append(name))
    monkeypatch.setattr(service.sessions.store, "close", lambda: events.append("store"))
    monkeypatch.setattr(service.words, "_sample", sample)
    info = IndexInfo("papers", (), None, None, None)
    service.loader.start()
    service.loader.submit("a", lambda: read("loaded"))
    service.words.get(info)
    started.wait(60)
    service.close()
    assert set(events[:2]) == {"loaded", "sampled"}
    assert events[2:] == ["reviews", "store", "engine"]
    service.close()  # closing again is no error
    assert service.words.get(info) is None
    assert service.loader.submit("b", list) is None


def test_an_error_while_closing_does_not_keep_other_connections_open(
    service: SearchService, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[str] = []

    def fail() -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(service.reviews, "close", fail)
    monkeypatch.setattr(service.sessions.store, "close", fail)
    monkeypatch.setattr(service.engine, "close", lambda: closed.append("engine"))
    with pytest.raises(OSError, match="the disk is full"):
        service.close()
    assert closed == ["engine"]
