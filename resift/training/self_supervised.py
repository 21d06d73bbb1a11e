"""Word vectors and weights adapt to a user's own documents, without labels.

The recipe: rows start as the given word vectors beside the corpus' own latent semantic indexing, both centred
(:mod:`resift.training.spectral`), weights as idf. Then two parts of one document, by random words or by alternating
runs of words, are to be more similar than parts of different documents: InfoNCE (van den Oord et al. 2018, eq. 4)
both ways over a batch, at a high temperature, which also pulls documents on one subject together. Adam steps go to
the rows and log weights of the batch's words alone. At the end rows are centred on the documents' mean and turned to
their principal axes, and the words that only the given table knows follow by a linear map. Constants were chosen on
Cranfield, CISI and a part of 20 Newsgroups' train split. Needs numpy and scipy alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.encoders.model import ADAPTED_ALPHA, Model
from resift.encoders.registry import build_model
from resift.errors import BadInput, at_least
from resift.training.spectral import Corpus, Ids, bags, from_corpus, from_vectors, rotated, side_by_side, words_of
from resift.vectors.similarity import unit_rows
from resift.vectors.table import WordVectors

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix
from resift.training.adam import Adam, remaining_rate

Progress = Callable[[int, int], None]
_LEAST_WORDS, _LEAST_DOCUMENTS = 4, 8
_QUERY, _ROUNDS = 8, 5
_UNSEEN = 0.5


@dataclass(frozen=True)
class AdaptOptions:
    """Settings of :func:`adapt`; the defaults are the recipe.

    ``epochs`` passes over the documents, up to ``most_epochs`` where that makes fewer than ``min_steps`` steps (more
    would learn a small corpus by heart); ``batch`` documents a step; ``rate`` and ``weight_rate``, Adam's for rows and
    log weights, falling to nothing; ``temperature`` of the softmax; ``dim`` dimensions of the result (None: as the
    given vectors); ``spectral`` dimensions from the corpus itself; ``min_count``, rarer words are not trained;
    ``limit`` documents at most, drawn by chance; ``held_back``, the part of the documents that judges; ``codewords``,
    if given, makes a BoEW model of so many.
    """

    epochs: int = 5
    most_epochs: int = 20
    min_steps: int = 200
    batch: int = 128
    rate: float = 0.004
    weight_rate: float = 0.05
    temperature: float = 0.3
    dim: int | None = None
    spectral: int = 60
    min_count: int = 2
    limit: int = 50_000
    held_back: float = 0.1
    codewords: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        at_least(1, self, "epochs", "most_epochs", "spectral", "min_count", "dim", "codewords")
        at_least(2, self, "batch")
        at_least(0, self, "min_steps", "rate", "weight_rate", "seed")
        at_least(_LEAST_DOCUMENTS, self, "limit")
        if not 0 < self.temperature < np.inf:
            raise BadInput(f"temperature is {self.temperature}", value=self.temperature, expected="more than 0")
        if not 0 < self.held_back <= 0.5:
            raise BadInput(f"held_back is {self.held_back}", value=self.held_back, expected="more than 0, at most 0.5")


def adapt(
    texts: Iterable[str], vectors: WordVectors, options: AdaptOptions = AdaptOptions(), progress: Progress | None = None
) -> Model:
    """A model of kind ``mean`` (or ``boew``, with ``codewords``) whose word table is adapted to ``texts``.

    Training runs twice: without the documents that are held back, to judge, and then on all of them. What the judges
    found is in ``model.table.info["adapted"]``: ``better`` says whether a few words of a held-back document find the
    rest of it among the other documents' (mean reciprocal rank) better than with the untrained ``vectors``.
    ``progress`` is told how many of how many steps are done. A seed gives the same model again on the same machine.

    Raises BadInput for texts that are no strings, too few documents, and vectors without any word of theirs.
    """
    documents = [words for words in words_of(texts, options.limit, options.seed) if len(words) >= _LEAST_WORDS]
    if len(documents) < _LEAST_DOCUMENTS:
        raise BadInput(
            f"{len(documents)} documents of {_LEAST_WORDS} words or more",
            value=len(documents),
            expected=f"{_LEAST_DOCUMENTS} or more",
        )
    rng = np.random.default_rng(options.seed)
    held = np.zeros(len(documents), bool)
    count = min(1000, max(_LEAST_WORDS, round(options.held_back * len(documents))))
    held[rng.choice(len(documents), count, replace=False)] = True
    seen = [words for words, out in zip(documents, held, strict=True) if not out]
    steps = [_steps(number, options)[1] for number in (len(seen), len(documents))]

    def report(before: int) -> Progress:
        return lambda done, _: progress(before + done, sum(steps)) if progress else None

    judge = _fitted(Corpus(seen, options.min_count), vectors, options, report(0))
    apart = [words for words, out in zip(documents, held, strict=True) if out]
    rounds = [[_halves(words, rng) for words in apart] for _ in range(_ROUNDS)]
    start = build_model("mean" if options.codewords is None else f"boew:{options.codewords}", vectors, options.seed)
    before, after = (np.mean([_found(model, pairs) for pairs in rounds], axis=0).tolist() for model in (start, judge))
    model = _fitted(Corpus(documents, options.min_count), vectors, options, report(steps[0]))
    model.table.info["adapted"] = {
        "documents": len(documents),
        "held_back": count,
        "words": model.table.info.pop("trained"),
        "mrr_before": before[0],
        "mrr_after": after[0],
        "accuracy_before": before[1],
        "accuracy_after": after[1],
        "better": after[0] > before[0],
        "options": asdict(options),
    }
    return model


def _halves(words: Sequence[str], rng: np.random.Generator) -> tuple[str, str]:
    """A query of a few words of a document, drawn by chance, and the rest of it."""
    picked = np.zeros(len(words), bool)
    picked[rng.choice(len(words), min(_QUERY, len(words) // 2), replace=False)] = True
    query, rest = ([words[place] for place in np.flatnonzero(side).tolist()] for side in (picked, ~picked))
    return " ".join(query), " ".join(rest)


def _found(model: Model, pairs: Sequence[tuple[str, str]]) -> tuple[float, float]:
    """Mean reciprocal rank and accuracy at 1 of each query's own rest among all; ties count as half."""
    queries, rests = (model.encode(list(side)) for side in zip(*pairs, strict=True))
    similarity = queries @ rests.T
    own = similarity.diagonal()[:, None]
    ranks = 1 + (similarity > own).sum(axis=1) + ((similarity == own).sum(axis=1) - 1) / 2
    return float((1 / ranks).mean()), float((ranks == 1).mean())


