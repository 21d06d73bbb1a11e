"""Tests of readers of the embedded engine: they do not wait for writers, and see consistent data."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from engine_documents import documents, ids

from resift import Model
from resift.contracts.documents import Document
from resift.contracts.session_store import SessionRecord
from resift.embedded import database
from resift.embedded.database import SqliteSessionStore
from resift.embedded.engine import SqliteEngine
from resift.errors import CorruptEngine

ONE = SessionRecord({"at": 1.5, "q": ["fire"], "j": [[1, 0, 0, 0, "d", 0.5]]}, 100.25, ["docs"])


@contextmanager
def written_to(file: Path) -> Iterator[None]:
    """Let another writer lock the file."""
    with closing(sqlite3.connect(file)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        yield
        writer.rollback()


def test_a_writer_keeps_no_reader_of_an_index_out(tmp_path: Path, model: Model) -> None:
    with closing(SqliteEngine(str(tmp_path / "engine.db"))) as engine:
        engine.create("docs", ["title", "text"], model)
        assert engine.bulk("docs", documents(model)) == []
        with written_to(tmp_path / "engine.db"):
            assert ids(engine, "docs", {"match": {"text": "rain"}}) == ["3"]
            assert engine.info("docs").dim == model.dim
            assert [one.name for one in engine.indices()] == ["docs"]
            assert engine.get("docs", "3")[0]["year"] == 2003
            assert list(engine.documents("docs", ["3", "4", "9"])) == ["3", "4"]
            assert len(list(engine.scan("docs"))) == 5


def test_a_writer_keeps_no_reader_of_sessions_out(tmp_path: Path) -> None:
    with closing(SqliteSessionStore(str(tmp_path / "sessions.db"))) as store:
        assert store.write("a", ONE)
        with written_to(tmp_path / "sessions.db"):
            found = store.read("a")
            assert found is not None
            assert found.indices == ["docs"]
            assert [(id, one.body) for id, one in store.scan("docs")] == [("a", ONE.body)]
            assert len([*store.scan()]) == 1


def test_a_reader_keeps_no_writer_out(tmp_path: Path, model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "_TIMEOUT", 0.2)
    with (
        closing(SqliteEngine(str(tmp_path / "engine.db"))) as engine,
        closing(sqlite3.connect(tmp_path / "engine.db")) as reader,
    ):
        engine.create("docs", ["title", "text"], model)
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM documents_1").fetchone() == (0,)
        assert engine.bulk("docs", documents(model)) == []
        assert reader.execute("SELECT count(*) FROM documents_1").fetchone() == (0,)
        assert ids(engine, "docs", {"match": {"text": "rain"}}) == ["3"]


def test_a_document_that_is_no_object_is_damage(tmp_path: Path, model: Model) -> None:
    with closing(SqliteEngine(str(tmp_path / "engine.db"))) as engine:
        engine.create("docs", ["title", "text"], model)
        assert engine.bulk("docs", documents(model)) == []
        with closing(sqlite3.connect(tmp_path / "engine.db")) as db:
            db.execute("UPDATE documents_1 SET source = '[]' WHERE id = '1'")
            db.commit()
        for call in (lambda: engine.get("docs", "1"), lambda: ids(engine, "docs", {"match_all": {}})):
            with pytest.raises(CorruptEngine, match="'1' is damaged"):
                call()


def test_a_store_in_memory_leaves_no_file(here: Path, model: Model) -> None:
    with closing(SqliteEngine(":memory:")) as engine:
        engine.create("docs", ["title", "text"], model)
        assert engine.bulk("docs", documents(model)) == []
        assert ids(engine, "docs", {"match": {"text": "rain"}}) == ["3"]
    assert list(here.iterdir()) == []


def test_the_passage_that_is_shown_holds_most_of_the_words(tmp_path: Path, model: Model) -> None:
    rain = "rain " * 100
    text = f"fire {rain}the river fire smoke fire {rain}fire"
    with closing(SqliteEngine(str(tmp_path / "engine.db"))) as engine:
        engine.create("docs", ["text"], model)
        assert engine.bulk("docs", [Document("1", {"text": text}, None)]) == []
        body = {"query": {"match": {"text": "fire smoke"}}, "highlight": {"fields": {"text": {}}}}
        (hit,) = engine.search("docs", body).hits
    (shown,) = hit["highlight"]["text"]
    assert "river <em>fire</em> <em>smoke</em> <em>fire</em> rain" in shown
    assert shown.count("<em>") == 3
