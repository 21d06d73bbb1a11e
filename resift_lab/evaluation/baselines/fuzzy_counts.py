"""The static fuzzy bag of words with word counts, as equation 6 of Muffo et al. (2021) defines it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from resift.arrays import Floats
from resift.vectors.table import WordVectors


class FuzzyCounts:
    """A retrieval system whose text vectors contain the largest membership, times its count, of the text's words.

    Resift's own encoder ``sfbow`` takes each word of a text once, as in a set. Here the membership of a word is
    multiplied by its number of occurrences. The universe is the identity.

    Args:
        table: The word vectors and their weights.

    Source:
        Muffo et al. 2021, eqs. 6 and 10.
    """

    similarity = "jaccard"

    def __init__(self, table: WordVectors) -> None:
        self.table = table

    def fit(self, documents: Sequence[str]) -> Floats:
        """Return the vectors of the documents, shape (N, D). Nothing is learned from them."""
        return self.queries(documents)

    def queries(self, texts: Sequence[str]) -> Floats:
        """Return the vectors of n texts, shape (n, D) for D dimensions. A text without known words has zeros."""
        vectors = np.zeros((len(texts), self.table.dim), np.float32)
        ids, starts = self.table.ids(texts)
        for vector, start, end in zip(vectors, starts[:-1], starts[1:], strict=True):
            if start < end:
                words, counts = np.unique(ids[start:end], return_counts=True)
                memberships = self.table.rows(words) * (self.table.weights[words] * counts)[:, None]
                np.maximum(memberships.max(axis=0), 0, out=vector)
        return vectors
