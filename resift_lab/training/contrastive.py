"""Contrastive training of word rows and weights on documents without labels.

Two parts of one document are to be more similar than parts of different documents: InfoNCE (van den Oord et al. 2018,
eq. 4) both ways over a batch. The gradient is worked out by hand; Adam moves only the rows and log weights of the
batch's words. Needs NumPy and SciPy alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.errors import BadInput
from resift_lab.training.adam import Adam, remaining_rate
from resift_lab.training.documents import Documents, Ids, occurring, word_counts
from resift_lab.training.options import AdaptOptions
from resift_lab.training.progress import Progress

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

MIN_WORDS = 4


def fit(
    corpus: Documents, rows: Floats, weights: Floats, options: AdaptOptions, progress: Progress | None = None
) -> tuple[Floats, Floats]:
    """Adapted ``rows`` (V, D) and ``weights`` (V,), starting from the given ones, by InfoNCE on the documents.

    Raises BadInput if fewer than two documents hold enough words of the vocabulary.
    """
    rng = np.random.default_rng(options.seed)
    usable = np.array([row for row, ids in enumerate(corpus.ids) if len(ids) >= MIN_WORDS], np.int64)
    if len(usable) < 2:
        raise BadInput(f"{len(usable)} documents with words that repeat in the corpus", expected="2 or more")
    table, log_weights = rows.copy(), np.log(weights)
    row_adam, weight_adam = Adam(table, options.rate), Adam(log_weights, options.weight_rate)
    steps_per_epoch, total = options.steps_per_epoch(len(usable)), options.steps(len(usable))
    size, order = min(options.batch, len(usable)), usable
    for step in range(total):
        if (batch := step % steps_per_epoch) == 0:
            order = rng.permutation(usable)
        pairs = [split_in_two(corpus.ids[row], rng) for row in order[batch * size : (batch + 1) * size]]
        words, counts = occurring(word_counts([part for side in zip(*pairs, strict=True) for part in side], len(table)))
        _, by_row, by_log = info_nce_gradients(counts, table[words], log_weights[words], options.temperature)
        remaining = remaining_rate(step, total)
        row_adam.update(words, by_row, step + 1, remaining)
        weight_adam.update(words, by_log, step + 1, remaining)
        if progress:
            progress(step + 1, total)
    return table, np.exp(log_weights)


def split_in_two(ids: Ids, rng: np.random.Generator) -> tuple[Ids, Ids]:
    """Two parts of a document: every word falls to either by chance, or alternating runs of 4 to 24 words do."""
    if rng.random() < 0.5:
        first = rng.random(len(ids)) < 0.5
    else:
        run = int(rng.integers(4, 25))
        first = (np.arange(len(ids)) + rng.integers(run)) // run % 2 == 0
    return ids[first], ids[~first]


def info_nce_gradients(
    counts: csr_matrix, rows: Floats, log_weights: Floats, temperature: float
) -> tuple[float, Floats, NDArray[np.float32]]:
    """InfoNCE of a batch and its gradients by ``rows`` (U, D) and by ``log_weights`` (U,).

    ``counts`` (2n, U): document i's two parts are its rows i and n + i. A part is the weighted sum of its words' rows
    at length 1. Each part's cosines with the n parts of the other side are divided by ``temperature``; the loss is the
    mean cross-entropy of picking the part of the same document.
    """
    weights = np.exp(log_weights)[:, None]
    sums = counts @ (rows * weights)
    lengths = np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-9)
    units = sums / lengths
    count = len(units) // 2
    left, right = units[:count], units[count:]
    logits = left @ right.T / temperature
    forward, backward = _softmax(logits), _softmax(logits.T).T
    own = np.maximum(np.stack([forward.diagonal(), backward.diagonal()]), 1e-30)
    # cross-entropy's gradient by the cosines: probabilities less the right answer, for both directions
    by_cosine = (forward + backward - 2 * np.eye(count, dtype=np.float32)) / (2 * count * temperature)
    by_unit = np.concatenate([by_cosine @ right, by_cosine.T @ left])
    # through the division by the length: what points along a unit vector changes nothing
    by_sum = (by_unit - (by_unit * units).sum(axis=1, keepdims=True) * units) / lengths
    by_row = counts.T @ by_sum * weights
    return -float(np.log(own).mean()), np.asarray(by_row, np.float32), (by_row * rows).sum(axis=1)


def _softmax(logits: Floats) -> Floats:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True), np.float32)
