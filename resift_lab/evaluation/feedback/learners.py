"""Feedback methods that a search can use: the methods of the product, and three methods for comparison."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.feedback.feedback import Feedback
from resift.feedback.judgements import JudgedDocument
from resift.feedback.methods import METHODS, Method
from resift.feedback.rocchio import rocchio_shift


class RocchioFeedback(Feedback):
    """Feedback that moves query vectors by Rocchio's formula instead of a ridge regression."""

    @cached_property
    def shift(self) -> Floats:
        """The vector that is added to a query vector of length 1, shape (K,) for K dimensions, float32."""
        return rocchio_shift(self.vectors, self.grades)

    def transform_query(self, query: NDArray[Any]) -> Floats:
        """Return the query vector plus its length times :attr:`shift`, shape (K,), float32.

        The result is not scaled back to the length of the query vector.
        """
        if self.for_query is not self:
            return self.for_query.transform_query(query)
        length = float(np.linalg.norm(query)) or 1.0
        return np.asarray(query + length * self.shift, np.float32)


LEARNERS: dict[str, tuple[type[Feedback], Method]] = {
    **{name: (Feedback, method) for name, method in METHODS.items()},
    "ridge": (Feedback, Method(ridge=True)),
    "rocchio": (RocchioFeedback, Method()),
    "mask+rocchio": (RocchioFeedback, Method(masked=True)),
}
"""Class and settings of each feedback method, by name."""


def learn_feedback(
    name: str,
    judged: Sequence[JudgedDocument],
    dim: int,
    idf: Callable[[str], float],
    known_share: Callable[[str], float] | None = None,
) -> Feedback:
    """Learn from judged documents with the method ``name`` of :data:`LEARNERS`.

    Args:
        name: Name of the method.
        judged: The judged documents.
        dim: Number of dimensions of their vectors.
        idf: Function that returns the inverse document frequency of a word.
        known_share: Function that takes a text and returns the share of its words that its vector represents, from
            0 to 1. None means that vectors represent all words.
    """
    learner, method = LEARNERS[name]
    return learner.from_judged(judged, dim, idf, method, known_share)
