"""Similarities: bounded, never NaN, and equal to their definitions."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from resift.vectors import similarity
from resift.vectors.similarity import cosine, dynamax, fuzzy_jaccard, unit_rows

floats = st.floats(-100, 100, width=32)


@given(arrays(np.float32, 4, elements=floats), arrays(np.float32, (3, 4), elements=floats))
def test_similarities_are_bounded_and_never_nan(query: np.ndarray, documents: np.ndarray) -> None:
    assert (np.abs(cosine(query, documents)) <= 1 + 1e-5).all()
    jaccard = fuzzy_jaccard(query, documents)
    assert ((jaccard >= 0) & (jaccard <= 1 + 1e-6)).all()
    np.testing.assert_allclose(fuzzy_jaccard(documents[0], query[None])[0], jaccard[0], rtol=1e-5)


def test_cosine() -> None:
    np.testing.assert_allclose(
        cosine(np.array([3, 4]), np.array([[6, 8], [-3, -4], [4, -3], [0, 0]])), [1, -1, 0, 0], atol=1e-7
    )


def test_short_vectors_are_compared_as_long_ones_are() -> None:
    short, documents = np.array([0.03, 0.04]), np.array([[0.06, 0.08], [0.004, -0.003], [1.2, 1.6]])
    np.testing.assert_allclose(cosine(short, documents), [1, 0, 1], atol=1e-6)
    np.testing.assert_allclose(fuzzy_jaccard(short, documents[:1]), [0.5], rtol=1e-6)
    np.testing.assert_allclose(unit_rows(documents), [[0.6, 0.8], [0.8, -0.6], [0.6, 0.8]], rtol=1e-6)
    np.testing.assert_allclose(unit_rows(short), [0.6, 0.8], rtol=1e-6)
    assert dynamax(short[None], documents[:1]) == pytest.approx(0.5)


def test_fuzzy_jaccard() -> None:
    a, b = np.array([0.2, 0.5, -1.0]), np.array([[0.4, 0.25, 0.3], [0.2, 0.5, 0.0], [-1, -1, -1]])
    np.testing.assert_allclose(fuzzy_jaccard(a, b), [(0.2 + 0.25) / (0.4 + 0.5 + 0.3), 1, 0], rtol=1e-6)


def test_unit_rows_keeps_zero_rows() -> None:
    np.testing.assert_allclose(unit_rows(np.array([[0, 0], [0, 5]])), [[0, 0], [0, 1]])


@given(arrays(np.float32, (3, 4), elements=st.floats(-5, 5, width=32)), arrays(np.float32, (2, 4), elements=floats))
def test_dynamax_equals_its_definition(a: np.ndarray, b: np.ndarray) -> None:
    universe = [*a, *b]
    mu_a, mu_b = ([max(0.0, *(float(u @ w) for w in words)) for u in universe] for words in (a, b))
    total = sum(map(max, mu_a, mu_b))
    expected = sum(map(min, mu_a, mu_b)) / total if total > 0 else 0
    assert dynamax(a, b) == pytest.approx(expected, rel=1e-3, abs=1e-5)
    assert dynamax(b, a) == pytest.approx(dynamax(a, b), rel=1e-3, abs=1e-5)


def test_dynamax_of_equal_and_of_empty_texts() -> None:
    words = np.array([[1.0, 0.5], [0.2, -1.0]])
    assert dynamax(words, words) == pytest.approx(1)
    assert dynamax(words, words[:0]) == dynamax(words[:0], words) == 0


@pytest.mark.parametrize("products", [1, 7, 10, 11])
def test_dynamax_of_long_texts_takes_the_universe_in_parts(monkeypatch: pytest.MonkeyPatch, products: int) -> None:
    first, second = np.random.default_rng(0).normal(size=(2, 5, 3))
    whole = dynamax(first, second[:3])
    monkeypatch.setattr(similarity, "_PRODUCTS", products)
    assert 0 < dynamax(first, second[:3]) == pytest.approx(whole)


def test_dynamax_of_long_texts_takes_little_memory() -> None:
    words = np.ones((4000, 1), np.float32)  # of two such texts there are 32 million products, 128 MB
    tracemalloc.start()
    try:
        assert dynamax(words, words) == 1
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()
