"""Refining word vectors on texts: the weighted mean of a text's rows comes to lie where a teacher puts the text.

One pass a word leaves out what words mean together, and how much each counts. Here the teacher (a sentence-transformers
model) encodes sentences once, and rows and weights are fitted to its vectors. No label is needed, and any texts will
do. The teacher's space is first turned onto the rows' own (orthogonal Procrustes, Schönemann 1966), so that the rows
may come from anywhere and have any number of dimensions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice, pairwise, zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from resift.arrays import Floats, batched
from resift.encoders.tables import replace_rows
from resift.errors import BadInput
from resift.vectors.similarity import unit_rows
from resift.vectors.table import WordVectors
from resift_lab.training.distill import load, rounded
from resift_lab.training.documents import word_counts
from resift_lab.training.fitting import fit_rows
from resift_lab.training.progress import Progress

_MIN_WORDS, _MAX_WORDS = 4, 40
_LEAST, _CHUNK = 14, 2048
_NO_PROSE = re.compile(r"[>|=_*]{2}|@")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n\s*\n")


def sentences(sources: Iterable[Iterable[str]], limit: int, rng: np.random.Generator) -> list[str]:
    """At most ``limit`` different sentences of 4 to 40 words, drawn at random; lines of signs or addresses left out.

    The ``sources``, texts each, take turns until they have no more: a large one does not drown the others.
    """
    found: dict[str, None] = {}
    drawn: list[list[str]] = []
    for texts in sources:
        before = len(found)
        for sentence in _prose(texts):
            found.setdefault(sentence)
        fresh = list(found)[before:]
        drawn.append([fresh[i] for i in rng.permutation(len(fresh))])
    turns = (sentence for turn in zip_longest(*drawn) for sentence in turn if sentence is not None)
    return list(islice(turns, limit))


def _prose(texts: Iterable[str]) -> Iterator[str]:
    """The texts' sentences that are long enough and of words, with single blanks between them."""
    for text in texts:
        for part in _SENTENCE_END.split(text):
            words = part.split()
            if _MIN_WORDS <= len(words) <= _MAX_WORDS and not _NO_PROSE.search(part):
                yield " ".join(words)


def refine(
    vectors: WordVectors,
    model_folder: str | Path,
    sources: Iterable[Iterable[str]],
    *,
    limit: int = 66_000,
    epochs: int = 3,
    rate: float = 0.002,
    seed: int = 0,
    levels: int | None = 31,
    progress: Progress | None = None,
) -> WordVectors:
    """Word vectors (V, D) float32 of which texts' weighted means follow the teacher in ``model_folder``.

    Rows and weights are learned. At most ``limit`` sentences are drawn from all ``sources`` alike (:func:`sentences`);
    ``rate`` is Adam's, for rows of length 1. ``levels`` is as in :func:`resift_lab.training.distill.distill`.
    ``progress`` is called with the numbers of steps done and of all, of which the teacher's encoding is the first half.
    The same call on the same machine gives the same vectors.

    Raises MissingExtra without sentence-transformers, and BadInput if the folder holds no such model or the texts hold
    too few sentences.
    """
    chosen = sentences(sources, limit, np.random.default_rng(seed))
    if (count := len(chosen)) < _LEAST:
        raise BadInput(f"{count} sentences to refine on", value=count, expected="more texts")
    targets = _encoded(chosen, load(model_folder), lambda done: progress(done, 2 * count) if progress else None)

    def report(done: int, steps: int) -> None:
        if progress:
            progress(round(count * (1 + done / steps)), 2 * count)

    rows, weights = _fitted(vectors, chosen, targets, epochs=epochs, rate=rate, seed=seed, progress=report)
    info = {
        **vectors.info,
        "weighting": "learned",
        "levels": levels,
        "refined": f"on {count} sentences, {epochs} epochs, rate {rate:g}, seed {seed}",
    }
    return replace_rows(vectors, rounded(rows, levels) if levels else rows, weights, info=info)


def _fitted(vectors: WordVectors, texts: list[str], targets: Floats, **options: Any) -> tuple[Floats, Floats]:
    """Rows (V, D) of length 1, and weights (V,), fitted to the texts' ``targets`` (n, T)."""
    ids, offsets = vectors.ids(texts)
    counts = word_counts([ids[start:end] for start, end in pairwise(offsets)], len(vectors))
    rows = vectors.rows()
    rows = rows / np.sqrt((rows**2).sum(axis=1).mean())
    sums = unit_rows(counts @ (rows * vectors.weights[:, None]))
    rows, weights = fit_rows(counts, unit_rows(targets @ turned(targets, sums)), rows, vectors.weights, **options)
    # the weights have learned what a word counts; with the rows' lengths as well sentence pairs come out worse
    return unit_rows(rows), weights


def turned(source: Floats, target: Floats) -> Floats:
    """The map (T, D) that brings rows ``source`` (n, T) nearest to ``target`` (n, D) and keeps right angles.

    It has orthonormal columns, or rows where D is more than T.
    """
    left, _, right = np.linalg.svd(source.T.astype(np.float64) @ target, full_matrices=False)
    return np.asarray(left @ right, np.float32)


def _encoded(texts: list[str], teacher: Any, report: Callable[[int], None]) -> Floats:
    """The teacher's vectors at length 1, (n, T); ``report`` is called with how many texts are done."""
    parts: list[Floats] = []
    for chunk in batched(texts, _CHUNK):
        parts.append(teacher.encode(chunk, batch_size=64, convert_to_numpy=True, show_progress_bar=False))
        report(sum(map(len, parts)))
    return unit_rows(np.concatenate(parts))
