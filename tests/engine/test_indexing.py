"""Tests of indexing on both engines: no document is lost when requests fail."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from resift import Model, WordVectors, build_model
from resift.contracts.documents import Document, IndexInfo, Rejection
from resift.contracts.engine import Engine
from resift.embedded.engine import SqliteEngine
from resift.errors import BadInput, EngineError, EngineUnavailable, ModelMismatch
from resift.ingest.indexing import BATCH, DeadLetters, Indexer, Report
from resift.ingest.readers import BadLine, Files, Record
from resift.ingest.tables import Refusals
from resift.ingest.verify import verify
from resift.ingest.writing import ATTEMPTS
from resift.query.dsl import VECTOR_FIELD
from resift.stopping import Stop


def record(number: int, text: Any = "fire") -> Record:
    """Return a record with this number as its line and id."""
    return Record("f", number, str(number), {"text": text})


@pytest.fixture
def dead(tmp_path: Path) -> DeadLetters:
    """Return a dead-letter file that is not created yet."""
    return DeadLetters(tmp_path / "dead.jsonl")


def letters(dead: DeadLetters) -> list[dict[str, Any]]:
    """Return the entries of a dead-letter file."""
    return [json.loads(line) for line in dead.path.read_text().splitlines()] if dead.path.exists() else []


def count(engine: Engine, index: str) -> int:
    """Return the number of documents in an index."""
    return int(engine.search(index, {"size": 0, "track_total_hits": True}).response["hits"]["total"]["value"])


def test_index_search_and_run_again(engine: Engine, index: str, model: Model, dead: DeadLetters) -> None:
    texts = ["bush fire", "army gun", "", "zzz"]
    reports: list[Report] = []
    for _ in range(2):
        indexer = Indexer(engine, model, index, dead)
        report = indexer.run([record(i, t) for i, t in enumerate(texts)], ["text"], progress=reports.append)
        assert (report.indexed, report.refused, report.retries) == (4, 0, 0)
    assert reports
    assert count(engine, index) == 4
    assert not dead.path.exists()
    documents = engine.documents(index, ["0", "1", "2", "3"])
    for i, text in enumerate(texts):
        np.testing.assert_allclose(documents[str(i)][1], model.encode([text])[0], rtol=1e-6)


def test_refused_documents_are_written_with_their_reason(
    engine: Engine, index: str, model: Model, dead: DeadLetters
) -> None:
    bad = BadLine("f", 2, "{broken", "not JSON")
    report = Indexer(engine, model, index, dead).run([record(1), bad, record(3, {"an": "object"}), record(4)], ["text"])
    assert (report.indexed, report.refused) == (2, 2)
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
        assert (report.indexed, report.refused) == (0, fewer)
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


def test_an_index_without_vectors_is_to_be_attached(model: Model) -> None:
    with pytest.raises(ModelMismatch, match="'shop' has no vectors") as caught:
        IndexInfo.from_meta("shop", {}).require_model(model)
    assert "resift attach shop --vectors" in str(caught.value.expected)


def test_the_last_document_with_an_id_is_indexed(engine: Engine, index: str, model: Model, dead: DeadLetters) -> None:
    rows = [record(i % (BATCH + 50), f"fire {i}") for i in range(4 * BATCH)]
    report = Indexer(engine, model, index, dead).run(rows, ["text"])
    assert (report.indexed, report.refused) == (4 * BATCH, 0)
    last = {row.id: row.source["text"] for row in rows}
    assert {stored.id: stored.source["text"] for stored in engine.scan(index)} == last
    assert verify(engine, model, index).stale == 0


def test_refused_documents_of_several_batches(engine: Engine, index: str, model: Model, dead: DeadLetters) -> None:
    bad = {7, BATCH + 7, 2 * BATCH + 1}
    rows = [record(i, float("nan") if i in bad else f"gun {i}") for i in range(3 * BATCH)]
    report = Indexer(engine, model, index, dead).run(rows, ["text"])
    assert (report.indexed, report.refused) == (3 * BATCH - 3, 3)
    assert {int(letter["document"]["_id"]) for letter in letters(dead)} == bad


class Faulty(SqliteEngine):
    """An embedded engine whose first bulk requests fail as a script says.

    Each entry of the script is a status for all documents, a status by id, or an error.
    """

    def __init__(self, path: str, script: list[Any]) -> None:
        super().__init__(path)
        self.script, self.requests = script, 0

    def bulk(self, index: str, documents: Sequence[Document], vector_field: str = VECTOR_FIELD) -> list[Rejection]:
        self.requests += 1
        fault = self.script.pop(0) if self.script else {}
        if isinstance(fault, Exception):
            raise fault
        good = [document for document in documents if document.id not in fault]
        assert super().bulk(index, good, vector_field) == []
        return [Rejection(i, d.id, fault[d.id], "busy") for i, d in enumerate(documents) if d.id in fault]


def run(
    tmp_path: Path, model: Model, dead: DeadLetters, script: list[Any], records: int = 4
) -> tuple[Report, Faulty, list[float]]:
    """Index records through a faulty engine. Waits are recorded and take no time."""
    engine, waits = Faulty(str(tmp_path / "faulty.db"), script), list[float]()
    indexer = Indexer(engine, model, "docs", dead, sleep=waits.append)
    try:
        indexer.run([record(i) for i in range(records)], ["text"])
    finally:
        assert indexer.report.indexed + indexer.report.refused == records
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
    assert (report.indexed, report.refused, engine.requests) == (3, 1, ATTEMPTS)
    assert ATTEMPTS == 8  # what docs/indexing.md promises
    assert [(letter["document"]["_id"], letter["status"]) for letter in letters(dead)] == [("1", 429)]


def test_refused_and_busy_in_one_batch(tmp_path: Path, model: Model, dead: DeadLetters) -> None:
    report, _, _ = run(tmp_path, model, dead, [{"0": 400, "3": 429}])
    assert (report.indexed, report.refused) == (3, 1)
    assert letters(dead)[0]["document"]["_id"] == "0"


@pytest.mark.parametrize(
    "error", [EngineUnavailable("away"), EngineError("busy", status=429), EngineError("x", status=500)]
)
def test_an_engine_that_comes_back(tmp_path: Path, model: Model, dead: DeadLetters, error: Exception) -> None:
    report, _, waits = run(tmp_path, model, dead, [error, error])
    assert (report.indexed, report.refused, len(waits)) == (4, 0, 2)


def test_what_the_engine_refuses_for_good_is_sent_once(tmp_path: Path, model: Model, dead: DeadLetters) -> None:
    report, engine, waits = run(tmp_path, model, dead, [EngineError("no", status=499)])
    assert (report.refused, engine.requests, waits) == (4, 1, [])


def test_an_engine_that_does_not(tmp_path: Path, model: Model, dead: DeadLetters) -> None:
    with pytest.raises(EngineUnavailable, match="lines 0 to 3: away"):
        run(tmp_path, model, dead, [EngineUnavailable("away")] * 99)
    assert len(letters(dead)) == 4


def test_too_large_requests_are_halved(tmp_path: Path, model: Model, dead: DeadLetters) -> None:
    large = EngineError("too large", status=413)
    report, engine, _ = run(tmp_path, model, dead, [large, large])
    assert (report.indexed, report.refused, engine.requests) == (4, 0, 5)


def test_a_document_refused_in_a_halved_batch_is_written_to_dead_letters(
    tmp_path: Path, model: Model, dead: DeadLetters
) -> None:
    large = EngineError("too large", status=413)
    report, _, _ = run(tmp_path, model, dead, [large, {"0": 400}, large, {}, {"4": 400}], records=5)
    assert (report.indexed, report.refused) == (3, 2)
    assert [letter["document"]["_id"] for letter in letters(dead)] == ["0", "4"]


def test_a_document_that_is_too_large_is_written_to_dead_letters(
    tmp_path: Path, model: Model, dead: DeadLetters
) -> None:
    large = EngineError("too large", status=413)
    report, _, _ = run(tmp_path, model, dead, [large, large, large])
    assert (report.indexed, report.refused) == (3, 1)
    assert letters(dead)[0]["status"] == 413


def test_an_engine_that_fails_for_a_document_gets_all_other_documents(
    tmp_path: Path, model: Model, dead: DeadLetters
) -> None:
    odd = ValueError("odd")
    report, _, _ = run(tmp_path, model, dead, [odd, {}, odd, {}, odd])
    assert (report.indexed, report.refused) == (3, 1)
    assert [(one["document"]["_id"], one["status"], one["reason"]) for one in letters(dead)] == [
        ("3", 400, "ValueError: odd")
    ]


UNFIT: list[Any] = ["\ud800", {"inner": ["\udfff"]}, float("nan"), {1, 2}]


@pytest.mark.parametrize("where", ["text", "other"])
def test_a_bad_document_does_not_stop_other_documents(
    engine: Engine, index: str, model: Model, dead: DeadLetters, where: str
) -> None:
    deep: Any = "fire"
    for _ in range(3000):
        deep = [deep]
    faults = [*UNFIT, 10**5000, deep][: 4 if where == "other" else None]
    rows = [Record("f", i, str(i), {"text": "fire", where: fault}) for i, fault in enumerate(faults)]
    # Values that JSON cannot represent only come from Python, and cannot be dead letters.
    refusals = Refusals()
    report = Indexer(engine, model, index, refusals).run([record(100), *rows, record(101)], ["text"])
    assert (report.indexed, report.refused) == (2, len(rows))
    assert sorted(one.position for one in refusals.refused) == [i - 1 for i in range(len(rows))]
    assert {one.status for one in refusals.refused} == {400}
    assert count(engine, index) == 2


def test_incomplete_characters_are_preserved(engine: Engine, index: str, model: Model, tmp_path: Path) -> None:
    lines = ['{"_id": "1", "text": "fire"}', '{"_id": "2", "text": "\\ud800 gun"}', '{"_id": "\\udc00", "text": "x"}']
    (tmp_path / "docs.jsonl").write_text("\n".join(lines))
    dead = DeadLetters(tmp_path / "dead.jsonl")
    assert Indexer(engine, model, index, dead).run(Files([str(tmp_path / "docs.jsonl")]), ["text"]).indexed == 1
    assert [letter["document"] for letter in letters(dead)] == [json.loads(line) for line in lines[1:]]
    assert all("half of a surrogate pair" in letter["reason"] for letter in letters(dead))
    assert (tmp_path / "dead.jsonl").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("path", ["none/dead", "/proc/dead", "x" * 300])
def test_dead_letters_that_cannot_be_written_are_refused_at_once(tmp_path: Path, path: str) -> None:
    with pytest.raises(BadInput, match="refused documents cannot be written"):
        DeadLetters(tmp_path / path)
    assert list(tmp_path.iterdir()) == []


class Read:
    """Records of a file or a stream, which count how many were read and may raise an error."""

    def __init__(self, total: int, file: str = "f", fails_at: int | None = None, stop: Stop | None = None) -> None:
        self.total, self.file, self.fails_at, self.ids = total, file, fails_at, list[str]()
        self.stop = stop or Stop()

    def __iter__(self) -> Iterator[Record]:
        for number in range(self.total):
            if number == self.fails_at:
                raise BadInput("damaged")
            self.ids.append(str(number))
            yield Record(self.file, number, str(number), {"text": "fire"})
            if self.stop.requested:
                return


def kept(engine: Engine, index: str, dead: DeadLetters) -> list[str]:
    """Return the ids of all documents in the index or in the dead-letter file."""
    ids = [stored.id for stored in engine.scan(index)] + [letter["document"]["_id"] for letter in letters(dead)]
    return sorted(ids, key=int)


def test_what_was_read_before_damage_is_indexed(engine: Engine, index: str, model: Model, dead: DeadLetters) -> None:
    records = Read(2000, fails_at=BATCH + 3)
    with pytest.raises(BadInput, match="damaged"):
        Indexer(engine, model, index, dead).run(records, ["text"])
    engine.refresh(index)
    assert len(records.ids) == count(engine, index) == BATCH + 3
    assert letters(dead) == []


@pytest.mark.parametrize("error", [RuntimeError("a fault"), KeyboardInterrupt(), EngineUnavailable("away")])
@pytest.mark.parametrize("place", ["bulk", "encode", "progress"])
def test_whatever_ends_it_each_document_that_was_read_is_somewhere(
    engine: Engine,
    index: str,
    model: Model,
    dead: DeadLetters,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    place: str,
) -> None:
    calls = 0

    def fail_the_second_time(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls > 1:
                raise error
            return original(*arguments)

        return call

    if place == "bulk":
        monkeypatch.setattr(engine, "bulk", fail_the_second_time(engine.bulk))
    elif place == "encode":
        monkeypatch.setattr(model, "encode", fail_the_second_time(model.encode))
    progress = fail_the_second_time(lambda _: None) if place == "progress" else lambda _: None
    records = Read(20 * BATCH)
    indexer = Indexer(engine, model, index, dead, sleep=lambda _: None)
    with pytest.raises(type(error)):
        indexer.run(records, ["text"], progress=progress)
    engine.refresh(index)
    # After an interruption, a document of a file may be in both.
    assert sorted(set(kept(engine, index, dead)), key=int) == records.ids
    assert 0 < len(records.ids) < 20 * BATCH
    assert indexer.report.indexed + indexer.report.refused == len(kept(engine, index, dead))


@pytest.mark.parametrize("file", ["-", "f"])
def test_the_rest_of_a_stream_is_written_to_dead_letters_without_an_engine(
    tmp_path: Path, model: Model, dead: DeadLetters, file: str
) -> None:
    engine = Faulty(str(tmp_path / "faulty.db"), [{}, *[EngineUnavailable("away")] * 99])
    records = Read(5 * BATCH, file)
    with pytest.raises(EngineUnavailable, match=f"lines {BATCH} to {2 * BATCH - 1}"):
        Indexer(engine, model, "docs", dead, sleep=lambda _: None).run(records, ["text"])
    assert kept(engine, "docs", dead) == records.ids
    assert len(records.ids) == (5 * BATCH if file == "-" else 2 * BATCH + 1)
    engine.close()


def test_a_stop_ends_reading_and_waiting(tmp_path: Path, model: Model, dead: DeadLetters) -> None:
    stop = Stop()
    engine = Faulty(str(tmp_path / "faulty.db"), [{}, {"0": 429}])

    def note(_: Report) -> None:
        stop.requested = True

    for expected in (BATCH, 1):
        indexer = Indexer(engine, model, "docs", dead, stop=stop)
        report = indexer.run(Read(5 * BATCH, stop=stop), ["text"], progress=note)
        assert (report.retries, report.indexed + report.refused) == (0, expected)
        assert report.last_read == ("f", expected - 1)
    assert [letter["document"]["_id"] for letter in letters(dead)] == ["0"]
    engine.close()
