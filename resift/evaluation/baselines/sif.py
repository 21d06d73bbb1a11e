"""Smooth inverse frequency (Arora et al. 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.encoders.model import Model
from resift.vectors.table import WordVectors, weights_by_rank


class Sif:
    """Smooth inverse frequency (Arora et al. 2017, algorithm 1): words weighted a / (a + p(w)), a = 1e-3.

    p(w) follows from the rank in the word vectors' vocabulary (Zipf). The first singular vector of the documents'
    means is taken off every vector.
    """

    similarity = "cosine"

    def __init__(self, vectors: WordVectors) -> None:
        table = _reweighted(vectors, weights_by_rank(len(vectors), "sif"))
        self._model = _RawMean("sif", table, "mean", "jaccard")

    def fit(self, documents: Sequence[str]) -> Floats:
        """Learn the common direction."""
        means = self._model.encode(documents)
        _, axes = np.linalg.eigh(means.T.astype(np.float64) @ means)
        self._common = axes[:, -1].astype(np.float32)
        return self._remove(means)

    def queries(self, texts: Sequence[str]) -> Floats:
        """Means without the common direction."""
        return self._remove(self._model.encode(texts))

    def _remove(self, means: Floats) -> Floats:
        return means - (means @ self._common)[:, None] * self._common


class _RawMean(Model):
    """sum(w · u) over the number of words, neither divided by the weights nor brought to length 1 (SIF, eq. 3)."""

    @cached_property
    def _divisors(self) -> Floats:
        return np.ones(len(self.table), np.float32)


def _reweighted(vectors: WordVectors, weights: NDArray[Any]) -> WordVectors:
    return WordVectors(vectors.words, vectors.matrix, weights, vectors.scales, vectors.info)
