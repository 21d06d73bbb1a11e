"""Tests of supervised training: losses against plain NumPy, quality, exact resumption, and invalid input."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from resift import Model, WordVectors, load_model
from resift.encoders.codebook import membership
from resift.encoders.kmeans import kmeans
from resift.encoders.model import Layers
from resift.encoders.tables import build_table
from resift.errors import BadInput
from resift.feedback.mask import spherical_entropy
from resift_lab.commands.train import train as train_commands
from resift_lab.evaluation.data import read_labelled_texts
from resift_lab.training.boew import RoBoew, class_means, cluster_entropy
from resift_lab.training.documents import segment_counts
from resift_lab.training.labels import class_shares, hold_out
from resift_lab.training.options import ENTROPIES, RnBofOptions, RoBoewOptions
from resift_lab.training.rnbof import untrained_network
from resift_lab.training.supervised import _TrainingRun, train_on_labels
from resift_lab.training.vocabulary import initial_vocabulary

GREEK = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa"]
FRUIT = ["apple", "banana", "cherry", "date", "elder", "fig", "grape", "lemon", "mango", "olive"]
NOISE = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
SMALL: dict[str, Any] = {"codewords": 6, "epochs": 6, "batch": 16, "rate": 0.03, "patience": 5, "validation": 0.25}
KINDS = {
    "ro-boew": RoBoewOptions(**SMALL),
    "ro-boew, entropy": RoBoewOptions(**SMALL, tied=False),
    "ro-boew, euclidean": RoBoewOptions(**SMALL, entropy="euclidean"),
    "ro-boew, published": RoBoewOptions(**SMALL, published=True),
    "rn-bof": RnBofOptions(**SMALL, size=4),
    "rn-bof, segments": RnBofOptions(**SMALL, size=7, segments=3),
}


@pytest.fixture(scope="module")
def table() -> WordVectors:
    """Return random vectors of twelve dimensions. Every third word of a topic has no vector."""
    words = [word for word in GREEK + FRUIT + NOISE if word not in GREEK[::3] + FRUIT[::3]] + ["unseen", "other"]
    rows = np.random.default_rng(3).normal(size=(len(words), 12)).astype(np.float32)
    return build_table(words, rows, "zipf")


@pytest.fixture(scope="module")
def corpus() -> tuple[list[str], list[str]]:
    """Return texts and their labels.

    160 texts have three words of the class and nine noise words. One text is empty, and one has no known word.
    """
    rng = np.random.default_rng(4)
    topics = {"greek": GREEK, "fruit": FRUIT}
    labels = ["greek", "fruit"] * 80
    texts = [
        " ".join(rng.permutation([*rng.choice(topics[label], 3), *rng.choice(NOISE, 9)]).tolist()) for label in labels
    ]
    return ["", "qqq", *texts], ["greek", "fruit", *labels]


@pytest.fixture(scope="module")
def trained(table: WordVectors, corpus: tuple[list[str], list[str]]) -> Callable[[str], tuple[Model, dict[str, Any]]]:
    """Return a function that trains a kind of network, or returns the result of an earlier call."""
    done: dict[str, tuple[Model, dict[str, Any]]] = {}

    def get(kind: str) -> tuple[Model, dict[str, Any]]:
        if kind not in done:
            done[kind] = train_on_labels(*corpus, table, KINDS[kind])
        return done[kind]

    return get


@pytest.mark.parametrize("m", [0.02, 0.1, 1.0])
def test_entropy_and_gradient_equal_plain_numpy(m: float) -> None:
    rng = np.random.default_rng(1)
    z, labels = rng.random((9, 5)), np.r_[0, 1, rng.integers(0, 2, 7)]
    centres = np.stack([z[labels == label].mean(0) for label in range(2)])
    mask = rng.uniform(0.2, 2, 5)
    value, gradient = spherical_entropy(z, labels, centres, m)(mask)
    leaf, targets = torch.tensor(mask, requires_grad=True), torch.eye(2, dtype=torch.float64)[labels]
    np.testing.assert_allclose(class_means(z, targets.numpy()), centres, rtol=1e-5)
    settings = RoBoewOptions(fuzziness=m, tied=False)
    loss = cluster_entropy(leaf * torch.tensor(z), targets, torch.tensor(centres), settings)
    loss.backward()
    assert loss.item() == pytest.approx(value, rel=1e-9)
    assert leaf.grad is not None
    np.testing.assert_allclose(leaf.grad.numpy(), gradient, rtol=1e-6, atol=1e-10)


@pytest.mark.parametrize("kind", ["spherical", "euclidean"])
def test_soft_and_tied_entropy_of_three_classes_written_out(kind: str) -> None:
    rng = np.random.default_rng(2)
    s, centres, targets = rng.random((7, 4)), rng.random((3, 4)), rng.dirichlet(np.ones(3), 7)
    distance = np.linalg.norm(s[:, None] - centres, axis=2)
    if kind == "spherical":
        distance = 1 - (s @ centres.T) / np.outer(np.linalg.norm(s, axis=1), np.linalg.norm(centres, axis=1))
    w = np.exp(-distance / 0.3)
    w /= w.sum(axis=1, keepdims=True)
    h = targets.T @ w
    expected = -(h * np.log(h / w.sum(axis=0))).sum() / 7
    tensors = [torch.tensor(array) for array in (s, targets, centres)]
    settings = {"fuzziness": 0.3, "entropy": kind}
    assert cluster_entropy(*tensors, RoBoewOptions(**settings, tied=False)).item() == pytest.approx(expected)
    tied = -(targets * np.log(w)).sum() / 7
    assert cluster_entropy(*tensors, RoBoewOptions(**settings)).item() == pytest.approx(tied)
    assert tied > expected


def test_the_default_fuzziness_follows_the_entropy() -> None:
    given = {
        (kind, tied): RoBoewOptions(entropy=kind, tied=tied).fuzziness for kind in ENTROPIES for tied in (True, False)
    }
    assert given == {
        ("spherical", True): 0.1,
        ("euclidean", True): 0.1,
        ("spherical", False): 0.05,
        ("euclidean", False): 0.01,
    }
    assert RoBoewOptions(tied=False, fuzziness=0.3).fuzziness == 0.3


def test_zero_vectors_and_empty_clusters_give_finite_gradients() -> None:
    for settings in KINDS.values():
        for values, centres in [(torch.zeros(3, 2), torch.zeros(2, 2)), (torch.eye(2)[[0, 0, 0]], 99 * torch.eye(2))]:
            s = values.clone().requires_grad_()
            cluster_entropy(s, torch.eye(2)[[0, 1, 1]], centres, replace(settings, fuzziness=0.001)).backward()
            assert s.grad is not None
            assert torch.isfinite(s.grad).all()


@pytest.mark.parametrize("kind", KINDS)
def test_training_improves_the_untrained_model(
    trained: Callable[[str], tuple[Model, dict[str, Any]]], kind: str
) -> None:
    model, summary = trained(kind)
    assert summary["map11"]["trained"] > summary["map11"]["untrained"] + 0.05
    assert summary["better"]
    assert summary["held_out"] == pytest.approx(162 / 4, abs=1)
    assert model.dim == {"rn-bof": 4, "rn-bof, segments": 7}.get(kind, 6)
    apple, mango, theta = model.encode(["apple apple apple", "mango mango mango", "theta theta theta"])
    assert apple @ mango > apple @ theta


@pytest.mark.parametrize("kind", KINDS)
def test_exported_model_equals_the_network(
    tmp_path: Path, table: WordVectors, corpus: tuple[list[str], list[str]], kind: str
) -> None:
    texts, options = corpus[0], KINDS[kind]
    start = initial_vocabulary(texts, table, 2, 0)
    network = untrained_network(start, options)
    with torch.no_grad():
        for value in network.parameters():
            value.add_(0.1 * torch.rand(value.shape, generator=torch.Generator().manual_seed(1)))
    model = network.export(start, table, {})
    counts = segment_counts(Model("", start, "mean", "cosine", Layers(segments=network.segments)), texts)
    vectors = network.encode(counts, batch=7)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    np.testing.assert_allclose(model.encode(texts), vectors / np.where(lengths > 0, lengths, 1), atol=1e-5)
    assert model.name == {"rn-bof": "rn-bof:6,4", "rn-bof, segments": "rn-bof:6,7"}.get(kind, "ro-boew:6")
    loaded = load_model(model.save(tmp_path / "m"))
    assert loaded.hash == model.hash
    np.testing.assert_array_equal(loaded.encode(texts), model.encode(texts))
    assert not model.encode(["", "qqq"]).any()
    assert model.table.index["unseen"] >= 0
    float16 = model.encode(texts).astype(np.float16)
    np.testing.assert_allclose(float16.astype(np.float32), model.encode(texts), atol=1e-3)


def test_published_training_has_equal_weights_fixed_centres_and_constant_rates(
    table: WordVectors, corpus: tuple[list[str], list[str]], trained: Callable[[str], tuple[Model, dict[str, Any]]]
) -> None:
    model, _ = trained("ro-boew, published")
    np.testing.assert_array_equal(model.table.weights, np.ones(len(model.table), np.float32))
    texts, labels = corpus
    run = _TrainingRun(texts, class_shares(labels)[1], table, KINDS["ro-boew, published"])
    centres, rates = run.centres.detach().clone(), [group["lr"] for group in run.optimizers[0].param_groups]
    before = run.network.encode(run.counts)
    for _ in range(2):
        run.train_epoch(lambda documents: None)
    assert not np.array_equal(run.network.encode(run.counts), before)
    torch.testing.assert_close(run.centres, centres, rtol=0, atol=0, check_stride=False)
    assert [group["lr"] for group in run.optimizers[0].param_groups] == rates
    assert not RoBoewOptions(published=True).tied


def test_published_training_starts_from_original_and_random_vectors(
    table: WordVectors, corpus: tuple[list[str], list[str]]
) -> None:
    options = KINDS["ro-boew, published"]
    texts, labels = (
        [*corpus[0], *["rare apples"] * 2, *[f"unknown{i}" for i in range(200)]],
        [*corpus[1], *["greek"] * 202],
    )
    start = _TrainingRun(texts, class_shares(labels)[1], table, options).table
    assert options.min_documents == 1
    assert {"rare", "unknown7", "qqq"} <= set(start.words), "words of a single document are trained"
    known = [word for word in start.words if table.index[word] >= 0]
    rows = [start.index[word] for word in known]
    np.testing.assert_array_equal(start.rows(rows), table.rows([table.index[word] for word in known]))
    random = start.rows([start.index[f"unknown{i}"] for i in range(200)])
    assert random.mean() == pytest.approx(1, abs=0.1)
    assert random.std() == pytest.approx(1, abs=0.1)
    assert not np.isin(start.rows([start.index["apples"]]), table.rows()).any(), "not the vector of its stem"


def test_zero_epochs_return_an_untrained_network(table: WordVectors, corpus: tuple[list[str], list[str]]) -> None:
    settings = {**SMALL, "epochs": 0, "validation": 0, "published": True}
    model, summary = train_on_labels(*corpus, table, RoBoewOptions(**settings))
    assert (summary["epochs"], summary["map11"], summary["better"]) == (0, {}, None)
    rows = [table.index["unseen"], table.index["banana"]]
    words, codebook = table.rows(rows), kmeans(initial_vocabulary(corpus[0], table, 1, 0, True).rows(), 6, 0)
    expected = membership(words, codebook, RoBoewOptions().sigma)
    np.testing.assert_allclose(
        model.table.rows([model.table.index[w] for w in ("unseen", "banana")]), expected, atol=1e-5
    )
    with pytest.raises(BadInput, match="epochs is 0, but validation is"):
        RoBoewOptions(**{**SMALL, "epochs": 0})


@pytest.mark.parametrize("kind", ["ro-boew", "rn-bof, segments"])
def test_a_step_touches_only_the_batch_s_words(
    table: WordVectors, corpus: tuple[list[str], list[str]], kind: str
) -> None:
    start = initial_vocabulary(corpus[0], table, 2, 0)
    network = untrained_network(start, KINDS[kind])
    counts = segment_counts(
        Model("", start, "mean", "cosine", Layers(segments=network.segments)), ["apple banana apple"]
    )
    network(counts).sum().backward()
    grad = network.rows.grad.coalesce()
    assert sorted(start.words[row] for row in grad.indices()[0]) == ["apple", "banana"]


@pytest.mark.parametrize("kind", ["ro-boew", "rn-bof"])
@pytest.mark.parametrize("stop", [2, 7])
def test_resumed_equals_uninterrupted(
    tmp_path: Path,
    table: WordVectors,
    corpus: tuple[list[str], list[str]],
    trained: Callable[[str], tuple[Model, dict[str, Any]]],
    kind: str,
    stop: int,
) -> None:
    """Interrupt the training in the first stage, or after six epochs in the second stage, and resume it."""
    whole, summary = trained(kind)
    kept, file = summary["documents"] - summary["held_out"], tmp_path / "out.checkpoint"

    def interrupt(done: int, total: int) -> None:
        assert 0 < done <= total
        if done > (stop + 0.5) * kept:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_on_labels(*corpus, table, KINDS[kind], interrupt, file)
    resumed, again = train_on_labels(*corpus, table, KINDS[kind], None, file)
    assert again == summary
    assert resumed.hash == whole.hash
    if (kind, stop) == ("ro-boew", 2):  # a single case suffices
        other = RoBoewOptions(**{**SMALL, "epochs": 4})
        anew, wanted = (train_on_labels(*corpus, table, other, None, path)[0] for path in (file, None))
        assert anew.hash == wanted.hash, "a checkpoint of another training is ignored"
    file.write_bytes(b"damaged")
    with pytest.raises(BadInput, match="checkpoint is damaged"):
        train_on_labels(*corpus, table, KINDS[kind], None, file)


def test_seeds(table: WordVectors, corpus: tuple[list[str], list[str]]) -> None:
    quick = {**SMALL, "epochs": 1, "validation": 0}
    hashes = [train_on_labels(*corpus, table, RoBoewOptions(**quick, seed=seed))[0].hash for seed in (0, 0, 1)]
    assert hashes[0] == hashes[1] != hashes[2]


def test_without_held_out_documents(table: WordVectors, corpus: tuple[list[str], list[str]]) -> None:
    _, summary = train_on_labels(*corpus, table, RoBoewOptions(**{**SMALL, "epochs": 2, "validation": 0}))
    assert (summary["better"], summary["map11"], summary["held_out"], summary["epochs"]) == (None, {}, 0, 2)


def test_patience_ends_training(table: WordVectors, corpus: tuple[list[str], list[str]]) -> None:
    seen: list[tuple[int, int]] = []
    options = RoBoewOptions(**{**SMALL, "epochs": 40, "patience": 1, "rate": 1e-7})
    _, summary = train_on_labels(*corpus, table, options, lambda done, total: seen.append((done, total)))
    assert summary["epochs"] < 5
    assert seen[-1][0] == seen[-1][1]


def test_soft_labels(table: WordVectors, corpus: tuple[list[str], list[str]]) -> None:
    texts, labels = corpus
    soft = [{label: 9.0, "fruit" if label == "greek" else "greek": 1.0} for label in labels]
    classes, targets = class_shares(soft)
    assert classes == ["fruit", "greek"]
    np.testing.assert_allclose(targets[:2], [[0.1, 0.9], [0.9, 0.1]], rtol=1e-6)
    _, summary = train_on_labels(texts, soft, table, KINDS["ro-boew"])
    assert summary["better"]
    assert class_shares([{"a": 2}, 7])[1].tolist() == [[0, 1], [1, 0]]


def test_held_out_is_stratified_and_spares_single_documents() -> None:
    classes = np.repeat([0, 1, 2, 3], [100, 40, 1, 2])
    held = hold_out(classes, 0.1, 0)
    assert np.abs(np.bincount(classes[held], minlength=4) - [10, 4, 0, 0]).max() <= 1
    assert not held[140]
    assert not hold_out(classes, 0, 0).any()
    assert (held != hold_out(classes, 0.1, 1)).any()


def test_vocabulary_start(table: WordVectors) -> None:
    texts = ["mango bananas xyz xyz once", "mango banana xyz"]
    start = initial_vocabulary(texts, table, 2, 0)
    assert start.words == ["xyz", "mango"]
    start = initial_vocabulary(texts, table, 1, 0)
    rows, unit = start.rows(), table.rows()[table.index["banana"]]
    np.testing.assert_allclose(rows[start.index["bananas"]], unit / np.linalg.norm(unit), rtol=1e-5)
    assert 0 < np.linalg.norm(rows[start.index["xyz"]]) < 0.1
    assert start.weights[start.index["xyz"]] == table.weights.max()


@pytest.mark.parametrize("labels", [["a", "a"], ["a", None], ["a", ""], ["a", {}], ["a", {"b": -1}], ["a", {"b": "x"}]])
def test_bad_labels(table: WordVectors, labels: list[Any]) -> None:
    with pytest.raises(BadInput, match=r"have the class|document 2"):
        train_on_labels(["apple", "mango"], labels, table, KINDS["ro-boew"])


def test_bad_corpora(table: WordVectors, corpus: tuple[list[str], list[str]]) -> None:
    with pytest.raises(BadInput, match="0 texts"):
        train_on_labels([], [], table, RoBoewOptions())
    with pytest.raises(BadInput, match="has a word vector"):
        train_on_labels(["qqq", "qqq"] * 4, ["a", "b"] * 4, table, RoBoewOptions())
    with pytest.raises(BadInput, match="codewords are more than"):
        train_on_labels(*corpus, table, RoBoewOptions())


@pytest.mark.parametrize(
    "bad",
    [
        {"codewords": 0},
        {"sigma": 0},
        {"fuzziness": float("nan")},
        {"epochs": 0},
        {"batch": 0},
        {"rate": -1},
        {"min_count": 0},
        {"validation": 0.9},
        {"patience": 0},
        {"seed": -1},
        {"entropy": "cubic"},
        {"size": 0},
        {"segments": 0},
    ],
)
def test_bad_options(bad: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match=next(iter(bad))):
        RnBofOptions(**bad)


def test_single_and_identical_documents_of_a_class_can_be_trained(table: WordVectors) -> None:
    texts, labels = ["apple mango"] * 6 + ["theta iota"] * 6 + ["fig"], ["f"] * 6 + ["g"] * 6 + ["one"]
    options = RoBoewOptions(codewords=2, epochs=2, min_count=1, validation=0.5)
    model, summary = train_on_labels(texts, labels, table, options)
    assert summary["classes"] == 3
    assert np.isfinite(model.encode(texts)).all()


@pytest.fixture
def files(tmp_path: Path, table: WordVectors, corpus: tuple[list[str], list[str]]) -> list[str]:
    """Write a corpus and vectors to disk, and return options of the command."""
    with gzip.open(tmp_path / "c.jsonl.gz", "wt") as handle:
        for text, label in zip(*corpus, strict=True):
            handle.write(json.dumps({"text": text, "label": label}) + "\n")
    table.save(tmp_path / "v")
    small = ["--set=epochs=6", "--set=batch=16", "--set=rate=0.03", "--set=validation=0.25"]
    return [f"--train={tmp_path / 'c.jsonl.gz'}", f"--vectors={tmp_path / 'v'}", f"--out={tmp_path / 'm'}", *small]


@pytest.mark.parametrize(
    ("name", "more", "dim"),
    [("ro-boew", ["--codewords=6"], 6), ("rn-bof", ["--set=codewords=6", "--size=3", "--set=segments=2"], 3)],
)
def test_commands(
    tmp_path: Path, files: list[str], corpus: tuple[list[str], list[str]], name: str, more: list[str], dim: int
) -> None:
    ran = CliRunner().invoke(train_commands, [name, *files, *more], catch_exceptions=False)
    assert ran.exit_code == 0
    assert "162 documents of 2 classes" in ran.output
    assert "untrained" in ran.output
    assert not (tmp_path / "m.checkpoint").exists()
    model = load_model(tmp_path / "m")
    assert model.dim == dim
    assert f"hash {model.hash}" in ran.output
    assert model.table.matrix.dtype == np.int8
    lengths = np.linalg.norm(model.encode(corpus[0]), axis=1)
    assert (np.isclose(lengths, 1, atol=1e-5) | (lengths == 0)).all()


def test_a_training_without_improvement_writes_nothing(tmp_path: Path, files: list[str]) -> None:
    ran = CliRunner().invoke(
        train_commands, ["ro-boew", *files, "--codewords=6", "--set=rate=1e-9"], catch_exceptions=False
    )
    assert ran.exit_code == 3
    assert "no better" in ran.output
    assert not (tmp_path / "m").exists()


def test_a_training_without_evaluation_documents_warns(tmp_path: Path, table: WordVectors) -> None:
    table.save(tmp_path / "v")
    rows = [{"text": " ".join(table.words[:9]), "label": number} for number in range(3)]
    (tmp_path / "c.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    files = ["--train", str(tmp_path / "c.jsonl"), "--vectors", str(tmp_path / "v"), "--out", str(tmp_path / "m")]
    ran = CliRunner().invoke(train_commands, ["ro-boew", *files, "--codewords", "2", "--set", "epochs=1"])
    assert ran.exit_code == 0
    assert "no class has two documents" in ran.stderr
    ran = CliRunner().invoke(
        train_commands, ["ro-boew", *files, "--codewords", "2", "--set", "epochs=1", "--set=validation=0"]
    )
    assert (ran.exit_code, "warning" in ran.stderr) == (0, False)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "holds no document"),
        ('{"text": "a"}\n', "line 1: no label"),
        ('{"text": "a", "label": "x"}\n{"text": "a", "label": null}', "line 2: label is None"),
        ('{"text": "a", "label": ["x"]}', r"line 1: label is \['x'\]"),
        ('{"label": "x"}', "line 1: no text"),
        ("[1]", "line 1"),
        ("{", "Expecting"),
    ],
)
def test_bad_files(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "c.jsonl"
    path.write_text(content)
    with pytest.raises(BadInput, match=message):
        read_labelled_texts(str(path))
    with pytest.raises(BadInput, match="none"):
        read_labelled_texts(str(tmp_path / "none"))


def test_parameters_follow_the_paper(table: WordVectors, corpus: tuple[list[str], list[str]]) -> None:
    """Test that V, X, r and σ are trained, and that RN-BoF has a width for each codeword and a head (S · K, R)."""
    start = initial_vocabulary(corpus[0], table, 2, 0)
    assert isinstance(untrained_network(start, RoBoewOptions(codewords=6)), RoBoew)
    head = untrained_network(start, RnBofOptions(codewords=6, size=5, segments=2))
    assert tuple(head.head.shape) == (12, 5)
    assert head.head.abs().max() <= 1
    assert (head.head.sum(0) > 0).all()
    book = head.codebook.detach()
    apart = torch.cdist(book, book).sum() / 30
    np.testing.assert_allclose(head.width.detach().numpy(), np.full(6, 0.5 * apart), rtol=1e-4)
    for kind in KINDS.values():
        network = untrained_network(start, kind)
        before = {name: value.detach().clone() for name, value in network.named_parameters()}
        counts = segment_counts(Model("", start, "mean", "cosine", Layers(segments=network.segments)), corpus[0])
        targets = torch.from_numpy(class_shares(corpus[1])[1])
        centres = torch.from_numpy(class_means(network.encode(counts), targets.numpy()))
        cluster_entropy(network(counts), targets, centres, kind).backward()
        trained = {name: value for name, value in network.named_parameters() if value.requires_grad}
        # the paper has no word weights
        assert before.keys() - trained.keys() == ({"log_weights"} if kind.published else set())
        assert all(value.grad.to_dense().abs().sum() > 0 for value in trained.values()), before.keys()
