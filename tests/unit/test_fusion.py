"""Fusion: normalised scores and their combination."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from resift.ranking.fusion import combine, min_max, similarity_factor, z_score

Normalize = Callable[[Any], Any]


@pytest.mark.parametrize(
    ("normalize", "expected"),
    [(min_max, [1, 0, 1 / 3]), (z_score, (np.array([4, 1, 2]) - 7 / 3) / np.std([4, 1, 2]))],
)
def test_normalizations(normalize: Normalize, expected: list[float]) -> None:
    scores = np.array([4.0, 1.0, 2.0])
    np.testing.assert_allclose(normalize(scores), expected, rtol=1e-6)
    np.testing.assert_allclose(normalize(scores / 1000), expected, rtol=1e-5)


@pytest.mark.parametrize("normalize", [min_max, z_score])
def test_normalizations_of_equal_scores_are_finite(normalize: Normalize) -> None:
    for scores in ([0.0, 0.0], [2.0, 2.0], [3.0]):
        assert np.isfinite(normalize(np.array(scores))).all()
    assert combine(np.zeros(0), np.zeros(0), 0.5, normalize).shape == (0,)


def test_equal_scores_are_all_the_best_or_nothing() -> None:
    for score, expected in [(0.5, 1), (1.0, 1), (7.0, 1), (0.0, 0), (-0.5, 0)]:
        np.testing.assert_array_equal(min_max(np.full(2, score)), [expected, expected])


def test_combine() -> None:
    lexical, semantic = np.array([4.0, 2.0, 2.0]), np.array([0.0, 0.5, 1.0])
    np.testing.assert_allclose(combine(lexical, semantic, 0.0), [1, 0, 0])
    np.testing.assert_allclose(combine(lexical, semantic, 1.0), [0, 0.5, 1])
    np.testing.assert_allclose(combine(lexical, semantic, 0.25), [0.75, 0.125, 0.25])


def test_scores_of_nothing_are_none() -> None:
    assert z_score(np.zeros(0)).shape == (0,)


def test_what_a_score_is_multiplied_with_is_never_below_one() -> None:
    cosines = [similarity_factor("cosine", value, 2) for value in (-1.0000001, -1, 0, 0.5)]
    assert cosines == pytest.approx([1, 1, np.exp(2), np.exp(3)])
    assert cosines[0] == 1
    assert [similarity_factor("jaccard", value, 2) for value in (0, 0.5)] == pytest.approx([1, np.e])
