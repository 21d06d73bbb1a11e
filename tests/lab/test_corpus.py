"""Tests of word counts and inverse document frequencies against their formulas."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np

from resift.text import FUNCTION_WORDS, STOP_WORDS, char_ngrams, hashed_ngrams
from resift_lab.corpus import (
    DocumentFrequencies,
    document_frequency,
    lucene_idf,
    probabilistic_idf,
    smoothed_idf,
    sparse_counts,
    tfidf_idf,
)


def test_ngrams_of_short_words_and_of_lone_surrogates() -> None:
    assert char_ngrams("a", (2, 4)) == ["<a", "a>", "<a>"]
    assert hashed_ngrams("é\ud800", (3,), 7) == hashed_ngrams("é\ud800", (3,), 7)
    assert all(0 <= bucket < 7 for bucket in hashed_ngrams("settlement", (2, 3), 7))


def test_counts_of_ids_and_their_document_frequency() -> None:
    ids = np.array([3, 1, 3, 0, 3], np.int32)
    counts = sparse_counts(ids, np.array([0, 3, 3, 5]), 5)
    assert counts.toarray().tolist() == [[0, 1, 0, 2, 0], [0, 0, 0, 0, 0], [1, 0, 0, 1, 0]]
    assert counts.dtype == np.float32
    assert document_frequency(counts).tolist() == [1, 1, 0, 2, 0]
    assert ids.tolist() == [3, 1, 3, 0, 3]  # the array of the caller is unchanged
    assert sparse_counts(np.zeros(0, np.int32), np.zeros(1, np.int64), 5).shape == (0, 5)


def test_each_idf_follows_its_formula() -> None:
    n, documents = np.array([0, 1, 5, 10]), 10
    np.testing.assert_allclose(smoothed_idf(n, documents), np.log([22, 11 / 1.5, 2, 11 / 10.5]))
    np.testing.assert_allclose(smoothed_idf(n, documents, 1), [np.log(22), np.log(11 / 1.5), 1, 1])
    np.testing.assert_allclose(probabilistic_idf(n, documents), [np.log(21), np.log(9.5 / 1.5), 0, 0])
    np.testing.assert_allclose(lucene_idf(n, documents), np.log([22, 1 + 9.5 / 1.5, 2, 1 + 0.5 / 10.5]))
    np.testing.assert_allclose(tfidf_idf(n, documents), np.log([11, 5.5, 11 / 6, 1]) + 1)


def test_words_of_equal_frequency_have_the_same_order_in_every_process() -> None:
    counted = "DocumentFrequencies.from_texts(['d b c a e', 'e']).frequency"
    code = f"from resift_lab.corpus import DocumentFrequencies; print(list({counted}))"
    orders = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in "123"
    }
    assert orders == {"['d', 'b', 'c', 'a', 'e']\n"}


def test_unseen_words_have_frequency_0_and_the_largest_weight() -> None:
    frequencies = DocumentFrequencies.from_texts(["fire fire bush", "fire"])
    assert frequencies.of_words(["fire", "bush", "rain"]).tolist() == [2, 1, 0]
    np.testing.assert_allclose(
        frequencies.weights(["fire", "bush", "rain"]), np.log([3 / 2.5, 3 / 1.5, 3 / 0.5]), rtol=1e-6
    )


def test_function_words_are_stop_words() -> None:
    assert STOP_WORDS > FUNCTION_WORDS
    assert len(STOP_WORDS - FUNCTION_WORDS) == 31
    assert "fire" not in FUNCTION_WORDS
