"""Learn a session's mask of the dimensions from the documents that it judged.

Source: Passalis and Tefas 2018, section 3.4, Algorithm 2.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log, sqrt
from operator import mul
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats

FUZZINESS = 0.1
"""Fuzziness m of the cluster memberships."""

ITERATIONS = 20
"""Number of steps of Adam."""

RATE = 0.01
"""Learning rate of Adam."""

_TINY = 1e-300  # keeps logarithms and quotients of an empty cluster finite
_CLASSES = np.array([[0], [1]])

# Constants of Adam
_BETA_1 = 0.9
_BETA_2 = 0.999
_EPSILON = 1e-8

Entropy = Callable[[NDArray[Any]], tuple[float, NDArray[np.float64]]]
"""A function that takes a mask (a weight for each dimension), and returns the entropy and its gradient."""


def spherical_entropy(
    vectors: NDArray[Any], labels: NDArray[np.int64], centres: NDArray[Any], fuzziness: float
) -> Entropy:
    """Return a function that computes the spherical entropy of two soft clusters for a mask of the dimensions.

    The entropy is low if each cluster contains documents of a single class. Let s = mask ⊙ z be the masked vector of a
    document, c the centre of a cluster, and m the fuzziness. The memberships of the document in the two clusters are

        w = softmax(-(1 - cos(s, c)) / m)

    Let h_jk be the sum of the memberships that the documents of class j have in cluster k, and p_jk the share of class
    j in all memberships of cluster k. The entropy of N documents is

        E = -1/N · Σ_jk h_jk · log p_jk

    Args:
        vectors: Vectors z of N documents with K dimensions, shape (N, K).
        labels: Class of each document, 0 or 1, shape (N,).
        centres: Centres c of the clusters, shape (2, K).
        fuzziness: Fuzziness m of the memberships, above 0.

    Returns:
        A function of a mask of shape (K,). It returns the entropy in nats, and its gradient of shape (K,), float64.

    Source:
        Passalis and Tefas 2018, section 3.2, eqs. 5, 6 and 8 to 13. The gradient is the derivative of these equations.
        Appendix A prints a different one: eq. 19 has the additional factor dist(s, c), and eq. 21 has l1 norms in place
        of the l2 norms of eq. 8.
    """
    # With two clusters, only the difference of the cosines matters: the membership in the first cluster is
    # (1 + tanh t) / 2 with t = (cos_0 - cos_1) / 2m. Since s · c = mask · (z ⊙ c) and ‖s‖² = mask² · z², an evaluation
    # takes four products of a matrix and a vector.
    first, second = centres / np.maximum(np.linalg.norm(centres, axis=1, keepdims=True), 1e-12)
    products, squares = vectors * ((first - second) * (0.5 / fuzziness)), vectors * vectors + 1e-24
    is_member = (labels == _CLASSES).astype(np.float64)
    class_sizes = is_member.sum(axis=1).tolist()
    in_class_1 = labels == 1

    def entropy_at(mask: NDArray[Any]) -> tuple[float, NDArray[np.float64]]:
        norms = np.sqrt(squares.dot(mask * mask))
        logits = products.dot(mask) / norms
        tanh = np.tanh(logits)
        # Python computes with the four sums h of memberships faster than NumPy.
        h_first = [(size + total) / 2 for size, total in zip(class_sizes, is_member.dot(tanh).tolist(), strict=True)]
        h_second = [size - h for size, h in zip(class_sizes, h_first, strict=True)]
        logs_first, logs_second = ([log(h / (sum(hs) + _TINY) + _TINY) for h in hs] for hs in (h_first, h_second))
        entropy = -sum(map(mul, h_first + h_second, logs_first + logs_second)) / len(labels)
        by_class = [(second - first) / (2 * len(labels)) for first, second in zip(logs_first, logs_second, strict=True)]
        by_logit = np.where(in_class_1, by_class[1], by_class[0]) * (1 - tanh * tanh) / norms
        return entropy, by_logit.dot(products) - (logits * by_logit / norms).dot(squares) * mask

    return entropy_at


def adam(
    start: NDArray[Any], gradient: Callable[[NDArray[Any]], NDArray[Any]], rate: float, iterations: int
) -> NDArray[np.float64]:
    """Minimise a function with the Adam optimiser.

    Args:
        start: The initial values, an array of any shape.
        gradient: A function that returns the gradient at an array of values, in the same shape.
        rate: The learning rate, which is about the size of a step.
        iterations: The number of steps.

    Returns:
        The values after the last step, in the shape of ``start``.

    Source:
        Kingma and Ba 2015, Algorithm 1, with its default β₁, β₂ and ε.
    """
    value: NDArray[np.float64] = start.astype(np.float64)
    first, second = np.zeros(start.shape), np.zeros(start.shape)
    for step in range(1, iterations + 1):
        derivatives = gradient(value)
        first = _BETA_1 * first + (1 - _BETA_1) * derivatives
        second = _BETA_2 * second + (1 - _BETA_2) * (derivatives * derivatives)
        # The corrections of the bias, 1 - β₁ᵗ and 1 - β₂ᵗ, are applied to the rate and ε instead of to both arrays.
        correction = sqrt(1 - _BETA_2**step)
        step_rate = rate * correction / (1 - _BETA_1**step)
        value = value - step_rate * first / (np.sqrt(second) + _EPSILON * correction)
    return value


def learn_mask(
    relevant: NDArray[Any],
    irrelevant: NDArray[Any],
    fuzziness: float = FUZZINESS,
    iterations: int = ITERATIONS,
    rate: float = RATE,
) -> Floats:
    """Learn weights of the dimensions (a mask) that separate relevant from irrelevant documents.

    All weights start at 1, and the Adam optimiser changes them to minimise the entropy of two soft clusters
    (:func:`spherical_entropy`). The centres of the clusters are the mean vectors of the relevant and of the irrelevant
    documents. If there are no relevant or no irrelevant documents, the weights stay 1.

    Args:
        relevant: Vectors of p relevant documents with K dimensions, shape (p, K). p may be 0.
        irrelevant: Vectors of q irrelevant documents, shape (q, K). q may be 0.
        fuzziness: Fuzziness m of the memberships, above 0. With a small value, each document belongs almost entirely to
            the nearer cluster.
        iterations: Number of steps of Adam.
        rate: Learning rate of Adam.

    Returns:
        Array of shape (K,), float32, with values of at least 0.

    Source:
        Passalis and Tefas 2018, section 3.4, Algorithm 2.
    """
    ones = np.ones(np.shape(relevant)[1], np.float32)
    if not len(relevant) or not len(irrelevant):
        return ones
    vectors = np.concatenate([relevant, irrelevant]).astype(np.float64)
    labels = np.repeat(_CLASSES, (len(relevant), len(irrelevant)))
    # Sums in place of means, because the length of a centre does not change its cosines.
    centres = (labels == _CLASSES).astype(np.float64).dot(vectors)
    entropy = spherical_entropy(vectors, labels, centres, fuzziness)
    mask = adam(ones, lambda mask: entropy(mask)[1], rate, iterations)
    return np.asarray(np.maximum(mask, 0), np.float32)
