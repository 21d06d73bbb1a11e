"""Tests of the similarity functions: bounds, zero vectors, and their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from resift.vectors.similarity import cosine, dynamax, fuzzy_jaccard, unit_rows

floats = st.floats(-100, 100, width=32)
small = st.floats(-5, 5, width=32)


@given(arrays(np.float32, 4, elements=floats), arrays(np.float32, (3, 4), elements=floats))
@example(np.ones(4, np.float32), np.full((3, 4), 3.2664006e-22, np.float32))
def test_similarities_are_bounded_and_never_nan(query: np.ndarray, documents: np.ndarray) -> None:
    assert (np.abs(cosine(query, documents)) <= 1 + 1e-5).all()
    jaccard = fuzzy_jaccard(query, documents)
    assert ((jaccard >= 0) & (jaccard <= 1 + 1e-6)).all()
    np.testing.assert_allclose(fuzzy_jaccard(documents[0], query[None])[0], jaccard[0], rtol=1e-5)


def test_cosine_of_zero_vectors_is_0() -> None:
    np.testing.assert_allclose(
        cosine(np.array([3, 4]), np.array([[6, 8], [-3, -4], [4, -3], [0, 0]])), [1, -1, 0, 0], atol=1e-7
    )


def test_the_length_of_vectors_does_not_matter() -> None:
    short, documents = np.array([0.03, 0.04]), np.array([[0.06, 0.08], [0.004, -0.003], [1.2, 1.6]])
    np.testing.assert_allclose(cosine(short, documents), [1, 0, 1], atol=1e-6)
    np.testing.assert_allclose(fuzzy_jaccard(short, documents[:1]), [0.5], rtol=1e-6)
    np.testing.assert_allclose(unit_rows(documents), [[0.6, 0.8], [0.8, -0.6], [0.6, 0.8]], rtol=1e-6)
    np.testing.assert_allclose(unit_rows(short), [0.6, 0.8], rtol=1e-6)


def test_fuzzy_jaccard_ignores_negative_components() -> None:
    a, b = np.array([0.2, 0.5, -1.0]), np.array([[0.4, 0.25, 0.3], [0.2, 0.5, 0.0], [-1, -1, -1]])
    np.testing.assert_allclose(fuzzy_jaccard(a, b), [(0.2 + 0.25) / (0.4 + 0.5 + 0.3), 1, 0], rtol=1e-6)


def test_unit_rows_keeps_zero_rows() -> None:
    np.testing.assert_allclose(unit_rows(np.array([[0, 0], [0, 5]])), [[0, 0], [0, 1]])


@given(arrays(np.float32, (3, 4), elements=small), arrays(np.float32, (2, 4), elements=small))
def test_dynamax_follows_its_definition(a: np.ndarray, b: np.ndarray) -> None:
    universe = [*a, *b]
    mu_a, mu_b = ([max(0.0, *(float(u @ w) for w in words)) for u in universe] for words in (a, b))
    total = sum(map(max, mu_a, mu_b))
    expected = sum(map(min, mu_a, mu_b)) / total if total > 0 else 0
    assert dynamax(a, b) == pytest.approx(expected, rel=1e-3, abs=1e-5)
    assert dynamax(b, a) == pytest.approx(dynamax(a, b), rel=1e-3, abs=1e-5)


def test_dynamax_of_a_worked_example() -> None:
    """Universe of the vectors of "a b" and "c": memberships (1, 4, 2) and (1, 2, 2), so (1 + 2 + 2) / (1 + 4 + 2)."""
    a, b, c = [1, 0], [0, 2], [1, 1]
    assert dynamax(np.array([a, b]), np.array([c])) == pytest.approx(5 / 7)


def test_dynamax_of_equal_and_of_empty_texts() -> None:
    words = np.array([[1.0, 0.5], [0.2, -1.0]])
    assert dynamax(words, words) == pytest.approx(1)
    assert dynamax(words, words[:0]) == dynamax(words[:0], words) == 0
