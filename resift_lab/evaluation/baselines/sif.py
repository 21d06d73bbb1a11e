"""Smooth inverse frequency (Arora et al. 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from resift.arrays import Floats
from resift.encoders.model import Model
from resift.vectors.table import WordVectors
from resift_lab.evaluation.baselines.means import weight_by_rank


class Sif:
    """Smooth inverse frequency (SIF): means of word vectors, in which frequent words have small weights.

    A word of probability p has the weight a / (a + p), where a = 0.001. The probability is estimated from the rank of
    the word in the vocabulary, by Zipf's law. The projection on the first singular vector of the document vectors is
    subtracted from every vector.

    Args:
        vectors: Word vectors, the most frequent words first.

    Source:
        Arora et al. 2017 ("A simple but tough-to-beat baseline for sentence embeddings"), algorithm 1.
    """

    similarity = "cosine"

    def __init__(self, vectors: WordVectors) -> None:
        # "jaccard", because with "cosine" the model would scale vectors to unit length before Sif removes the common
        # direction
        self._model = _RawMean("sif", weight_by_rank(vectors, "sif"), "mean", "jaccard")

    def fit(self, documents: Sequence[str]) -> Floats:
        """Encode the documents, and remove the common direction of their vectors.

        The common direction is the first singular vector of the document vectors.

        Args:
            documents: The texts of the N documents.

        Returns:
            The vectors of the documents without the common direction, shape (N, K) for K dimensions.
        """
        means = self._model.encode(documents)
        _, axes = np.linalg.eigh(means.T.astype(np.float64) @ means)
        self._common = axes[:, -1].astype(np.float32)
        return self._without_common(means)

    def encode_queries(self, texts: Sequence[str]) -> Floats:
        """Encode other texts, such as queries, and remove the common direction that :meth:`fit` learned.

        Args:
            texts: The n texts.

        Returns:
            Vectors of shape (n, K) for K dimensions.
        """
        return self._without_common(self._model.encode(texts))

    def _without_common(self, means: Floats) -> Floats:
        return means - (means @ self._common)[:, None] * self._common


class _RawMean(Model):
    """An encoder that adds up the weighted word vectors of a text and divides the sum by the number of words.

    In contrast to other encoders, the result is not scaled to unit length.

    Source:
        Arora et al. 2017, algorithm 1, line 2.
    """

    @cached_property
    def _divisors(self) -> Floats:
        return np.ones(len(self.table), np.float32)
