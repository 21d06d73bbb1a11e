"""The compiled look-up and pooling against the Python definition of a word and plain numpy, on any input."""

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
from resift.vectors.table import LOOPS_MODULE

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
    """Ids by the definition: a token's row, and nothing for an unknown one."""
    index = {word: row for row, word in enumerate(words)}
    found = [[index[word] for word in tokenize(text) if word in index] for text in texts]
    return [row for rows in found for row in rows], np.cumsum([0, *map(len, found)]).tolist()


def compare(words: list[str], texts: list[str]) -> None:
    """Both ways of finding ids give the same."""
    ids, offsets = word_ids(build_lookup(words), texts)
    assert (ids.tolist(), offsets.tolist()) == python_ids(words, texts)


def vocabulary(texts: list[str]) -> list[str]:
    """Every other word of the texts, and strings that no text can ask for."""
    known = sorted({word for text in texts for word in tokenize(text)})[::2]
    return [*known, "a\0", "\0", "", "A", "a b", "É", "\ud800"]


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_ids_of_odd_texts(text: str) -> None:
    compare(vocabulary([text]), [text, text.upper(), "x" + text + "x"])


def test_ids_of_a_batch_and_of_nothing() -> None:
    compare(vocabulary(TEXTS), TEXTS)
    compare(["fire"], [])


def test_every_character_beside_letters_and_alone() -> None:
    texts = [f"q{chr(point)}Z {chr(point)}" for point in [*range(0x40000), *range(0xE0000, 0xE0200), sys.maxunicode]]
    words = sorted({word for text in texts for word in tokenize(text)})
    compare(words[::2], texts)


@settings(deadline=None, max_examples=300)
@given(st.lists(st.text(st.characters(), max_size=80), max_size=6))
def test_ids_of_any_texts(texts: list[str]) -> None:
    compare(vocabulary(texts), texts)


@settings(deadline=None, max_examples=200)
@given(st.lists(st.text("aAbZ09 _é\u0301ΣσİK東\0\ud800", max_size=300), max_size=6))
def test_ids_of_texts_of_difficult_characters(texts: list[str]) -> None:
    compare(vocabulary(texts), texts)


@pytest.mark.parametrize("size", [*range(55, 75), 120, 128, 130, 511, 512, 513, 2048])
def test_ids_where_blocks_end(size: int) -> None:
    words = [letter * length for letter in "abx" for length in range(1, 70)]
    texts = [("x" * start + " ab b" * size)[:size] for start in range(67)]
    compare([*words, "ab"], [*texts, "b " * size, " b" * size, "a" * size])


def test_words_that_share_a_slot() -> None:
    words = [f"w{number}" for number in range(3000)] + [
        f"longer-than-eight{number}".replace("-", "") for number in range(3000)
    ]
    compare(words, [" ".join(words), " ".join(words[::-1]), " ".join(word + "x" for word in words)])


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


@pytest.mark.parametrize("least", [0, 10**9], ids=["compiled", "numpy"])
def test_a_vocabulary_uses_them_for_many_texts(
    vectors: WordVectors, monkeypatch: pytest.MonkeyPatch, least: int
) -> None:
    monkeypatch.setattr(compiled, "MIN_CHARACTERS", least)
    texts = ["Fire zzz BUSH", "", "the–fire"] * 5000
    assert (compiled.loops_for_texts(texts, LOOPS_MODULE) is None) == (least > 0)
    ids, offsets = vectors.ids(texts)
    assert (ids.tolist(), offsets.tolist()) == python_ids(vectors.words, texts)


def test_without_numba_or_a_folder_for_the_code_numpy_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["fire " * 10_000]
    for module, fault in ((LOOPS_MODULE, ImportError("no numba")), ("none", RuntimeError("cannot cache"))):
        compiled.load_loops.cache_clear()

        def fail(name: str, fault: Exception = fault) -> Any:
            raise fault

        monkeypatch.setattr(compiled.importlib, "import_module", fail)
        assert compiled.loops_for_texts(texts, module) is None
    compiled.load_loops.cache_clear()
