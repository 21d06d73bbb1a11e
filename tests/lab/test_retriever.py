"""Tests of the hashed retriever against DrQA's formulas, and of MurmurHash3 against known values."""

from __future__ import annotations

import gc
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from resift.encoders import hashed_retriever as module
from resift.encoders.hashed_retriever import BINS, hashed_counts, murmur3, unigrams_and_bigrams
from resift.errors import BadInput
from resift_lab.word2doc.retriever import build_retriever

TEXTS = ["Bush fire, bush fire near Sydney", "The army returned fire", "rain and rain and rain", "", "the of"]


@pytest.mark.parametrize(
    ("text", "seed", "expected"),
    [
        ("", 0, 0),
        ("", 1, 0x514E28B7),
        ("hello", 0, 0x248BFA47),
        ("hello, world", 0, 0x149BBB7F),
        ("The quick brown fox jumps over the lazy dog", 0, 0x2E4FF723),
        ("aaaa", 0x9747B28C, 0x5A97808A),
        ("abc", 0x9747B28C, 0xC84A62DD),
    ],
)
def test_murmur3(text: str, seed: int, expected: int) -> None:
    assert int(murmur3([text], seed)[0]) == expected


@given(st.lists(st.text(max_size=12), max_size=6))
def test_murmur3_of_a_text_is_independent_of_the_batch(texts: list[str]) -> None:
    assert murmur3(texts).tolist() == [int(murmur3([text])[0]) for text in texts]


def test_stop_words_and_punctuation_separate_bigrams() -> None:
    assert unigrams_and_bigrams("Fire in bush land, coast of Sydney_bay") == [
        "fire",
        "bush",
        "land",
        "coast",
        "sydney",
        "bay",
        "bush land",
    ]


def test_scores_follow_the_formula(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "CHUNK", 5)
    retriever = build_retriever(iter(TEXTS), tmp_path)
    bags = [Counter(unigrams_and_bigrams(text)) for text in TEXTS]
    holding = Counter(term for bag in bags for term in bag)

    def weight(bag: Counter[str], term: str) -> float:
        idf = max(0.0, float(np.log((len(TEXTS) - holding[term] + 0.5) / (holding[term] + 0.5))))
        return float(np.log1p(bag[term])) * idf

    query = "fire fire bush fire and rain in Atlantis"
    wanted = Counter(unigrams_and_bigrams(query))
    expected = [sum(weight(bag, term) * weight(wanted, term) for term in wanted if term in bag) for bag in bags]
    np.testing.assert_allclose(retriever.scores(query), expected, rtol=1e-5)
    assert retriever.best_documents(query, 2).tolist() == np.argsort(-np.array(expected), kind="stable")[:2].tolist()
    assert retriever.best_documents("Atlantis", 3).tolist() == retriever.best_documents("", 3).tolist() == []
    assert isinstance(retriever.postings, np.memmap)


def test_terms_in_the_same_bin_are_added() -> None:
    bins, number = hashed_counts("rain rain bush")
    assert dict(zip(bins.tolist(), number.tolist(), strict=True)) == {
        int(murmur3([term])[0]) % BINS: count for term, count in Counter(unigrams_and_bigrams("rain rain bush")).items()
    }


def test_texts_without_words_are_refused() -> None:
    with pytest.raises(BadInput, match="no word"):
        build_retriever(["", "the"])


def test_temporary_files_are_deleted_with_the_retriever(tmp_path: Path) -> None:
    retriever = build_retriever(TEXTS, tmp_path)
    assert list(tmp_path.iterdir())
    del retriever
    gc.collect()
    assert not list(tmp_path.iterdir())
