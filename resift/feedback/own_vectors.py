"""How far a session moves queries among vectors or tokens that an index had before us, which may say little."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.feedback.feedback import Feedback
from resift.vectors.similarity import unit_rows

# How many standard deviations marked documents stand out for their query, in a space that tells documents apart by
# meaning, are 2 to 5; in plain means of words' vectors they are at most 2.
_NO_DISTINCTION = 1.5
_HALF_MOVED = 0.6  # the evidence that moves a vector half of the way
_BONUS = 4.0
_MIN_OTHERS = 5  # of fewer, mean and deviation say nothing
ROCCHIO_WEIGHTS = (0.8, 0.2)  # weights of the mean of the relevant and of the irrelevant documents
_MAX_ADDED = 64  # tokens that a query lacks
Tokens = Mapping[str, float]


def strength(evidence: float, half: float = 1.0) -> float:
    """How much of a query, 0 to 1, judgements that weigh so much may decide: e / (h + e), where ``half`` of it is
    theirs from an evidence of h on."""
    return evidence / (half + evidence)


def blended(query: NDArray[Any], transformed: NDArray[Any], part: float) -> Floats:
    """A query's vector (K,) of which ``part``, 0 to 1, is the ``transformed`` one (K,), as long as before, float32.

    It is (1 - part) · query + part · transformed, both at length 1; a zero query is the transformed one itself.
    """
    length = float(np.linalg.norm(query))
    part = part if length else 1.0
    both = (1 - part) * unit_rows(query) + part * unit_rows(transformed)
    return np.asarray((length or 1.0) * unit_rows(both), np.float32)


@dataclass(frozen=True)
class OwnVectors:
    """What the vectors of m judged documents in one field of an index teach.

    ``feedback``: by these vectors at length 1, and with a background of them; ``lengths`` (m,): how long they are.
    """

    feedback: Feedback
    lengths: NDArray[np.float64]

    @cached_property
    def _background(self) -> Floats:
        background = self.feedback.background
        return np.zeros((0, self.dim), np.float32) if background is None else background.vectors

    @property
    def dim(self) -> int:
        """The number of dimensions, K."""
        return int(self.feedback.vectors.shape[1])

    def distinction(self, query: NDArray[Any]) -> float:
        """How well these vectors tell what a query (K,) is about, g, 0 to 1.

        That is clip(z - 1.5, 0, 1), where z is by how many standard deviations the marked documents, relevant or not,
        are more similar to the query than the background is on average: whoever marks them saw them as its hits.
        """
        if len(self._background) < _MIN_OTHERS:
            return 1.0
        direction = unit_rows(query)
        others = self._background @ direction
        distance = (self.feedback.vectors @ direction).mean() - others.mean()
        return float(np.clip(distance / max(float(others.std()), 1e-6) - _NO_DISTINCTION, 0, 1))

    def moved(self, query: NDArray[Any], distinction: float) -> Floats:
        """A query's vector (K,), moved by g · e / (0.6 + e) for an evidence of e; as long as before."""
        part = distinction * strength(self.feedback.evidence, _HALF_MOVED)
        return blended(query, self.feedback.transform_query(query), part)

    def bonus(self, moved: NDArray[Any], distinction: float, space: str) -> float:
        """What relevant documents score more in a list of nearest ones to a ``moved`` vector (K,), 0 or more.

        It is worth 4 (1 - g) standard deviations of the background's cosines, so that marked documents stay on the
        page, and a list that says little has little to say, in the scores of a k-NN ``space``.
        """
        relevant = self.feedback.grades > 0
        if len(self._background) < _MIN_OTHERS or distinction >= 1 or not relevant.any():
            return 0.0
        direction, length = unit_rows(moved), float(np.linalg.norm(moved))
        more = _BONUS * (1 - distinction) * float((self._background @ direction).std())
        if space == "innerproduct":
            return more * length * float(self.lengths[relevant].mean())
        if space != "l2":
            return more / 2
        cosines, lengths = self.feedback.vectors[relevant] @ direction, self.lengths[relevant]
        scores = [
            1 / (1 + np.maximum(length**2 + lengths**2 - 2 * length * lengths * (cosines + extra), 0))
            for extra in (0.0, more)
        ]
        return float((scores[1] - scores[0]).mean())


def rocchio_shift(vectors: Floats, grades: NDArray[np.float64]) -> Floats:
    """Return the vector (K,) that Rocchio's formula adds to a query of length 1.

    It is 0.8 · mean(relevant) - 0.2 · mean(irrelevant). Passalis and Tefas set the second weight to 0.

    Args:
        vectors: The judged documents' vectors (m, K), of length 1.
        grades: The sign and weight of each judgement (m,), not 0.

    Source:
        Rocchio 1971.
    """
    shift = np.zeros(vectors.shape[1])
    for weight, sign in zip(ROCCHIO_WEIGHTS, (1, -1), strict=True):
        weights = np.abs(grades) * (grades * sign > 0)
        # the sum of the weights counts as at least 1, the weight of an explicit judgement
        shift += sign * weight * (weights @ vectors) / max(1.0, float(weights.sum()))
    return np.asarray(shift, np.float32)


def moved_tokens(query: Tokens, documents: Sequence[Tokens], grades: Sequence[float]) -> dict[str, float]:
    """The tokens of a query as judged documents' tokens move them, heaviest first, at the length (l2) of the query's.

    Tokens are the dimensions of vectors, which Rocchio's formula moves of which the query becomes
    e / (1 + e) for an evidence of e. What comes out below 0 is left out, and of tokens that the
    query lacks only the 64 heaviest come in. ``grades``: those of the documents, each not 0.

    >>> moved_tokens({"fire": 1.0}, [{"fire": 1.0, "bush": 1.0}], [1.0])
    {'fire': 0.985, 'bush': 0.1725}
    """
    names = list(dict.fromkeys(token for tokens in (query, *documents) for token in tokens))
    places = {name: place for place, name in enumerate(names)}
    rows = np.zeros((1 + len(documents), len(names)), np.float32)
    for row, tokens in zip(rows, (query, *documents), strict=True):
        row[[places[name] for name in tokens]] = list(tokens.values())
    marks = np.asarray(grades, np.float64)
    length = float(np.linalg.norm(rows[0])) or 1.0
    transformed = rows[0] + length * rocchio_shift(unit_rows(rows[1:]), marks)
    weights = np.maximum(blended(rows[0], transformed, strength(float(np.abs(marks).sum()))), 0)
    added = [place for place, name in enumerate(names) if name not in query]
    weights[sorted(added, key=lambda place: -weights[place])[_MAX_ADDED:]] = 0
    weights = unit_rows(weights) * np.linalg.norm(rows[0])
    order = np.argsort(-weights, kind="stable")
    return {names[place]: round(float(weights[place]), 4) for place in order if weights[place] >= 0.0001}
