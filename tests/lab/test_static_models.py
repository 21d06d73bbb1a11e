"""Tests of static models against model2vec and the StaticEmbedding of sentence-transformers."""

from __future__ import annotations

import itertools
import json
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from resift import WordVectors
from resift.cli.main import main
from resift.encoders.builders import build_model
from resift.encoders.tables import quantize_table
from resift.errors import BadInput
from resift_lab.vectors.convert import convert
from resift_lab.vectors.model2vec import read_static, write_model2vec

tokenizers = pytest.importorskip("tokenizers")
model2vec = pytest.importorskip("model2vec")
safetensors = pytest.importorskip("safetensors.numpy")

SUBJECTS = {
    "fire": "fire flame smoke burn ash crew bush heat",
    "army": "army soldier tank border war gun troop shot",
    "money": "money bank loan price market sale shop credit",
}
DOCUMENTS = [
    f"The {' '.join(words)}, burning {name}s"
    for name, all_words in SUBJECTS.items()
    for words in itertools.permutations(all_words.split(), 4)
][::60]
IN_WORDS = [re.sub(",", "", text).lower() for text in DOCUMENTS[:8]] + ["", "fires unburnt", " ".join(["fire"] * 700)]
WORDS = sorted({word for text in IN_WORDS for word in text.split()})
TEXTS = [*DOCUMENTS[:8], "", "fires! unburnt; naïve 東京", "Ωmega", "fire " * 700, "\ud800 half a pair", "a.b-c_d"]
BERT = ["[PAD]", "[UNK]", "the", "burn", "##ing", "##s", "un", "##burn", "##t", "f", "##i", "##r", "##e", ",", "!", "a"]


def bert_tokenizer() -> Any:
    """Return a WordPiece tokenizer, as in BERT."""
    words = [*BERT, *(word for words in SUBJECTS.values() for word in words.split() if word not in BERT)]
    made = tokenizers.Tokenizer(
        tokenizers.models.WordPiece({word: id for id, word in enumerate(words)}, unk_token="[UNK]")
    )
    made.normalizer = tokenizers.normalizers.BertNormalizer()
    made.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    made.decoder = tokenizers.decoders.WordPiece()
    return made


def unigram_tokenizer() -> Any:
    """Return a Unigram tokenizer with a metaspace, as in multilingual models."""
    letters = [(letter, -6.0) for letter in "abcdefghijklmnopqrstuvwxyz▁"]
    words = [(f"▁{word}", -3.0) for words in SUBJECTS.values() for word in words.split()]
    made = tokenizers.Tokenizer(tokenizers.models.Unigram([("<unk>", -9.0), *words, ("ing", -4.0), *letters], unk_id=0))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    made.decoder = tokenizers.decoders.Metaspace()
    return made


def byte_tokenizer() -> Any:
    """Return a byte-level BPE tokenizer, which has no unknown text."""
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=True)
    made.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(DOCUMENTS, tokenizers.trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet))
    return made


TOKENIZERS = {"wordpiece": bert_tokenizer, "unigram": unigram_tokenizer, "bytes": byte_tokenizer}


