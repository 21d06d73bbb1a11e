"""Relevance feedback: what a session's judged documents change about its next searches.

Two things are learned from a handful of judged documents, and no document is encoded again. A *mask* weights the
dimensions (Passalis and Tefas 2018, Algorithm 2): spherical entropy with one centre for the relevant and one for the
irrelevant documents is lowered by Adam. *Rocchio* moves the query towards the relevant and away from the irrelevant
ones. A hit's similarity is then that of mask ⊙ query with mask ⊙ document.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.similarity import unit_rows
from resift.vectors import Floats

FUZZINESS = 0.1
ITERATIONS = 20
RATE = 0.01
ROCCHIO = (1.0, 0.8, 0.2)
GRADES = {"relevant": 1.0, "irrelevant": -1.0, "clicked": 0.5, "skipped": -0.25, "neutral": 0.0}


@dataclass(frozen=True)
class Judgement:
    """One judgement of a session: a document of an index, its ``grade``, and the query and time it was made at.

    Grades are those of GRADES: 1 and -1 are explicit marks, fractions implicit ones (a hit that was clicked, or was
    skipped on the way to a click), 0 takes earlier ones back. ``at`` is in Unix seconds; judgements of one ``step``
    are undone together.
    """

    index: str
    document: str
    grade: float
    query: str = ""
    at: float = 0.0
    step: int = 1


@dataclass(frozen=True)
class Judged:
    """A judgement that counts, with what is learned from: the document's ``vector`` (K,) and its ``text``."""

    judgement: Judgement
    vector: Floats
    text: str


def standing(judgements: Sequence[Judgement]) -> list[Judgement]:
    """The judgements that count, at most one a document, in the order in which their documents were first judged.

    The latest counts, but a click or a skip does not replace an explicit mark, nor a skip a click.

    >>> marks = [Judgement("i", "a", 1), Judgement("i", "b", -0.25), Judgement("i", "a", 0.5), Judgement("i", "b", 0.5)]
    >>> [(judgement.document, judgement.grade) for judgement in standing(marks)]
    [('a', 1), ('b', 0.5)]
    """
    latest: dict[tuple[str, str], Judgement] = {}
    for judgement in judgements:
        key = (judgement.index, judgement.document)
        known = abs(latest[key].grade) if key in latest else 0
        if not judgement.grade or abs(judgement.grade) >= 1 or abs(judgement.grade) >= known:
            latest[key] = judgement
    return [judgement for judgement in latest.values() if judgement.grade]


Entropy = Callable[[NDArray[Any]], tuple[float, NDArray[np.float64]]]


def spherical_entropy(
    vectors: NDArray[Any], labels: NDArray[np.int64], centres: NDArray[Any], fuzziness: float
) -> Entropy:
    """Entropy of the soft clusters around ``centres``, in nats, and its gradient, as a function of the mask (K,).

    ``vectors`` z (N, K), ``labels`` (N,) class of each, ``centres`` c (T, K), ``fuzziness`` m. With s = mask ⊙ z and
    w = softmax(-(1 - cos(s, c)) / m) it is E = -1/N · Σ_jk h_jk · log p_jk, h_jk being the weight of class j in
    cluster k and p_jk its share (Passalis and Tefas 2018, eqs. 5-13; the gradient is eqs. 18, 19 and 25). Since
    s · c = mask · (z ⊙ c) and ‖s‖² = mask² · z², each step is a few products of a matrix with a vector.
    """
    count, dim = vectors.shape
    units = centres / np.maximum(np.linalg.norm(centres, axis=1, keepdims=True), 1e-12)
    products, squares = (vectors[:, None] * units).reshape(-1, dim), vectors**2
    member = np.eye(labels.max() + 1)[:, labels]

    def at(mask: NDArray[Any]) -> tuple[float, NDArray[np.float64]]:
        norms = np.maximum(np.sqrt(squares @ mask**2), 1e-12)[:, None]
        cos = (products @ mask).reshape(count, -1) / norms
        w = np.exp((cos - cos.max(axis=1, keepdims=True)) / fuzziness)
        w /= w.sum(axis=1, keepdims=True)
        h = member @ w
        log_p = np.log(np.maximum(h / np.maximum(w.sum(axis=0), 1e-300), 1e-300))
        by_w = -log_p[labels] / count
        by_cos = w * (by_w - (w * by_w).sum(axis=1, keepdims=True)) / fuzziness / norms
        gradient = by_cos.ravel() @ products - ((by_cos * cos / norms).sum(axis=1) @ squares) * mask
        return float(-(h * log_p).sum() / count), gradient

    return at


