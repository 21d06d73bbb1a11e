"""Smooth inverse frequency (Arora et al. 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from resift.arrays import Floats
from resift.encoders.model import Model
from resift.vectors.table import WordVectors
from resift_lab.evaluation.baselines.means import reweighted


class Sif:
    """Smooth inverse frequency (Arora et al. 2017, algorithm 1): words weighted a / (a + p(w)), a = 1e-3.

    p(w) follows from the rank in the word vectors' vocabulary (Zipf). The first singular vector of the documents'
    means is taken off every vector.
    """

    similarity = "cosine"

    def __init__(self, vectors: WordVectors) -> None:
        # "jaccard" keeps the model from bringing vectors to length 1, before the common direction is removed
        self._model = _RawMean("sif", reweighted(vectors, "sif"), "mean", "jaccard")

    def fit(self, documents: Sequence[str]) -> Floats:
        """Learn the common direction; the documents' vectors without it, (N, K)."""
        means = self._model.encode(documents)
        _, axes = np.linalg.eigh(means.T.astype(np.float64) @ means)
        self._common = axes[:, -1].astype(np.float32)
        return self._without_common(means)

    def queries(self, texts: Sequence[str]) -> Floats:
        """Vectors of other texts without the common direction, (n, K)."""
        return self._without_common(self._model.encode(texts))

    def _without_common(self, means: Floats) -> Floats:
        return means - (means @ self._common)[:, None] * self._common


class _RawMean(Model):
    """Σ w · u over the number of words, neither divided by the weights nor brought to length 1 (Arora, eq. 3)."""

    @cached_property
    def _divisors(self) -> Floats:
        return np.ones(len(self.table), np.float32)
