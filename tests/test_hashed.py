"""The hashed retriever against DrQA's formulas, MurmurHash3 against known values, and keywords."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from resift.errors import BadInput
from resift.word2doc import retriever as hashed
from resift.word2doc.keywords import NOISES, noisy, rake
from resift.word2doc.retriever import BINS, HashedRetriever, counts, grams, murmur3

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
def test_murmur3_of_a_text_does_not_depend_on_others(texts: list[str]) -> None:
    assert murmur3(texts).tolist() == [int(murmur3([text])[0]) for text in texts]


def test_bigrams_do_not_reach_over_stop_words_and_signs() -> None:
    assert grams("Fire in bush land, coast of Sydney_bay") == [
        "fire",
        "bush",
        "land",
        "coast",
        "sydney",
        "bay",
        "bush land",
    ]


def test_scores_are_those_of_the_formula(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(hashed, "_CHUNK", 5)
    retriever = HashedRetriever.build(iter(TEXTS), tmp_path)
    bags = [Counter(grams(text)) for text in TEXTS]
    holding = Counter(gram for bag in bags for gram in bag)

    def weight(bag: Counter[str], gram: str) -> float:
        idf = max(0.0, float(np.log((len(TEXTS) - holding[gram] + 0.5) / (holding[gram] + 0.5))))
        return float(np.log1p(bag[gram])) * idf

    query = "fire fire bush fire and rain in Atlantis"
    asked = Counter(grams(query))
    expected = [sum(weight(bag, gram) * weight(asked, gram) for gram in asked if gram in bag) for bag in bags]
    np.testing.assert_allclose(retriever.scores(query), expected, rtol=1e-5)
    assert retriever.best(query, 2).tolist() == np.argsort(-np.array(expected), kind="stable")[:2].tolist()
    assert retriever.best("Atlantis", 3).tolist() == retriever.best("", 3).tolist() == []
    assert isinstance(retriever.postings, np.memmap)


def test_hits_of_one_bin_are_added() -> None:
    bins, number = counts("rain rain bush")
    assert dict(zip(bins.tolist(), number.tolist(), strict=True)) == {
        int(murmur3([gram])[0]) % BINS: count for gram, count in Counter(grams("rain rain bush")).items()
    }


def test_no_word_at_all() -> None:
    with pytest.raises(BadInput, match="no word"):
        HashedRetriever.build(["", "the"])


def test_keywords_are_the_runs_between_stop_words() -> None:
    text = "Deep neural networks. Deep learning of neural networks and of a cat; one two three four five words here"
    found = rake(text)
    assert found[0] == "deep neural networks"
    assert "cat" in found
    assert all(len(keyword.split()) <= 3 for keyword in found)
    assert rake(text, 2) == found[:2]
    assert rake("") == rake("the of 12") == []


@pytest.mark.parametrize("kind", NOISES)
def test_noise_is_seeded_and_never_empties(kind: str) -> None:
    for query in ("linear constraints", "cat", "natural running numbers"):
        changed = [noisy(query, kind, np.random.default_rng(seed)) for seed in (1, 1)]
        assert changed[0] == changed[1]
        assert changed[0].strip()
        assert (changed[0] == query) == (kind == "clean" or query == "cat")