def adam(
    start: NDArray[Any], gradient: Callable[[NDArray[Any]], NDArray[Any]], rate: float, iterations: int
) -> NDArray[Any]:
    """Parameters after ``iterations`` steps of Adam (Kingma and Ba 2015, Algorithm 1, its default β and ε)."""
    value: NDArray[np.float64] = start.astype(np.float64)
    first, second = np.zeros(start.shape), np.zeros(start.shape)
    for step in range(1, iterations + 1):
        slope = gradient(value)
        first += 0.1 * (slope - first)
        second += 0.001 * (slope**2 - second)
        value -= first * (rate / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
    return np.asarray(value)


def learn_mask(
    relevant: NDArray[Any],
    irrelevant: NDArray[Any],
    fuzziness: float = FUZZINESS,
    iterations: int = ITERATIONS,
    rate: float = RATE,
) -> Floats:
    """The session's mask (K,), float32, from relevant (p, K) and irrelevant (q, K) documents' vectors.

    Algorithm 2: both classes' means are the centres, and the mask starts at 1. Without documents of both kinds there
    is no entropy to lower, and the mask stays 1. Weights are kept from going below 0.
    """
    ones = np.ones(np.shape(relevant)[1], np.float32)
    if not len(relevant) or not len(irrelevant):
        return ones
    vectors = np.concatenate([relevant, irrelevant]).astype(np.float64)
    labels = np.repeat([0, 1], [len(relevant), len(irrelevant)])
    centres = np.stack([np.mean(relevant, axis=0), np.mean(irrelevant, axis=0)]).astype(np.float64)
    entropy = spherical_entropy(vectors, labels, centres, fuzziness)
    mask = adam(ones, lambda mask: entropy(mask)[1], rate, iterations)
    return np.asarray(np.maximum(mask, 0), np.float32)


@dataclass(frozen=True)
class Feedback:
    """What a session has taught: ``mask`` (K,) and the ``shift`` (K,) that Rocchio adds to a query of length 1."""

    mask: Floats
    shift: Floats

    @classmethod
    def learn(cls, relevant: NDArray[Any], irrelevant: NDArray[Any]) -> Feedback:
        """From the vectors of relevant (p, K) and irrelevant (q, K) documents; either may be empty, shape (0, K)."""
        _, towards, away = ROCCHIO
        shift = np.zeros(np.shape(relevant)[1], np.float32)
        if len(relevant):
            shift += towards * unit_rows(relevant).mean(axis=0)
        if len(irrelevant):
            shift -= away * unit_rows(irrelevant).mean(axis=0)
        return cls(learn_mask(relevant, irrelevant), shift)

    def move(self, query: NDArray[Any]) -> Floats:
        """The query (K,) after Rocchio: q + 0.8 · mean(relevant) - 0.2 · mean(irrelevant), in q's own length.

        (Rocchio 1971, with a weight on the irrelevant documents, which Passalis and Tefas leave at 0.) A query
        without known words, the zero vector, becomes the shift itself.
        """
        size = float(np.linalg.norm(query)) or 1.0
        return np.asarray(query + size * self.shift, np.float32)

    @classmethod
    def of(cls, judged: Sequence[Judged], dim: int) -> Feedback:
        """What a session's judged documents teach, for vectors of ``dim`` dimensions."""
        sides = [[one.vector for one in judged if one.judgement.grade * sign > 0] for sign in (1, -1)]
        return cls.learn(*(np.array(side, np.float32).reshape(-1, dim) for side in sides))
