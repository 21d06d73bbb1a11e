"""Tests of encoding bags of vectors: the formula, malformed bags, and saved models."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bag_documents import FIELD, MALFORMED, NUMBERS, bag_model, random_bag

from resift import load_model
from resift.encoders.bags import BagModel, read_bag
from resift.errors import BadInput, CorruptModel, DimensionMismatch


def test_the_vector_follows_the_papers_equations() -> None:
    model, bag = bag_model(), random_bag(7)
    histogram = []
    for vectors, codebook, widths in zip(bag, model.codebooks, model.widths, strict=True):
        memberships = []
        for x in vectors:
            d = [math.exp(-math.dist(x, v) / s) for v, s in zip(codebook.tolist(), widths.tolist(), strict=True)]
            memberships.append(np.array(d) / sum(d))
        histogram.append(np.mean(memberships, axis=0))
    assert model.head is not None
    t = np.maximum(np.concatenate(histogram) @ model.head, 0)
    vectors, faults = model.encode_bags([bag])
    assert faults == {}
    np.testing.assert_allclose(vectors, [t / np.linalg.norm(t)], rtol=1e-5)


def test_a_bag_of_many_vectors_is_encoded_in_parts() -> None:
    model, bag = bag_model(), random_bag(1)
    repeated = [region * 5000 for region in bag]
    vectors, _ = model.encode_bags([bag, repeated])
    np.testing.assert_allclose(vectors[0], vectors[1], rtol=1e-4)


def test_a_region_without_vectors_adds_nothing() -> None:
    model = bag_model()
    assert model.head is not None
    model.head[3:] = 0
    vectors, faults = model.encode_bags([[[NUMBERS], []], [[NUMBERS], [NUMBERS]]])
    assert faults == {}
    np.testing.assert_allclose(vectors[0], vectors[1], rtol=1e-6)


def test_json_text_is_a_bag_and_null_is_none() -> None:
    vectors, faults = bag_model().encode_bags([random_bag(2), json.dumps(random_bag(2)), None])
    assert faults == {}
    np.testing.assert_array_equal(vectors[0], vectors[1])
    assert not vectors[2].any()


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_bag_has_a_reason_and_a_zero_vector(name: str) -> None:
    value, reason = MALFORMED[name]
    vectors, faults = bag_model().encode_bags([random_bag(0), value])
    assert list(faults) == [1]
    assert reason in faults[1]
    assert vectors[0].any()
    assert not vectors[1].any()


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ([[math.nan, 1.0]], "vector 0 contains 'nan'"),
        ([[math.inf, 1.0]], "vector 0 contains 'inf'"),
        ([["1", 1.0]], "vector 0 contains '1'"),
        ([[[1, 2], 3], [[1, 2]]], "vector 1 is 3"),
        ([[[1, 2]], 3], "a region is 3"),
        ([[[[1, 2]]], [[3, 4]]], "contains"),
        ([[]], "vector 0 has 0 numbers"),
        ({"a": 1}, "the bag is"),
        ("not JSON", "the bag is the text 'not JSON'"),
    ],
)
def test_malformed_values_are_named(value: Any, reason: str) -> None:
    with pytest.raises(BadInput) as raised:
        read_bag(value)
    assert reason in str(raised.value)


def test_json_text_of_too_many_lists_is_refused_before_it_is_parsed() -> None:
    assert len(read_bag(f"[{'[1],' * 99_998}[1]]")[0]) == 99_999
    with pytest.raises(BadInput, match="the bag has 100001 lists"):
        read_bag("[" * 100_001)


def test_whole_numbers_of_any_size_are_numbers() -> None:
    (region,) = read_bag([[2**70, 1], [True, 0]])
    assert region.tolist() == [[2.0**70, 1.0], [1.0, 0.0]]


def test_a_text_has_a_zero_vector_and_no_known_words() -> None:
    model = bag_model()
    assert not model.encode(["bush fire"]).any()
    assert not model.encode_one("bush fire").any()
    assert model.known_share("bush fire") == 0
    assert model.nearest_words(np.ones(8)) == []
    assert model.table.idf("the") < model.table.idf("bush") < model.table.idf("no such word")


def test_a_saved_model_is_the_same(tmp_path: Path) -> None:
    model = bag_model()
    loaded = load_model(model.save(tmp_path / "model"))
    assert isinstance(loaded, BagModel)
    assert (loaded.hash, loaded.name, loaded.dim, loaded.bags) == (model.hash, model.name, 8, FIELD)
    np.testing.assert_array_equal(loaded.encode_bags([random_bag(3)])[0], model.encode_bags([random_bag(3)])[0])
    assert bag_model(1).hash != model.hash


def test_a_damaged_folder_is_refused(tmp_path: Path) -> None:
    folder = bag_model().save(tmp_path / "model")
    (folder / "widths.npy").unlink()
    with pytest.raises(CorruptModel):
        load_model(folder)


@pytest.mark.parametrize("field", ["", "_id", "a.b"])
def test_a_field_name_that_cannot_hold_bags_is_refused(field: str) -> None:
    model = bag_model()
    with pytest.raises(BadInput, match="cannot be a field of bags"):
        BagModel("m", field, model.codebooks, model.widths, np.ones((6, 4)))


def test_shapes_that_do_not_fit_are_refused() -> None:
    model = bag_model()
    with pytest.raises(DimensionMismatch):
        BagModel("m", FIELD, model.codebooks[0], model.widths, np.ones((6, 4)))
    with pytest.raises(DimensionMismatch):
        BagModel("m", FIELD, model.codebooks, model.widths, np.ones((5, 4)))
    with pytest.raises(BadInput, match="width"):
        BagModel("m", FIELD, model.codebooks, -model.widths, np.ones((6, 4)))
