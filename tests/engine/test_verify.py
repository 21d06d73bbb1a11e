"""Tests of verification: wrong vectors are detected and repaired, and concurrent writes are not lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from resift import Model, WordVectors, build_model
from resift.contracts.documents import Document, Rejection
from resift.contracts.engine import Engine
from resift.embedded.engine import SqliteEngine
from resift.encoders.tables import build_table
from resift.errors import BadInput, EngineError, EngineUnavailable, ModelMismatch
from resift.ingest.verify import BATCH, Verification, is_expected_vector, verify
from resift.ingest.writing import ATTEMPTS
from resift.query.dsl import VECTOR_FIELD
from resift.stopping import Stop


def write(engine: Engine, index: str, model: Model, texts: dict[str, str], encoded: str | None = None) -> None:
    """Index texts with their own vectors, or with the vector of ``encoded``. "" stands for no vector."""
    engine.bulk(
        index,
        [
            Document(id, {"text": text}, None if encoded == "" else model.encode_one(encoded or text))
            for id, text in texts.items()
        ],
    )
    engine.refresh(index)


def counts(found: Verification) -> tuple[int, int, int, int, int]:
    """Return the numbers of checked, missing, stale, repaired and unrepaired documents."""
    return found.checked, found.missing, found.stale, found.repaired, found.unrepaired


def test_missing_and_stale_vectors_are_reported_and_repaired(engine: Engine, index: str, model: Model) -> None:
    engine.create(index, ["text"], model)
    write(engine, index, model, {str(i): "army gun" for i in range(4)})
    write(engine, index, model, {"1": "army gun"}, encoded="")
    write(engine, index, model, {"2": "peace"}, encoded="army gun")
    found = verify(engine, model, index)
    assert counts(found) == (4, 1, 1, 0, 2)
    assert (found.missing_ids, found.stale_ids, found.is_correct) == (["1"], ["2"], False)
    mended = verify(engine, model, index, repair=True)
    assert (counts(mended), mended.is_correct) == ((4, 1, 1, 2, 0), True)
    assert counts(verify(engine, model, index)) == (4, 0, 0, 0, 0)


@pytest.mark.parametrize("name", ["sfbow", "mean"])
def test_rounded_vectors_are_right(engine: Engine, index: str, vectors: WordVectors, name: str) -> None:
    """Vectors for fuzzy Jaccard are longer than 1, and are rounded in proportion."""
    table = build_table(vectors.words, np.asarray(vectors.matrix, np.float32) * 1000)
    model = build_model(name, table)
    engine.create(index, ["text"], model)
    write(engine, index, model, {str(i): text for i, text in enumerate(["", "fire", "army gun peace", "zzz"])})
    assert counts(verify(engine, model, index)) == (4, 0, 0, 0, 0)
    other = model.encode_one("fire").copy()
    other[0] += 1e-3 * np.abs(other).max()
    assert not is_expected_vector(other, model.encode_one("fire"))
    assert not is_expected_vector(other[:3], model.encode_one("fire"))


def test_a_model_that_the_index_lacks(engine: Engine, index: str, model: Model, vectors: WordVectors) -> None:
    engine.create(index, ["text"], model)
    with pytest.raises(ModelMismatch):
        verify(engine, build_model("boew:4", vectors), index)


def test_repair_never_loses_concurrent_writes(
    engine: Engine, index: str, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.create(index, ["text"], model)
    wrong = model.encode_one("army gun")
    documents = [Document(str(i), {"text": "peace", "n": 2**62 + 1}, wrong if i % 2 else None) for i in range(20)]
    assert engine.bulk(index, documents) == []
    engine.refresh(index)
    put_vectors = engine.put_vectors

    def put_after_a_client(index: str, vectors: Sequence[Any], vector_field: str) -> list[Rejection]:
        if len(vectors) == 1:
            return put_vectors(index, vectors, vector_field)
        engine.bulk(index, [Document("3", {"text": "river water"}, wrong)])
        engine.delete(index, ["4"])
        changed = put_vectors(index, vectors, vector_field)
        assert sorted(one.id for one in changed) == ["3", "4"]
        return changed

    monkeypatch.setattr(engine, "put_vectors", put_after_a_client)
    assert counts(verify(engine, model, index, repair=True)) == (20, 10, 10, 19, 0)
    assert counts(verify(engine, model, index)) == (19, 0, 0, 0, 0)
    assert engine.get(index, "3")[0] == {"text": "river water"}
    assert engine.get(index, "5")[0] == {"text": "peace", "n": 2**62 + 1}
    assert put_vectors(index, []) == []


class Faulty(SqliteEngine):
    """An embedded engine whose first writes of vectors fail as a script says: an error, or statuses by id."""

    writers = 3

    def __init__(self, path: str, script: Sequence[Any]) -> None:
        super().__init__(path)
        self.script, self.sent = list(script), list[int]()

    def put_vectors(self, index: str, vectors: Sequence[Any], vector_field: str = VECTOR_FIELD) -> list[Rejection]:
        """Fail as the script says, or write the vectors."""
        self.sent.append(len(vectors))
        fault = self.script.pop(0) if self.script else {}
        if isinstance(fault, Exception):
            raise fault
        rejected = [Rejection(i, id, fault[id], "so") for i, (id, _, _) in enumerate(vectors) if id in fault]
        super().put_vectors(index, [one for one in vectors if one[0] not in fault], vector_field)
        return rejected


def faulty(tmp_path: Path, model: Model, script: Sequence[Any], documents: int = 4) -> Faulty:
    """Return a faulty engine with documents that have no vector."""
    engine = Faulty(str(tmp_path / "faulty.db"), script)
    engine.create("docs", ["text"], model)
    write(engine, "docs", model, {str(i): "fire" for i in range(documents)}, encoded="")
    return engine


class NoSleep(Stop):
    """A stop whose waits are recorded and take no time."""

    def __init__(self) -> None:
        super().__init__()
        self.waits = list[float]()

    def wait(self, seconds: float) -> None:
        """Record the wait."""
        self.waits.append(seconds)


@pytest.mark.parametrize("error", [EngineUnavailable("away"), EngineError("busy", status=429)])
def test_an_engine_that_is_busy_or_away_is_waited_for(tmp_path: Path, model: Model, error: Exception) -> None:
    engine, stop = faulty(tmp_path, model, [error, {"1": 429, "2": 503}, error]), NoSleep()
    found = verify(engine, model, "docs", repair=True, stop=stop)
    assert counts(found) == (4, 4, 0, 4, 0)
    assert engine.sent == [4, 4, 2, 2]
    assert all(base * 0.75 <= wait <= base * 1.25 for base, wait in zip([0.5, 1, 2], stop.waits, strict=True))
    engine.close()


@pytest.mark.parametrize("fault", [EngineUnavailable("away"), {"1": 429}])
def test_an_engine_that_stays_unavailable_ends_the_repair(tmp_path: Path, model: Model, fault: Any) -> None:
    engine = faulty(tmp_path, model, [fault] * 99)
    with pytest.raises(EngineUnavailable, match=r"away|busy"):
        verify(engine, model, "docs", repair=True, stop=NoSleep())
    assert len(engine.sent) == ATTEMPTS
    engine.close()


def test_refused_documents_are_reported_and_do_not_stop_the_repair(tmp_path: Path, model: Model) -> None:
    engine = faulty(tmp_path, model, [EngineError("large", status=413), {"0": 400}, {"3": 400}])
    found = verify(engine, model, "docs", repair=True)
    assert counts(found) == (4, 4, 0, 2, 2)
    assert sorted((one.id, one.status, one.reason) for one in found.refused) == [("0", 400, "so"), ("3", 400, "so")]
    assert engine.sent == [4, 2, 2]
    engine.close()


@pytest.mark.parametrize("fault", [EngineError("not so", status=403), {"1": 403}])
def test_a_forbidden_request_ends_the_repair(tmp_path: Path, model: Model, fault: Any) -> None:
    engine = faulty(tmp_path, model, [fault])
    with pytest.raises(EngineError, match="so"):
        verify(engine, model, "docs", repair=True)
    assert engine.sent == [4]
    engine.close()


def test_batches_are_written_several_at_a_time_and_a_stop_ends_it(tmp_path: Path, model: Model) -> None:
    engine, stop = faulty(tmp_path, model, [], documents=3 * BATCH + 1), Stop()

    def note(found: Verification) -> None:
        stop.requested = found.checked >= 2 * BATCH

    found = verify(engine, model, "docs", repair=True, stop=stop, progress=note)
    assert (found.checked, found.repaired, engine.sent) == (2 * BATCH, 2 * BATCH, [BATCH, BATCH])
    stop.requested = False
    found = verify(engine, model, "docs", repair=True, stop=stop)
    assert counts(found) == (3 * BATCH + 1, BATCH + 1, 0, BATCH + 1, 0)
    assert (len(found.missing_ids), engine.sent[2:]) == (BATCH + 1, [BATCH, 1])
    engine.close()


def test_a_stop_ends_waiting_too(tmp_path: Path, model: Model) -> None:
    stop = NoSleep()
    engine = faulty(tmp_path, model, [EngineUnavailable("away")] * 9)
    stop.requested = True
    found = verify(engine, model, "docs", repair=True, stop=stop)
    assert (found.repaired, found.unrepaired, stop.waits) == (0, 4, [])
    engine.close()


def test_a_failed_read_ends_the_repair(tmp_path: Path, model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = faulty(tmp_path, model, [EngineUnavailable("away")] * 99, documents=BATCH)
    waiting, stop, scan = threading.Event(), Stop(), engine.scan

    def wait(seconds: float) -> None:
        waiting.set()
        time.sleep(0.3)

    def broken_scan(*arguments: Any) -> Iterator[Document]:
        yield from scan(*arguments)
        assert waiting.wait(30)
        raise BadInput("damaged")

    monkeypatch.setattr(stop, "wait", wait)
    monkeypatch.setattr(engine, "scan", broken_scan)
    with pytest.raises(BadInput, match="damaged"):
        verify(engine, model, "docs", repair=True, stop=stop)
    assert 1 <= len(engine.sent) < ATTEMPTS
    engine.close()
