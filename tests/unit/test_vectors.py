"""Tests of word vectors: saving and loading, word ids, and weights."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from resift import WordVectors
from resift.arrays import batched
from resift.encoders.known_words import known_share
from resift.encoders.tables import build_table, quantize_table, weights_by_rank
from resift.errors import BadInput, CorruptModel, ModelNotFound


def test_loading_restores_what_was_saved(tmp_path: Path, vectors: WordVectors) -> None:
    for number, original in enumerate([vectors, quantize_table(vectors)]):
        loaded = WordVectors.load(original.save(tmp_path / f"v{number}"))
        assert loaded.words == original.words
        np.testing.assert_array_equal(loaded.rows(), original.rows())
        np.testing.assert_array_equal(loaded.weights, original.weights)
        assert not isinstance(loaded.matrix, np.memmap)  # the files may change while a server runs
        assert not loaded.matrix.flags.writeable


def test_save_replaces_only_folders_of_word_vectors(tmp_path: Path, vectors: WordVectors) -> None:
    vectors.save(tmp_path / "v")
    quantize_table(vectors).save(tmp_path / "v")
    assert WordVectors.load(tmp_path / "v").matrix.dtype == np.int8
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.txt").write_text("years")
    with pytest.raises(BadInput, match="other files"):
        vectors.save(tmp_path / "home")
    assert (tmp_path / "home" / "thesis.txt").read_text() == "years"
    assert {path.name for path in tmp_path.iterdir()} == {"v", "home"}


def test_quantization_error_is_half_a_step(vectors: WordVectors) -> None:
    small = quantize_table(vectors)
    assert small.scales is not None
    assert (np.abs(small.rows() - vectors.rows()) <= small.scales[:, None] * 0.5001).all()


def test_damaged_files_are_refused(tmp_path: Path, vectors: WordVectors) -> None:
    with pytest.raises(ModelNotFound):
        WordVectors.load(tmp_path)
    folder = vectors.save(tmp_path / "v")
    raw = bytearray((folder / "vectors.npy").read_bytes())
    raw[-1] ^= 1
    (folder / "vectors.npy").write_bytes(raw)
    with pytest.raises(CorruptModel, match="changed"):
        WordVectors.load(folder)
    (folder / "vectors.npy").write_bytes(raw[:50])
    with pytest.raises(CorruptModel):
        WordVectors.load(folder)


def test_pickles_are_refused(tmp_path: Path, vectors: WordVectors) -> None:
    folder = vectors.save(tmp_path / "v")
    np.save(folder / "vectors.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(CorruptModel, match="cannot be read"):
        WordVectors.load(folder)


def test_array_names_cannot_leave_the_folder(tmp_path: Path, vectors: WordVectors) -> None:
    folder = vectors.save(tmp_path / "v")
    np.save(tmp_path / "outside.npy", np.ones(3))
    info = json.loads((folder / "vectors.json").read_text())
    info["arrays"].append("../outside")
    (folder / "vectors.json").write_text(json.dumps(info))
    with pytest.raises(CorruptModel):
        WordVectors.load(folder)


def test_an_unknown_format_version_is_refused(tmp_path: Path, vectors: WordVectors) -> None:
    folder = vectors.save(tmp_path / "v")
    info = json.loads((folder / "vectors.json").read_text())
    (folder / "vectors.json").write_text(json.dumps({**info, "format": 99}))
    with pytest.raises(CorruptModel, match="format 99"):
        WordVectors.load(folder)


def test_build_table_leaves_out_words_that_the_tokenizer_cannot_return() -> None:
    words = ["The", "the", "New_York", "don't", "", "fire", "é"]
    table = build_table(words, np.arange(14, dtype=np.float32).reshape(7, 2))
    assert table.words == ["the", "fire", "é"]
    np.testing.assert_array_equal(table.rows()[:, 0], [0, 10, 12])


def test_build_table_refuses_nan_and_empty_vocabularies() -> None:
    with pytest.raises(BadInput, match="'b' contains NaN"):
        build_table(["a", "b"], np.array([[1.0], [np.nan]]))
    with pytest.raises(BadInput, match="no usable word"):
        build_table(["-", "_"], np.ones((2, 2)))
    with pytest.raises(BadInput, match="2 words"):
        WordVectors(["a", "b"], np.ones((3, 2), np.float32))


def test_rare_words_have_larger_weights() -> None:
    np.testing.assert_allclose(weights_by_rank(3, "zipf"), np.log([2, 3, 4]), rtol=1e-6)
    assert (np.diff(weights_by_rank(100, "sif")) > 0).all()
    assert weights_by_rank(1000, "sif")[0] == pytest.approx(
        1e-3 / (1e-3 + 1 / sum(1 / r for r in range(1, 1001))), rel=1e-4
    )
    assert (weights_by_rank(5, "none") == 1).all()
    with pytest.raises(BadInput, match="zopf"):
        weights_by_rank(3, "zopf")


def test_ids_skip_unknown_words(vectors: WordVectors) -> None:
    ids, offsets = vectors.ids(["fire zzz BUSH", "", "zzz", "the fire"])
    assert [vectors.words[i] for i in ids] == ["fire", "bush", "the", "fire"]
    assert offsets.tolist() == [0, 2, 2, 2, 4]
    ids, offsets = vectors.ids([])
    assert (len(ids), offsets.tolist()) == (0, [0])


def test_batched_splits_in_order() -> None:
    assert list(batched(iter(range(5)), 2)) == [[0, 1], [2, 3], [4]]
    assert list(batched([], 2)) == []


def test_the_known_share_of_a_text_is_weighted() -> None:
    weights = np.array([1, 2, 4], np.float32)
    table = WordVectors(["the", "fire", "flame"], np.eye(3, dtype=np.float32), weights)
    assert table.unknown_weight == pytest.approx(np.quantile(weights, 0.99))
    for text, known, unknown in [("the Fire", 3, 0), ("fire zzyzx", 2, 1), ("the qq the qq flame", 6, 2), ("qq", 0, 1)]:
        assert known_share(table, text, adapted=False) == pytest.approx(
            known / (known + unknown * table.unknown_weight)
        )
    assert known_share(table, "?", adapted=False) == 1


def test_words_with_digits_are_not_known_to_adapted_models() -> None:
    table = WordVectors(["the", "fire", "18v"], np.eye(3, dtype=np.float32), np.array([1.0, 90, 1], np.float32))
    the, fire, volt, unknown = map(table.idf, ["the", "fire", "18v", "u2278de"])
    shares = {
        "fire the": 1.0,
        "fire zzyzx": 1.0,
        "fire 18v": fire / (fire + volt),
        "the u2278de the": the / (the + unknown),
        "3510 18v": 0.0,
        "?": 1,
    }
    assert {text: known_share(table, text, adapted=True) for text in shares} == pytest.approx(shares)
