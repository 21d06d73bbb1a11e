"""Tests of transformers on the CPU and on a GPU."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from tiny_transformer import save_sentence_transformer

from resift.cli.main import main
from resift.errors import BadInput
from resift.vectors.similarity import unit_rows
from resift_lab.training.device import Device
from resift_lab.training.distill import layer_vectors
from resift_lab.training.transformer import Transformer, token_batches

GPU = torch.cuda.is_available()
needs_gpu = pytest.mark.skipif(not GPU, reason="NO GPU: the results of a GPU were not compared with those of the CPU")
LETTERS = "abcdefghijklmnopqrstuvwxyz"
TEXTS = [LETTERS[start : start + 1 + start % 7] for start in range(20)] + ["", "one two three", "ein größeres Wort"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a sentence-transformers model of one layer, with random weights."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    return save_sentence_transformer(folder, [*LETTERS, *(f"##{letter}" for letter in LETTERS)])


@pytest.fixture(scope="module")
def model(folder: Path) -> Transformer:
    """Return the model on the CPU."""
    return Transformer(folder, Device("cpu"))


def test_vectors_on_the_cpu_are_those_of_sentence_transformers(model: Transformer) -> None:
    progress: list[tuple[int, int]] = []
    vectors = model.encode(TEXTS, batch=4, call=16, progress=lambda *counts: progress.append(counts))
    expected = [model.model.encode(call, batch_size=4) for call in (TEXTS[:16], TEXTS[16:])]
    np.testing.assert_array_equal(vectors, np.concatenate(expected))
    assert vectors.dtype == np.float32
    assert progress == [(16, 23), (23, 23)]


def test_token_batches_hold_texts_of_similar_length() -> None:
    texts = ["aaaa", "a" * 30, "ää", "a", "a" * 100, ""]
    # Lengths in bytes, plus two special tokens: 6, 32, 6, 3, 102, 2.
    assert list(token_batches(texts, max_tokens=64)) == [[4], [1, 0], [2, 3, 5]]
    assert list(token_batches(texts, max_length=16, max_tokens=64)) == [[1, 4, 0, 2], [3, 5]]
    assert list(token_batches([])) == []


def test_token_batches_change_the_vectors_only_by_rounding(model: Transformer) -> None:
    vectors = model.encode(TEXTS, batch=4)
    for batch in token_batches(TEXTS, max_tokens=40):
        texts = [TEXTS[row] for row in batch]
        padded = model.model.tokenizer(texts, padding=True)["input_ids"]
        assert np.size(padded) <= 40 or len(batch) == 1
        np.testing.assert_allclose(model.encode(texts, batch=len(batch)), vectors[batch], atol=1e-6)


def test_the_speed_counts_all_texts(folder: Path) -> None:
    device = Device("cpu")
    Transformer(folder, device).encode(TEXTS, batch=4)
    Transformer(folder, device).encode(TEXTS[:7], batch=4)
    assert device.texts == 30
    assert str(device).startswith("30 texts encoded on the CPU, ")


def distill(folder: Path, *options: str) -> tuple[int, str]:
    """Distil word vectors into the folder ``out``. Return the exit status and the text on standard error."""
    Path("words.txt").write_text("\n".join(f"{first}{second}" for first in LETTERS for second in "xyz"), "utf-8")
    command = ["vectors", "distill", str(folder), "--words", "words.txt", "--dim", "4", "--out", "out"]
    result = CliRunner().invoke(main, [*command, *options])
    return result.exit_code, result.stderr


def test_commands_name_the_device_and_the_speed(folder: Path, here: Path) -> None:
    status, errors = distill(folder, "--device", "cpu")
    assert status == 0
    assert "78 texts encoded on the CPU, " in errors
    assert " per second" in errors
    documents = [{"_id": text, "text": text, "label": "x"} for text in ("a b", "a c")]
    Path("docs.jsonl").write_text("\n".join(map(json.dumps, documents)), "utf-8")
    evaluation = ["eval", "classes", "--train", "docs.jsonl", "--test", "docs.jsonl", "--json", "--device", "cpu"]
    measured = CliRunner().invoke(main, [*evaluation, "--encoder", f"st:{folder}"])
    assert json.loads(measured.stdout)["queries"] == 2
    assert "4 texts encoded on the CPU, " in measured.stderr
    without = CliRunner().invoke(main, [*evaluation, "--encoder", "mean"])
    assert without.exit_code == 0
    assert "encoded on" not in without.stderr, "a system without a transformer encodes nothing on the device"


@pytest.mark.skipif(GPU, reason="torch finds a GPU")
def test_a_gpu_that_does_not_exist_is_an_error(folder: Path, here: Path) -> None:
    status, errors = distill(folder, "--device", "cuda")
    assert status == 2
    assert "--device cuda needs a GPU, and torch finds none" in errors
    assert "expected: cpu, auto" in " ".join(errors.split())
    assert not Path("out").exists()
    assert Device("auto").label == "the CPU"


@needs_gpu
def test_a_gpu_gives_the_vectors_of_the_cpu(folder: Path, model: Transformer) -> None:
    gpu = Transformer(folder, Device("cuda"))
    expected, vectors = model.encode(TEXTS, batch=4), gpu.encode(TEXTS, batch=4)
    assert vectors.dtype == np.float32
    assert (unit_rows(expected) * unit_rows(vectors)).sum(axis=1).min() > 0.9999
    np.testing.assert_allclose(vectors, expected, atol=0.01)
    words = [text for text in TEXTS if text.isalpha()]
    for on_gpu, on_cpu in zip(layer_vectors(gpu, words, [0, -1]), layer_vectors(model, words, [0, -1]), strict=True):
        np.testing.assert_allclose(on_gpu.rows(), on_cpu.rows(), atol=0.01)
    assert torch.cuda.get_device_name() in str(gpu.device)


@needs_gpu
def test_values_that_float16_cannot_represent_are_computed_in_float32(folder: Path) -> None:
    models = [Transformer(folder, Device(name)) for name in ("cpu", "cuda")]
    for transformer in models:
        with torch.no_grad():
            transformer.model[0].auto_model.encoder.layer[0].intermediate.dense.weight.mul_(1e7)
    expected, vectors = (transformer.encode(TEXTS, batch=4) for transformer in models)
    np.testing.assert_allclose(vectors, expected, atol=0.01)


@needs_gpu
def test_too_little_memory_of_a_gpu_is_explained() -> None:
    def encode(texts: object) -> np.ndarray:
        return torch.zeros(2**50, device="cuda").cpu().numpy()

    with pytest.raises(BadInput, match=r"the memory of .* is too small .*--device cpu"):
        Device("cuda").encode(encode, TEXTS)
