"""DynaMax (Zhelezniak et al. 2019) as a baseline for the similarity of sentence pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.encoders.dynamax import DynaMax
from resift.errors import BadInput


class DynaMaxPairs(DynaMax):
    """A baseline that compares two sentences by the DynaMax similarity, from the vectors of all their words."""

    def fit(self, documents: Sequence[str]) -> Floats:
        """Raise an error, because DynaMax compares pairs of sentences and has no vectors of single documents.

        Raises:
            BadInput: Always.
        """
        raise BadInput("dynamax has no vectors of documents", value="dynamax", expected="sentence pairs (eval sts)")

    encode_queries = fit

    def pair_similarities(self, left: Sequence[str], right: Sequence[str]) -> NDArray[Any]:
        """Return the similarity of each text with the text at the same position in another list.

        Args:
            left: The first texts of n pairs.
            right: The second texts of the pairs.

        Returns:
            Similarities from 0 to 1, shape (n,), float64.
        """
        return np.array([self._similarity(self._words(a), self._words(b)) for a, b in zip(left, right, strict=True)])
