"""Tests of documents that carry bags of vectors: indexing, k-NN search, sessions and verification on both engines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bag_documents import FIELD, MALFORMED, bag_model, pictures, random_bag
from flask.testing import FlaskClient

from resift.contracts.documents import Document
from resift.contracts.engine import Engine
from resift.contracts.testing import knn_body
from resift.encoders.bags import BagModel
from resift.ingest.indexing import DeadLetters, Indexer
from resift.ingest.readers import Record
from resift.ingest.verify import verify
from resift.query.dsl import VECTOR_FIELD
from resift.reranker import Config, create_app

PICTURES = pictures(8)


@pytest.fixture(scope="module")
def bagged() -> BagModel:
    """Return a model of bags of vectors."""
    return bag_model()


@pytest.fixture
def filled(engine: Engine, index: str, bagged: BagModel, tmp_path: Path) -> str:
    """Return an index with eight pictures, and a document without a picture."""
    sources = {**PICTURES, "text": {"title": "a bush fire without a picture"}}
    records = [Record("f", line, id, source) for line, (id, source) in enumerate(sources.items(), 1)]
    report = Indexer(engine, bagged, index, DeadLetters(tmp_path / "dead")).run(records, ["title"])
    assert (report.indexed, report.refused) == (9, 0)
    return index


@pytest.fixture
def client(engine: Engine, bagged: BagModel, tmp_path: Path) -> FlaskClient:
    """Return a client of a service with the model."""
    return create_app(Config(store=str(tmp_path / "sessions.db")), engine=engine, model=bagged).test_client()


def test_each_bag_becomes_a_vector(engine: Engine, filled: str, bagged: BagModel) -> None:
    stored = engine.documents(filled, [*PICTURES, "text"])
    expected, _ = bagged.encode_bags([source[FIELD] for source in PICTURES.values()])
    for id, vector in zip(PICTURES, expected, strict=True):
        np.testing.assert_allclose(stored[id][1], vector, atol=1e-6)
        assert stored[id][0][FIELD] == PICTURES[id][FIELD]
    assert not np.any(stored["text"][1])


def test_the_nearest_document_of_a_bag_is_the_document_that_has_it(
    engine: Engine, filled: str, client: FlaskClient
) -> None:
    answer = client.post("/v1/embeddings", json={"input": [PICTURES["5"][FIELD]]})
    vector = np.array(answer.json["data"][0]["embedding"], np.float32)  # type: ignore[index]
    hits = engine.search(filled, knn_body(vector, 3)).hits
    assert hits[0]["_id"] == "5"


def test_malformed_bags_are_dead_letters_that_say_why(
    engine: Engine, index: str, bagged: BagModel, tmp_path: Path
) -> None:
    dead = DeadLetters(tmp_path / "dead.jsonl")
    records = [
        Record("f", line, id, {"title": id, FIELD: bag}) for line, (id, (bag, _)) in enumerate(MALFORMED.items())
    ]
    report = Indexer(engine, bagged, index, dead).run([*records, Record("f", 99, "good", PICTURES["1"])], ["title"])
    assert (report.indexed, report.refused) == (1, len(MALFORMED))
    for line, (id, (_, reason)) in zip(dead.path.read_text().splitlines(), MALFORMED.items(), strict=True):
        letter = json.loads(line)
        assert letter["document"]["_id"] == id
        assert letter["reason"].startswith(f"field {FIELD!r}: ")
        assert reason in letter["reason"]


def test_a_session_finds_pictures_like_the_marked_one(engine: Engine, filled: str, client: FlaskClient) -> None:
    search = {"index": filled, "query": "bush fire", "session": "anna", "size": 9}
    before = client.post("/v1/search", json=search).json["hits"]["hits"]  # type: ignore[index]
    assert len({hit["_score"] for hit in before}) == 1  # all titles have the same words in them
    marks = {"index": filled, "session": "anna", "query": "bush fire", "relevant": ["5"]}
    assert client.post("/v1/feedback", json=marks).status_code == 200
    after = client.post("/v1/search", json=search).json  # type: ignore[assignment]
    vectors = {id: vector for id, (_, vector) in engine.documents(filled, list(PICTURES)).items()}
    nearest = max((id for id in PICTURES if id != "5"), key=lambda id: float(vectors[id] @ vectors["5"]))
    ranks = [hit["_id"] for hit in after["hits"]["hits"]]
    assert ranks[:2] == ["5", nearest]


def test_outdated_bags_are_repaired_and_malformed_bags_reported(engine: Engine, filled: str, bagged: BagModel) -> None:
    changed = {"title": "a changed picture", FIELD: random_bag(50)}
    vector = bagged.encode_bags([PICTURES["0"][FIELD]])[0][0]
    malformed = Document("odd", {"title": "an odd picture", FIELD: [[1, 2], [3]]}, vector)
    assert engine.bulk(filled, [Document("0", changed, vector), malformed], VECTOR_FIELD) == []
    engine.refresh(filled)
    result = verify(engine, bagged, filled, repair=True)
    assert (result.stale, result.repaired, result.unrepaired) == (2, 1, 1)
    (refused,) = result.refused
    assert (refused.id, refused.reason) == (
        "odd",
        f"field {FIELD!r}: vector 1 has 1 number (expected 2, as many as the first vector)",
    )
    np.testing.assert_allclose(
        engine.documents(filled, ["0"])["0"][1], bagged.encode_bags([changed[FIELD]])[0][0], atol=1e-6
    )


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_bags_in_a_request_are_named(client: FlaskClient, name: str) -> None:
    value, reason = MALFORMED[name]
    bags = [PICTURES["1"][FIELD], json.dumps(value)]
    answer = client.post("/v1/embeddings", json={"input": bags})
    assert answer.status_code == 400
    error: dict[str, Any] = answer.json["error"]  # type: ignore[index]
    assert error["message"].startswith("input[1]: ")
    assert reason in error["message"]
    lenient = client.post("/v1/embeddings", json={"input": bags, "truncate": True}).json
    assert lenient["data"][1]["embedding"] == [0] * 8  # type: ignore[index]


def test_a_model_of_bags_compares_no_texts(client: FlaskClient) -> None:
    answer = client.post("/v1/rerank", json={"query": "fire", "documents": ["fire"]})
    assert answer.status_code == 400
    assert "encodes bags of vectors" in answer.json["error"]["message"]  # type: ignore[index]