def rows_for(tokenizer: Any) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Return random vectors of different lengths for all pieces."""
    rng = np.random.default_rng(0)
    size = tokenizer.get_vocab_size()
    return (rng.normal(size=(size, 12)) * rng.uniform(0.1, 3, (size, 1))).astype(np.float32)


@pytest.fixture(params=TOKENIZERS)
def static(request: pytest.FixtureRequest) -> Any:
    """Return a model of model2vec."""
    tokenizer = TOKENIZERS[request.param]()
    return model2vec.StaticModel(rows_for(tokenizer), tokenizer, normalize=True, max_length=None)


@pytest.fixture
def pieces(tmp_path: Path) -> WordVectors:
    """Save a static model in the folder ``static``, and return the table of its whole words."""
    tokenizer = bert_tokenizer()
    model2vec.StaticModel(rows_for(tokenizer), tokenizer).save_pretrained(tmp_path / "static")
    return read_static(tmp_path / "static")


def clean(texts: list[str]) -> list[str]:
    """Replace lone surrogates, which the other packages reject."""
    return [text.encode("utf-8", "replace").decode() for text in texts]


def resift(*arguments: object) -> Result:
    """Run a command and return its result."""
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def test_model2vec_gives_the_same_vectors(tmp_path: Path, static: Any) -> None:
    static.save_pretrained(tmp_path / "static")
    model = build_model("mean", convert(tmp_path / "static", extra_words=WORDS))
    np.testing.assert_allclose(model.encode(IN_WORDS), static.encode(IN_WORDS), atol=1e-5)
    one = [model.encode_one(text) for text in TEXTS]
    np.testing.assert_allclose(one, model.encode(TEXTS), atol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "int8", "float64"])
def test_quantized_model2vec_models_give_the_same_vectors(tmp_path: Path, dtype: str) -> None:
    tokenizer = bert_tokenizer()
    rows = rows_for(tokenizer)
    mapping = np.arange(len(rows)) % 9  # several pieces share a row and have weights, as after model2vec's quantization
    weights = np.linspace(0.1, 2, len(rows)).astype(np.float32)
    few = model2vec.quantization.quantize_embeddings(rows[:9], model2vec.quantization.DType(dtype))
    oracle = model2vec.StaticModel(
        few, tokenizer, normalize=True, weights=weights, token_mapping=mapping, max_length=None
    )
    oracle.save_pretrained(tmp_path / "static")
    expected = oracle.encode(IN_WORDS).astype(np.float32)
    ours = build_model("mean", read_static(tmp_path / "static", WORDS)).encode(IN_WORDS)
    np.testing.assert_allclose(ours, expected, atol=1e-3)


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_sentence_transformers_gives_the_same_similarities(tmp_path: Path, kind: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings on import
        sentence_transformers = pytest.importorskip("sentence_transformers")
        modules = pytest.importorskip("sentence_transformers.models")
        tokenizer = TOKENIZERS[kind]()
        module = modules.StaticEmbedding(tokenizer, embedding_weights=rows_for(tokenizer))
        oracle = sentence_transformers.SentenceTransformer(modules=[module], device="cpu")
        oracle.save(str(tmp_path / "static"))
        theirs = oracle.encode(IN_WORDS, normalize_embeddings=True)
    # sentence-transformers counts unknown pieces, model2vec does not
    ours = build_model("mean", read_static(tmp_path / "static", WORDS)).encode(IN_WORDS)
    np.testing.assert_allclose(ours @ ours.T, theirs @ theirs.T, atol=1e-3)


def test_words_instead_of_pieces(tmp_path: Path, pieces: WordVectors) -> None:
    words = read_static(tmp_path / "static", ["burning", "fires", "unburnt", "東京"])
    assert words.words[:3] == ["burning", "fires", "unburnt"]  # "東京" is unknown
    assert {"fire", "army", "the", "a"} <= set(words.words)
    assert not {"##ing", "[UNK]", ",", "ing"} & set(words.words)
    assert len(words.words) == len(set(words.words))
    assert words.words[3:] == pieces.words


def test_model2vec_reads_what_is_exported(tmp_path: Path, vectors: WordVectors) -> None:
    table = quantize_table(vectors)
    texts = [*TEXTS, " ".join(vectors.words[:9]).upper(), "ＦＩＲＥ ﬁre x²y don't A_B ΣΟΦΟΣ नमस्ते e\u0301té"]
    write_model2vec(table, tmp_path / "out")
    write_model2vec(table, tmp_path / "out")  # replaces the first
    ours = build_model("mean", table).encode(texts)
    theirs = model2vec.StaticModel.from_pretrained(tmp_path / "out").encode(clean(texts))
    np.testing.assert_allclose(theirs, ours, atol=1e-3)
    again = build_model("mean", read_static(tmp_path / "out")).encode(texts)
    np.testing.assert_allclose(again, ours, atol=1e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sentence_transformers = pytest.importorskip("sentence_transformers")
        also = sentence_transformers.SentenceTransformer(str(tmp_path / "out"), device="cpu").encode(clean(texts))
    np.testing.assert_allclose(also, ours, atol=1e-3)


def test_an_export_replaces_no_other_folder(tmp_path: Path, vectors: WordVectors, pieces: WordVectors) -> None:
    with pytest.raises(BadInput, match="other files"):
        write_model2vec(vectors, tmp_path / "static")  # a folder that we did not write
    assert len(read_static(tmp_path / "static")) == len(pieces)


def test_the_commands(tmp_path: Path, pieces: WordVectors, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("docs.jsonl").write_text("\n".join(json.dumps({"id": i, "text": t}) for i, t in enumerate(DOCUMENTS)))
    converted = resift("vectors", "convert", "static", "--out", "v")
    assert (converted.exit_code, converted.output) == (0, f"{len(pieces)} words of 12 dimensions in v\n")
    assert resift("model", "mean", "--vectors", "v", "--out", "m").exit_code == 0
    assert resift("vectors", "convert", "static", "--corpus", "docs.jsonl", "--out", "w").exit_code == 0
    assert "burning" in WordVectors.load("w").words
    for source in ("v", "m", "w"):
        exported = resift("vectors", "export", source, "--out", f"{source}-out")
        assert exported.exit_code == 0, exported.output
        assert len(model2vec.StaticModel.from_pretrained(f"{source}-out").encode(["fire"])[0]) == 12
    assert resift("model", "sfbow", "--vectors", "v", "--out", "b").exit_code == 0
    refused = resift("vectors", "export", "b", "--out", "b-out")
    assert refused.exit_code == 2
    assert "not means of word vectors" in refused.output


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tokenizer.json": b"{}"}, "tokenizer cannot be read"),
        ({"tokenizer.json": None}, "no model.safetensors beside a tokenizer.json"),
        ({"model.safetensors": b"nothing"}, "contains no static model"),
        ({"tensors": {"encoder.layer.0.weight": np.ones((3, 3), np.float32)}}, "encoder.layer.0.weight"),
        ({"tensors": {"embeddings": np.ones((3, 3), np.float32)}}, "pieces and the table 3 rows"),
        ({"tensors": {"embeddings": np.full((99, 3), np.nan, np.float32)}}, "NaN"),
        ({"tensors": {"embeddings": np.ones((99, 3), np.float32), "weights": np.ones(2, np.float32)}}, "weights"),
        ({"tensors": {"embeddings": np.ones((9, 3), np.float32), "mapping": np.full(99, 9)}}, "mapping"),
    ],
)
def test_folders_without_a_static_model_are_refused(
    tmp_path: Path, pieces: WordVectors, change: dict[str, Any], message: str
) -> None:
    folder = tmp_path / "static"
    for name, content in change.items():
        if name == "tensors":
            safetensors.save_file(content, folder / "model.safetensors")
        elif content is None:
            (folder / name).unlink()
        else:
            (folder / name).write_bytes(content)
    with pytest.raises(BadInput, match=message):
        convert(folder)


def test_settings_of_files_are_refused_for_folders(tmp_path: Path, pieces: WordVectors) -> None:
    for settings in ({"limit": 5}, {"weighting": "sif"}):
        with pytest.raises(BadInput, match="static model"):
            convert(tmp_path / "static", **settings)
