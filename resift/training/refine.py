"""Refining word vectors on texts: the cosines of their weighted means come to be those of the teacher's sentences.

One pass a word leaves out what words mean together. Here the teacher (a sentence-transformers model) encodes sentences
once, and the word rows are moved until the cosines between the sentences' weighted means equal the teacher's cosines.
It is relational distillation (Park et al. 2019) of a static model; no label is needed, and any texts will do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.errors import BadInput, needs_extra
from resift.training.distill import load
from resift.training.progress import Progress
from resift.vectors.similarity import unit_rows
from resift.vectors.table import WordVectors

if TYPE_CHECKING:
    import torch

_MIN_WORDS, _MAX_WORDS = 4, 40
_POOL, _BATCH, _NEIGHBOURS = 2048, 256, 7
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
    epochs: int = 6,
    rate: float = 0.006,
    seed: int = 0,
    progress: Progress | None = None,
) -> WordVectors:
    """Word vectors (V, D) float32 whose texts' cosines follow those of the teacher in ``model_folder``.

    At most ``limit`` sentences are drawn from all ``sources`` alike (:func:`sentences`); ``rate`` is Adam's.
    ``progress`` is called with the numbers of steps done and of all, of which the teacher's encoding is the first half.
    The same call on the same machine gives the same vectors.

    Raises MissingExtra without torch or sentence-transformers, and BadInput if the folder holds no such model or the
    texts hold too few sentences.
    """
    rng = np.random.default_rng(seed)
    chosen = sentences(sources, limit, rng)
    if len(chosen) < 2 * _NEIGHBOURS:
        raise BadInput(f"{len(chosen)} sentences to refine on", value=len(chosen), expected="more texts")
    total = 2 * len(chosen)
    targets = _encoded(chosen, load(model_folder), lambda done: progress(done, total) if progress else None)

    def report(epochs_done: float) -> None:
        if progress:
            progress(round(len(chosen) * (1 + epochs_done / epochs)), total)

    rows = fit(vectors, chosen, targets, epochs, rate, rng, report)
    info = {**vectors.info, "refined": f"on {len(chosen)} sentences, {epochs} epochs, rate {rate:g}, seed {seed}"}
    return WordVectors(vectors.words, rows, vectors.weights, info=info)


def _encoded(texts: list[str], teacher: Any, report: Callable[[int], None]) -> Floats:
    """The teacher's vectors at length 1, (n, T); ``report`` is called with how many texts are done."""
    parts: list[Floats] = []
    for start in range(0, len(texts), _POOL):
        chunk = texts[start : start + _POOL]
        parts.append(teacher.encode(chunk, batch_size=64, convert_to_numpy=True, show_progress_bar=False))
        report(start + len(chunk))
    return unit_rows(np.concatenate(parts))


def fit(
    vectors: WordVectors,
    texts: list[str],
    targets: Floats,
    epochs: int,
    rate: float,
    rng: np.random.Generator,
    report: Callable[[float], None] = lambda epochs_done: None,
) -> Floats:
    """Rows (V, D) such that cosines of the texts' weighted means are those of ``targets`` (n, T), rows of length 1.

    A batch is 256 texts with the seven nearest of each among 2,048, since few texts drawn at random are alike. Sparse
    Adam moves only the rows of the batch's words; its ``rate`` falls to 0. ``report`` is called with the epochs done.
    Raises MissingExtra without torch.
    """
    with needs_extra("train", "refining"):
        import torch
    ids, offsets = vectors.ids(texts)
    weights = np.maximum(vectors.weights, np.finfo(np.float32).tiny)[:, None]
    bags = torch.nn.EmbeddingBag.from_pretrained(
        torch.tensor(vectors.rows() * weights), freeze=False, mode="sum", sparse=True
    )
    adam = torch.optim.SparseAdam([bags.weight], lr=rate)
    goal = torch.tensor(targets)
    for epoch in range(epochs):
        order = rng.permutation(len(texts))
        for group in adam.param_groups:
            group["lr"] = rate * (1 - epoch / epochs)
        for start in range(0, len(order), _POOL):
            pool = order[start : start + _POOL]
            report(epoch + start / len(order))
            for batch in _batches(goal[pool].numpy()):
                chosen = pool[batch]
                words = [ids[offsets[i] : offsets[i + 1]] for i in chosen]
                starts = np.concatenate([[0], np.cumsum([len(each) for each in words])[:-1]])
                sums = bags(torch.tensor(np.concatenate(words), dtype=torch.int64), torch.tensor(starts))
                loss = _relational_loss(torch.nn.functional.normalize(sums, dim=1), goal[chosen])
                adam.zero_grad()
                loss.backward()
                adam.step()
    return np.asarray(bags.weight.detach().numpy() / weights, np.float32)


def _relational_loss(units: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Mean squared difference of cosines; a pair of cosine c counts 1 + 8 c², since most pairs are nearly unrelated."""
    cosines = targets @ targets.T
    return ((1 + 8 * cosines.clamp(min=0) ** 2) * (units @ units.T - cosines) ** 2).mean()


def _batches(pool: Floats) -> list[NDArray[np.int64]]:
    """Positions of the pool in batches: 256 of them and the nearest seven of each."""
    cosines = pool @ pool.T
    np.fill_diagonal(cosines, -1)
    nearest = np.argpartition(-cosines, min(_NEIGHBOURS, len(pool) - 1), axis=1)[:, :_NEIGHBOURS]
    spans = [np.arange(start, min(start + _BATCH, len(pool))) for start in range(0, len(pool), _BATCH)]
    return [np.unique(np.concatenate([span, nearest[span].ravel()])) for span in spans]
