"""Word vectors: a vocabulary, a matrix and a weight for each word, in a folder that is safe to load.

The folder holds ``vectors.json`` (sizes, provenance, content hash), ``words.txt`` (UTF-8, one word a line, most
frequent first), ``vectors.npy``, ``weights.npy`` and, for int8 matrices, ``scales.npy``. Nothing in it is a pickle.
It is read into memory, which processes share that are forked afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.errors import BadInput
from resift.text import tokenize
from resift.vectors.compiled import load_loops, loops_for_texts
from resift.vectors.folder import corrupt_model_errors, read_folder, write_folder

LOOPS_MODULE = "resift.vectors.kernels"


class _Rows(dict[str, int]):
    """Word → row; -1 for a word without one."""

    def __missing__(self, word: str) -> int:
        return -1


class WordVectors:
    """A vocabulary with one row a word.

    ``matrix`` is (V, D) float32, float16, or int8 together with ``scales`` (V,) float32, a row's value being
    ``matrix[i] * scales[i]``. ``weights`` (V,) float32 is what a word counts when a text's words are pooled.
    Words are as :func:`resift.text.tokenize` gives them. A word that is not in the vocabulary has no row, and takes
    no part in a text. ``info`` is provenance, JSON, which is saved too.

    Raises BadInput if there are no words, one stands there twice, not each has a row, a weight and, with scales, a
    scale, or for another dtype (or int8 without scales, or another with them).
    """

    def __init__(
        self,
        words: Sequence[str],
        matrix: NDArray[Any],
        weights: NDArray[Any] | None = None,
        scales: NDArray[Any] | None = None,
        info: dict[str, Any] | None = None,
    ) -> None:
        if matrix.ndim != 2 or len(words) != len(matrix) or not matrix.size:
            raise BadInput(
                f"{len(words)} words and a matrix of shape {matrix.shape}", expected="one row for each word, not none"
            )
        if (matrix.dtype.kind != "f" and matrix.dtype != np.int8) or (matrix.dtype == np.int8) != (scales is not None):
            raise BadInput(f"matrix of dtype {matrix.dtype}", expected="int8 with scales, or a float without")
        for name, numbers in (("weights", weights), ("scales", scales)):
            if numbers is not None and np.shape(numbers) != (len(words),):
                raise BadInput(f"{name} of shape {np.shape(numbers)}", expected=f"({len(words)},), one for each word")
        self.words = list(words)
        self.matrix = matrix
        self.scales = scales
        self.weights = np.ones(len(words), np.float32) if weights is None else np.asarray(weights, np.float32)
        self.info = dict(info or {})
        self.index = _Rows(zip(self.words, range(len(self.words)), strict=True))
        if len(self.index) < len(self.words):
            word = next(word for row, word in enumerate(self.words) if self.index[word] != row)
            raise BadInput(f"{word!r} has more than one row", value=word, expected="different words")

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
        if kernels := loops_for_texts(texts, LOOPS_MODULE):
            compiled: tuple[NDArray[np.int32], NDArray[np.int64]] = kernels.word_ids(self._lookup, texts)
            return compiled
        tokens = [tokenize(text) for text in texts]
        rows = np.fromiter(map(self.index.__getitem__, chain.from_iterable(tokens)), np.int32)
        known = rows >= 0
        ends = np.cumsum([0, *map(len, tokens)])
        return rows[known], np.concatenate(([0], np.cumsum(known)))[ends]

    @cached_property
    def _lookup(self) -> Any:
        return load_loops(LOOPS_MODULE).build_lookup(self.words)

    @cached_property
    def unknown_weight(self) -> float:
        """What a word without a row weighs where all words of a text count: it is rare, so as much as the heaviest
        hundredth."""
        return float(np.quantile(self.weights, 0.99))

    def idf(self, word: str) -> float:
        """How rare a word is: log(rank + 2), Zipf's estimate of its idf, and more for a word without a row."""
        row = self.index[word]
        return math.log((len(self) if row < 0 else row) + 2)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What is saved, by file stem."""
        arrays = {"vectors": self.matrix, "weights": self.weights}
        if self.scales is not None:
            arrays["scales"] = self.scales
        return arrays

    @classmethod
    def restore(cls, words: Sequence[str], arrays: dict[str, NDArray[Any]], info: dict[str, Any]) -> WordVectors:
        """A table of what was saved of it. Raises BadInput for pieces of words, as version 0.1 saved them."""
        if "tokenizer" in arrays:
            raise BadInput("its rows are of word pieces", expected="words: resift vectors convert of the static model")
        return cls(words, arrays["vectors"], arrays["weights"], arrays.get("scales"), info)

    def save(self, folder: str | Path) -> Path:
        """Write the folder, whole or not at all (an existing one is replaced)."""
        return write_folder(folder, "vectors.json", self.info, self.words, self.arrays())

    @classmethod
    def load(cls, folder: str | Path) -> WordVectors:
        """Read a folder that :meth:`save` wrote.

        Raises ModelNotFound where there is none, CorruptModel where its content is not what was saved.
        """
        info, words, arrays = read_folder(folder, "vectors.json")
        with corrupt_model_errors(folder):
            return cls.restore(words, arrays, info)
