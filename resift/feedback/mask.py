"""The session's mask: Algorithm 2 of Passalis and Tefas (2018), on the documents that a session judged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats

FUZZINESS = 0.1
ITERATIONS = 20
RATE = 0.01
_TINY = 1e-300  # keeps logarithms and quotients of an empty cluster finite
_BETA_FIRST, _BETA_SECOND, _EPSILON = 0.9, 0.999, 1e-8
_CLASSES = np.array([[0], [1]])
Entropy = Callable[[NDArray[Any]], tuple[float, NDArray[np.float64]]]


def spherical_entropy(
    vectors: NDArray[Any], labels: NDArray[np.int64], centres: NDArray[Any], fuzziness: float
) -> Entropy:
    """The entropy, in nats, of two soft clusters on the sphere, and its gradient, as a function of the mask (K,).

    ``vectors`` z (N, K) with their classes ``labels`` (N,), 0 or 1; ``centres`` c (2, K) of the clusters;
    ``fuzziness`` m, above 0. What is returned takes a mask (K,) and gives the entropy and its gradient (K,), float64.

    With s = mask ⊙ z and memberships w = softmax(-(1 - cos(s, c)) / m) the entropy is E = -1/N · Σ_jk h_jk · log p_jk,
    where h_jk is how much of class j is in cluster k and p_jk its share of the cluster (Passalis and Tefas 2018,
    eqs. 5-13; the gradient is eqs. 18, 19 and 25).

    With two clusters only the difference of the cosines counts, w_0 = σ((cos_0 - cos_1) / m) = (1 + tanh t) / 2 with
    t = (cos_0 - cos_1) / 2m. Since s · c = mask · (z ⊙ c) and ‖s‖² = mask² · z², a step is four products of a matrix
    with a vector.
    """
    first, second = centres / np.maximum(np.linalg.norm(centres, axis=1, keepdims=True), 1e-12)
    products, squares = vectors * ((first - second) * (0.5 / fuzziness)), vectors * vectors + 1e-24
    member = (labels == _CLASSES).astype(np.float64)
    sizes = member.sum(axis=1)

    def entropy_at(mask: NDArray[Any]) -> tuple[float, NDArray[np.float64]]:
        norms = np.sqrt(squares @ (mask * mask))
        logits = products @ mask / norms
        tanh = np.tanh(logits)
        in_first = (sizes + member @ tanh) / 2
        # by clusters and classes
        held = np.stack([in_first, sizes - in_first])
        logs = np.log(held / (held.sum(axis=1, keepdims=True) + _TINY) + _TINY)
        by_logit = ((logs[1] - logs[0]) / (2 * len(labels))) @ member * (1 - tanh * tanh) / norms
        gradient = by_logit @ products - (logits * by_logit / norms) @ squares * mask
        return -float((held * logs).sum()) / len(labels), gradient

    return entropy_at


def adam(
    start: NDArray[Any], gradient: Callable[[NDArray[Any]], NDArray[Any]], rate: float, iterations: int
) -> NDArray[np.float64]:
    """``start`` after ``iterations`` steps of Adam down a ``gradient`` (Kingma and Ba 2015, Algorithm 1, its β and ε).

    ``gradient`` takes values of the shape of ``start`` and gives its derivatives there, in the same shape.
    """
    value: NDArray[np.float64] = start.astype(np.float64)
    first, second = np.zeros(start.shape), np.zeros(start.shape)
    for step in range(1, iterations + 1):
        derivatives = gradient(value)
        first = _BETA_FIRST * first + (1 - _BETA_FIRST) * derivatives
        second = _BETA_SECOND * second + (1 - _BETA_SECOND) * derivatives * derivatives
        spread = np.sqrt(second / (1 - _BETA_SECOND**step))
        value = value - rate * (first / (1 - _BETA_FIRST**step)) / (spread + _EPSILON)
    return value


def learn_mask(
    relevant: NDArray[Any],
    irrelevant: NDArray[Any],
    fuzziness: float = FUZZINESS,
    iterations: int = ITERATIONS,
    rate: float = RATE,
) -> Floats:
    """The session's mask (K,), float32, at least 0, from relevant (p, K) and irrelevant (q, K) documents' vectors.

    Algorithm 2: the classes' means are the two clusters' centres, the mask starts at 1, and ``iterations`` steps of
    Adam with learning ``rate`` lower the entropy (:func:`spherical_entropy`). Without documents of both kinds there is
    no entropy to lower, and the mask stays 1.
    """
    ones = np.ones(np.shape(relevant)[1], np.float32)
    if not len(relevant) or not len(irrelevant):
        return ones
    vectors = np.concatenate([relevant, irrelevant]).astype(np.float64)
    labels = np.repeat(_CLASSES, (len(relevant), len(irrelevant)))
    centres = (labels == _CLASSES).astype(np.float64).dot(vectors)  # sums: a cosine does not see their lengths
    entropy = spherical_entropy(vectors, labels, centres, fuzziness)
    mask = adam(ones, lambda mask: entropy(mask)[1], rate, iterations)
    return np.asarray(np.maximum(mask, 0), np.float32)
