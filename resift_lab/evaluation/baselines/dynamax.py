"""DynaMax (Zhelezniak et al. 2019): sentence pairs compared word by word."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.encoders.model import FREQUENT_WORDS
from resift.errors import BadInput
from resift.text import FUNCTION_WORDS, tokenize
from resift.vectors.table import WordVectors

# of the weight of a rare word, what a word without a row has beside the others of two texts; chosen on STS 2012
_UNKNOWN = 0.25


class DynaMax:
    """Sentence pairs by :func:`dynamax` of their words' weighted rows in a ``table``; words without a row, such as
    names, are compared with themselves alone."""

    similarity = "dynamax"

    def __init__(self, table: WordVectors) -> None:
        self.table = table

    def fit(self, documents: Sequence[str]) -> Floats:
        """There is no vector of a text alone: raises BadInput."""
        raise BadInput("dynamax has no vectors of documents", value="dynamax", expected="sentence pairs (eval sts)")

    queries = fit

    def pairs(self, left: Sequence[str], right: Sequence[str]) -> NDArray[np.float64]:
        """Similarity of each of ``left`` with the same of ``right``, (n,), in [0, 1]."""
        return np.array([self._compare(a, b) for a, b in zip(left, right, strict=True)], np.float64)

    def _compare(self, first: str, second: str) -> float:
        ids, (_, middle, _) = self.table.ids([first, second])
        rows = self.table.weights[ids, None] * self.table.rows(ids)
        unknown, others = self._unknown_words(first), self._unknown_words(second)
        both = set(unknown) & set(others)
        shared = sum(word in both for word in (*unknown, *others)) * self._unknown_square
        return dynamax(rows[:middle], rows[middle:], (shared, (len(unknown) + len(others)) * self._unknown_square))

    def _unknown_words(self, text: str) -> list[str]:
        """The words of a text without a row, in order, repeated ones too."""
        return [word for word in tokenize(text) if self.table.index[word] < 0 and word not in FUNCTION_WORDS]

    @cached_property
    def _unknown_square(self) -> float:
        """The product of a word without a row with itself, as that of one whose row has the usual length."""
        square = float(np.square(self.table.rows(slice(FREQUENT_WORDS))).sum(axis=1).mean())
        return (_UNKNOWN * self.table.unknown_weight) ** 2 * square


def dynamax(first: NDArray[Any], second: NDArray[Any], exact: tuple[float, float] = (0.0, 0.0)) -> float:
    """Fuzzy Jaccard of two texts' words, ``first`` (m, D) and ``second`` (n, D), in [0, 1].

    The universe is the words of both; a text's membership in each is the largest product of its words with it, not
    below 0 (DynaMax, Zhelezniak et al. 2019; Muffo et al. 2021, eqs. 7 and 8). ``exact`` is what words without a row,
    which are alike to themselves alone, add to the sums of minima and of maxima. Without any word it is 0.
    """
    universe = np.concatenate([first, second])
    shared, total = exact
    a, b = ((words @ universe.T).max(axis=0, initial=0) for words in (first, second))
    shared, total = shared + float(np.minimum(a, b).sum()), total + float(np.maximum(a, b).sum())
    return shared / total if total > 0 else 0.0
