"""Fusion: normalised scores, and what an engine's score is multiplied with."""

from __future__ import annotations

import numpy as np
import pytest

from resift.ranking.fusion import similarity_factor, z_score


def test_z_scores_are_finite() -> None:
    np.testing.assert_allclose(z_score(np.array([4.0, 1.0, 2.0])), (np.array([4, 1, 2]) - 7 / 3) / np.std([4, 1, 2]))
    assert z_score(np.zeros(0)).shape == (0,)
    for scores in ([0.0, 0.0], [2.0, 2.0], [3.0]):
        assert z_score(np.array(scores)).tolist() == [0] * len(scores)


def test_what_a_score_is_multiplied_with_is_never_below_one() -> None:
    cosines = [similarity_factor("cosine", value, 2) for value in (-1.0000001, -1, 0, 0.5)]
    assert cosines == pytest.approx([1, 1, np.exp(2), np.exp(3)])
    assert cosines[0] == 1
    assert [similarity_factor("jaccard", value, 2) for value in (0, 0.5)] == pytest.approx([1, np.e])
