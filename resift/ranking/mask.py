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
_TINY = 1e-300
# as arrays, which spares each call the conversion of a number
_ONE, _KEPT_FIRST, _KEPT_SECOND = map(np.array, (1.0, 0.9, 0.999))
_CLASSES = np.array([[0], [1]])
Entropy = Callable[[NDArray[Any]], tuple[float, NDArray[np.float64]]]


def spherical_entropy(
    vectors: NDArray[Any], labels: NDArray[np.int64], centres: NDArray[Any], fuzziness: float
) -> Entropy:
    """Entropy of the two soft clusters around ``centres``, in nats, and its gradient, as a function of the mask (K,).

    ``vectors`` z (N, K), ``labels`` (N,) class of each, 0 or 1, ``centres`` c (2, K), ``fuzziness`` m. With
    s = mask ⊙ z and w = softmax(-(1 - cos(s, c)) / m) it is E = -1/N · Σ_jk h_jk · log p_jk, h_jk being the weight of
    class j in cluster k and p_jk its share (Passalis and Tefas 2018, eqs. 5-13; the gradient is eqs. 18, 19 and 25).
    Of two clusters only the difference of cosines counts: w_0 = σ((cos_0 - cos_1) / m). Since s · c = mask · (z ⊙ c)
    and ‖s‖² = mask² · z², a step is four products of a matrix with a vector.
    """
    count = len(vectors)
    lengths = np.sqrt(np.einsum("ij,ij->i", centres, centres))
    first, second = (centre / max(length, 1e-12) for centre, length in zip(centres, lengths.tolist(), strict=True))
    products, squares = vectors * ((first - second) * (0.5 / fuzziness)), vectors * vectors + 1e-24
    member = (labels == _CLASSES).astype(np.float64)
    sizes = member.sum(axis=1).tolist()

    def at(mask: NDArray[Any]) -> tuple[float, NDArray[np.float64]]:
        norms = np.sqrt(squares.dot(mask * mask))
        apart = products.dot(mask)
        apart /= norms
        tilt = np.tanh(apart)
        held = [(size + tilted) / 2 for size, tilted in zip(sizes, member.dot(tilt).tolist(), strict=True)]
        value, slopes, total = 0.0, [], sum(held)
        for size, weight in zip(sizes, held, strict=True):
            here = math.log(weight / (total + _TINY) + _TINY)
            there = math.log((size - weight) / (count - total + _TINY) + _TINY)
            value -= weight * here + (size - weight) * there
            slopes.append((there - here) / (2 * count))
        tilt *= tilt
        slope = np.array(slopes).dot(member)
        slope *= _ONE - tilt
        slope /= norms
        apart *= slope
        apart /= norms
        gradient = slope.dot(products)
        gradient -= apart.dot(squares) * mask
        return value / count, gradient

    return at


def adam(
    start: NDArray[Any], gradient: Callable[[NDArray[Any]], NDArray[Any]], rate: float, iterations: int
) -> NDArray[Any]:
    """Parameters after ``iterations`` steps of Adam (Kingma and Ba 2015, Algorithm 1, its default β and ε)."""
    value: NDArray[np.float64] = start.astype(np.float64)
    first, second = np.zeros(start.shape), np.zeros(start.shape)
    for step in range(1, iterations + 1):
        slope = gradient(value)
        first *= _KEPT_FIRST
        first += slope
        second *= _KEPT_SECOND
        second += slope * slope
        rate_now, spread = 0.1 * rate / (1 - 0.9**step), math.sqrt(0.001 / (1 - 0.999**step))
        value -= first / (np.sqrt(second) * (spread / rate_now) + 1e-8 / rate_now)
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
    labels = np.repeat(_CLASSES, (len(relevant), len(irrelevant)))
    centres = (labels == _CLASSES).astype(np.float64).dot(vectors)  # sums: their lengths do not count
    entropy = spherical_entropy(vectors, labels, centres, fuzziness)
    mask = adam(ones, lambda mask: entropy(mask)[1], rate, iterations)
    return np.asarray(np.maximum(mask, 0), np.float32)
