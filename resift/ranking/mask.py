"""The session's mask: Algorithm 2 of Passalis and Tefas (2018), on the documents that a session judged."""

from __future__ import annotations

import math
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
# arrays where numbers would do: every product with a number converts it first, which shows in arrays this small
_ONE, _FIRST_DECAY, _SECOND_DECAY = map(np.array, (1.0, _BETA_FIRST, _BETA_SECOND))
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
    lengths = np.sqrt(np.einsum("ij,ij->i", centres, centres))
    first, second = (centre / max(length, 1e-12) for centre, length in zip(centres, lengths.tolist(), strict=True))
    products, squares = vectors * ((first - second) * (0.5 / fuzziness)), vectors * vectors + 1e-24
    member = (labels == _CLASSES).astype(np.float64)
    sizes = member.sum(axis=1).tolist()

    def entropy_at(mask: NDArray[Any]) -> tuple[float, NDArray[np.float64]]:
        norms = np.sqrt(squares.dot(mask * mask))
        logits = products.dot(mask)
        logits /= norms
        tanh = np.tanh(logits)
        in_first = [(size + part) / 2 for size, part in zip(sizes, member.dot(tanh).tolist(), strict=True)]
        entropy, by_class = _two_cluster_entropy(in_first, sizes)
        # in place from here on: this runs twenty times within a request
        tanh *= tanh
        by_logit = np.array(by_class).dot(member)
        by_logit *= _ONE - tanh
        by_logit /= norms
        logits *= by_logit
        logits /= norms
        gradient = by_logit.dot(products)
        gradient -= logits.dot(squares) * mask
        return entropy, gradient

    return entropy_at


def _two_cluster_entropy(in_first: list[float], sizes: list[float]) -> tuple[float, list[float]]:
    """The entropy of two clusters, and its derivative by each class's sum of tanh t.

    ``in_first``: how much of each class is in the first cluster; ``sizes``: documents of each class.
    """
    count, first = sum(sizes), sum(in_first)
    entropy, derivatives = 0.0, []
    for size, weight in zip(sizes, in_first, strict=True):
        log_first = math.log(weight / (first + _TINY) + _TINY)
        log_second = math.log((size - weight) / (count - first + _TINY) + _TINY)
        entropy -= weight * log_first + (size - weight) * log_second
        derivatives.append((log_second - log_first) / (2 * count))
    return entropy / count, derivatives


def adam(
    start: NDArray[Any], gradient: Callable[[NDArray[Any]], NDArray[Any]], rate: float, iterations: int
) -> NDArray[np.float64]:
    """``start`` after ``iterations`` steps of Adam down a ``gradient`` (Kingma and Ba 2015, Algorithm 1, its β and ε).

    ``gradient`` takes values of the shape of ``start`` and gives its derivatives there, in the same shape.
    """
    value: NDArray[np.float64] = start.astype(np.float64)
    # sums that Adam's moments are (1 - β) times of; the constants go into the rate, which spares operations on arrays
    first, second = np.zeros(start.shape), np.zeros(start.shape)
    for step in range(1, iterations + 1):
        derivatives = gradient(value)
        first *= _FIRST_DECAY
        first += derivatives
        second *= _SECOND_DECAY
        second += derivatives * derivatives
        first_scale = rate * (1 - _BETA_FIRST) / (1 - _BETA_FIRST**step)
        second_scale = math.sqrt((1 - _BETA_SECOND) / (1 - _BETA_SECOND**step))
        value -= first / (np.sqrt(second) * (second_scale / first_scale) + _EPSILON / first_scale)
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
