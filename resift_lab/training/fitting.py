"""Fitting of word vectors and weights to text vectors from a teacher.

The targets are vectors of whole texts, computed by a transformer. Training changes the vectors and the logarithms of
the weights of single words so that the weighted sum of a text's word vectors has a high cosine with the text's target.
The gradient is derived by hand. Adam updates only the words of a batch. Needs only NumPy and SciPy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift_lab.training.adam import Adam, rate_factor
from resift_lab.training.documents import used_columns
from resift_lab.training.progress import Progress

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

_TINY = np.float32(1e-9)


@dataclass(frozen=True)
class FitOptions:
    """Settings of :func:`fit_rows`, which trains word vectors to predict the vectors of texts.

    Attributes:
        epochs: The number of passes over the texts.
        batch: The number of texts per step.
        rate: Adam's initial learning rate for the word vectors. It falls to 2 % of this value during the training.
        weight_rate: Adam's initial learning rate for the logarithms of the word weights, which falls in the same way.
        seed: The seed of the order of the texts.
    """

    epochs: int = 4
    batch: int = 256
    rate: float = 2e-3
    weight_rate: float = 2e-2
    seed: int = 0


def fit_rows(
    counts: csr_matrix,
    targets: Floats,
    rows: Floats,
    weights: Floats,
    options: FitOptions | None = None,
    progress: Progress | None = None,
) -> tuple[Floats, Floats]:
    """Train word vectors and weights so that the weighted sum of a text's words has a high cosine with a target vector.

    The result is the same for each call with the same arguments on the same machine. The arguments are not changed.

    Args:
        counts: The frequency of each of the V words in each of the n texts, shape (n, V). Texts without words are
            ignored.
        targets: The target vector of each text, a unit vector, shape (n, D).
        rows: The initial vectors of V words with D dimensions, shape (V, D).
        weights: The initial word weights, shape (V,).
        options: The settings of the training.
        progress: A function that is called with the number of finished steps and the total number.

    Returns:
        The trained word vectors, shape (V, D), and weights, shape (V,).
    """
    options = options or FitOptions()
    rng = np.random.default_rng(options.seed)
    usable = np.flatnonzero(np.diff(counts.indptr))
    table = np.array(rows, np.float32)
    log_weights = np.log(np.maximum(weights, _TINY)).astype(np.float32)
    row_adam, weight_adam = Adam(table, options.rate), Adam(log_weights, options.weight_rate)
    steps_per_epoch = -(-len(usable) // options.batch)
    total = options.epochs * steps_per_epoch
    for step in range(total):
        start = step % steps_per_epoch * options.batch
        if start == 0:
            order = rng.permutation(usable)
        chosen = order[start : start + options.batch]
        words, word_counts = used_columns(counts[chosen])
        _, by_row, by_log = cosine_gradients(word_counts, targets[chosen], table[words], log_weights[words])
        remaining = rate_factor(step, total)
        row_adam.update(words, by_row, step + 1, remaining)
        weight_adam.update(words, by_log, step + 1, remaining)
        if progress:
            progress(step + 1, total)
    return table, np.exp(log_weights)


def cosine_gradients(
    counts: csr_matrix, targets: Floats, rows: Floats, log_weights: Floats
) -> tuple[float, Floats, NDArray[np.float32]]:
    """Compute the loss of a batch of n texts and its gradients.

    The loss of a text is 1 - the cosine of the text's target and the weighted sum of its word vectors.

    Args:
        counts: The frequency of each of the U words of the batch in each text, shape (n, U).
        targets: The target vector of each text, a unit vector of D dimensions, shape (n, D).
        rows: The word vectors, shape (U, D).
        log_weights: The logarithms of the word weights, shape (U,).

    Returns:
        The mean loss, its gradient with respect to ``rows``, shape (U, D), and its gradient with respect to
        ``log_weights``, shape (U,).
    """
    weights = np.exp(log_weights)[:, None]
    sums = counts @ (rows * weights)
    lengths = np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), _TINY)
    units = sums / lengths
    cosines = (units * targets).sum(axis=1, keepdims=True)
    # Gradient through the normalisation: a change in the direction of a unit vector has no effect.
    by_sum = (cosines * units - targets) / (lengths * np.float32(len(targets)))
    by_row = counts.T @ by_sum * weights
    return 1 - float(cosines.mean()), np.asarray(by_row, np.float32), (by_row * rows).sum(axis=1)
