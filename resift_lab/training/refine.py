"""Refinement of word vectors and weights on sentences that a teacher model encodes.

Vectors that were distilled word by word (:mod:`resift_lab.training.distill`) contain neither how words combine nor how
much each word counts. Here the teacher, a sentence-transformers model, encodes sentences, and word vectors and weights
are fitted so that the weighted mean of a sentence's words has a high cosine with the teacher's vector. Labels are not
needed. The teacher's vectors are first rotated into the space of the word vectors (orthogonal Procrustes, Schönemann
1966), so that the word vectors may have any origin and any number of dimensions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, pairwise, zip_longest

import numpy as np

from resift.arrays import Floats
from resift.encoders.tables import replace_rows
from resift.errors import BadInput
from resift.vectors.similarity import unit_rows
from resift.vectors.table import WordVectors
from resift_lab.training.distill import round_rows
from resift_lab.training.documents import word_counts
from resift_lab.training.fitting import FitOptions, fit_rows
from resift_lab.training.progress import Progress
from resift_lab.training.transformer import Transformer

# Minimum and maximum number of words in a sentence.
_MIN_WORDS = 4
_MAX_WORDS = 40
# Smallest number of sentences to train on.
_MIN_SENTENCES = 14
# Number of sentences that the CPU encodes together, and between two progress reports.
_BATCH = 64
_CHUNK = 2048
# Characters of tables, rulers, quotations and e-mail addresses. Sentences with these characters are skipped.
_NO_PROSE = re.compile(r"[>|=_*]{2}|@")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n\s*\n")


@dataclass(frozen=True)
class RefineOptions:
    """Settings for refining word vectors: they are trained to predict the sentence vectors of another model.

    Attributes:
        limit: The maximum number of sentences.
        epochs: The number of passes over the sentences.
        rate: Adam's learning rate. Before training, the word vectors are scaled to a root mean square length of 1.
        seed: The seed of all random choices.
        levels: The number of steps to which the components of a vector are rounded, see
            :func:`resift_lab.training.distill.round_rows`. None means no rounding.
    """

    limit: int = 66_000
    epochs: int = 3
    rate: float = 0.002
    seed: int = 0
    levels: int | None = 31


def draw_sentences(sources: Iterable[Iterable[str]], limit: int, rng: np.random.Generator) -> list[str]:
    """Draw distinct sentences of 4 to 40 words at random.

    Sentences with e-mail addresses or with rows of punctuation, as in tables, are skipped. Sentences are drawn from the
    sources in turn, so that a large source does not dominate the others.

    Args:
        sources: The sources, each of which is a sequence of texts.
        limit: The maximum number of sentences.
        rng: The source of random numbers.
    """
    distinct: dict[str, None] = {}
    drawn: list[list[str]] = []
    for texts in sources:
        before = len(distinct)
        for sentence in _usable_sentences(texts):
            distinct.setdefault(sentence)
        new = list(distinct)[before:]
        drawn.append([new[i] for i in rng.permutation(len(new))])
    turns = (sentence for turn in zip_longest(*drawn) for sentence in turn if sentence is not None)
    return list(islice(turns, limit))


def _usable_sentences(texts: Iterable[str]) -> Iterator[str]:
    """Yield the sentences of 4 to 40 words in texts, with single spaces between words.

    Sentences with e-mail addresses or with a series of punctuation marks, as in tables, are skipped.

    Args:
        texts: The texts to split into sentences.
    """
    for text in texts:
        for part in _SENTENCE_END.split(text):
            words = part.split()
            if _MIN_WORDS <= len(words) <= _MAX_WORDS and not _NO_PROSE.search(part):
                yield " ".join(words)


def refine(
    vectors: WordVectors,
    teacher: Transformer,
    sources: Iterable[Iterable[str]],
    options: RefineOptions | None = None,
    progress: Progress | None = None,
) -> WordVectors:
    """Refine word vectors and weights so that the weighted means of sentences agree with a teacher's vectors.

    The result is the same for each call with the same arguments on the same machine.

    Args:
        vectors: The word vectors to start from.
        teacher: The model that encodes sentences.
        sources: The sources of sentences, each of which is a sequence of texts. Sentences are drawn from the sources in
            turn.
        options: The settings of the refinement.
        progress: A function that is called with the number of finished steps and the total number. The first half of
            the steps is the encoding by the teacher.

    Returns:
        A table with the same words and float32 vectors of the same number of dimensions.

    Raises:
        BadInput: If the texts contain too few sentences.
    """
    options = options or RefineOptions()
    chosen = draw_sentences(sources, options.limit, np.random.default_rng(options.seed))
    count = len(chosen)
    if count < _MIN_SENTENCES:
        raise BadInput(
            f"there are only {count} sentences to refine on", value=count, expected=f"{_MIN_SENTENCES} or more"
        )

    def report_encoding(done: int, total: int) -> None:
        if progress:
            progress(done, 2 * total)

    def report_fitting(done: int, steps: int) -> None:
        if progress:
            progress(round(count * (1 + done / steps)), 2 * count)

    targets = unit_rows(teacher.encode(chosen, _BATCH, _CHUNK, report_encoding))
    fit_options = FitOptions(epochs=options.epochs, rate=options.rate, seed=options.seed)
    rows, weights = _fit_sentences(vectors, chosen, targets, fit_options, report_fitting)
    info = {
        **vectors.info,
        "weighting": "learned",
        "levels": options.levels,
        "refined": f"on {count} sentences, {options.epochs} epochs, rate {options.rate:g}, seed {options.seed}",
    }
    return replace_rows(vectors, round_rows(rows, options.levels) if options.levels else rows, weights, info=info)


def _fit_sentences(
    vectors: WordVectors,
    texts: list[str],
    targets: Floats,
    options: FitOptions | None = None,
    progress: Progress | None = None,
) -> tuple[Floats, Floats]:
    """Train word vectors so that the mean vector of a sentence's words is close to a target vector of the sentence.

    The targets come from a larger model, the teacher, and are rotated into the space of the word vectors.

    Args:
        vectors: The vectors of V words of D dimensions to start from.
        texts: The n sentences.
        targets: The teacher's vectors of the sentences with T dimensions, shape (n, T).
        options: The settings of the fitting.
        progress: A function that is called with the number of finished steps and the total number.

    Returns:
        The word vectors, each of unit length, shape (V, D), and the word weights, shape (V,).
    """
    ids, offsets = vectors.ids(texts)
    counts = word_counts([ids[start:end] for start, end in pairwise(offsets)], len(vectors))
    rows = vectors.rows()
    rows = rows / np.sqrt((rows**2).sum(axis=1).mean())
    sums = unit_rows(counts @ (rows * vectors.weights[:, None]))
    rotated_targets = unit_rows(targets @ procrustes_map(targets, sums))
    rows, weights = fit_rows(counts, rotated_targets, rows, vectors.weights, options, progress)
    # The trained weights express how much a word counts. If the rows kept their lengths as well, sentence similarity
    # would be worse.
    return unit_rows(rows), weights


def procrustes_map(source: Floats, target: Floats) -> Floats:
    """Return the orthogonal matrix that maps vectors as closely as possible to other vectors.

    Args:
        source: The n vectors to map, with T dimensions, shape (n, T).
        target: The vectors to map them to, in the same order, with D dimensions, shape (n, D).

    Returns:
        A matrix of shape (T, D) with orthonormal columns, or with orthonormal rows if D > T.

    Source:
        Schönemann 1966, "A generalized solution of the orthogonal Procrustes problem".
    """
    left, _, right = np.linalg.svd(source.T.astype(np.float64) @ target, full_matrices=False)
    return np.asarray(left @ right, np.float32)
