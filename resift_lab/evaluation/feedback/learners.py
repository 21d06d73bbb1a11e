"""Learners of feedback by name: the product's methods, and the others that a served search can learn by."""

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
    """Feedback that moves queries by Rocchio's formula in place of a ridge regression."""

    @cached_property
    def shift(self) -> Floats:
        """The vector (K,), float32, that is added to a query of length 1."""
        return rocchio_shift(self.vectors, self.grades)

    def transform_query(self, query: NDArray[Any]) -> Floats:
        """Return the query (K,), float32, moved by its length times :attr:`shift`; it is not scaled back."""
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


def learn_feedback(
    name: str,
    judged: Sequence[JudgedDocument],
    dim: int,
    idf: Callable[[str], float],
    known_share: Callable[[str], float] | None = None,
) -> Feedback:
    """Learn from judged documents by the method of this name in LEARNERS.

    The other arguments are those of :meth:`resift.feedback.feedback.Feedback.from_judged`.
    """
    learner, method = LEARNERS[name]
    return learner.from_judged(judged, dim, idf, method, known_share)
