"""Tests of fitting word vectors and weights to a teacher's vectors of whole texts."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from resift.vectors.similarity import unit_rows
from resift_lab.training.fitting import FitOptions, cosine_gradients, fit_rows


def problem(texts: int = 600) -> tuple[csr_matrix, np.ndarray, np.ndarray, np.ndarray]:
    """Return texts, their targets, and initial word vectors and weights that are far from the solution.

    Each text has six out of 60 words. The targets are computed from other word vectors and weights.
    """
    rng = np.random.default_rng(2)
    counts = np.zeros((texts, 60), np.float32)
    for row in counts:
        row[rng.choice(60, 6, replace=False)] = 1
    hidden, weights = rng.normal(size=(60, 8)), np.exp(rng.normal(size=60))
    targets = unit_rows(counts @ (hidden * weights[:, None])).astype(np.float32)
    start = (hidden + 1.5 * rng.normal(size=hidden.shape)).astype(np.float32)
    return csr_matrix(counts), targets, start, np.ones(60, np.float32)


def loss(counts: csr_matrix, targets: np.ndarray, rows: np.ndarray, weights: np.ndarray) -> float:
    return cosine_gradients(counts, targets, rows, np.log(weights))[0]


def test_unseen_texts_come_closer_to_their_targets() -> None:
    counts, targets, rows, weights = problem()
    original = rows.copy()
    fitted, learned = fit_rows(counts[:500], targets[:500], rows, weights, FitOptions(epochs=60, batch=50, rate=0.03))
    assert fitted.dtype == learned.dtype == np.float32
    assert loss(counts[500:], targets[500:], fitted, learned) < 0.2 * loss(counts[500:], targets[500:], rows, weights)
    np.testing.assert_array_equal(rows, original)
    again = fit_rows(counts[:500], targets[:500], rows, weights, FitOptions(epochs=60, batch=50, rate=0.03))
    np.testing.assert_array_equal(fitted, again[0])
    np.testing.assert_array_equal(learned, again[1])


def test_gradients_equal_the_derivatives_of_the_loss() -> None:
    counts, targets, start, _ = problem(20)
    rng = np.random.default_rng(5)
    rows: Any = start.astype(float)
    logs: Any = rng.normal(size=60)
    _, by_row, by_log = cosine_gradients(counts, targets, rows, logs)
    for word, column in rng.integers((60, 8), size=(12, 2)):
        nudge: Any = np.zeros(rows.shape)
        nudge[word, column] = 1e-5
        both = [cosine_gradients(counts, targets, rows + sign * nudge, logs)[0] for sign in (1, -1)]
        np.testing.assert_allclose(by_row[word, column], (both[0] - both[1]) / 2e-5, rtol=1e-3, atol=1e-7)
        bump: Any = 1e-5 * (np.arange(60) == word)
        both = [cosine_gradients(counts, targets, rows, logs + sign * bump)[0] for sign in (1, -1)]
        np.testing.assert_allclose(by_log[word], (both[0] - both[1]) / 2e-5, rtol=1e-3, atol=1e-7)


def test_only_words_of_the_texts_change_and_empty_texts_are_ignored() -> None:
    counts, targets, rows, weights = problem(40)
    dense = counts.toarray()
    dense[:, 7] = 0
    dense[3] = 0
    steps: list[tuple[int, int]] = []
    fitted, learned = fit_rows(
        csr_matrix(dense),
        targets,
        rows,
        weights,
        FitOptions(epochs=2, batch=16),
        progress=lambda *counts: steps.append(counts),
    )
    np.testing.assert_array_equal(fitted[7], rows[7])
    assert learned[7] == weights[7]
    assert (fitted[8] != rows[8]).all()
    assert steps == [(step, 6) for step in range(1, 7)]
    assert np.isfinite(fitted).all()
    empty = fit_rows(csr_matrix((4, 60), dtype=np.float32), targets[:4], rows, weights)
    np.testing.assert_array_equal(empty[0], rows)
