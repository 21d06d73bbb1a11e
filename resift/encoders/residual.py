"""EmBoost's retrieval networks over a table of word vectors, run by numpy (Cakaloglu et al. 2022, section 3.3).

With x_1 … x_k a text's rows times their words' weights, a text is o = s · X″ + mean(x), at length 1 (eqs. 6 and 7):

=========  ==========================================================================
``fcrr``   X″ = relu(Wᵀ mean(x) + b), a fully connected layer
``convrr`` X″ = mean over i of relu(Σ_t W_tᵀ x_{i+t} + b), a convolution over five words
=========  ==========================================================================

Words beyond a text's ends count as zeros. One source of the words' rows is their spelling (``SPELLING``: dimensions
and weight, see :func:`resift_lab.vectors.mixture.mix_vectors`). :mod:`resift_lab.training.emboost` learns W and b.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.encoders.model import Model
from resift.errors import BadInput, DimensionMismatch
from resift.vectors.similarity import unit_rows
from resift.vectors.table import WordVectors

NETWORKS = ("fcrr", "convrr")
WINDOW, SCALE = 5, 0.05
SPELLING = (256, 0.6)


class Residual(Model):
    """A mean of word vectors and a learned residual. ``kernels`` (1 or 5, D, D), ``bias`` (D,), ``scale`` s."""

    kind = "residual"

    def __init__(self, name: str, table: WordVectors, kernels: NDArray[Any], bias: NDArray[Any], scale: float) -> None:
        super().__init__(name, table, "mean", "cosine")
        if not np.isfinite(scale):
            raise BadInput(f"scale is {scale}", value=scale, expected="a finite number")
        taps = 1 if name == "fcrr" else WINDOW
        if kernels.shape != (taps, table.dim, table.dim) or bias.shape != (table.dim,):
            raise DimensionMismatch(
                f"kernels of {kernels.shape}, bias of {bias.shape}", expected=f"{(taps, table.dim, table.dim)}"
            )
        self.kernels, self.bias, self.scale = np.asarray(kernels), np.asarray(bias, np.float32), scale

    @property
    def is_plain_mean(self) -> bool:
        return False

    def _encode(self, texts: Sequence[str]) -> Floats:
        ids, offsets = self.table.ids(texts)
        found = np.zeros((len(texts), self.dim), np.float32)
        for row, (start, end) in enumerate(pairwise(offsets)):
            if end > start:
                found[row] = self._text(self._factors[ids[start:end], None] * self._matrix[ids[start:end]])
        return unit_rows(found)

    def _text(self, words: Floats) -> Floats:
        mean: Floats = words.mean(axis=0)
        inputs = mean[None] if len(self.kernels) == 1 else words
        half = len(self.kernels) // 2
        padded = np.pad(inputs, ((half, half), (0, 0)))
        summed = sum(padded[tap : tap + len(inputs)] @ kernel for tap, kernel in enumerate(self.kernels))
        return np.asarray(mean + np.float32(self.scale) * np.maximum(summed + self.bias, 0).mean(axis=0))

    @classmethod
    def restore(cls, info: dict[str, Any], table: WordVectors, arrays: dict[str, NDArray[Any]]) -> Residual:
        """A saved model from the settings, the word table and the arrays of its folder."""
        return cls(info["name"], table, arrays["kernels"], arrays["bias"], info["network"]["scale"])

    def _info(self) -> dict[str, Any]:
        return {**super()._info(), "network": {"kind": self.name, "scale": self.scale}}

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {**super()._arrays(), "kernels": self.kernels, "bias": self.bias}
