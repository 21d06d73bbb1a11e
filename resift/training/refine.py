"""Refining word vectors on texts: their weighted means come to stand to each other as the teacher's sentences do.

One pass a word leaves out what words mean together. Here the teacher (a sentence-transformers model) encodes sentences
once, and the word rows are moved until the cosines between the sentences' weighted means equal the teacher's cosines.
It is relational distillation (Park et al. 2019) of a static model; no label is needed, and any texts will do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import islice, zip_longest
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.errors import BadInput, MissingExtra
from resift.training.distill import load
from resift.vectors.similarity import unit_rows
from resift.vectors.table import WordVectors

_SHORTEST, _LONGEST = 4, 40
_POOL, _BATCH, _NEIGHBOURS = 2048, 256, 7
_ODD = re.compile(r"[>|=_*]{2}|@")


def sentences(sources: Iterable[Iterable[str]], limit: int, rng: np.random.Generator) -> list[str]:
    """At most ``limit`` different sentences of 4 to 40 words, drawn at random; lines of signs or addresses left out.

    The ``sources``, texts each, take turns until they have no more: a large one does not drown the others.
    """
    found: dict[str, None] = {}
    drawn: list[list[str]] = []
    for texts in sources:
        before = len(found)
        for text in texts:
            for part in re.split(r"(?<=[.!?])\s+|\n\s*\n", text):
                words = part.split()
                if _SHORTEST <= len(words) <= _LONGEST and not _ODD.search(part):
                    found.setdefault(" ".join(words))
        fresh = list(found)[before:]
        drawn.append([fresh[i] for i in rng.permutation(len(fresh))])
    turns = (sentence for turn in zip_longest(*drawn) for sentence in turn if sentence is not None)
    return list(islice(turns, limit))


def refine(
    vectors: WordVectors,
    model_folder: str | Path,
    sources: Iterable[Iterable[str]],
    *,
    limit: int = 66_000,
    epochs: int = 6,
    rate: float = 0.006,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> WordVectors:
    """Word vectors (V, D) float32 whose texts' cosines follow those of the teacher in ``model_folder``.

    Sentences are drawn from all ``sources`` alike (:func:`sentences`).
    ``progress`` is told how many of how many steps are done; the teacher's encoding is the first half. The same call
    on the same machine gives the same vectors.

    Raises MissingExtra without torch or sentence-transformers, BadInput where the texts hold too few sentences.
    """
    rng = np.random.default_rng(seed)
    chosen = sentences(sources, limit, rng)
    if len(chosen) < 2 * _NEIGHBOURS:
        raise BadInput(f"{len(chosen)} sentences to refine on", value=len(chosen), expected="more texts")
    teacher = load(model_folder)
    encoded: list[NDArray[np.float32]] = []
    total = 2 * len(chosen)
    for start in range(0, len(chosen), _POOL):
        part = chosen[start : start + _POOL]
        encoded.append(teacher.encode(part, batch_size=64, convert_to_numpy=True, show_progress_bar=False))
        if progress:
            progress(start + len(part), total)

    def told(epoch: float) -> None:
        if progress:
            progress(round(len(chosen) * (1 + epoch / epochs)), total)

    rows = fit(vectors, chosen, unit_rows(np.concatenate(encoded)), epochs, rate, rng, told)
    info = {**vectors.info, "refined": f"on {len(chosen)} sentences, {epochs} epochs, rate {rate:g}, seed {seed}"}
    return WordVectors(vectors.words, rows, vectors.weights, info=info)


def fit(
    vectors: WordVectors,
    texts: list[str],
    wanted: Floats,
    epochs: int,
    rate: float,
    rng: np.random.Generator,
    told: Callable[[float], None] = lambda epoch: None,
) -> Floats:
    """Rows (V, D) such that cosines of the texts' weighted means are those of ``wanted`` (n, T), rows of length 1.

    A batch is 256 texts with the seven nearest of each among 2,048, since few texts drawn at random are alike; a pair
    of cosine c counts 1 + 8 c². Lazy Adam: only rows of the batch's words move. The rate falls to 0.
    """
    try:
        import torch
    except ImportError as error:
        raise MissingExtra("refining needs torch: pip install 'resift[train]'") from error
    ids, offsets = vectors.ids(texts)
    weights = np.maximum(vectors.weights, np.finfo(np.float32).tiny)[:, None]
    bags = torch.nn.EmbeddingBag.from_pretrained(
        torch.tensor(vectors.rows() * weights), freeze=False, mode="sum", sparse=True
    )
    adam = torch.optim.SparseAdam([bags.weight], lr=rate)
    target = torch.tensor(wanted)
    for epoch in range(epochs):
        order = rng.permutation(len(texts))
        for group in adam.param_groups:
            group["lr"] = rate * (1 - epoch / epochs)
        for start in range(0, len(order), _POOL):
            pool = order[start : start + _POOL]
            told(epoch + start / len(order))
            for batch in _batches(target[pool].numpy()):
                chosen = pool[batch]
                words = [ids[offsets[i] : offsets[i + 1]] for i in chosen]
                starts = np.concatenate([[0], np.cumsum([len(each) for each in words])[:-1]])
                sums = bags(torch.tensor(np.concatenate(words), dtype=torch.int64), torch.tensor(starts))
                units = torch.nn.functional.normalize(sums, dim=1)
                goal = target[chosen] @ target[chosen].T
                loss = ((1 + 8 * goal.clamp(min=0) ** 2) * (units @ units.T - goal) ** 2).mean()
                adam.zero_grad()
                loss.backward()
                adam.step()
    return np.asarray(bags.weight.detach().numpy() / weights, np.float32)


def _batches(pool: Floats) -> list[NDArray[np.int64]]:
    """Positions of the pool in batches: 256 of them and the nearest seven of each."""
    cosines = pool @ pool.T
    np.fill_diagonal(cosines, -1)
    near = np.argpartition(-cosines, min(_NEIGHBOURS, len(pool) - 1), axis=1)[:, :_NEIGHBOURS]
    spans = [np.arange(start, min(start + _BATCH, len(pool))) for start in range(0, len(pool), _BATCH)]
    return [np.unique(np.concatenate([span, near[span].ravel()])) for span in spans]
