"""Tests of word vectors with gensim: conversion of files, training, and stop words."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
from gensim.models import FastText, KeyedVectors
from gensim.models.fasttext import save_facebook_model
from gensim.parsing.preprocessing import STOPWORDS

from resift import WordVectors
from resift.encoders.tables import weights_by_rank
from resift.errors import BadInput
from resift.text import STOP_WORDS
from resift_lab.training.word2vec import train_word2vec
from resift_lab.vectors.convert import convert


@pytest.fixture
def keyed(vectors: WordVectors) -> KeyedVectors:
    """Return the word vectors in gensim's format."""
    keyed = KeyedVectors(vectors.dim)
    keyed.add_vectors(vectors.words, vectors.rows())
    return keyed


def test_convert_word2vec_and_glove(tmp_path: Path, keyed: KeyedVectors, vectors: WordVectors) -> None:
    keyed.save_word2vec_format(str(tmp_path / "w.txt"))
    keyed.save_word2vec_format(str(tmp_path / "w.bin"), binary=True)
    keyed.save_word2vec_format(str(tmp_path / "glove.txt"), write_header=False)
    (tmp_path / "w.vec.gz").write_bytes(gzip.compress((tmp_path / "w.txt").read_bytes()))
    for name in ("w.txt", "w.bin", "glove.txt", "w.vec.gz"):
        found = convert(tmp_path / name, "zipf")
        assert found.words == vectors.words, name
        np.testing.assert_allclose(found.rows(), vectors.rows(), atol=1e-5)
        np.testing.assert_allclose(found.weights, weights_by_rank(len(vectors), "zipf"))
        assert convert(tmp_path / name, limit=3).words == vectors.words[:3]


@pytest.mark.parametrize("header", ["", "4 2\n"])
def test_the_first_vector_of_a_repeated_word_counts(tmp_path: Path, header: str) -> None:
    (tmp_path / "glove.txt").write_text(header + "fire 0.1 0.2\nfire 0.3 0.4\nrain 0.5 0.6\narmy 0.7 0.8\n")
    found = convert(tmp_path / "glove.txt")
    assert found.words == ["fire", "rain", "army"]
    np.testing.assert_allclose(found.rows(), [[0.1, 0.2], [0.5, 0.6], [0.7, 0.8]], atol=1e-6)


def test_words_of_a_text_file_may_contain_spaces(tmp_path: Path) -> None:
    (tmp_path / "glove.txt").write_text(", 0.1 0.2\nfire 0.3 0.4\n. . . 0.5 0.6\nat a@b.com 0.7 0.8\nrain 0.9 1.0 \n\n")
    found = convert(tmp_path / "glove.txt")
    assert found.words == ["fire", "rain"]  # no text contains the other words
    np.testing.assert_allclose(found.rows(), [[0.3, 0.4], [0.9, 1.0]], atol=1e-6)


@pytest.mark.parametrize(
    ("line", "message"),
    [("rain 0.3", "line 2 has 1 numbers, but the vectors have 2"), ("rain x 0.3", "line 2 does not end in 2 numbers")],
)
def test_malformed_lines_of_a_text_file_are_named(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "glove.txt").write_text(f"fire 0.1 0.2\n{line}\n")
    with pytest.raises(BadInput, match=message):
        convert(tmp_path / "glove.txt")


def test_convert_fasttext_binary(tmp_path: Path) -> None:
    model = FastText([["fire", "bush"], ["army", "gun"]] * 5, vector_size=4, min_count=1, bucket=50, seed=1, workers=1)
    save_facebook_model(model, str(tmp_path / "f.bin"))
    found = convert(tmp_path / "f.bin")
    assert set(found.words) == {"fire", "bush", "army", "gun"}
    row = found.rows()[found.index["fire"]]
    np.testing.assert_allclose(row, model.wv["fire"], atol=1e-5)
    more = convert(tmp_path / "f.bin", limit=2, extra_words=["fires", "fire", "bush", "fires"])
    assert more.words[:2] == found.words[:2]
    assert sorted(more.words[2:]) == sorted({"fires", "fire", "bush"} - set(found.words[:2]))
    for word in ("fires", "bush"):
        np.testing.assert_allclose(more.rows()[more.index[word]], model.wv[word], atol=1e-5)
    assert more.weights[-1] >= more.weights[0]


def test_only_fasttext_knows_other_words(tmp_path: Path, keyed: KeyedVectors) -> None:
    keyed.save_word2vec_format(str(tmp_path / "w.txt"))
    assert convert(tmp_path / "w.txt", extra_words=keyed.index_to_key[:2]).words == keyed.index_to_key
    with pytest.raises(BadInput, match="no subwords"):
        convert(tmp_path / "w.txt", extra_words=["a-word-of-no-table"])


@pytest.mark.parametrize("content", [b"", b"\x00\xff\xfe garbage", b"two words\n", struct.pack("<i", 793712314)])
@pytest.mark.parametrize("name", ["x.txt", "x.bin"])
def test_convert_refuses_files_of_other_formats(tmp_path: Path, content: bytes, name: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadInput):
        convert(tmp_path / name)
    with pytest.raises(BadInput, match="no file"):
        convert(tmp_path / "missing.txt")


def test_train_is_repeatable_and_learns_neighbours() -> None:
    texts = ["the bush fire burns the forest", "the army fires a gun at soldiers"] * 60
    one, two = (train_word2vec(texts, dim=8, epochs=3, min_count=2, seed=3) for _ in range(2))
    assert one.words == two.words
    assert one.words[0] == "the"
    np.testing.assert_array_equal(one.rows(), two.rows())
    with pytest.raises(BadInput, match="no word occurs"):
        train_word2vec(["a b"], min_count=5)
    with pytest.raises(BadInput, match="contains no word"):
        train_word2vec(["..."])


def test_stop_words_equal_gensims_stop_words() -> None:
    assert STOP_WORDS == STOPWORDS
