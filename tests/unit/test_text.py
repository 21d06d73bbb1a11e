"""Tests of the tokenizer."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resift.text import tokenize


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        (" \t\n.,!", []),
        ("Dogs' don't", ["dogs", "don", "t"]),
        ("snake_case-and 3.14", ["snake", "case", "and", "3", "14"]),
        ("ÉCOLE Straße", ["école", "straße"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("東京タワーtower", ["東", "京", "タ", "ワ", "ー", "tower"]),
        ("ジョン・スミス゠゛゜", ["ジ", "ョ", "ン", "ス", "ミ", "ス"]),
        ("naïve", ["naïve"]),
        ("a\x00b\ufeffc", ["a", "b", "c"]),
        ("ΣΟΦΟΣ ΣΑΣ", ["σοφος", "σας"]),
        ("İ K", ["i̇", "k"]),
        ("か\u3099a\u3099b", ["か", "\u3099", "a", "\u3099", "b"]),
        ("can’t \ud800x x² ½", ["can", "t", "x", "x²", "½"]),
    ],
)
def test_texts_are_split_into_lower_case_words(text: str, words: list[str]) -> None:
    assert tokenize(text) == words


@given(st.text(st.characters(exclude_categories=["Cn", "Cs"])))
def test_words_consist_of_all_letters_digits_and_marks(text: str) -> None:
    words = tokenize(text)
    assert all(unicodedata.category(c)[0] in "LNM" for word in words for c in word)
    letters = [c for c in text.lower() if c.isalnum()]
    assert [c for word in words for c in word if c.isalnum()] == letters
    assert tokenize(" ".join(words)) == words


@given(st.text(st.characters(max_codepoint=127)))
def test_the_fast_path_for_ascii_gives_the_same_words(text: str) -> None:
    assert tokenize(text) == [word for word in tokenize(text + " é") if word != "é"]
