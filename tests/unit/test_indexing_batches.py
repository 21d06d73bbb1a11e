"""Tests of concurrent batches: each document is counted, and each failure is reported."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from resift import Model
from resift.contracts.documents import Document, Rejection
from resift.embedded.engine import SqliteEngine
from resift.errors import BadInput, CorruptEngine, EngineError, EngineUnavailable
from resift.ingest.dead_letters import DeadLetters
from resift.ingest.indexing import BATCH, Indexer, Report
from resift.ingest.readers import BadLine, Record
from resift.ingest.writing import ATTEMPTS
from resift.query.dsl import VECTOR_FIELD
from resift.stopping import Stop

Fault = Callable[[Sequence[Document]], None]


class Scripted(SqliteEngine):
    """An embedded engine with three writers. ``fault`` may raise or wait before each batch."""

    writers = 3

    def __init__(self, path: str, fault: Fault = lambda documents: None) -> None:
        super().__init__(path)
        self.fault, self.sent = fault, list[list[str]]()

    def bulk(self, index: str, documents: Sequence[Document], vector_field: str = VECTOR_FIELD) -> list[Rejection]:
        self.sent.append([document.id for document in documents])
        self.fault(documents)
        return super().bulk(index, documents, vector_field)


@pytest.fixture
def index_all(tmp_path: Path, model: Model) -> Iterator[Callable[..., Indexer]]:
    """Return a function that indexes records through a scripted engine and returns the indexer, even after an error."""
    engines: list[Scripted] = []

    def index_all(records: Any, fault: Fault = lambda documents: None, **settings: Any) -> Indexer:
        engine = Scripted(str(tmp_path / f"{len(engines)}.db"), fault)
        engines.append(engine)
        run = {"progress": settings.pop("progress")} if "progress" in settings else {}
        settings = {"sleep": lambda seconds: None, **settings}
        indexer = Indexer(engine, model, "docs", DeadLetters(tmp_path / "dead"), **settings)
        try:
            indexer.run(records, ["text"], **run)
        except (EngineError, EngineUnavailable, CorruptEngine, BadInput) as error:
            indexer.error = error  # type: ignore[attr-defined]
        return indexer

    yield index_all
    for engine in engines:
        engine.close()


def records(total: int, ids: int | None = None) -> list[Record]:
    """Return ``total`` records with a number of different ids."""
    return [Record("f", n, str(n % (ids or total)), {"text": f"fire {n}"}) for n in range(total)]


def statuses(indexer: Indexer) -> list[tuple[str, int]]:
    """Return the ids and statuses of the dead letters."""
    lines = indexer.dead_letters.path.read_text().splitlines()
    return [(letter["document"]["_id"], letter["status"]) for letter in map(json.loads, lines)]


@pytest.mark.parametrize("timeouts", [ATTEMPTS - 1, ATTEMPTS])
def test_a_refresh_that_times_out_is_repeated(
    index_all: Callable[..., Indexer], monkeypatch: pytest.MonkeyPatch, timeouts: int
) -> None:
    refreshes = []

    def refresh(self: Scripted, index: str) -> None:
        refreshes.append(index)
        if len(refreshes) <= timeouts:
            raise EngineUnavailable("no answer")

    monkeypatch.setattr(Scripted, "refresh", refresh)
    indexer = index_all(records(3))
    assert (indexer.report.indexed, indexer.report.retries) == (3, 0)
    assert hasattr(indexer, "error") is (timeouts == ATTEMPTS)
    assert len(refreshes) == ATTEMPTS


def test_an_engine_with_several_writers_gets_several_batches_at_once(index_all: Callable[..., Indexer]) -> None:
    together = threading.Barrier(3)
    indexer = index_all(records(3 * BATCH), lambda documents: together.wait(30) and None)
    assert (indexer.report.indexed, indexer.report.refused, indexer.report.retries) == (3 * BATCH, 0, 0)


def test_progress_is_reported_after_each_batch(index_all: Callable[..., Indexer]) -> None:
    reported: list[int] = []
    index_all(records(7 * BATCH), progress=lambda report: reported.append(report.indexed))
    assert len(reported) == 7
    assert reported == sorted(reported)
    assert reported[-1] == 7 * BATCH


def test_batches_with_the_same_document_id_are_written_in_order(index_all: Callable[..., Indexer]) -> None:
    sending, overlapped = set[str](), list[str]()

    def note(documents: Sequence[Document]) -> None:
        ids = {document.id for document in documents}
        overlapped.extend(sending & ids)
        sending.update(ids)
        time.sleep(0.02)
        sending.difference_update(ids)

    index_all(records(6 * BATCH, BATCH + 50), note)
    assert overlapped == []


@pytest.mark.parametrize("failing", [0, 3, 4])
def test_the_error_of_any_failing_batch_is_raised(index_all: Callable[..., Indexer], failing: int) -> None:
    first = str(failing * BATCH)

    def fail(documents: Sequence[Document]) -> None:
        if any(document.id == first for document in documents):
            raise EngineUnavailable("away")

    indexer = index_all(records(5 * BATCH), fail)
    assert f"lines {first} to {(failing + 1) * BATCH - 1}: away" in str(indexer.error)  # type: ignore[attr-defined]
    assert indexer.report.indexed + indexer.report.refused >= (failing + 1) * BATCH


def test_after_an_error_nothing_is_sent_again(index_all: Callable[..., Indexer]) -> None:
    failed = threading.Event()

    def busy(documents: Sequence[Document]) -> None:
        if documents[0].id != "0":
            raise EngineError("busy", status=429)

    def sleep(seconds: float) -> None:
        assert failed.wait(30)
        time.sleep(0.1)  # until the error has reached the sending threads

    def progress(report: Report) -> None:
        failed.set()
        raise BadInput("a fault")

    report = index_all(records(2 * BATCH), busy, sleep=sleep, progress=progress).report
    assert (report.indexed, report.refused) == (BATCH, BATCH)
    assert report.retries < ATTEMPTS - 1


@pytest.mark.parametrize("is_stopped", [False, True])
def test_an_outage_during_a_halved_batch_is_raised(index_all: Callable[..., Indexer], is_stopped: bool) -> None:
    def fail(documents: Sequence[Document]) -> None:
        if len(documents) == 4:
            raise EngineError("too large", status=413)
        if documents[-1].id == "3":
            raise EngineUnavailable("away")

    stop = Stop()
    stop.requested = is_stopped  # a stop prevents retries
    indexer = index_all(records(4), fail, stop=stop)
    assert "lines 0 to 3: away" in str(indexer.error)  # type: ignore[attr-defined]
    assert (indexer.report.indexed, statuses(indexer)) == (2, [("2", 503), ("3", 503)])
    assert indexer.report.retries == (0 if is_stopped else ATTEMPTS - 1)


def test_a_damaged_file_is_tried_once(index_all: Callable[..., Indexer]) -> None:
    waits: list[float] = []

    def fail(documents: Sequence[Document]) -> None:
        raise CorruptEngine("the file is damaged")

    indexer = index_all(records(2), fail, sleep=waits.append)
    assert isinstance(indexer.error, CorruptEngine)  # type: ignore[attr-defined]
    assert "with another" in indexer.error.expected
    assert (waits, indexer.engine.sent) == ([], [["0", "1"]])  # type: ignore[attr-defined]


@pytest.mark.parametrize("share", [0.75, 1.25])
def test_waits_grow_to_half_a_minute_give_or_take_a_quarter(
    index_all: Callable[..., Indexer], share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("random.uniform", lambda least, most: least if share < 1 else most)
    waits: list[float] = []

    def fail(documents: Sequence[Document]) -> None:
        raise EngineUnavailable("away")

    index_all(records(1), fail, sleep=waits.append)
    assert waits == [share * seconds for seconds in (0.5, 1, 2, 4, 8, 16, 30)]
    assert len(waits) == ATTEMPTS - 1


def test_invalid_documents_and_engine_failures_have_different_statuses(
    index_all: Callable[..., Indexer], model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    indexer = index_all([BadLine("f", 1, "{", "no JSON"), *records(2)])
    assert [json.loads(line)["status"] for line in indexer.dead_letters.path.read_text().splitlines()] == [400]

    for error, reason in ((RuntimeError("a fault"), "a fault"), (KeyboardInterrupt(), "KeyboardInterrupt")):

        def fail(texts: Sequence[str], error: BaseException = error) -> Any:
            raise error

        monkeypatch.setattr(model, "encode", fail)
        indexer.dead_letters = DeadLetters(indexer.dead_letters.path.with_name(reason))
        with pytest.raises(type(error)):
            indexer.run(records(1), ["text"])
        assert statuses(indexer) == [("0", 500)]
        assert f'"not indexed: {reason}"' in indexer.dead_letters.path.read_text()


def test_reports_count_everything(index_all: Callable[..., Indexer]) -> None:
    assert index_all([]).report == Report(0, 0, 0, 0, 0.0, None)
    began = time.perf_counter()
    report = index_all([*records(3), Record("f", 3, "a", {"text": " "}), Record("g", 4, "b", {"other": "x"})]).report
    assert 0 < report.seconds <= time.perf_counter() - began
    assert report == Report(5, 0, 2, 0, report.seconds, ("g", 4))
