"""Tests of distillation and refinement with a tiny BERT that has random weights."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result
from tiny_transformer import save_sentence_transformer

from resift.cli.main import main
from resift.encoders.tables import quantize_table, weights_by_rank
from resift.errors import BadInput, MissingExtra
from resift.vectors.similarity import unit_rows
from resift.vectors.table import WordVectors
from resift_lab.training.device import Device
from resift_lab.training.distill import (
    DistillOptions,
    distill,
    layer_vectors,
    read_words,
    round_rows,
)
from resift_lab.training.fitting import FitOptions
from resift_lab.training.principal import principal_components
from resift_lab.training.refine import RefineOptions, _fit_sentences, draw_sentences, procrustes_map, refine
from resift_lab.training.transformer import Transformer

WORDS = ["the", "of", "ship", "ships", "harbour", "sea", "wind", "sail", "rope", "mast", "deck", "port"]


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a sentence-transformers model of one layer, 16 dimensions and a vocabulary of letters."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    letters = "abcdefghijklmnopqrstuvwxyz"
    save_sentence_transformer(folder, [*letters, *(f"##{letter}" for letter in letters)])
    (folder / "README.md").write_text("---\nlanguage: en\nlicense: apache-2.0\n---\n", "utf-8")
    return folder


@pytest.fixture(scope="module")
def model(model_folder: Path) -> Transformer:
    """Return the model on the CPU."""
    return Transformer(model_folder, Device("cpu"))


def test_shapes_weights_and_provenance(model: Transformer) -> None:
    done: list[tuple[int, int]] = []
    vectors = distill(model, WORDS, DistillOptions(dim=4), progress=lambda *counts: done.append(counts))
    assert vectors.words == WORDS
    assert vectors.matrix.shape == (12, 4)
    assert vectors.matrix.dtype == np.float32
    assert np.array_equal(vectors.weights, weights_by_rank(12, "zipf"))
    assert done == [(12, 12)]
    assert vectors.info == {
        "source": "tiny",
        "licence": "apache-2.0",
        "recipe": "one pass a word, l2, centred, principal components 1 to 4",
        "levels": 31,
        "weighting": "zipf",
        "words": 12,
    }


def test_layers_are_the_means_of_hidden_states(model: Transformer) -> None:
    first, last = layer_vectors(model, ["ab", "abc", "two words", "ab"], [0, -1])
    assert first.words == last.words == ["ab", "abc"]
    assert (first.info["source"], last.info["source"]) == ("tiny@0", "tiny@-1")
    transformer = model.model[0]
    pieces = transformer.tokenizer("abc", return_tensors="pt")
    with torch.no_grad():
        states = transformer.auto_model(**pieces, output_hidden_states=True).hidden_states
    assert len(states) == 2
    for table, hidden in ((first, states[0]), (last, states[1])):
        np.testing.assert_allclose(table.rows()[1], hidden[0, 1:-1].mean(0).numpy(), atol=1e-5)


def test_a_layer_that_does_not_exist_is_refused(model: Transformer) -> None:
    for layer in (2, -3):
        with pytest.raises(BadInput, match=f"layer {layer} of .* does not exist"):
            layer_vectors(model, ["ab"], [layer])


def test_layers_are_mixed_with_tables(model_folder: Path, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text('{"text": "the ship in the harbour"}\n{"text": "the sea and the wind"}\n', "utf-8")

    def mix(out: str, *arguments: str) -> WordVectors:
        result = CliRunner().invoke(main, ["vectors", "mix", *arguments, "--out", str(tmp_path / out)])
        assert result.exit_code == 0, result.output
        return WordVectors.load(tmp_path / out)

    layers = [f"{model_folder}@0=0.25", f"{model_folder}@1=0.75"]
    mixture = mix("mixture", *layers, "--corpus", str(corpus), "--aggregate", "average")
    assert (mixture.dim, mixture.words[0]) == (16, "the")
    assert mixture.weights[mixture.index["the"]] < mixture.weights[mixture.index["ship"]]
    assert mixture.info["mixture"] == {"aggregate": "average", "coefficients": [0.25, 0.75], "idf": True}
    ensemble = mix("ensemble", str(tmp_path / "mixture"), "resift-en", "--corpus", str(corpus))
    assert ensemble.dim == 16 + 256
    words = tmp_path / "words.txt"
    words.write_text("ship\nharbour\n", "utf-8")
    assert mix("listed", *layers, "--words", str(words), "--aggregate", "sum").words == ["ship", "harbour"]


def test_layers_need_words(model_folder: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["vectors", "mix", f"{model_folder}@0", "--out", str(tmp_path / "out")])
    assert result.exit_code == 2
    assert "need words" in result.output


def test_rows_are_centred_and_ordered_by_variance(model: Transformer) -> None:
    rows = distill(model, WORDS, DistillOptions(dim=8, levels=None)).rows()
    assert np.abs(rows.mean(axis=0)).max() < 1e-6
    variance = rows.var(axis=0)
    assert (np.diff(variance) <= 0).all()
    assert variance[-1] > 0
    covariance = rows.T @ rows
    assert np.abs(covariance - np.diag(np.diag(covariance))).max() < 1e-5


def test_distilling_again_writes_the_same_bytes(model: Transformer, tmp_path: Path) -> None:
    for name in ("one", "two"):
        quantize_table(distill(model, WORDS, DistillOptions(dim=5, weighting="sif"))).save(tmp_path / name)
    for file in sorted((tmp_path / "one").iterdir()):
        assert file.read_bytes() == (tmp_path / "two" / file.name).read_bytes()
    assert WordVectors.load(tmp_path / "one").info["weighting"] == "sif"


def test_unusable_and_repeated_words_do_not_count(model: Transformer) -> None:
    noisy = ["", ",", "the", "The", "o'clock", "two words", *WORDS]
    assert distill(model, iter(noisy), DistillOptions(dim=3, limit=6)).words == WORDS[:6]


@pytest.mark.parametrize("dim", [0, -1, 12, 17])
def test_too_many_dimensions_are_refused(model: Transformer, dim: int) -> None:
    with pytest.raises(BadInput) as caught:
        distill(model, WORDS, DistillOptions(dim=dim))
    assert caught.value.expected == "1 to 11"


@pytest.mark.parametrize("words", [[], ["", "...", "a b"]])
def test_no_usable_word(model: Transformer, words: list[str]) -> None:
    with pytest.raises(BadInput, match="no usable word"):
        distill(model, words)


@pytest.mark.parametrize("content", [None, "{", "{}", "[]"])
def test_bad_folder(tmp_path: Path, content: str | None) -> None:
    pytest.importorskip("sentence_transformers")
    if content is not None:
        (tmp_path / "config.json").write_text(content, "utf-8")
    with pytest.raises(BadInput) as caught:
        Transformer(tmp_path)
    assert caught.value.expected == "the folder of a sentence-transformers model"


def test_words_of_documents_come_before_words_of_a_list(model_folder: Path, tmp_path: Path) -> None:
    corpus, listed, out = tmp_path / "corpus.jsonl", tmp_path / "words.txt", tmp_path / "out"
    texts = ["Koira ja kissa", "koira ja hevonen", "talo ja koira", "ja vesi"]
    corpus.write_text("".join(json.dumps({"_id": text, "text": text}) + "\n" for text in texts), "utf-8")
    listed.write_text("vesi\njoki\n", "utf-8")

    def run(*given: str) -> Result:
        return CliRunner().invoke(main, ["vectors", "distill", str(model_folder), "--dim=2", f"--out={out}", *given])

    assert run(f"--corpus={corpus}").exit_code == 0
    words = WordVectors.load(out).words
    assert words[:2] == ["ja", "koira"]
    assert set(words) == {"ja", "koira", "kissa", "hevonen", "talo", "vesi"}
    assert run(f"--corpus={corpus}", f"--words={listed}").exit_code == 0
    assert WordVectors.load(out).words == [*words, "joki"]
    refused = run()
    assert refused.exit_code == 2
    assert "--words, --corpus or both" in refused.output


def test_missing_extra_names_the_pip_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(MissingExtra, match=r"pip install 'resift\[lab\]'"):
        Transformer(tmp_path)


def test_principal_components_of_a_known_plane() -> None:
    angles = np.linspace(0, 2 * np.pi, 100, endpoint=False)
    circle = np.stack([3 * np.cos(angles), np.sin(angles), np.full(100, 7.0)], axis=1)
    assert np.allclose(principal_components(circle, 2), circle[:, :2], atol=1e-6)
    assert np.allclose(principal_components(circle, 1, drop=1), circle[:, 1:2], atol=1e-6)


def test_rounded_vectors_have_few_values_and_fit_into_int8() -> None:
    rows = np.random.default_rng(0).standard_normal((50, 40)).astype(np.float32)
    rows[7] = 0
    coarse = round_rows(rows, 31)
    assert np.abs(coarse - rows).max() <= np.abs(rows).max() / 62 + 1e-6
    assert max(len(np.unique(row)) for row in coarse) <= 63
    small = quantize_table(WordVectors([f"w{i}" for i in range(50)], coarse))
    assert np.abs(small.rows() - coarse).max() <= np.abs(rows).max() / 254 + 1e-6


def test_the_first_column_of_a_word_list_is_read(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_bytes("the 0.1 0.2\r\n\nnaïve\tx\n  of\n".encode())
    assert list(read_words(path)) == ["the", "naïve", "of"]
    path.write_bytes(b"\xff\xfe\n")
    for bad in (path, tmp_path, tmp_path / "none"):
        with pytest.raises(BadInput):
            list(read_words(bad))


def test_sentences_are_split_cleaned_and_drawn() -> None:
    text = (
        "The ship left the harbour. Too short. >> quoted line of some words\n\nwrite to me@sea.org about the sails\n\nA"
    )
    text += " b c d e"
    found = draw_sentences([[text, text]], 10, np.random.default_rng(0))
    assert sorted(found) == ["A b c d e", "The ship left the harbour."]
    assert len(draw_sentences([[text]], 1, np.random.default_rng(0))) == 1


def test_sentences_are_drawn_from_all_sources_in_turn() -> None:
    large, small = ([f"{name} number {i} of many" for i in range(count)] for name, count in (("l", 100), ("s", 4)))
    for sources in ([large, small], [small, large]):
        found = draw_sentences(sources, 10, np.random.default_rng(0))
        assert sorted(text for text in found if text[0] == "s") == small
        assert len(set(found)) == 10
    assert draw_sentences([small, small], 10, np.random.default_rng(0)) != small
    assert len(draw_sentences([small, small], 10, np.random.default_rng(0))) == 4


def test_fitting_brings_texts_cosines_closer_to_the_teachers_in_a_space_of_its_own() -> None:
    rng = np.random.default_rng(2)
    words = [f"w{i}" for i in range(60)]
    hidden = rng.normal(size=(60, 8))
    far = 20 * (hidden + 1.5 * rng.normal(size=(60, 8)))  # fitting must not depend on the lengths of the initial rows
    start = WordVectors(words, far.astype(np.float32), np.linspace(1, 2, 60).astype(np.float32))
    picks = [rng.choice(60, 6, replace=False) for _ in range(700)]
    texts = [" ".join(words[i] for i in pick) for pick in picks]
    turn, _ = np.linalg.qr(rng.normal(size=(12, 8)))
    wanted = unit_rows(np.stack([hidden[pick].sum(0) for pick in picks]) @ turn.T)

    def error(rows: np.ndarray, weights: np.ndarray) -> float:
        table = rows * weights[:, None]
        units = unit_rows(np.stack([table[pick].sum(0) for pick in picks[600:]]))
        return float(((units @ units.T - wanted[600:] @ wanted[600:].T) ** 2).mean())

    rows, weights = _fit_sentences(start, texts[:600], wanted[:600], FitOptions(epochs=60, rate=0.03))
    assert error(rows, weights) < 0.3 * error(start.rows(), start.weights)


@pytest.mark.parametrize("size", [3, 8, 12])
def test_procrustes_map_restores_a_rotation(size: int) -> None:
    rng = np.random.default_rng(0)
    axes, _ = np.linalg.qr(rng.normal(size=(12, size)))
    rows = rng.normal(size=(50, size)).astype(np.float32)
    np.testing.assert_allclose(procrustes_map(rows, (rows @ axes.T).astype(np.float32)), axes.T, atol=1e-5)
    np.testing.assert_allclose(procrustes_map((rows @ axes.T).astype(np.float32), rows), axes, atol=1e-5)


def test_refined_vectors_follow_the_model(model: Transformer) -> None:
    start = distill(model, WORDS, DistillOptions(dim=4))
    texts = [f"the {a} of the {b}. A {b} and the {c} of sea" for a in WORDS[2:] for b in WORDS[2:] for c in WORDS[6:]]
    done: list[tuple[int, int]] = []
    refined = refine(
        start, model, [texts], RefineOptions(limit=100, epochs=2), progress=lambda *counts: done.append(counts)
    )
    assert refined.words == start.words
    assert (refined.rows() != start.rows()).any()
    assert (refined.weights != start.weights).any()
    whole = refine(start, model, [texts], RefineOptions(limit=100, epochs=2, levels=None))
    assert (round_rows(whole.rows(), 31) == refined.rows()).all()
    assert (whole.rows() != refined.rows()).any()
    assert "on 100 sentences" in refined.info["refined"]
    assert [first for first, _ in done] == sorted(first for first, _ in done)
    with pytest.raises(BadInput, match="1 sentences"):
        refine(start, model, [["one sentence of words"]])
