"""Fusion: normalised scores and their combination."""

from __future__ import annotations

import numpy as np
import pytest

from resift.errors import BadInput
from resift.ranking.fusion import NORMALIZATIONS, combine, similarity_factor


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("min_max", [1, 0, 1 / 3]),
        ("l2", np.array([4, 1, 2]) / np.sqrt(21)),
        ("z_score", (np.array([4, 1, 2]) - 7 / 3) / np.std([4, 1, 2])),
        ("bounded", [1, 0.25, 0.5]),
        ("rrf", [1 / 61, 1 / 63, 1 / 62]),
    ],
)
def test_normalizations(name: str, expected: list[float]) -> None:
    np.testing.assert_allclose(NORMALIZATIONS[name](np.array([4.0, 1.0, 2.0])), expected, rtol=1e-6)


@pytest.mark.parametrize("name", NORMALIZATIONS)
def test_normalizations_of_equal_scores_are_finite(name: str) -> None:
    for scores in ([0.0, 0.0], [2.0, 2.0], [3.0]):
        assert np.isfinite(NORMALIZATIONS[name](np.array(scores))).all()
    assert combine(np.zeros(0), np.zeros(0), 0.5, name).shape == (0,)


def test_weak_scores_stay_weak_when_bounded() -> None:
    np.testing.assert_allclose(NORMALIZATIONS["bounded"](np.array([1.5, 0.75, -3])), [1, 0.5, -2])
    weak = np.array([0.02, 0.01])
    assert NORMALIZATIONS["bounded"](weak).max() < 0.03
    assert NORMALIZATIONS["min_max"](weak).max() == 1


@pytest.mark.parametrize("name", sorted({*NORMALIZATIONS} - {"bounded"}))
def test_weak_scores_are_otherwise_told_apart_as_strong_ones_are(name: str) -> None:
    scores = np.array([4.0, 1.0, 2.0])
    np.testing.assert_allclose(NORMALIZATIONS[name](scores / 1000), NORMALIZATIONS[name](scores), rtol=1e-5)


def test_equal_scores_are_all_the_best_or_nothing() -> None:
    for score, expected in [(0.5, 1), (1.0, 1), (7.0, 1), (0.0, 0), (-0.5, 0)]:
        np.testing.assert_array_equal(NORMALIZATIONS["min_max"](np.full(2, score)), [expected, expected])


@pytest.mark.parametrize("name", ["min_max", "l2", "bounded", "z_score"])
def test_hits_of_vectors_alone_have_no_score_of_the_engine(name: str) -> None:
    semantic = np.array([0.5, 0.25, -0.1])
    expected = 0.4 * NORMALIZATIONS[name](semantic)
    np.testing.assert_allclose(combine(np.full(3, np.nan), semantic, 0.4, name), expected, rtol=1e-6)


def test_combine() -> None:
    lexical, semantic = np.array([4.0, 2.0, np.nan]), np.array([0.0, 0.5, 1.0])
    np.testing.assert_allclose(combine(lexical, semantic, 0.0), [1, 0, 0])
    np.testing.assert_allclose(combine(lexical, semantic, 1.0), [0, 0.5, 1])
    np.testing.assert_allclose(combine(lexical, semantic, 0.25), [0.75, 0.125, 0.25])
    assert np.isfinite(combine(np.full(2, np.nan), np.array([1.0, 2.0]), 0.5)).all()


def test_scores_of_nothing_are_none() -> None:
    assert NORMALIZATIONS["z_score"](np.zeros(0)).shape == (0,)


def test_what_a_score_is_multiplied_with_is_never_below_one() -> None:
    cosines = [similarity_factor("cosine", value, 2) for value in (-1.0000001, -1, 0, 0.5)]
    assert cosines == pytest.approx([1, 1, np.exp(2), np.exp(3)])
    assert cosines[0] == 1
    assert [similarity_factor("jaccard", value, 2) for value in (0, 0.5)] == pytest.approx([1, np.e])


@pytest.mark.parametrize(("alpha", "name"), [(-0.1, "l2"), (1.1, "l2"), (float("nan"), "l2"), (0.5, "none")])
def test_combine_refuses(alpha: float, name: str) -> None:
    with pytest.raises(BadInput):
        combine(np.ones(2), np.ones(2), alpha, name)
