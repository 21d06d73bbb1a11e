"""Compare the words of texts by DynaMax, without vectors of whole texts.

The similarity of two texts is :func:`resift.vectors.similarity.dynamax` of their word vectors, times the words'
weights. A word without a vector, such as a name, is similar only to the same word in the other text. Function words
without a vector are left out.

Only the first MAX_WORDS words of a text count. A comparison of texts with m and n words then computes at most (m + n)²
inner products, so its cost is bounded.

Source: Zhelezniak et al. 2019 ("Don't settle for average, go for the max"); Muffo et al. 2021, section 2.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from resift.arrays import Floats
from resift.encoders.model import FREQUENT_WORDS
from resift.text import FUNCTION_WORDS, tokenize
from resift.vectors.similarity import dynamax
from resift.vectors.table import WordVectors

MAX_WORDS = 100
"""Number of words at the beginning of a text that are compared."""

MAX_HITS = 100
"""Number of hits of a search that are compared with the query."""

_READ_CHARACTERS = 20 * MAX_WORDS  # of a text, so that the time does not depend on its length
# Default weight of a word without a vector, as a fraction of the weight of a rare word. Chosen on STS 2012.
_UNKNOWN = 0.25


class _Words(NamedTuple):
    """The words of a text, as :class:`DynaMax` compares them.

    Attributes:
        rows: The weighted vectors of the words that have a vector, of shape (n_words, n_dimensions).
        unknown: The words without a vector, with repetitions, except function words.
    """

    rows: Floats
    unknown: list[str]


class DynaMax:
    """Compares texts by the DynaMax similarity, which is computed from the vectors of all their words.

    Unlike a cosine of two text vectors, the similarity considers each pair of words. The result is from 0 to 1.

    Args:
        table: The word vectors and their weights.
        unknown: The weight of a word without a vector, as a fraction of the weight of a rare word. 0 leaves out words
            without a vector, as Zhelezniak et al. (2019) do.
    """

    similarity = "dynamax"

    def __init__(self, table: WordVectors, unknown: float = _UNKNOWN) -> None:
        self.table = table
        self._unknown = unknown

    def scores(self, query: str, documents: Sequence[str]) -> Floats:
        """Return the DynaMax similarity between a query and each document.

        Args:
            query: The text of the query.
            documents: The texts of the documents.

        Returns:
            Float32 array of shape (n_documents,), with values from 0 to 1.
        """
        words = self._words(query)
        return np.array([self._similarity(words, self._words(text)) for text in documents], np.float32)

    def _words(self, text: str) -> _Words:
        """Split a text into words, and look up their weighted vectors. Only the first MAX_WORDS words are read."""
        words = tokenize(text[:_READ_CHARACTERS])[:MAX_WORDS]
        rows = [self.table.index[word] for word in words]
        ids = np.array([row for row in rows if row >= 0], np.int64)
        unknown = [word for word, row in zip(words, rows, strict=True) if row < 0 and word not in FUNCTION_WORDS]
        return _Words(self.table.weights[ids, None] * self.table.rows(ids), unknown)

    def _similarity(self, first: _Words, second: _Words) -> float:
        """Return the DynaMax similarity of two texts, from 0 to 1, given their words."""
        unknown = [*first.unknown, *second.unknown]
        common = set(first.unknown) & set(second.unknown)
        shared = sum(word in common for word in unknown) * self._unknown_word_contribution
        return dynamax(first.rows, second.rows, (shared, len(unknown) * self._unknown_word_contribution))

    @cached_property
    def _unknown_word_contribution(self) -> float:
        """The contribution of a shared word without a vector to the similarity of two texts.

        Such a word is treated as if it had a word vector of average length. The contribution is the squared length of
        this vector after weighting.
        """
        square = float(np.square(self.table.rows(slice(FREQUENT_WORDS))).sum(axis=1).mean())
        return (self._unknown * self.table.unknown_weight) ** 2 * square
