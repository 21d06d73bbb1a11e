"""Tests of the training of a reranker on clicks in a UBI log."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from test_train_reranker import collection, table
from ubi_events import event, query

from resift import Model, WordVectors
from resift.cli.main import main
from resift.contracts.ubi import EVENTS, QUERIES, UbiLog
from resift.encoders.late_interaction import LateInteraction
from resift.ingest.indexing import DeadLetters, Indexer
from resift.ingest.readers import Record
from resift.service.connect import open_engine, open_ubi_log
from resift.sessions.clicks import ACTIONS
from resift_lab.commands.judged_source import logged_judgements
from resift_lab.evaluation.judged_collection import judged_collection
from resift_lab.fingerprints import fingerprints, fingerprints_in

__all__ = ["table"]


def fill(log: UbiLog, queries: int) -> None:
    """Add a search for each query of the collection, in which the right document is clicked at position 2."""
    found = collection()
    asked = list(enumerate(zip(found.queries, found.grades, strict=True)))[:queries]
    log.add(QUERIES, [query(text, f"q{n}", client_id=f"c{n}") for n, (text, _) in asked])
    events = []
    for n, (_, grades) in asked:
        (right,) = grades
        events += [event("impression", f"sku{right ^ 1}", 0, query_id=f"q{n}", client_id=f"c{n}")]
        events += [event("click", f"sku{right}", 1, query_id=f"q{n}", client_id=f"c{n}")]
    log.add(EVENTS, [*events, event("click", "gone", query_id="q0"), event("click", "sku1", query_id="unknown")])


def index_collection(url: str, index: str, model: Model, folder: Path) -> None:
    """Index the documents of the collection, with a field ``sku`` that identifies each."""
    found, engine = collection(), open_engine(url)
    pairs = enumerate(zip(found.document_ids, found.documents, strict=True))
    records = [Record("f", n, id, {"text": text, "sku": f"sku{n}"}) for n, (id, text) in pairs]
    Indexer(engine, model, index, DeadLetters(folder / "dead")).run(records, ["text"])
    engine.refresh(index)
    engine.close()


def test_clicks_become_a_collection_of_judged_queries(
    engine_url: str, index: str, model: Model, ubi_log: UbiLog, tmp_path: Path
) -> None:
    index_collection(engine_url, index, model, tmp_path)
    fill(ubi_log, 6)
    engine, found = open_engine(engine_url), collection()
    judgements = [one for _, one in logged_judgements(ubi_log, engine, index, ACTIONS)]
    judged = judged_collection(engine, judgements, index, 5)
    assert sorted(judged.collection.queries) == sorted(found.queries[:6])
    for text, grades in zip(judged.collection.queries, judged.collection.grades, strict=True):
        (right,) = found.grades[found.queries.index(text)]
        by_id = {judged.collection.document_ids[place]: grade for place, grade in grades.items()}
        assert {id: grade > 0 for id, grade in by_id.items()} == {f"d{right}": True, f"d{right ^ 1}": False}
    assert judged.missing == 0
    engine.close()


@pytest.mark.parametrize("engine_url", ["sqlite"], indirect=True)
def test_a_reranker_learns_from_clicks(
    engine_url: str, index: str, model: Model, table: WordVectors, here: Path
) -> None:
    index_collection(engine_url, index, model, here)
    log = open_ubi_log("sessions.db", "", "")
    fill(log, 400)
    log.close()
    table.save("vectors")
    train = [
        "train",
        "reranker",
        "--engine",
        engine_url,
        "--store",
        "sessions.db",
        "--vectors",
        "vectors",
        "--out",
        "o",
    ]
    model.save("model")
    options = ("epochs=4", "rate=0.003", "pool=20", "negatives=8", "frequent=5", "shift_rate=0.05")
    train += [*(part for option in options for part in ("--set", option)), "--model", "model"]
    ran = CliRunner().invoke(main, [*train, "--from-ubi", index])
    assert ran.exit_code == 0, ran.output
    assert "400 queries with a relevant document (skipped: 0 queries without" in ran.output
    assert set(fingerprints_in(LateInteraction.load("o").info)) == set(fingerprints(collection().queries))
    ran = CliRunner().invoke(main, [*train, "--from-ubi", index, "--from-feedback", index])
    assert (ran.exit_code, "exactly one of" in ran.stderr) == (2, True)
