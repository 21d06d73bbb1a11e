"""The static fuzzy bag of words with word counts, as equation 6 of Muffo et al. (2021) defines it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from resift.arrays import Floats
from resift.vectors.table import WordVectors


class FuzzyCounts:
    """A retrieval system that represents a text by a static fuzzy bag of words (SFBoW) with word counts.

    The memberships of a word are the numbers of its weighted vector, multiplied by the number of occurrences of the
    word in the text. The vector of the text contains the largest membership of its words in each dimension, but at
    least 0. Resift's own encoder ``sfbow`` ignores the number of occurrences. It may also compare words with a universe
    (a set of other vectors), whereas the universe of this baseline is the identity matrix.

    Args:
        table: The word vectors and their weights.

    Source:
        Muffo et al. 2021, eqs. 6 and 10.
    """

    similarity = "jaccard"

    def __init__(self, table: WordVectors) -> None:
        self.table = table

    def fit(self, documents: Sequence[str]) -> Floats:
        """Return the vectors of the documents to search.

        The word vectors are fixed, so nothing is fitted. The method exists because each system has a method ``fit``.

        Args:
            documents: The texts of the N documents.

        Returns:
            Vectors of shape (N, D) for D dimensions, float32.
        """
        return self.encode_queries(documents)

    def encode_queries(self, texts: Sequence[str]) -> Floats:
        """Encode texts, such as queries, as static fuzzy bags of words.

        Args:
            texts: The n texts.

        Returns:
            Vectors of shape (n, D) for D dimensions, float32. The vector of a text without known words is zero.
        """
        vectors = np.zeros((len(texts), self.table.dim), np.float32)
        ids, starts = self.table.ids(texts)
        for vector, start, end in zip(vectors, starts[:-1], starts[1:], strict=True):
            if start < end:
                words, counts = np.unique(ids[start:end], return_counts=True)
                memberships = self.table.rows(words) * (self.table.weights[words] * counts)[:, None]
                np.maximum(memberships.max(axis=0), 0, out=vector)
        return vectors
