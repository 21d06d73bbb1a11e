"""DynaMax (Zhelezniak et al. 2019): sentence pairs compared word by word."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.encoders.model import Model
from resift.errors import BadInput


class DynaMax:
    """Sentence pairs by :meth:`resift.encoders.model.Model.compare_words`."""

    similarity = "dynamax"

    def __init__(self, model: Model) -> None:
        self.model = model

    def fit(self, documents: Sequence[str]) -> Floats:
        """There is no vector of a text alone: raises BadInput."""
        raise BadInput("dynamax has no vectors of documents", value="dynamax", expected="sentence pairs (eval sts)")

    queries = fit

    def pairs(self, left: Sequence[str], right: Sequence[str]) -> NDArray[np.float64]:
        """Similarity of each of ``left`` with the same of ``right``, (n,)."""
        scores = [self.model.compare_words(a, [b])[0] for a, b in zip(left, right, strict=True)]
        return np.array(scores, np.float64)
