"""Tables of word vectors, with a weight for each word.

A table is saved as a folder with these files:

================  ===========================================================================
``vectors.json``  provenance and content hash
``words.txt``     the words in UTF-8, one per line, most frequent first
``vectors.npy``   the matrix
``weights.npy``   the weights of the words
``scales.npy``    the scales of the rows, for int8 matrices only
================  ===========================================================================

No file is a pickle, so a folder from an untrusted source cannot run code. The files are read into memory, which is
shared by processes that are forked afterwards.
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


class _RowIndex(dict[str, int]):
    """A dictionary from words to row numbers. It returns -1 for unknown words instead of raising a KeyError."""

    def __missing__(self, word: str) -> int:
        return -1


class WordVectors:
    """A vocabulary of V words, with a vector and a weight for each word.

    Words outside the vocabulary have no row. They are ignored when a text is encoded.

    Args:
        words: The V words, as :func:`resift.text.tokenize` returns words, most frequent first.
        matrix: The word vectors, shape (V, D), float32, float16 or int8. An int8 matrix needs ``scales``.
        weights: Weight of each word when the words of a text are pooled, shape (V,). The default is 1.
        scales: Factor of each row of an int8 matrix, shape (V,): the vector is ``matrix[i] * scales[i]``.
        info: Provenance, as JSON, which is saved with the table.

    Attributes:
        index: The row of each word. Unknown words have the row -1.

    Raises:
        BadInput: If there are no words, a word occurs twice, a shape does not fit the number of words, or the dtype
            of the matrix does not fit the scales.
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
                f"{len(words)} words and a matrix of shape {matrix.shape}",
                expected="at least one word, and one row for each word",
            )
        is_int8 = matrix.dtype == np.int8
        if not (is_int8 or matrix.dtype.kind == "f") or is_int8 != (scales is not None):
            raise BadInput(f"matrix of dtype {matrix.dtype}", expected="int8 with scales, or a float without")
        for name, numbers in (("weights", weights), ("scales", scales)):
            if numbers is not None and np.shape(numbers) != (len(words),):
                raise BadInput(f"{name} of shape {np.shape(numbers)}", expected=f"({len(words)},), one for each word")
        self.words = list(words)
        self.matrix = matrix
        self.scales = scales
        self.weights = np.ones(len(words), np.float32) if weights is None else np.asarray(weights, np.float32)
        self.info = dict(info or {})
        self.index = _RowIndex(zip(self.words, range(len(self.words)), strict=True))
        if len(self.index) < len(self.words):
            word = next(word for row, word in enumerate(self.words) if self.index[word] != row)
            raise BadInput(f"the word {word!r} occurs more than once", value=word, expected="distinct words")

    def __len__(self) -> int:
        return len(self.words)

    @property
    def dim(self) -> int:
        """Number of dimensions D."""
        return int(self.matrix.shape[1])

    def rows(self, ids: Any = slice(None)) -> Floats:
        """Return word vectors as float32.

        The vectors of an int8 table are multiplied by their scales.

        Args:
            ids: The row numbers of the words, of shape (n_words,), or a slice. By default, all rows.

        Returns:
            Array of shape (n_words, n_dimensions).
        """
        dense = np.asarray(self.matrix[ids], dtype=np.float32)
        return dense if self.scales is None else dense * self.scales[ids, None]

    def ids(self, texts: Sequence[str]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Split texts into words, and return the row numbers of the known words.

        Args:
            texts: The texts to split.

        Returns:
            The row numbers for all texts in a single array, and the positions at which the texts start and end in this
            array, of shape (n_texts + 1,).
        """
        if kernels := loops_for_texts(texts):
            compiled: tuple[NDArray[np.int32], NDArray[np.int64]] = kernels.word_ids(self._lookup, texts)
            return compiled
        tokens = [tokenize(text) for text in texts]
        rows = np.fromiter(map(self.index.__getitem__, chain.from_iterable(tokens)), np.int32)
        known = rows >= 0
        ends = np.cumsum([0, *map(len, tokens)])
        return rows[known], np.concatenate(([0], np.cumsum(known)))[ends]

    @cached_property
    def _lookup(self) -> Any:
        """The hash table of the words, in which compiled code looks up the row numbers of words."""
        return load_loops().build_lookup(self.words)

    @cached_property
    def unknown_weight(self) -> float:
        """The assumed weight of words that are not in the table.

        It is the 99th percentile of all weights, because unknown words are usually rare, and rare words have large
        weights.
        """
        return float(np.quantile(self.weights, 0.99))

    def idf(self, word: str) -> float:
        """Estimate the inverse document frequency of a word from its rank in the table.

        The estimate is log(rank + 2) by Zipf's law, where the rank is the position of the word in the table, counted
        from 0. Unknown words are assumed to be rarer than all known words.

        Args:
            word: The word, in lower case.
        """
        row = self.index[word]
        return math.log((len(self) if row < 0 else row) + 2)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of the table that are saved, by file name without extension."""
        arrays = {"vectors": self.matrix, "weights": self.weights}
        if self.scales is not None:
            arrays["scales"] = self.scales
        return arrays

    @classmethod
    def restore(cls, words: Sequence[str], arrays: dict[str, NDArray[Any]], info: dict[str, Any]) -> WordVectors:
        """Create a table from the contents of a saved folder.

        Args:
            words: The words, in the order of their vectors.
            arrays: The arrays by name, as returned by :meth:`arrays`.
            info: Information about the origin of the vectors.
        """
        return cls(words, arrays["vectors"], arrays["weights"], arrays.get("scales"), info)

    def save(self, folder: str | Path) -> Path:
        """Save the table to a folder.

        The folder is written atomically. If it contains a table, the table is replaced.

        Args:
            folder: The path of the folder.

        Returns:
            The path of the folder.

        Raises:
            BadInput: If the folder contains other files or cannot be written.
        """
        return write_folder(folder, "vectors.json", self.info, self.words, self.arrays())

    @classmethod
    def load(cls, folder: str | Path) -> WordVectors:
        """Load a table of word vectors from a folder that :meth:`save` wrote.

        Args:
            folder: The path of the folder.

        Raises:
            ModelNotFound: If the folder contains no word vectors.
            CorruptModel: If the files were changed after they were saved.
        """
        info, words, arrays = read_folder(folder, "vectors.json")
        with corrupt_model_errors(folder):
            return cls.restore(words, arrays, info)
