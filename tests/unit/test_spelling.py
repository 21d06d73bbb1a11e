"""Tests of spelling correction."""

from __future__ import annotations

import numpy as np
import pytest

from resift.spelling import NgramIndex, Speller, edit_distance


@pytest.mark.parametrize(
    ("query", "corrected"),
    [
        ("setlement", ["settlement"]),
        ("Settlemnet fire", ["settlement", "fire"]),
        ("bushfire", ["bush", "fire"]),
        ("settlements", ["settlement"]),
        ("fire", ["fire"]),
        ("quixotic", ["quixotic"]),
        ("xyz", ["xyz"]),
        ("", []),
    ],
)
def test_misspelt_words_are_corrected(query: str, corrected: list[str]) -> None:
    assert Speller({"fire": 2, "bush": 1, "settlement": 1, "a": 1, "sale": 1}).correct(query) == corrected


def test_long_words_are_not_corrected() -> None:
    known = "settlement" * 6
    speller = Speller({known: 1})
    assert speller.correct(f"{known}abcd") == [known]
    assert speller.correct(f"{known}abcde") == [f"{known}abcde"]


def test_a_speller_without_words_corrects_nothing() -> None:
    assert Speller({}).correct("settlement") == ["settlement"]


def test_scores_are_the_products_of_idf_vectors() -> None:
    """Compare with dense vectors, including n-grams that occur twice in a word."""
    words = ["banana", "bandana", "cabana"]
    ngrams = [
        [f"<{word}>"[i : i + n] for n in (2, 3, 4) for i in range(len(word) + 3 - n)] for word in [*words, "bananana"]
    ]
    known = sorted({ngram for word_ngrams in ngrams[:-1] for ngram in word_ngrams})
    counts = np.array([[word_ngrams.count(ngram) for ngram in known] for word_ngrams in ngrams], float)
    idf = np.log(4 / counts[:-1].sum(axis=0))
    # the length of a word counts each occurrence of an n-gram separately
    rows = counts[:-1] * idf / np.sqrt((counts[:-1] * idf**2).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(NgramIndex(words).similarities("bananana"), rows @ (counts[-1] * idf), rtol=1e-5)
    assert NgramIndex(words).similarities("xyz").tolist() == [0, 0, 0]


def test_splitting_a_word_is_preferred_to_two_edits() -> None:
    frequency = {"bush": 3, "fire": 2, "bushfite": 9, "bus": 9, "hfire": 1}
    assert Speller(frequency).correct("bushfire") == ["bushfite"]
    assert Speller({**frequency, "bushfxxe": 9, "bushfite": 0}).correct("bushfire") == ["bushfite"]
    del frequency["bushfite"]
    assert Speller({**frequency, "bushfxxe": 9}).correct("bushfire") == ["bush", "fire"]


def test_edit_distance_is_symmetric_and_counts_swaps_once() -> None:
    for first, second, distance in [("", "abc", 3), ("ab", "ba", 1), ("ca", "abc", 3), ("same", "same", 0)]:
        assert edit_distance(first, second) == edit_distance(second, first) == distance
