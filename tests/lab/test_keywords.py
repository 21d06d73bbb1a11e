"""Tests of RAKE's keywords and of typing errors."""

from __future__ import annotations

import numpy as np
import pytest

from resift_lab.word2doc.keywords import NOISES, rake_keywords, with_typing_error


def test_keywords_are_the_runs_between_stop_words() -> None:
    text = "Deep neural networks. Deep learning of neural networks and of a cat; one two three four five words here"
    found = rake_keywords(text)
    assert found[0] == "deep neural networks"
    assert "cat" in found
    assert all(len(keyword.split()) <= 3 for keyword in found)
    assert rake_keywords(text, 2) == found[:2]
    assert rake_keywords("") == rake_keywords("the of 12") == []


@pytest.mark.parametrize("kind", NOISES)
def test_noise_is_reproducible_and_never_empties_a_query(kind: str) -> None:
    for query in ("linear constraints", "cat", "natural running numbers"):
        changed = [with_typing_error(query, kind, np.random.default_rng(seed)) for seed in (1, 1)]
        assert changed[0] == changed[1]
        assert changed[0].strip()
        assert (changed[0] == query) == (kind == "clean" or query == "cat")
