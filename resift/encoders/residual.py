"""Encode texts with EmBoost's retrieval networks, in NumPy.

With x_1 … x_k the word vectors of a text times the words' weights, the vector of the text is

    o = s · X″ + mean(x), scaled to unit length,

where s is a constant factor (the argument ``scale`` of :class:`Residual`), and X″ depends on the network:

=========  ===========================================================================
network    X″
=========  ===========================================================================
``fcrr``   relu(Wᵀ · mean(x) + b): a fully connected layer
``convrr`` mean over i of relu(Σ_t W_tᵀ · x_{i+t} + b): a convolution over five words
=========  ===========================================================================

A network may have several such layers in a row, each with its own W and b. The mean follows the last layer. Words
beyond the ends of a text count as zeros in each layer. :mod:`resift_lab.training.emboost` trains W and b.

Source: Cakaloglu et al. 2022 ("EmBoost"), section 3.3, eqs. 6 and 7.
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
"""Names of the networks."""

WINDOW = 5
"""Number of words that the convolution of ``convrr`` covers."""

SPELLING = (256, 0.6)
"""Dimensions and weight of the spelling vectors that are part of the word vectors of these networks.

See :func:`resift_lab.vectors.mixture.mix_vectors`.
"""


class Residual(Model):
    """An embedding model that adds the output of a small trained network to the mean of the word vectors.

    The network is a fully connected layer (``fcrr``) or a convolution over neighbouring words (``convrr``).

    Args:
        name: The name of the network, ``fcrr`` or ``convrr``.
        table: The word vectors, with D dimensions.
        kernels: The weights of the network, of shape (1, D, D) for ``fcrr`` and (WINDOW, D, D) for ``convrr``. With
            several layers in a row, they have a first axis for the layers: (n_layers, 1, D, D), for example.
        bias: The bias of the network, of shape (D,), or (n_layers, D) with several layers.
        scale: The factor by which the network's output is multiplied.

    Raises:
        BadInput: If the scale is not finite.
        DimensionMismatch: If the kernels or the bias have a wrong shape.
    """

    kind = "residual"

    def __init__(self, name: str, table: WordVectors, kernels: NDArray[Any], bias: NDArray[Any], scale: float) -> None:
        super().__init__(name, table, "mean", "cosine")
        if not np.isfinite(scale):
            raise BadInput(f"scale is {scale}", value=scale, expected="a finite number")
        taps = 1 if name == "fcrr" else WINDOW
        layers = kernels.shape[:1] if kernels.ndim == 4 else ()
        kernels_shape, bias_shape = (*layers, taps, table.dim, table.dim), (*layers, table.dim)
        if kernels.shape != kernels_shape or bias.shape != bias_shape:
            raise DimensionMismatch(
                f"the kernels have the shape {kernels.shape}, the bias {bias.shape}",
                expected=f"{kernels_shape} and {bias_shape}",
            )
        self.kernels, self.bias, self.scale = np.asarray(kernels), np.asarray(bias, np.float32), scale

    @property
    def is_plain_mean(self) -> bool:
        """False, because the vector of a text is the sum of the mean word vector and the output of a network."""
        return False

    def _encode(self, texts: Sequence[str]) -> Floats:
        ids, offsets = self.table.ids(texts)
        vectors = np.zeros((len(texts), self.dim), np.float32)
        for row, (start, end) in enumerate(pairwise(offsets)):
            if end > start:
                vectors[row] = self._encode_words(self._factors[ids[start:end], None] * self._matrix[ids[start:end]])
        return unit_rows(vectors)

    def _encode_words(self, words: Floats) -> Floats:
        """Return the vector of a text: the mean of its word vectors plus the output of the network.

        Args:
            words: The weighted word vectors of the text, of shape (n_words, n_dimensions).

        Returns:
            Array of shape (n_dimensions,).
        """
        mean: Floats = words.mean(axis=0)
        dim = words.shape[1]
        layers = self.kernels.reshape(-1, *self.kernels.shape[-3:])
        hidden, half = mean[None] if layers.shape[1] == 1 else words, layers.shape[1] // 2
        for kernels, bias in zip(layers, self.bias.reshape(-1, dim), strict=True):
            padded = np.pad(hidden, ((half, half), (0, 0)))
            summed = sum(padded[tap : tap + len(hidden)] @ kernel for tap, kernel in enumerate(kernels))
            hidden = np.maximum(summed + bias, 0)
        return np.asarray(mean + np.float32(self.scale) * hidden.mean(axis=0))

    @classmethod
    def restore(cls, info: dict[str, Any], words: Sequence[str], arrays: dict[str, NDArray[Any]]) -> Residual:
        """Create a model from the contents of a saved folder.

        Args:
            info: The settings, as saved in JSON.
            words: The saved words, in the order of their rows.
            arrays: The arrays by name, such as ``kernels``.
        """
        table = WordVectors.restore(words, arrays, info["vectors"])
        return cls(info["name"], table, arrays["kernels"], arrays["bias"], info["network"]["scale"])

    def _info(self) -> dict[str, Any]:
        return {**super()._info(), "network": {"kind": self.name, "scale": self.scale}}

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {**super()._arrays(), "kernels": self.kernels, "bias": self.bias}
