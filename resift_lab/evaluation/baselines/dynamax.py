"""DynaMax (Zhelezniak et al. 2019), a similarity of sentence pairs that compares their words with each other."""

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

# weight of an out-of-vocabulary word, as a fraction of the weight of a rare word; chosen on STS 2012
_UNKNOWN = 0.25


class DynaMax:
    """A baseline that compares two sentences by :func:`dynamax` of their weighted word vectors.

    A word without a vector, such as a name, is similar only to the same word in the other sentence.

    Args:
        table: The word vectors and their weights.
    """

    similarity = "dynamax"

    def __init__(self, table: WordVectors) -> None:
        self.table = table

    def fit(self, documents: Sequence[str]) -> Floats:
        """Raise an error, because DynaMax compares pairs of sentences and has no vectors of single documents.

        Raises:
            BadInput: Always.
        """
        raise BadInput("dynamax has no vectors of documents", value="dynamax", expected="sentence pairs (eval sts)")

    queries = fit

    def pairs(self, left: Sequence[str], right: Sequence[str]) -> NDArray[np.float64]:
        """Return the similarity of each text with the text at the same position in another list.

        Args:
            left: The first texts of n pairs.
            right: The second texts of the pairs.

        Returns:
            Similarities from 0 to 1, shape (n,).
        """
        return np.array([self._compare(a, b) for a, b in zip(left, right, strict=True)], np.float64)

    def _compare(self, first: str, second: str) -> float:
        """Return the similarity of two texts, in which words without a vector are compared by their spelling."""
        ids, (_, middle, _) = self.table.ids([first, second])
        rows = self.table.weights[ids, None] * self.table.rows(ids)
        unknown_first, unknown_second = self._unknown_words(first), self._unknown_words(second)
        unknown = [*unknown_first, *unknown_second]
        common = set(unknown_first) & set(unknown_second)
        shared = sum(word in common for word in unknown) * self._unknown_square
        return dynamax(rows[:middle], rows[middle:], (shared, len(unknown) * self._unknown_square))

    def _unknown_words(self, text: str) -> list[str]:
        """Return the words of a text that have no vector, in order and with repetitions, except function words."""
        return [word for word in tokenize(text) if self.table.index[word] < 0 and word not in FUNCTION_WORDS]

    @cached_property
    def _unknown_square(self) -> float:
        """The contribution of a shared word without a vector to the similarity of two texts.

        Such a word is treated as if it had a word vector of average length. The contribution is the squared length of
        this vector after weighting.
        """
        square = float(np.square(self.table.rows(slice(FREQUENT_WORDS))).sum(axis=1).mean())
        return (_UNKNOWN * self.table.unknown_weight) ** 2 * square


def dynamax(first: NDArray[Any], second: NDArray[Any], exact: tuple[float, float] = (0.0, 0.0)) -> float:
    """Return the fuzzy Jaccard similarity of two texts.

    The universe contains the words of both texts. The membership of a text in a word of the universe is the largest
    inner product of the text's words with this word, at least 0. The similarity is the sum of the smaller memberships
    divided by the sum of the larger memberships.

    Args:
        first: Vectors of the m words of the first text, shape (m, D) for D dimensions.
        second: Vectors of the n words of the second text, shape (n, D).
        exact: Summands for words without a vector, which are similar only to themselves: the first is added to the sum
            of the smaller memberships, the second to the sum of the larger memberships.

    Returns:
        The similarity, in [0, 1]. It is 0 if neither text has any word.

    Source:
        Zhelezniak et al. 2019; Muffo et al. 2021, eqs. 7 and 8.
    """
    universe = np.concatenate([first, second])
    shared, total = exact
    a, b = ((words @ universe.T).max(axis=0, initial=0) for words in (first, second))
    shared, total = shared + float(np.minimum(a, b).sum()), total + float(np.maximum(a, b).sum())
    return shared / total if total > 0 else 0.0
