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
    """Relevance feedback that moves query vectors by Rocchio's formula instead of a ridge regression."""

    @cached_property
    def shift(self) -> Floats:
        """The vector to add to a query vector of unit length, shape (K,) for K dimensions, float32.

        It points towards the relevant and away from the irrelevant documents.
        """
        return rocchio_shift(self.vectors, self.grades)

    def transform_query(self, query: NDArray[Any]) -> Floats:
        """Move a query vector towards the relevant and away from the irrelevant documents.

        Args:
            query: The query vector, shape (K,) for K dimensions.

        Returns:
            The sum of the query vector and :attr:`shift`, multiplied by the length of the query vector, shape (K,),
            float32. The sum is usually longer than the query vector.
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
    """Learn relevance feedback from judged documents.

    Args:
        name: Name of the feedback method, a key of :data:`LEARNERS`.
        judged: The judged documents.
        dim: Number of dimensions of the documents' vectors.
        idf: Function that returns the inverse document frequency of a word.
        known_share: Function that takes a text and returns the share of its words that the embedding model knows, from
            0 to 1. None means that the model knows all words.
    """
    learner, method = LEARNERS[name]
    return learner.from_judged(judged, dim, idf, method, known_share)
