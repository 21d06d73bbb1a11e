"""Contrastive training of word vectors and weights on documents without labels.

Each document of a batch is split into two parts. Training makes the two parts of a document more similar than parts of
different documents. The loss is InfoNCE (van den Oord et al. 2018, equation 4), in both directions. The gradient is
derived by hand. Adam updates only the words of a batch. Needs only NumPy and SciPy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.errors import BadInput
from resift_lab.training.adam import Adam, rate_factor
from resift_lab.training.documents import Documents, Ids, used_columns, word_counts
from resift_lab.training.options import AdaptOptions
from resift_lab.training.progress import Progress

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

# Documents with fewer words are not used.
MIN_WORDS = 4


def fit_contrastive(
    corpus: Documents, rows: Floats, weights: Floats, options: AdaptOptions, progress: Progress | None = None
) -> tuple[Floats, Floats]:
    """Train word vectors and weights so that two parts of a document have similar vectors (InfoNCE loss).

    Args:
        corpus: The documents, with a vocabulary of V words.
        rows: The initial vectors of V words with D dimensions, shape (V, D).
        weights: The initial word weights, shape (V,).
        options: The settings of the training.
        progress: A function that is called with the number of finished steps and the total number.

    Returns:
        The trained word vectors, shape (V, D), and weights, shape (V,).

    Raises:
        BadInput: If fewer than two documents have at least ``MIN_WORDS`` words of the vocabulary.
    """
    rng = np.random.default_rng(options.seed)
    usable = np.array([row for row, ids in enumerate(corpus.ids) if len(ids) >= MIN_WORDS], np.int64)
    if len(usable) < 2:
        raise BadInput(
            f"{len(usable)} documents have {MIN_WORDS} or more words that repeat in the corpus",
            value=len(usable),
            expected="2 or more",
        )
    table, log_weights = rows.copy(), np.log(weights)
    row_adam, weight_adam = Adam(table, options.rate), Adam(log_weights, options.weight_rate)
    steps_per_epoch, total = options.steps_per_epoch(len(usable)), options.steps(len(usable))
    size, order = min(options.batch, len(usable)), usable
    for step in range(total):
        batch = step % steps_per_epoch
        if batch == 0:
            order = rng.permutation(usable)
        pairs = [split_in_two(corpus.ids[row], rng) for row in order[batch * size : (batch + 1) * size]]
        first_parts, second_parts = zip(*pairs, strict=True)
        words, counts = used_columns(word_counts([*first_parts, *second_parts], len(table)))
        _, by_row, by_log = info_nce_gradients(counts, table[words], log_weights[words], options.temperature)
        remaining = rate_factor(step, total)
        row_adam.update(words, by_row, step + 1, remaining)
        weight_adam.update(words, by_log, step + 1, remaining)
        if progress:
            progress(step + 1, total)
    return table, np.exp(log_weights)


def split_in_two(ids: Ids, rng: np.random.Generator) -> tuple[Ids, Ids]:
    """Split the words of a document into two parts at random.

    There are two ways to split, each with probability 0.5. Either each word goes to a random part, or consecutive runs
    of n words go to the two parts in turn, where n is a random number from 4 to 24.

    Args:
        ids: The word ids of the document, in the order of its words.
        rng: The source of random numbers.

    Returns:
        The word ids of the two parts.
    """
    if rng.random() < 0.5:
        first = rng.random(len(ids)) < 0.5
    else:
        run = int(rng.integers(4, 25))
        first = (np.arange(len(ids)) + rng.integers(run)) // run % 2 == 0
    return ids[first], ids[~first]


def info_nce_gradients(
    counts: csr_matrix, rows: Floats, log_weights: Floats, temperature: float
) -> tuple[float, Floats, NDArray[np.float32]]:
    """Return the InfoNCE loss of a batch of n documents, and its gradients.

    Each document was split into a first part and a second part. The vector of a part is the weighted sum of its word
    vectors, scaled to unit length. For each part, the loss is the cross-entropy of choosing the other part of the same
    document among the other parts of all n documents, by a softmax of cosine / temperature.

    Args:
        counts: The frequency of each of the U words of the batch in each part, shape (2n, U). The parts of document i
            are the rows i and n + i.
        rows: The word vectors, shape (U, D).
        log_weights: The logarithms of the word weights, shape (U,).
        temperature: The temperature of the softmax.

    Returns:
        The mean loss, its gradient with respect to ``rows`` (U, D), and its gradient with respect to ``log_weights``
        (U,).

    Source:
        van den Oord et al. 2018, equation 4, applied in both directions.
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
    # Gradient of the cross-entropy by the cosines: probabilities minus the right answer, for both directions.
    by_cosine = (forward + backward - 2 * np.eye(count, dtype=np.float32)) / (2 * count * temperature)
    by_unit = np.concatenate([by_cosine @ right, by_cosine.T @ left])
    # Gradient through the normalisation: a change in the direction of a unit vector has no effect.
    by_sum = (by_unit - (by_unit * units).sum(axis=1, keepdims=True) * units) / lengths
    by_row = counts.T @ by_sum * weights
    return -float(np.log(own).mean()), np.asarray(by_row, np.float32), (by_row * rows).sum(axis=1)


def _softmax(logits: Floats) -> Floats:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True), np.float32)
