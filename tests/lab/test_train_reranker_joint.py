"""Training a reranker where searches have static queries beside the model: it is judged by both together."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_train_reranker import PAIRS, collection, folder, resift
from test_train_reranker import table as table
from tiny_transformer import save_sentence_transformer

from resift import WordVectors, build_model
from resift.contracts.documents import IndexInfo
from resift.encoders.late_interaction import LateInteraction
from resift.encoders.queries import JointModel, StaticQueries
from resift.encoders.registry import load_model, load_queries
from resift.feedback.judgements import Judgement
from resift.ingest.indexing import DeadLetters, Indexer
from resift.ingest.readers import Record
from resift.plugin.cluster.client import Cluster
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.plugin.opensearch.mappings import SETTINGS, mappings
from resift.service.connect import open_session_store
from resift.sessions.sessions import Sessions

TRAIN = ["--set", "pool=20", "--set", "negatives=8", "--set", "epochs=2", "--set", "rate=0.003", "--json"]


@pytest.fixture(scope="module")
def knowing() -> StaticQueries:
    """Static queries that know a year from a place by their question words, and each subject by its own."""
    words = ["when", "where", *(f"s{i}{side}" for i in range(PAIRS) for side in "ab")]
    subjects = np.random.default_rng(5).normal(size=(PAIRS, 14)).repeat(2, axis=0) / 4
    rows = np.block([[np.eye(2), np.zeros((2, 14))], [np.zeros((2 * PAIRS, 2)), subjects]])
    return StaticQueries(WordVectors(words, rows.astype(np.float32)), "nobody", "embedding")


@pytest.fixture
def judged_index(
    cluster: OpenSearchEngine, table: WordVectors, knowing: StaticQueries, tmp_path: Path
) -> Iterator[str]:
    """The collection in an index with vectors of both, and what sessions judged of it in sessions.db."""
    name, model, found = f"resift-test-{uuid.uuid4().hex[:12]}", build_model("mean", table), collection()
    mapping: dict[str, Any] = mappings(["text"], model)
    method = {"name": "hnsw", "engine": "lucene", "space_type": "innerproduct"}
    mapping["properties"]["embedding"] = {"type": "knn_vector", "dimension": knowing.dim, "method": method}
    mapping["_meta"]["resift"]["others"] = [IndexInfo.from_model(knowing, ["text"], vector_field="embedding").to_meta()]
    Cluster(cluster).request("PUT", f"/{name}", {"settings": SETTINGS, "mappings": mapping})
    asked = [f"{'when' if 'year' in text else 'where'} {text.split()[0]}" for text in found.documents]
    held = zip(found.document_ids, found.documents, knowing.encode(asked).tolist(), strict=True)
    records = [Record("f", n, id, {"text": text, "embedding": row}) for n, (id, text, row) in enumerate(held)]
    Indexer(cluster, model, name, DeadLetters(tmp_path / "dead")).run(records, ["text"])
    cluster.refresh(name)
    store = open_session_store(str(tmp_path / "sessions.db"), "sessions")
    for number, (query, grades) in enumerate(zip(found.queries, found.grades, strict=True)):
        (wanted,) = grades
        Sessions(store).add(f"s{number}", query, [Judgement(name, found.document_ids[wanted], 1)])
    store.close()
    yield name
    cluster.drop(name)


def test_what_static_queries_find_already_is_no_gain(
    judged_index: str, opensearch_url: str, table: WordVectors, knowing: StaticQueries, tmp_path: Path
) -> None:
    table.save(tmp_path / "vectors")
    build_model("mean", table).save(tmp_path / "model")
    knowing.save(tmp_path / "queries")
    train = ["train", "reranker", "--from-feedback", judged_index, "--engine", opensearch_url, *TRAIN]
    train += ["--store", str(tmp_path / "sessions.db"), "--vectors", str(tmp_path / "vectors")]
    train += ["--model", str(tmp_path / "model"), "--out", str(tmp_path / "out"), "--split", "60,10,30"]
    alone = resift(*train)
    assert (alone.exit_code, LateInteraction.load(tmp_path / "out").name) == (0, "late-interaction")
    both = resift(*train, "--static-queries", tmp_path / "queries")
    assert both.exit_code == 3, both.output
    found = [json.loads(one.stdout)["systems"]["vectors"]["recall@1"] for one in (alone, both)]
    assert found[0] < 0.8
    assert found[1] > 0.95


def test_documents_of_a_collection_are_encoded_by_the_teacher_too(
    tmp_path: Path, table: WordVectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RESIFT_RERANKER", str(tmp_path / "service"))
    table.save(tmp_path / "vectors")
    model = build_model("mean", table)
    model.save(tmp_path / "model")
    teacher = save_sentence_transformer(tmp_path / "teacher", list(table.words))
    StaticQueries(table, str(teacher)).save(tmp_path / "queries")
    data = folder(tmp_path / "data", {"qrels/train.tsv": list(range(280)), "qrels/test.tsv": list(range(280, 400))})
    served = ["--model", tmp_path / "model", "--static-queries", tmp_path / "queries"]
    out = tmp_path / "out"
    ran = resift(
        "train", "reranker", "--collection", data, "--vectors", tmp_path / "vectors", *TRAIN, *served, "--out", out
    )
    assert ran.exit_code == 0, ran.output
    judged = json.loads(ran.stdout)["systems"]["vectors"]
    measured = json.loads(resift("eval", "retrieval", data, "--hybrid", *served, "--json").stdout)
    assert {name: judged[name] for name in ("recall@1", "ndcg@10")} == pytest.approx(
        {name: measured[name] for name in ("recall@1", "ndcg@10")}
    )
    queries = load_queries(tmp_path / "queries")
    assert queries is not None
    beside = JointModel(load_model(tmp_path / "model"), queries).hash
    assert LateInteraction.load(out).info["beside"] == beside
    use = ["reranker", "use", out]
    monkeypatch.setenv("RESIFT_MODEL", str(tmp_path / "model"))
    assert f"beside the vectors of model {beside}, and not of {model.hash}" in resift(*use).stderr
    monkeypatch.setenv("RESIFT_STATIC_QUERIES", str(tmp_path / "queries"))
    assert "judged beside" not in resift(*use).stderr
