"""Indexing on both engines: nothing is lost, whatever the engine does."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from resift import Model, WordVectors, build_model
from resift.errors import EngineError, EngineUnavailable, ModelMismatch
from resift.ingest.indexing import ATTEMPTS, BATCH, DeadLetters, Indexer, Report
from resift.ingest.readers import BadLine, Files, Record
from resift.ingest.verify import verify
from resift.plugin.documents import Document, Rejection
from resift.plugin.engine import Engine
from resift.plugin.sqlite.engine import SqliteEngine


def record(number: int, text: Any = "fire") -> Record:
    """A record with this number as line and id."""
    return Record("f", number, str(number), {"text": text})


@pytest.fixture
def dead(tmp_path: Path) -> DeadLetters:
    """A dead-letter file to be."""
    return DeadLetters(tmp_path / "dead.jsonl")


def letters(dead: DeadLetters) -> list[dict[str, Any]]:
    """What the file holds."""
    return [json.loads(line) for line in dead.path.read_text().splitlines()] if dead.path.exists() else []


def count(engine: Engine, index: str) -> int:
    """Documents in an index."""
    return int(engine.search(index, {"size": 0, "track_total_hits": True}).response["hits"]["total"]["value"])


def test_index_search_and_run_again(engine: Engine, index: str, model: Model, dead: DeadLetters) -> None:
    texts = ["bush fire", "army gun", "", "zzz"]
    reports: list[Report] = []
    for _ in range(2):
        indexer = Indexer(engine, model, index, dead)
        report = indexer.run([record(i, t) for i, t in enumerate(texts)], ["text"], progress=reports.append)
        assert (report.indexed, report.dead, report.retries) == (4, 0, 0)
    assert reports
    assert count(engine, index) == 4
    assert not dead.path.exists()
    documents = engine.documents(index, ["0", "1", "2", "3"])
    for i, text in enumerate(texts):
        np.testing.assert_allclose(documents[str(i)][1], model.encode([text])[0], rtol=1e-6)


def test_refused_documents_are_kept_with_their_reason(
    engine: Engine, index: str, model: Model, dead: DeadLetters
) -> None:
    bad = BadLine("f", 2, "{broken", "not JSON")
    report = Indexer(engine, model, index, dead).run([record(1), bad, record(3, {"an": "object"}), record(4)], ["text"])
    assert (report.indexed, report.dead) == (2, 2)
    assert count(engine, index) == 2
    first, second = letters(dead)
    assert (first["line"], first["document"], first["reason"]) == (2, "{broken", "not JSON")
    assert (second["line"], second["document"], second["status"]) == (
        3,
        {"_id": "3", "text": {"an": "object"}},
        400,
    )


def test_dead_letters_never_replace_earlier_ones(tmp_path: Path, model: Model) -> None:
    engine, path = SqliteEngine(str(tmp_path / "e.db")), tmp_path / "docs.dead.jsonl"
    lines = [{"_id": str(i), "text": {"an": "object"}} for i in range(3)]
    (tmp_path / "docs.jsonl").write_text("{broken\n" + "\n".join(map(json.dumps, lines)))
    for source, fewer in ((tmp_path / "docs.jsonl", 4), (path, 4), (tmp_path / "docs.dead.1.jsonl", 4)):
        report = Indexer(engine, model, "docs", DeadLetters(path)).run(Files([str(source)]), ["text"])
        assert (report.indexed, report.dead) == (0, fewer)
    engine.close()
    found = [(tmp_path / f"docs.dead{n}.jsonl").read_text().splitlines() for n in ("", ".1", ".2")]
    assert [[json.loads(line)["document"] for line in lines] for lines in found] == [["{broken", *lines]] * 3


def test_more_than_one_batch(engine: Engine, index: str, model: Model, dead: DeadLetters) -> None:
    report = Indexer(engine, model, index, dead).run((record(i) for i in range(BATCH + 7)), ["text"])
    assert report.indexed == count(engine, index) == BATCH + 7


def test_an_index_of_another_model_is_refused(
    engine: Engine, index: str, model: Model, vectors: WordVectors, dead: DeadLetters
) -> None:
    Indexer(engine, model, index, dead).run([record(1)], ["text"])
    with pytest.raises(ModelMismatch):
        Indexer(engine, build_model("boew:4", vectors), index, dead).run([record(2)], ["text"])
    assert count(engine, index) == 1


def test_of_equal_ids_the_last_one_stays(engine: Engine, index: str, model: Model, dead: DeadLetters) -> None:
    rows = [record(i % (BATCH + 50), f"fire {i}") for i in range(4 * BATCH)]
    report = Indexer(engine, model, index, dead).run(rows, ["text"])
    assert (report.indexed, report.dead) == (4 * BATCH, 0)
    last = {row.id: row.source["text"] for row in rows}
    assert {stored.id: stored.source["text"] for stored in engine.scan(index)} == last
    assert verify(engine, model, index).stale == []


def test_refused_documents_of_several_batches(engine: Engine, index: str, model: Model, dead: DeadLetters) -> None:
    bad = {7, BATCH + 7, 2 * BATCH + 1}
    rows = [record(i, float("nan") if i in bad else f"gun {i}") for i in range(3 * BATCH)]
    report = Indexer(engine, model, index, dead).run(rows, ["text"])
    assert (report.indexed, report.dead) == (3 * BATCH - 3, 3)
    assert {int(letter["document"]["_id"]) for letter in letters(dead)} == bad


class Faulty(SqliteEngine):
    """An embedded engine that answers bulk requests as a script says before it works: a status for every document,
    a status by id, or an error."""

    def __init__(self, path: str, script: list[Any]) -> None:
        super().__init__(path)
        self.script, self.requests = script, 0

    def bulk(self, index: str, documents: Sequence[Document]) -> list[Rejection]:
        self.requests += 1
        fault = self.script.pop(0) if self.script else {}
        if isinstance(fault, Exception):
            raise fault
        good = [document for document in documents if document.id not in fault]
        assert super().bulk(index, good) == []
        return [Rejection(i, d.id, fault[d.id], "busy") for i, d in enumerate(documents) if d.id in fault]


def run(
    tmp_path: Path, model: Model, dead: DeadLetters, script: list[Any], records: int = 4
) -> tuple[Report, Faulty, list[float]]:
    """Index records through a faulty engine; the waits are noted, not slept."""
    engine, waits = Faulty(str(tmp_path / "faulty.db"), script), list[float]()
    indexer = Indexer(engine, model, "docs", dead, sleep=waits.append)
    try:
        indexer.run([record(i) for i in range(records)], ["text"])
    finally:
        assert indexer.report.indexed + indexer.report.dead == records
        assert count(engine, "docs") == indexer.report.indexed
        engine.close()
    return indexer.report, engine, waits


def test_busy_items_are_retried_alone_with_growing_waits(tmp_path: Path, model: Model, dead: DeadLetters) -> None:
    report, engine, waits = run(tmp_path, model, dead, [{"1": 429, "2": 503}, {"2": 429}, {"2": 429}])
    assert (report.indexed, report.retries, engine.requests) == (4, 3, 4)
    assert all(base * 0.75 <= wait <= base * 1.25 for base, wait in zip([0.5, 1, 2], waits, strict=True))
    assert letters(dead) == []


def test_items_that_stay_busy_end_in_the_file(tmp_path: Path, model: Model, dead: DeadLetters) -> None:
    report, engine, _ = run(tmp_path, model, dead, [{"1": 429}] * ATTEMPTS)
    assert (report.indexed, report.dead, engine.requests) == (3, 1, ATTEMPTS)
    assert [(letter["document"]["_id"], letter["status"]) for letter in letters(dead)] == [("1", 429)]


def test_refused_and_busy_in_one_batch(tmp_path: Path, model: Model, dead: DeadLetters) -> None:
    report, _, _ = run(tmp_path, model, dead, [{"0": 400, "3": 429}])
    assert (report.indexed, report.dead) == (3, 1)
    assert letters(dead)[0]["document"]["_id"] == "0"


@pytest.mark.parametrize(
    "error", [EngineUnavailable("away"), EngineError("busy", status=429), EngineError("x", status=502)]
)
def test_an_engine_that_comes_back(tmp_path: Path, model: Model, dead: DeadLetters, error: Exception) -> None:
    report, _, waits = run(tmp_path, model, dead, [error, error])
    assert (report.indexed, report.dead, len(waits)) == (4, 0, 2)


def test_an_engine_that_does_not(tmp_path: Path, model: Model, dead: DeadLetters) -> None:
    with pytest.raises(EngineUnavailable, match="lines 0 to 3: away"):
        run(tmp_path, model, dead, [EngineUnavailable("away")] * 99)
    assert len(letters(dead)) == 4


def test_too_large_requests_are_halved(tmp_path: Path, model: Model, dead: DeadLetters) -> None:
    large = EngineError("too large", status=413)
    report, engine, _ = run(tmp_path, model, dead, [large, large])
    assert (report.indexed, report.dead, engine.requests) == (4, 0, 5)


def test_one_document_too_large_is_kept(tmp_path: Path, model: Model, dead: DeadLetters) -> None:
    large = EngineError("too large", status=413)
    report, _, _ = run(tmp_path, model, dead, [large, large, large])
    assert (report.indexed, report.dead) == (3, 1)
    assert letters(dead)[0]["status"] == 413


def test_verify_and_repair(engine: Engine, index: str, model: Model, dead: DeadLetters) -> None:
    Indexer(engine, model, index, dead).run([record(i, "army gun") for i in range(4)], ["text"])
    source, version = engine.get(index, "1")
    assert engine.put(index, Document("1", source, None), version)
    _, version = engine.get(index, "2")
    assert engine.put(index, Document("2", {"text": "peace"}, model.encode(["army gun"])[0]), version)
    engine.refresh(index)
    found = verify(engine, model, index)
    assert (found.checked, found.missing, found.stale, found.repaired) == (4, ["1"], ["2"], 0)
    assert verify(engine, model, index, repair=True).repaired == 2
    again = verify(engine, model, index)
    assert (again.checked, again.missing, again.stale) == (4, [], [])
