"""Tests of mixtures of word vectors: weights, aggregates, idf, and vectors from spelling."""

from __future__ import annotations

import numpy as np
import pytest

from resift import WordVectors, build_model
from resift.errors import BadInput, DimensionMismatch
from resift_lab.corpus import DocumentFrequencies
from resift_lab.vectors.mixture import mix_vectors, subword_vectors

TEXTS = ["the fire in the bush", "the army and the gun", "the rain", "zzyzx fire"]


@pytest.fixture
def tables() -> list[WordVectors]:
    """Return two tables of three dimensions that share some words."""
    rng = np.random.default_rng(0)
    first, second = (rng.normal(size=(4, 3)).astype(np.float32) for _ in range(2))
    return [WordVectors(["the", "fire", "bush", "army"], first), WordVectors(["fire", "the", "rain", "gun"], second)]


def test_concat_joins_the_rows_of_all_words_with_zeros_for_missing(tables: list[WordVectors]) -> None:
    mixed = mix_vectors(tables)
    assert set(mixed.words) == {"the", "fire", "bush", "army", "rain", "gun"}
    assert mixed.dim == 6
    rows = mixed.rows()
    assert not rows[mixed.index["bush"], 3:].any()
    assert rows[mixed.index["fire"], :3].any()
    assert rows[mixed.index["fire"], 3:].any()


def test_coefficients_scale_a_source(tables: list[WordVectors]) -> None:
    even, half = mix_vectors(tables), mix_vectors(tables, [1, 0.5])
    np.testing.assert_allclose(half.rows()[:, 3:], even.rows()[:, 3:] / 2, rtol=1e-6)
    np.testing.assert_allclose(half.rows()[:, :3], even.rows()[:, :3], rtol=1e-6)


def test_sum_and_average_of_layers(tables: list[WordVectors]) -> None:
    joined, summed, mean = (mix_vectors(tables, [3, 1], aggregate) for aggregate in ("concat", "sum", "average"))
    parts = joined.rows()
    np.testing.assert_allclose(summed.rows(), parts[:, :3] + parts[:, 3:], atol=1e-6)
    np.testing.assert_allclose(mean.rows(), summed.rows() / 4, atol=1e-6)


def test_idf_gives_weights_and_adds_no_word_without_a_row(tables: list[WordVectors]) -> None:
    idf = DocumentFrequencies.from_texts(TEXTS)
    mixed = mix_vectors(tables, corpus=idf)
    weights = dict(zip(mixed.words, mixed.weights.tolist(), strict=True))
    assert "zzyzx" not in weights
    assert weights["the"] < weights["fire"] < weights["rain"]
    assert weights["rain"] == pytest.approx(np.log(5 / 1.5), rel=1e-5)
    assert weights["army"] == pytest.approx(np.log(5 / 1.5), rel=1e-5)


def test_spelling_knows_every_word_of_the_corpus(tables: list[WordVectors]) -> None:
    model = build_model("mean", mix_vectors(tables, corpus=DocumentFrequencies.from_texts(TEXTS), spelling=(64, 0.5)))
    zzyzx, other = model.encode(["zzyzx", "gun"])
    assert np.linalg.norm(zzyzx) == pytest.approx(1, abs=1e-5)
    assert abs(float(zzyzx @ other)) < 0.6


def test_words_of_shared_ngrams_are_similar() -> None:
    rows = subword_vectors(["settle", "settlement", "kangaroo", "is"], 256)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    assert rows[0] @ rows[1] > 0.2 > abs(rows[0] @ rows[2])
    np.testing.assert_array_equal(rows, subword_vectors(["settle", "settlement", "kangaroo", "is"], 256))


def test_mixed_dimensions_cannot_be_summed(tables: list[WordVectors]) -> None:
    wide = WordVectors(["fire", "rain"], np.ones((2, 5), np.float32))
    with pytest.raises(DimensionMismatch, match="3, 5 dimensions"):
        mix_vectors([tables[0], wide], aggregate="sum")
    assert mix_vectors([tables[0], wide]).dim == 8


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"coefficients": [1]}, "2 tables and coefficients"),
        ({"coefficients": [0, 0]}, "coefficients"),
        ({"coefficients": [1, float("nan")]}, "coefficients"),
        ({"aggregate": "max"}, "unknown aggregate"),
        ({"spelling": (0, 1.0)}, "spelling"),
    ],
)
def test_bad_values(tables: list[WordVectors], arguments: dict[str, object], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        mix_vectors(tables, **arguments)  # type: ignore[arg-type]


def test_a_corpus_without_words() -> None:
    with pytest.raises(BadInput, match="no word"):
        DocumentFrequencies.from_texts(["...", ""])
