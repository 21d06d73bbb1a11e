"""Tests of EmBoost's networks: NumPy against PyTorch, training, saving, invalid input, and the commands."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from test_train_reranker import collection, folder
from test_train_reranker import table as table

from resift import WordVectors, load_model
from resift.cli.main import main
from resift.encoders.model import Model
from resift.encoders.residual import Residual
from resift.errors import BadInput, DimensionMismatch
from resift_lab.corpus import DocumentFrequencies
from resift_lab.evaluation.protocol import run_retrieval
from resift_lab.evaluation.system import Encoder
from resift_lab.training.emboost import _Network, export, first_words, padded, train
from resift_lab.training.judged_queries import JudgedQueries
from resift_lab.training.options import EmBoostOptions
from resift_lab.vectors.mixture import mix_vectors


@pytest.fixture(scope="module")
def mixed(table: WordVectors) -> WordVectors:
    return mix_vectors([table], idf=DocumentFrequencies.from_texts(collection().documents), spelling=(16, 0.5))


@pytest.mark.parametrize("kind", ["fcrr", "convrr"])
def test_the_exported_model_equals_the_network(kind: str, mixed: WordVectors, tmp_path: Path) -> None:
    torch.manual_seed(0)
    options = EmBoostOptions(network=kind, scale=0.7)
    network = _Network(mixed.dim, [16, 16], options)
    network.sources.data = torch.tensor([1.5, 0.5])
    texts = ["when s0a", "year1 lorem s1b s1a place2 sit amet", "sit"]
    rows = mixed.rows() * mixed.weights[:, None]
    rows /= np.linalg.norm(rows, axis=1).mean()
    with torch.no_grad():
        expected = network(*padded(rows, first_words(mixed, texts))).numpy()
    model = export(mixed, network, options)
    np.testing.assert_allclose(model.encode(texts), expected, atol=1e-4)
    np.testing.assert_array_equal(model.encode_one(texts[1]), model.encode([texts[1]])[0])
    assert not model.encode(["", "?"]).any()
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert isinstance(loaded, Residual)
    assert loaded.hash == model.hash
    np.testing.assert_array_equal(loaded.encode(texts), model.encode(texts))


@pytest.mark.parametrize("kind", ["fcrr", "convrr"])
def test_training_brings_queries_and_documents_together(kind: str, mixed: WordVectors) -> None:
    found = collection()
    relevant = [list(grades) for grades in found.grades]
    options = EmBoostOptions(network=kind, epochs=15, batch=50, rate=0.01, scale=1.0, decay=0)
    model = train(mixed, [16, 16], JudgedQueries(found.documents, found.queries, relevant), options)
    before = run_retrieval(Encoder(Model("mean", mixed, "mean", "cosine").encode), found).means()
    after = run_retrieval(Encoder(model.encode), found).means()
    assert after["mrr@10"] > before["mrr@10"] + 0.05
    assert model.table.dim == mixed.dim


def test_bad_input(mixed: WordVectors) -> None:
    with pytest.raises(BadInput, match="no relevant document"):
        train(mixed, [32], JudgedQueries(["s0a"], ["when", "where"], [[0], []]), EmBoostOptions())
    with pytest.raises(BadInput, match="1 queries"):
        train(mixed, [32], JudgedQueries(["s0a"], ["when"], [[0]]), EmBoostOptions())
    with pytest.raises(BadInput, match="unknown network"):
        EmBoostOptions(network="lstm")
    with pytest.raises(DimensionMismatch, match="kernels"):
        Residual("convrr", mixed, np.zeros((1, 32, 32), np.float32), np.zeros(32, np.float32), 0.05)


def test_the_commands(tmp_path: Path, table: WordVectors) -> None:
    table.save(tmp_path / "vectors")
    data = folder(tmp_path / "data", {"qrels.tsv": list(range(400))})

    def resift(*arguments: str | Path) -> str:
        ran = CliRunner().invoke(main, [str(argument) for argument in arguments])
        assert ran.exit_code == 0, ran.output
        return ran.stdout

    one = f"{tmp_path / 'vectors'}=0.5"
    resift(
        "vectors", "mix", one, one, "--corpus", data / "corpus.jsonl", "--spelling", "8=0.5", "--out", tmp_path / "m"
    )
    report = json.loads(resift("eval", "retrieval", data, "--vectors", tmp_path / "m", "--json"))
    assert report["dimensions"] == 40
    train_ = ["train", "emboost", "--collection", data, "--vectors", tmp_path / "vectors", "--split", "60,10,30"]
    small = ["--set=rate=0.01", "--set=scale=1", "--set=batch=50", "--set=epochs=8"]
    told = resift(*train_, *small, "--out", tmp_path / "out")
    assert "convrr, 272 dimensions" in told
    report = json.loads(resift("eval", "retrieval", data, "--model", tmp_path / "out", "--split", "60,10,30", "--json"))
    assert report["queries"] == 120
    report = json.loads(resift("eval", "retrieval", data, "--model", tmp_path / "out", "--json"))
    assert (report["queries"], report["trained_on"]) == (120, 280)
