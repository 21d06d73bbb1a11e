"""Tests of EmBoost's networks: NumPy against PyTorch, training, saving, invalid input, and the commands."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

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
from resift_lab.evaluation.data import Split, with_queries
from resift_lab.evaluation.protocol import run_retrieval
from resift_lab.evaluation.system import Encoder
from resift_lab.training.emboost import (
    _Network,
    _triplet_loss,
    export_network,
    first_words,
    padded_word_vectors,
    train_emboost,
)
from resift_lab.training.emboost_selection import choose_encoder
from resift_lab.training.judged_queries import JudgedQueries
from resift_lab.training.options import EmBoostOptions
from resift_lab.vectors.mixture import mix_vectors


@pytest.fixture(scope="module")
def mixed(table: WordVectors) -> WordVectors:
    return mix_vectors([table], corpus=DocumentFrequencies.from_texts(collection().documents), spelling=(16, 0.5))


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("kind", ["fcrr", "convrr"])
def test_the_exported_model_equals_the_network(kind: str, layers: int, mixed: WordVectors, tmp_path: Path) -> None:
    torch.manual_seed(0)
    options = EmBoostOptions(network=kind, scale=0.7, layers=layers)
    network = _Network(mixed.dim, [16, 16], options)
    network.sources.data = torch.tensor([1.5, 0.5])
    texts = ["when s0a", "year1 lorem s1b s1a place2 sit amet", "sit"]
    rows = mixed.rows() * mixed.weights[:, None]
    rows /= np.linalg.norm(rows, axis=1).mean()
    with torch.no_grad():
        expected = network(*padded_word_vectors(rows, first_words(mixed, texts))).numpy()
    model = export_network(mixed, network, options)
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
    model = train_emboost(mixed, [16, 16], JudgedQueries(found.documents, found.queries, relevant), options)
    before = run_retrieval(Encoder(Model("mean", mixed, "mean", "cosine").encode), found).means()
    after = run_retrieval(Encoder(model.encode), found).means()
    assert after["mrr@10"] > before["mrr@10"] + 0.05
    assert model.table.dim == mixed.dim


def distances_of(loss_of: EmBoostOptions, positive: float, negatives: list[float]) -> float:
    """Return the loss of the first query of a batch with given distances from its own and the other documents."""
    angles = torch.tensor([positive, *negatives])

    class Fixed(torch.nn.Module):  # type: ignore[misc]
        """Encodes queries as one point of the unit circle, and documents at the given distances from it."""

        def forward(self, words: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            turned = 2 * torch.arcsin(angles / 2) * words[:, 0, 0].bool()
            return torch.stack([torch.cos(turned), torch.sin(turned)], dim=1)

    count = len(angles)
    data = SimpleNamespace(
        rows=np.array([[0.0], [1.0]], np.float32),
        queries=[np.array([0])] * count,
        documents=[np.array([1])] * count,
        relevant=[[row] for row in range(count)],
    )
    total = _triplet_loss(Fixed(), data, np.arange(count), loss_of, np.random.default_rng(0)) * count  # type: ignore[arg-type]
    return float(total)


@pytest.mark.parametrize(
    ("negatives", "expected"),
    [
        # Distances of the documents: 0.5, 0.3, 0.9. Each is the positive document of one of three queries.
        ("hardest", (0.5 - 0.3) + (0.3 - 0.5) + (0.9 - 0.3) + 3),
        # The third query has no document that is farther than its own, so its negative is the farthest.
        ("semi-hard", (0.5 - 0.9) + (0.3 - 0.5) + (0.9 - 0.5) + 3),
    ],
)
def test_the_negative_document_of_a_triplet(negatives: str, expected: float) -> None:
    options = EmBoostOptions(negatives=negatives, margin=1)
    assert distances_of(options, 0.5, [0.3, 0.9]) == pytest.approx(expected, abs=1e-4)


def test_the_papers_settings_give_way_to_stated_ones() -> None:
    paper = EmBoostOptions(paper=True)
    assert (paper.batch_size, paper.learning_rate, paper.output_scale, paper.decay, paper.margin) == (
        2000,
        1e-3,
        0.05,
        1e-3,
        1,
    )
    assert paper.epochs_for(7000) == 134  # three steps per epoch
    assert paper.epochs_for(100) == 400
    stated = EmBoostOptions(paper=True, batch=50, scale=0.2, epochs=3)
    assert (stated.batch_size, stated.output_scale, stated.epochs_for(7000), stated.learning_rate) == (50, 0.2, 3, 1e-3)
    ours = EmBoostOptions()
    assert (ours.batch_size, ours.learning_rate, ours.output_scale, ours.epochs_for(7000)) == (256, 3e-3, 0.5, 8)


def train_and_choose(mixed: WordVectors, paper: bool, rate: float) -> tuple[Model | None, list[float], float | None]:
    """Return the chosen model, the recall@1 before training and after each epoch, and the recall@1 of the model."""
    options = EmBoostOptions(network="fcrr", paper=paper, epochs=6, batch=20, rate=rate, scale=1.0)
    split = Split(np.arange(40), np.arange(40, 60), np.arange(60, 80))
    model, curve = choose_encoder(collection(), mixed, [16, 16], split, options)
    assert len(curve) == 7
    if model is None:
        return None, curve, None
    validation = with_queries(collection(), split.validation.tolist())
    return model, curve, run_retrieval(Encoder(model.encode), validation).means()["recall@1"]


def has_source_weights_of(model: Model, mixed: WordVectors) -> bool:
    """Return whether the word vectors of a trained model are those of the mixture, times one number."""
    rows, trained = mixed.rows(), model.table.rows()
    return np.allclose(trained / trained[0, 0] * rows[0, 0], rows, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("rate", [0.05, 0.2])
def test_training_as_in_the_paper_fixes_the_sources_and_returns_the_last_epoch(mixed: WordVectors, rate: float) -> None:
    model, curve, recall = train_and_choose(mixed, True, rate)
    assert curve[-1] != max(curve), "the last epoch must differ from the best for this test"
    assert isinstance(model, Residual)
    assert recall == curve[-1]
    assert has_source_weights_of(model, mixed)


def test_training_changes_the_sources_and_returns_the_best_epoch(mixed: WordVectors) -> None:
    model, curve, recall = train_and_choose(mixed, False, 0.05)
    assert curve[-1] != max(curve), "the last epoch must differ from the best for this test"
    assert isinstance(model, Residual)
    assert recall == max(curve)
    assert not has_source_weights_of(model, mixed)


def test_no_model_is_returned_if_training_does_not_help(mixed: WordVectors) -> None:
    model, curve, _ = train_and_choose(mixed, False, 0.2)
    assert curve[0] == max(curve), "training must not help for this test"
    assert model is None


def test_bad_input(mixed: WordVectors) -> None:
    with pytest.raises(BadInput, match="no relevant document"):
        train_emboost(mixed, [32], JudgedQueries(["s0a"], ["when", "where"], [[0], []]), EmBoostOptions())
    with pytest.raises(BadInput, match="1 queries"):
        train_emboost(mixed, [32], JudgedQueries(["s0a"], ["when"], [[0]]), EmBoostOptions())
    with pytest.raises(BadInput, match="unknown network"):
        EmBoostOptions(network="lstm")
    with pytest.raises(BadInput, match="unknown negatives"):
        EmBoostOptions(negatives="easy")
    with pytest.raises(BadInput, match="decay is -1"):
        EmBoostOptions(decay=-1)
    with pytest.raises(BadInput, match=r"margin is -0\.5"):
        EmBoostOptions(margin=-0.5)
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
    small = ["--set=paper=true", "--set=rate=0.01", "--set=scale=1", "--set=batch=50", "--set=epochs=8"]
    told = resift(*train_, *small, "--out", tmp_path / "out")
    assert "convrr, 272 dimensions" in told
    report = json.loads(resift("eval", "retrieval", data, "--model", tmp_path / "out", "--split", "60,10,30", "--json"))
    assert report["queries"] == 120
    report = json.loads(resift("eval", "retrieval", data, "--model", tmp_path / "out", "--json"))
    assert (report["queries"], report["trained_on"]) == (120, 280)