def _fitted(corpus: Corpus, vectors: WordVectors, options: AdaptOptions, progress: Progress) -> Model:
    """One training run, exported."""
    given, known = from_vectors(corpus, vectors, options.seed)
    own = from_corpus(corpus, options.spectral, options.seed)
    rows, weights = fit(corpus, side_by_side(corpus, [given, own]), corpus.idf, options, progress)
    return exported(corpus, rows, weights, vectors, known, options)


def _steps(documents: int, options: AdaptOptions) -> tuple[int, int]:
    """Steps an epoch, and in all."""
    epoch = max(1, documents // options.batch)
    return epoch, epoch * max(options.epochs, min(options.most_epochs, -(-options.min_steps // epoch)))


def fit(
    corpus: Corpus, rows: Floats, weights: Floats, options: AdaptOptions, progress: Progress | None = None
) -> tuple[Floats, Floats]:
    """Adapted ``rows`` (V, D) and ``weights`` (V,) by InfoNCE on the corpus' own documents."""
    rng = np.random.default_rng(options.seed)
    usable = np.array([row for row, ids in enumerate(corpus.documents) if len(ids) >= _LEAST_WORDS], np.int64)
    if len(usable) < 2:
        raise BadInput(f"{len(usable)} documents with words that repeat in the corpus", expected="2 or more")
    table, logs = rows.copy(), np.log(weights)
    adams = Adam(table, options.rate), Adam(logs, options.weight_rate)
    epoch, total = _steps(len(usable), options)
    size, order = min(options.batch, len(usable)), usable
    for step in range(total):
        if (place := step % epoch) == 0:
            order = rng.permutation(usable)
        views = [part_in_two(corpus.documents[row], rng) for row in order[place * size : (place + 1) * size]]
        left, right = zip(*views, strict=True)
        words, counts = _only(bags([*left, *right], len(table)))
        _, row_slope, log_slope = slopes(counts, table[words], logs[words], options.temperature)
        decay = remaining_rate(step, total)
        adams[0].update(words, row_slope, step + 1, decay)
        adams[1].update(words, log_slope, step + 1, decay)
        if progress:
            progress(step + 1, total)
    return table, np.exp(logs)


def part_in_two(ids: Ids, rng: np.random.Generator) -> tuple[Ids, Ids]:
    """Two parts of a document: every word to either by chance, or alternating runs of 4 to 24 words."""
    if rng.random() < 0.5:
        first = rng.random(len(ids)) < 0.5
    else:
        run = int(rng.integers(4, 25))
        first = (np.arange(len(ids)) + rng.integers(run)) // run % 2 == 0
    return ids[first], ids[~first]


def _only(counts: csr_matrix) -> tuple[Ids, csr_matrix]:
    """The words that occur, and the counts of these alone."""
    from scipy.sparse import csr_matrix

    words, columns = np.unique(counts.indices, return_inverse=True)
    return words, csr_matrix((counts.data, columns, counts.indptr), shape=(counts.shape[0], len(words)))


def slopes(
    counts: csr_matrix, rows: Floats, logs: Floats, temperature: float
) -> tuple[float, Floats, NDArray[np.float32]]:
    """InfoNCE of a batch and its derivatives by ``rows`` (U, D) and by log weights (U,).

    ``counts`` (2n, U): document i's two parts are its rows i and n + i. Each part's similarity (cosine) with the n
    parts of the other side is divided by ``temperature``; the loss is the mean cross-entropy of picking its own.
    """
    weights = np.exp(logs)[:, None]
    sums = counts @ (rows * weights)
    lengths = np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-9)
    units = sums / lengths
    count = len(units) // 2
    left, right = units[:count], units[count:]
    logits = left @ right.T / temperature
    forward, backward = _softmax(logits), _softmax(logits.T).T
    own = np.maximum(np.stack([forward.diagonal(), backward.diagonal()]), 1e-30)
    pull = (forward + backward - 2 * np.eye(count, dtype=np.float32)) / (2 * count * temperature)
    slope = np.concatenate([pull @ right, pull.T @ left])
    slope = (slope - (slope * units).sum(axis=1, keepdims=True) * units) / lengths
    by_word = counts.T @ slope * weights
    return -float(np.log(own).mean()), np.asarray(by_word, np.float32), (by_word * rows).sum(axis=1)


def _softmax(logits: Floats) -> Floats:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True), np.float32)


def exported(
    corpus: Corpus,
    rows: Floats,
    weights: Floats,
    vectors: WordVectors,
    known: NDArray[np.bool_],
    options: AdaptOptions,
) -> Model:
    """The model for serving: corpus' words, then those that only ``vectors`` knows, rows in int8.

    The latter follow the ridge regression from the given rows to the adapted ones of the words in both, and weigh
    half of what the corpus' rare words do.
    """
    dim = min(options.dim or vectors.dim, rows.shape[1])
    adapted, _ = rotated(corpus, rows, weights, dim)
    given = unit_rows(vectors.rows())
    both = np.array([vectors.index[word] for word, found in zip(corpus.words, known, strict=True) if found])
    counts = np.minimum(corpus.frequency[known], 50)[:, None]
    source = given[both].astype(np.float64)
    square = (source * counts).T @ source + 1e-3 * counts.sum() * np.eye(vectors.dim)
    onto = np.linalg.solve(square, (source * counts).T @ adapted[known])
    others = np.array([row for row, word in enumerate(vectors.words) if word not in corpus.index], np.int64)
    table = WordVectors(
        [*corpus.words, *(vectors.words[row] for row in others)],
        np.concatenate([adapted, (given[others] @ onto).astype(np.float32)]),
        np.concatenate([weights, np.full(len(others), _UNSEEN * np.quantile(weights, 0.9), np.float32)]),
        info={"source": vectors.info.get("source"), "trained": len(corpus.words)},
    )
    if options.codewords is None:
        model = Model("mean", table.quantized(), "mean", "cosine")
    else:
        model = build_model(f"boew:{options.codewords}", table, options.seed)
    model.alpha, model.max_alpha = ADAPTED_ALPHA
    return model
