"""Word rows and weights such that the weighted mean of a text's rows points where a teacher puts the text.

The targets are vectors that a transformer gave whole texts; what is learned are the rows and log weights of single
words, by the cosine between a text's weighted sum and its target. The gradient is worked out by hand; Adam moves only
what a batch's words touch. Needs NumPy and SciPy alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift_lab.training.adam import Adam, remaining_rate
from resift_lab.training.documents import occurring
from resift_lab.training.progress import Progress

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

_TINY = np.float32(1e-9)


def fit_rows(
    counts: csr_matrix,
    targets: Floats,
    rows: Floats,
    weights: Floats,
    *,
    epochs: int = 4,
    batch: int = 256,
    rate: float = 2e-3,
    weight_rate: float = 2e-2,
    seed: int = 0,
    progress: Progress | None = None,
) -> tuple[Floats, Floats]:
    """``rows`` (V, D) and ``weights`` (V,), trained so that texts' weighted sums of rows point along their targets.

    ``counts`` (n, V): how often each word occurs in each text; texts without a word take no part. ``targets`` (n, D)
    are rows of length 1. ``rate`` and ``weight_rate`` are Adam's for rows and for log weights; they fall to 2 % over
    the ``epochs``. ``progress`` is called with the numbers of steps done and of all. What is given stays as it is; the
    same call on the same machine gives the same result.
    """
    rng = np.random.default_rng(seed)
    usable = np.flatnonzero(np.diff(counts.indptr))
    table = np.array(rows, np.float32)
    log_weights = np.log(np.maximum(weights, _TINY)).astype(np.float32)
    row_adam, weight_adam = Adam(table, rate), Adam(log_weights, weight_rate)
    per_epoch = -(-len(usable) // batch)
    for step in range(total := epochs * per_epoch):
        if (start := step % per_epoch * batch) == 0:
            order = rng.permutation(usable)
        chosen = order[start : start + batch]
        words, held = occurring(counts[chosen])
        _, by_row, by_log = cosine_gradients(held, targets[chosen], table[words], log_weights[words])
        remaining = remaining_rate(step, total)
        row_adam.update(words, by_row, step + 1, remaining)
        weight_adam.update(words, by_log, step + 1, remaining)
        if progress:
            progress(step + 1, total)
    return table, np.exp(log_weights)


def cosine_gradients(
    counts: csr_matrix, targets: Floats, rows: Floats, log_weights: Floats
) -> tuple[float, Floats, NDArray[np.float32]]:
    """Mean of 1 - cosine over a batch (n, U), and its gradients by ``rows`` (U, D) and by ``log_weights`` (U,)."""
    weights = np.exp(log_weights)[:, None]
    sums = counts @ (rows * weights)
    lengths = np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), _TINY)
    units = sums / lengths
    cosines = (units * targets).sum(axis=1, keepdims=True)
    # through the division by the length: what points along a unit vector changes nothing
    by_sum = (cosines * units - targets) / (lengths * np.float32(len(targets)))
    by_row = counts.T @ by_sum * weights
    return 1 - float(cosines.mean()), np.asarray(by_row, np.float32), (by_row * rows).sum(axis=1)
