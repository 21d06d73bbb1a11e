"""Tests that the compiled look-up and pooling agree with the tokenizer and with NumPy."""

from __future__ import annotations

import sys
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resift import WordVectors
from resift.text import tokenize
from resift.vectors import compiled
from resift.vectors.kernels import build_lookup, pool_mean, word_ids

TEXTS = [
    "",
    "a",
    "\0a\0",
    "a\0b",
    "İstanbul IŞIK ı i̇",
    "ΟΔΥΣΣΕΥΣ ΣΟΦΟΣ Σ ΑΣ, ΑΣ\u0301Α",
    "Straße STRASSE ﬁ Å Å K µ Ⱥ Ⴀ Ꭰ ⅷ Ⅷ ① ½ x² Ǆ ǅ ẞ",
    "naïve naïve \u0301\u0301 e\u0301",
    "東京タワーtower３Ａ葛\U000e0100\U00020000\U0002ffff か\u3099a\u3099b",
    "हिन्दी ภาษาไทย עִבְרִית العربية",
    "\ud800a\udfff \udc80",
    "👩‍👩‍👧 ❤️ 🇩🇪x \U0001f1e6a",
    "can’t “quote” — x\u00adY z\u200dz \ufeffBOM a\u00a0b\u2028c",
    "w" * 7 + " " + "w" * 8 + " " + "w" * 9 + " " + "w" * 16 + " " + "w" * 17 + " " + "W" * 100_000,
    "é" * 50_000 + "É",
    "a " * 5000,
    "ab" * 32 + " " + "x",
    "".join(map(chr, range(0x500))),
]


def python_ids(words: list[str], texts: list[str]) -> tuple[list[int], list[int]]:
    """Return the rows of the known words of texts, and their offsets, by the definition of a word."""
    index = {word: row for row, word in enumerate(words)}
    ids = [[index[word] for word in tokenize(text) if word in index] for text in texts]
    return [row for rows in ids for row in rows], np.cumsum([0, *map(len, ids)]).tolist()


def assert_same_ids(words: list[str], texts: list[str]) -> None:
    """Assert that the compiled look-up agrees with the definition."""
    ids, offsets = word_ids(build_lookup(words), texts)
    assert (ids.tolist(), offsets.tolist()) == python_ids(words, texts)


def vocabulary(texts: list[str]) -> list[str]:
    """Return every second word of the texts, and strings that are not words."""
    known = sorted({word for text in texts for word in tokenize(text)})[::2]
    return [*known, "a\0", "\0", "", "A", "a b", "É", "\ud800"]


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_ids_of_unusual_texts_follow_the_definition(text: str) -> None:
    assert_same_ids(vocabulary([text]), [text, text.upper(), "x" + text + "x"])


def test_ids_of_full_and_empty_batches_follow_the_definition() -> None:
    assert_same_ids(vocabulary(TEXTS), TEXTS)
    assert_same_ids(["fire"], [])


def test_ids_with_every_character_follow_the_definition() -> None:
    texts = [f"q{chr(point)}Z {chr(point)}" for point in [*range(0x40000), *range(0xE0000, 0xE0200), sys.maxunicode]]
    words = sorted({word for text in texts for word in tokenize(text)})
    assert_same_ids(words[::2], texts)


@settings(deadline=None, max_examples=300)
@given(st.lists(st.text(st.characters(), max_size=80), max_size=6))
def test_ids_of_any_texts_follow_the_definition(texts: list[str]) -> None:
    assert_same_ids(vocabulary(texts), texts)


@settings(deadline=None, max_examples=200)
@given(st.lists(st.text("aAbZ09 _é\u0301ΣσİK東\0\ud800", max_size=300), max_size=6))
def test_ids_of_special_characters_follow_the_definition(texts: list[str]) -> None:
    assert_same_ids(vocabulary(texts), texts)


@pytest.mark.parametrize("size", [*range(55, 75), 120, 128, 130, 511, 512, 513, 2048])
def test_ids_of_words_at_the_end_of_texts_follow_the_definition(size: int) -> None:
    words = [letter * length for letter in "abx" for length in range(1, 70)]
    texts = [("x" * start + " ab b" * size)[:size] for start in range(67)]
    assert_same_ids([*words, "ab"], [*texts, "b " * size, " b" * size, "a" * size])


def test_ids_with_hash_collisions_follow_the_definition() -> None:
    words = [f"w{number}" for number in range(3000)] + [
        f"longer-than-eight{number}".replace("-", "") for number in range(3000)
    ]
    assert_same_ids(words, [" ".join(words), " ".join(words[::-1]), " ".join(word + "x" for word in words)])


@pytest.mark.parametrize("kind", [np.int8, np.float32])
@pytest.mark.parametrize("dim", [1, 3, 64, 300])
def test_pooling_equals_numpy(kind: type, dim: int) -> None:
    rng = np.random.default_rng(dim)
    matrix = (rng.normal(size=(50, dim)) * 40).astype(kind)
    factors, divisors = rng.random(50, np.float32), rng.random(50, np.float32)
    lengths = [0, 1, 2, 3, 4, 5, 7, 8, 0, 1000]
    ids, offsets = rng.integers(0, 50, sum(lengths)), np.cumsum([0, *lengths])
    mean = np.full((len(lengths), dim), np.nan, np.float32)
    pool_mean(ids, offsets, matrix, factors, divisors, mean)
    for row, (start, end) in enumerate(pairwise(offsets)):
        words = factors[ids[start:end], None].astype(np.float64) * matrix[ids[start:end]]
        total = divisors[ids[start:end]].sum(dtype=np.float64) or 1
        np.testing.assert_allclose(mean[row], words.sum(axis=0) / total, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("min_characters", [0, 10**9], ids=["compiled", "numpy"])
def test_word_vectors_use_compiled_loops_for_many_texts(
    vectors: WordVectors, monkeypatch: pytest.MonkeyPatch, min_characters: int
) -> None:
    monkeypatch.setattr(compiled, "MIN_CHARACTERS", min_characters)
    texts = ["Fire zzz BUSH", "", "the–fire"] * 5000
    assert (compiled.loops_for_texts(texts) is None) == (min_characters > 0)
    ids, offsets = vectors.ids(texts)
    assert (ids.tolist(), offsets.tolist()) == python_ids(vectors.words, texts)


@pytest.mark.parametrize(
    ("fault", "level"),
    [
        (ModuleNotFoundError("No module named 'numba'", name="numba"), "INFO"),
        (ImportError("numba needs NumPy 2.3 or less"), "WARNING"),
        (RuntimeError("cannot cache"), "WARNING"),
    ],
)
def test_numpy_is_used_without_numba_or_a_cache_folder(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, fault: Exception, level: str
) -> None:
    def fail(name: str) -> Any:
        raise fault

    compiled.load_loops.cache_clear()
    monkeypatch.setattr(compiled.importlib, "import_module", fail)
    with caplog.at_level("INFO"):
        for _ in range(2):
            assert compiled.loops_for_texts(["fire " * 10_000]) is None
    compiled.load_loops.cache_clear()
    (record,) = caplog.records
    assert record.levelname == level
    assert (getattr(fault, "name", None) or str(fault)) in record.getMessage()
