"""Test of EmBoost's networks on an index: documents and queries are encoded by the same network."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from resift import Model, load_model
from resift.contracts.engine import Engine
from resift.contracts.testing import knn_body
from resift.encoders.residual import WINDOW, Residual
from resift.ingest.indexing import DeadLetters, Indexer
from resift.ingest.readers import Record
from resift.reranker import Config, create_app

TEXTS = {"bush": "fire in the bush", "army": "fire of the army", "rain": "rain water in the river"}


@pytest.mark.parametrize(("network", "layers"), [("fcrr", 1), ("convrr", 1), ("convrr", 2)])
def test_a_saved_network_serves_an_index(
    engine: Engine, index: str, model: Model, tmp_path: Path, network: str, layers: int
) -> None:
    chance, table = np.random.default_rng(0), model.table
    taps = 1 if network == "fcrr" else WINDOW
    kernels = chance.normal(size=(layers, taps, table.dim, table.dim)).astype(np.float32)
    bias = chance.normal(size=(layers, table.dim)).astype(np.float32)
    trained = Residual(network, table, *((kernels[0], bias[0]) if layers == 1 else (kernels, bias)), scale=0.5)
    served = load_model(trained.save(tmp_path / "model"))
    assert served.hash == trained.hash
    records = [Record("f", line, id, {"text": text}) for line, (id, text) in enumerate(TEXTS.items(), 1)]
    assert Indexer(engine, served, index, DeadLetters(tmp_path / "dead")).run(records, ["text"]).indexed == 3
    client = create_app(Config(store=str(tmp_path / "sessions.db")), engine=engine, model=served).test_client()
    answer = client.post("/v1/embeddings", json={"input": ["rain water in the river"]}).json
    vector = np.array(answer["data"][0]["embedding"], np.float32)  # type: ignore[index]
    np.testing.assert_allclose(vector, trained.encode_one("rain water in the river"), atol=1e-6)
    nearest = engine.search(index, knn_body(vector, 3)).hits[0]
    assert nearest["_id"] == "rain"
    search = {"index": index, "query": "fire", "session": "anna"}
    assert client.post("/v1/feedback", json={**search, "relevant": ["army"]}).status_code == 200
    hits = client.post("/v1/search", json=search).json["hits"]["hits"]  # type: ignore[index]
    assert hits[0]["_id"] == "army"
