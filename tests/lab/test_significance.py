"""Bootstrap intervals and the randomisation test."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from resift_lab.evaluation.significance import bootstrap_mean, paired_randomization


def test_bootstrap_interval_covers_and_narrows() -> None:
    values = np.random.default_rng(0).normal(5, 1, 400)
    low, high = bootstrap_mean([*values, np.nan], np.random.default_rng(1))
    assert low < values.mean() < high
    assert high - low == pytest.approx(4 * 1 / np.sqrt(400), rel=0.15)
    assert (low, high) == bootstrap_mean([*values, np.nan], np.random.default_rng(1))
    fewer = bootstrap_mean(values[:100], np.random.default_rng(1))
    assert fewer[1] - fewer[0] > high - low
    assert np.isnan(bootstrap_mean([np.nan], np.random.default_rng(1))).all()
    assert bootstrap_mean([0.4], np.random.default_rng(1)) == (0.4, 0.4)


def test_randomization_test_is_exact_enough() -> None:
    first = np.array([0.9, 0.8, 0.7, 0.9, 0.6, 0.8])
    second = np.array([0.5, 0.7, 0.6, 0.4, 0.7, 0.6])
    gaps = first - second
    sums = [abs(np.dot(signs, gaps)) for signs in itertools.product((-1, 1), repeat=6)]
    exact = np.mean(np.array(sums) >= abs(gaps.sum()) - 1e-12)
    found = paired_randomization(first, second, np.random.default_rng(0), 20_000)
    assert found == pytest.approx(exact, abs=0.01)
    assert found == paired_randomization(first, second, np.random.default_rng(0), 20_000)
    assert paired_randomization(first, first, np.random.default_rng(0)) == 1
    assert paired_randomization([np.nan], [1.0], np.random.default_rng(0)) == 1
    far = paired_randomization(np.arange(50) + 1.0, np.arange(50.0), np.random.default_rng(0), 1000)
    assert far == pytest.approx(1 / 1001)
