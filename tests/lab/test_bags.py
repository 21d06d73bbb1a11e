"""Tests of training RN-BoF on bags of vectors: regions, what training learns, and malformed training sets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from resift import load_model
from resift.encoders.bags import Bag, read_bag
from resift.errors import BadInput
from resift.vectors.similarity import unit_rows
from resift_lab.commands.train import train as train_commands
from resift_lab.training.bags import BagTraining, read_labelled_bags, train_bags
from resift_lab.training.labels import class_shares
from resift_lab.training.options import BagOptions
from resift_lab.training.rnbof import Bags

SMALL = BagOptions(codewords=4, size=5, epochs=25, batch=16, rate=0.05, validation=0.25, sample=6)


def swapped_regions() -> tuple[list[Bag], list[str]]:
    """Return bags of two classes that differ only in which region contains which of two kinds of vectors."""
    chance, kinds = np.random.default_rng(1), np.random.default_rng(2).normal(size=(2, 6))
    bags, labels = [], []
    for number in range(64):
        order = kinds if number % 2 else kinds[::-1]
        regions = [(kind + 1.6 * chance.normal(size=(chance.integers(2, 6), 6))).tolist() for kind in order]
        bags.append(read_bag(regions))
        labels.append("upright" if number % 2 else "upside down")
    return bags, labels


def test_regions_tell_classes_apart_that_have_the_same_vectors() -> None:
    bags, labels = swapped_regions()
    model, summary = train_bags(bags, labels, "patches", SMALL)
    assert summary["map11"]["trained"] > max(0.95, summary["map11"]["untrained"])
    merged = [[np.concatenate(bag)] for bag in bags]
    _, without_regions = train_bags(merged, labels, "patches", SMALL)
    assert without_regions["map11"]["trained"] < summary["map11"]["trained"] - 0.2
    assert (model.name, model.bags, model.dim, model.codebooks.shape) == ("rn-bof:4,5", "patches", 5, (2, 4, 6))


def test_the_exported_model_encodes_as_the_network() -> None:
    bags, labels = swapped_regions()
    run = BagTraining(Bags(bags), class_shares(labels)[1], SMALL)
    run.train_epoch(lambda documents: None)
    vectors, faults = run.network.export("patches", {}).encode_bags([[r.tolist() for r in bag] for bag in bags])
    np.testing.assert_allclose(vectors, unit_rows(run.network.encode(run.bags)), atol=1e-5)
    assert faults == {}


def test_the_same_seed_gives_the_same_model() -> None:
    bags, labels = swapped_regions()
    first, second, other = (
        train_bags(bags, labels, "p", BagOptions(codewords=2, epochs=2, validation=0, seed=seed))[0].hash
        for seed in (0, 0, 1)
    )
    assert first == second != other


def test_a_region_with_too_few_vectors_is_named() -> None:
    with pytest.raises(BadInput, match="region 1 has 2 vectors for 3 codewords"):
        train_bags([read_bag([[[1], [2]], [[3]]])] * 2, ["a", "b"], "p", BagOptions(codewords=3))


def write_lines(path: Path, rows: list[dict[str, Any]]) -> str:
    """Write a file of JSON lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("bag", "reason"),
    [
        ([], "the bag is empty"),
        ([[1, 2], [3]], "vector 1 has 1 number"),
        ([[1, 2, 3]], "the vectors have 3 numbers"),
        ([[[1, 2]], [[3, 4]]], "the bag has 2 regions"),
        ([[float("nan"), 1]], "vector 0 contains 'nan'"),
    ],
)
def test_a_malformed_bag_is_named_by_its_document(tmp_path: Path, bag: Any, reason: str) -> None:
    rows = [{"id": "good", "label": "a", "p": [[1, 2]]}, {"id": "odd", "label": "b", "p": bag}]
    with pytest.raises(BadInput) as raised:
        read_labelled_bags(write_lines(tmp_path / "f.jsonl", rows), "p")
    assert f"line 2, document 'odd', field 'p': {reason}" in raised.value.message


def test_a_missing_bag_and_an_empty_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="line 1 has no field 'q'"):
        read_labelled_bags(write_lines(tmp_path / "f.jsonl", [{"label": "a", "p": [[1]]}]), "q")
    with pytest.raises(BadInput, match="holds no document"):
        read_labelled_bags(write_lines(tmp_path / "empty.jsonl", []), "p")


def test_the_command_trains_and_saves(tmp_path: Path) -> None:
    bags, labels = swapped_regions()
    rows = [
        {"label": label, "patches": [region.tolist() for region in bag]}
        for bag, label in zip(bags, labels, strict=True)
    ]
    arguments = ["rn-bof", "--train", write_lines(tmp_path / "f.jsonl", rows), "--size", "5", "--bags", "patches"]
    settings = ["--set", "codewords=4", "--set", "epochs=25", "--set", "sample=6", "--set", "batch=16"]
    out = str(tmp_path / "model")
    result = CliRunner().invoke(train_commands, [*arguments, *settings, "--set", "rate=0.05", "--out", out])
    assert result.exit_code == 0, result.output
    assert "64 documents of 2 classes, 2 regions" in result.output
    assert load_model(out).bags == "patches"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--bags", "p", "--set", "segments=2"], "invalid setting segments=2"),
        (["--set", "sample=2"], "invalid setting sample=2"),
        (["--bags", "a.b"], "'a.b' cannot be a field of bags"),
    ],
)
def test_settings_of_the_other_kind_are_refused(tmp_path: Path, options: list[str], reason: str) -> None:
    file = write_lines(tmp_path / "f.jsonl", [{"label": "a", "text": "x", "p": [[1]]}])
    result = CliRunner().invoke(train_commands, ["rn-bof", "--train", file, "--out", str(tmp_path / "m"), *options])
    assert isinstance(result.exception, BadInput)
    assert reason in result.exception.message
