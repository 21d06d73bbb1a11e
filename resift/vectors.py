"""Word vectors: a vocabulary, a matrix and a weight for each word, in a folder that is safe to load.

The folder holds ``vectors.json`` (sizes, provenance, content hash), ``words.txt`` (UTF-8, one word a line, most
frequent first), ``vectors.npy``, ``weights.npy`` and, for int8 matrices, ``scales.npy``. Nothing in it is a pickle,
and the matrix is memory-mapped, so that processes share one copy of it.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import struct
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.errors import BadInput, CorruptModel, ModelNotFound
from resift.text import tokenize

Floats = NDArray[np.float32]

FORMAT = 1
MANY = 32_768
WEIGHTINGS = ("none", "zipf", "sif")


def weights_by_rank(count: int, weighting: str) -> Floats:
    """Weights of ``count`` words ordered by frequency, most frequent first; shape (count,).

    ``zipf`` is log(rank + 2), which grows as words get rarer. ``sif`` is a / (a + p) with a = 1e-3 (Arora et al.
    2017, eq. 2), p being Zipf's estimate of the word's probability. ``none`` is 1 for all.
    """
    ranks = np.arange(count, dtype=np.float64)
    if weighting == "none":
        weights = np.ones(count)
    elif weighting == "zipf":
        weights = np.log(ranks + 2)
    elif weighting == "sif":
        probability = 1 / (ranks + 1)
        weights = 1e-3 / (1e-3 + probability / probability.sum())
    else:
        raise BadInput(f"unknown weighting {weighting!r}", value=weighting, expected=" | ".join(WEIGHTINGS))
    return weights.astype(np.float32)


def kernels(texts: Sequence[str]) -> Any:
    """:mod:`resift.kernels` for these texts, or None where numba is not installed or they are few: it takes a third of
    a second to load, and a process that only meets queries never has to."""
    return _load_kernels() if sum(map(len, texts)) >= MANY else None


@cache
def _load_kernels() -> Any:
    try:
        from resift import kernels
    except ImportError:
        return None
    return kernels


class _Rows(dict[str, int]):
    """Word → row; -1 for a word without one."""

    def __missing__(self, word: str) -> int:
        return -1


class WordVectors:
    """A vocabulary with one row a word.

    ``matrix`` is (V, D) float32, float16, or int8 together with ``scales`` (V,) float32, a row's value being
    ``matrix[i] * scales[i]``. ``weights`` (V,) float32 is what a word counts when a text's words are pooled.
    Words are as :func:`resift.text.tokenize` gives them. A word that is not in the vocabulary has no row, and takes
    no part in a text.
    """

    def __init__(
        self,
        words: Sequence[str],
        matrix: NDArray[Any],
        weights: NDArray[Any] | None = None,
        scales: NDArray[Any] | None = None,
        info: dict[str, Any] | None = None,
    ) -> None:
        if matrix.ndim != 2 or len(words) != len(matrix) or not len(words):
            raise BadInput(
                f"{len(words)} words and a matrix of shape {matrix.shape}",
                expected="one row for each word, not none",
            )
        if (matrix.dtype == np.int8) != (scales is not None):
            raise BadInput(f"matrix of dtype {matrix.dtype}", expected="int8 with scales, or a float without")
        self.words = list(words)
        self.matrix = matrix
        self.scales = scales
        self.weights = np.ones(len(words), np.float32) if weights is None else np.asarray(weights, np.float32)
        self.info = dict(info or {})
        self.index = _Rows(zip(self.words, range(len(self.words)), strict=True))

    @classmethod
    def build(
        cls,
        words: Iterable[str],
        matrix: NDArray[Any],
        weighting: str = "none",
        info: dict[str, Any] | None = None,
    ) -> WordVectors:
        """Keep what a text can ever ask for: words that the tokeniser yields whole, each once (the first spelling).

        ``words`` come most frequent first, and ``weighting`` follows their rank. Raises BadInput on NaN or infinite
        rows, and where nothing is left.
        """
        kept: dict[str, int] = {}
        for row, word in enumerate(words):
            found = tokenize(word)
            if len(found) == 1 and len(found[0]) == len(word):
                kept.setdefault(found[0], row)
        if not kept:
            raise BadInput("no usable word in the vocabulary", expected="words of letters or digits")
        rows = np.asarray(matrix)[list(kept.values())]
        if not np.isfinite(rows).all():
            word = list(kept)[int(np.argmax(~np.isfinite(rows).all(axis=1)))]
            raise BadInput(f"the vector of {word!r} holds NaN or infinity", value=word, expected="finite numbers")
        return cls(list(kept), rows, weights_by_rank(len(kept), weighting), info=info)

    def __len__(self) -> int:
        return len(self.words)

    @property
    def dim(self) -> int:
        """Number of dimensions, D."""
        return int(self.matrix.shape[1])

    def rows(self, ids: Any = slice(None)) -> Floats:
        """The matrix as float32, shape (V, D), int8 rows scaled; or the rows of ``ids`` (m,) only, shape (m, D)."""
        dense = np.asarray(self.matrix[ids], dtype=np.float32)
        return dense if self.scales is None else dense * self.scales[ids, None]

    def ids(self, texts: Sequence[str]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Rows of the known words of all texts, end to end, and the n + 1 offsets at which each text's words start."""
        compiled = kernels(texts)
        if compiled is not None:
            found: tuple[NDArray[np.int32], NDArray[np.int64]] = compiled.word_ids(self._lookup, texts)
            return found
        tokens = [tokenize(text) for text in texts]
        rows = np.fromiter(map(self.index.__getitem__, chain.from_iterable(tokens)), np.int32)
        known = rows >= 0
        ends = np.cumsum([0, *map(len, tokens)])
        return rows[known], np.concatenate(([0], np.cumsum(known)))[ends]

    @cached_property
    def _lookup(self) -> Any:
        return _load_kernels().build_lookup(self.words)

    def rarity(self, word: str) -> float:
        """log(rank + 2), Zipf's estimate of a word's idf; a word that has no row is rarer than all that have one."""
        row = self.index[word]
        return math.log((len(self) if row < 0 else row) + 2)

    def quantized(self) -> WordVectors:
        """The same in int8 with one scale a row (largest absolute value = 127): a quarter of float32's size."""
        dense = self.rows()
        scales = np.maximum(np.abs(dense).max(axis=1), np.finfo(np.float32).tiny) / np.float32(127)
        small = np.rint(dense / scales[:, None]).astype(np.int8)
        return WordVectors(self.words, small, self.weights, scales.astype(np.float32), self.info)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What is saved, by file stem."""
        arrays = {"vectors": self.matrix, "weights": self.weights}
        return arrays if self.scales is None else {**arrays, "scales": self.scales}

    def save(self, folder: str | Path) -> Path:
        """Write the folder, whole or not at all (an existing one is replaced)."""
        return write_folder(folder, "vectors.json", self.info, self.words, self.arrays())

    @classmethod
    def load(cls, folder: str | Path) -> WordVectors:
        """Read a folder that :meth:`save` wrote; the arrays stay on disk, memory-mapped.

        Raises ModelNotFound where there is none, CorruptModel where its content is not what was saved.
        """
        info, words, arrays = read_folder(folder, "vectors.json")
        return cls(words, arrays["vectors"], arrays["weights"], arrays.get("scales"), info)


def content_hash(info: dict[str, Any], words: Sequence[str], arrays: dict[str, NDArray[Any]]) -> str:
    """16 hexadecimal digits of SHA-256 over settings, words and array contents."""
    digest = hashlib.sha256(json.dumps(info, sort_keys=True).encode())
    digest.update("\n".join(words).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.data)
    return digest.hexdigest()[:16]


def write_folder(
    folder: str | Path, name: str, info: dict[str, Any], words: Sequence[str], arrays: dict[str, NDArray[Any]]
) -> Path:
    """Save JSON, words and arrays as one folder, swapped in whole so that a reader never meets half of it."""
    target = Path(folder)
    if target.exists() and not (target / name).exists() and any(target.iterdir()):
        raise BadInput(f"{target} holds other files", value=str(target), expected=f"a new folder, or one with a {name}")
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        fresh.chmod(0o755)
        settings = {key: value for key, value in info.items() if key not in ("format", "hash", "arrays")}
        saved = {
            **settings,
            "format": FORMAT,
            "hash": content_hash(settings, words, arrays),
            "arrays": sorted(arrays),
        }
        (fresh / name).write_text(json.dumps(saved, indent=2, ensure_ascii=False) + "\n", "utf-8")
        (fresh / "words.txt").write_text("\n".join(words), "utf-8", newline="\n")
        for stem, array in arrays.items():
            np.save(fresh / f"{stem}.npy", array, allow_pickle=False)
        if target.exists():
            shutil.rmtree(target)
        fresh.rename(target)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    return target


def read_folder(folder: str | Path, name: str) -> tuple[dict[str, Any], list[str], dict[str, NDArray[Any]]]:
    """What :func:`write_folder` saved, its hash checked; arrays are memory-mapped and read-only."""
    path = Path(folder)
    if not (path / name).is_file():
        raise ModelNotFound(f"no {name} in {path}", value=str(path), expected="a folder that Resift saved")
    try:
        info = json.loads((path / name).read_text("utf-8"))
        words = (path / "words.txt").read_text("utf-8").split("\n")
        arrays = {
            stem: np.load(path / f"{Path(stem).name}.npy", mmap_mode="r", allow_pickle=False)
            for stem in info.pop("arrays")
        }
        version, recorded = info.pop("format"), info.pop("hash")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CorruptModel(f"{path} cannot be read: {error}", value=str(path)) from error
    if version != FORMAT:
        raise CorruptModel(f"{path} has format {version}", value=str(path), expected=f"format {FORMAT}")
    if content_hash(info, words, arrays) != recorded:
        raise CorruptModel(f"{path} was changed since it was saved", value=str(path), expected=f"hash {recorded}")
    return info, words, arrays


def convert(
    source: str | Path, weighting: str = "zipf", limit: int | None = None, more: Iterable[str] = ()
) -> WordVectors:
    """Read a word2vec (text or binary), GloVe or fastText (``.vec`` or ``.bin``) file with gensim.

    Names ending in ``.bin`` are binary: fastText's if they carry its magic number, else word2vec's. Text files may
    have word2vec's header line or, like GloVe's, none, and may be compressed (.gz, .bz2, .xz). ``limit`` keeps that
    many words. After them come those of ``more``, most frequent first, that are new: fastText's subwords give each a
    row (Bojanowski et al. 2017); another file has none, and BadInput says so.
    """
    path = Path(source)
    if not path.is_file():
        raise BadInput(f"no file {path}", value=str(path), expected="a word2vec, GloVe or fastText file")
    try:
        keyed = _read_keyed(path, limit)
    except (ValueError, EOFError, NotImplementedError, IndexError, TypeError, struct.error) as error:
        raise BadInput(
            f"{path} is not a word2vec, GloVe or fastText file: {error}",
            value=str(path),
            expected="one of these formats",
        ) from error
    words = keyed.index_to_key[:limit]
    rows = keyed.vectors[: len(words)]
    known = set(words)
    if new := [word for word in dict.fromkeys(more) if word not in known]:
        if not getattr(keyed, "bucket", 0):
            raise BadInput(f"{path} has no subwords", value=str(path), expected="fastText's .bin for words of a corpus")
        words, rows = words + new, np.vstack([rows, *(keyed.get_vector(word) for word in new)])
    return WordVectors.build(words, rows, weighting, {"source": path.name, "weighting": weighting})


def _read_keyed(path: Path, limit: int | None) -> Any:
    from gensim.models import KeyedVectors
    from gensim.models.fasttext import load_facebook_vectors
    from gensim.utils import open as open_any

    if ".bin" in path.suffixes:
        with open_any(str(path), "rb") as handle:
            is_fasttext = handle.read(4) == (793712314).to_bytes(4, "little")
        if is_fasttext:
            return load_facebook_vectors(str(path))
        return KeyedVectors.load_word2vec_format(str(path), binary=True, limit=limit)
    with open_any(str(path), "rb") as handle:
        first = handle.readline().split()
    no_header = len(first) != 2
    if len([float(number) for number in first[1:]]) < 1:
        raise ValueError("its first line is no header and no vector")
    return KeyedVectors.load_word2vec_format(
        str(path), binary=False, limit=limit, no_header=no_header, unicode_errors="replace"
    )


def train(
    texts: Iterable[str],
    dim: int = 100,
    epochs: int = 5,
    min_count: int = 5,
    weighting: str = "zipf",
    seed: int = 0,
) -> WordVectors:
    """Word2vec (skip-gram, gensim) on any corpus; one thread, so that a seed gives the same vectors again."""
    from gensim.models import Word2Vec

    sentences = [words for words in map(tokenize, texts) if words]
    if not sentences:
        raise BadInput("the corpus holds no word", expected="texts")
    model = Word2Vec(
        vector_size=dim,
        epochs=epochs,
        min_count=min_count,
        sg=1,
        seed=seed,
        workers=1,
        sample=1e-4,
        negative=10,
    )
    model.build_vocab(sentences)
    if not len(model.wv):
        raise BadInput(
            f"no word occurs {min_count} times", value=min_count, expected="a larger corpus or smaller count"
        )
    model.train(sentences, total_examples=model.corpus_count, epochs=epochs)
    info = {"source": f"word2vec, {len(sentences)} texts, seed {seed}", "weighting": weighting}
    return WordVectors.build(model.wv.index_to_key, model.wv.vectors, weighting, info)


def batched(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """Lists of at most ``size`` items, in order."""
    batch: list[Any] = []
    for item in items:
        batch.append(item)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch
