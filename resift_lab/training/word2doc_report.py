"""How often word2doc answers with the right document, against its retriever alone and its own parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift_lab.evaluation.significance import paired_randomization
from resift_lab.word2doc.keywords import NOISES, with_noise
from resift_lab.word2doc.model import Word2Doc
from resift_lab.word2doc.retriever import HashedRetriever

BATCH = 250  # queries that are scored at a time: a score for every document of each
_DEPTH = 10

Ranks = dict[str, NDArray[np.int64]]


def judge(model: Word2Doc, seed: int = 0) -> dict[str, Any]:
    """Accuracy at 1 and 10 of the held-back keywords, as they are and with typos of several kinds.

    Of four systems: ``word2doc``; ``retriever``, the retriever alone; ``read``, the retriever given the words as the
    speller reads them; ``network``, word2doc without the retriever's scores. ``kinds`` holds the figures by the typo
    that was put in, with ``wins`` and ``losses`` (queries that only word2doc, or only the retriever, answers first);
    ``noisy`` those over all typos, with the ``ratio`` of word2doc's accuracy at 1 to the retriever's and the ``p`` of
    the paired randomisation test.
    """
    queries, answers = (list(each) for each in (model.info["held_back"], model.info["held_back"].values()))
    ranks = {
        kind: _ranks_of_systems(model, queries, answers, kind, np.random.default_rng([seed, number]))
        for number, kind in enumerate(NOISES)
    }
    with_typos = [ranks[kind] for kind in NOISES if kind != "clean"]
    over_all = {name: np.concatenate([each[name] for each in with_typos]) for name in with_typos[0]}
    over: dict[str, float] = _accuracies(over_all)
    over["ratio"] = over["word2doc@1"] / max(over["retriever@1"], 1e-9)
    first = [(over_all[name] == 1).astype(np.float64) for name in ("word2doc", "retriever")]
    over["p"] = paired_randomization(first[0], first[1], np.random.default_rng(seed))
    return {
        "queries": len(queries),
        "documents": len(model.ids),
        "kinds": {kind: _accuracies(each) for kind, each in ranks.items()},
        "noisy": over,
    }


def _ranks_of_systems(
    model: Word2Doc, queries: Sequence[str], answers: Sequence[int], kind: str, rng: np.random.Generator
) -> Ranks:
    """Rank of each query's own document by each system, the queries with a typo of this kind."""
    written = [with_noise(query, kind, rng) for query in queries]
    read = [" ".join(model.speller.correct(query)) for query in written]
    return {
        **_network_ranks(model, written, answers),
        "retriever": _retriever_ranks(model.retriever, written, answers),
        "read": _retriever_ranks(model.retriever, read, answers),
    }


def _network_ranks(model: Word2Doc, queries: Sequence[str], answers: Sequence[int]) -> Ranks:
    """Ranks among all documents by word2doc and by its network alone; of equal scores the best rank."""
    ranks: dict[str, list[NDArray[np.int64]]] = {"word2doc": [], "network": []}
    for start in range(0, len(queries), BATCH):
        network, retrieved = model.parts(queries[start : start + BATCH])
        for name, scores in (("word2doc", network + model.retriever_weight * retrieved), ("network", network)):
            own = scores[np.arange(len(scores)), answers[start : start + BATCH]][:, None]
            ranks[name].append((scores > own).sum(axis=1) + 1)
    return {name: np.concatenate(each) for name, each in ranks.items()}


def _retriever_ranks(retriever: HashedRetriever, queries: Sequence[str], answers: Sequence[int]) -> NDArray[np.int64]:
    """Ranks among the retriever's best ten; 11 for those that are not among them."""
    ranks = []
    for query, answer in zip(queries, answers, strict=True):
        position = np.flatnonzero(retriever.best(query, _DEPTH) == answer)
        ranks.append(int(position[0]) + 1 if len(position) else _DEPTH + 1)
    return np.array(ranks)


def _accuracies(ranks: Ranks) -> dict[str, float]:
    found = {f"{name}@{k}": float((each <= k).mean()) for k in (1, _DEPTH) for name, each in ranks.items()}
    ours, theirs = ranks["word2doc"] == 1, ranks["retriever"] == 1
    return {**found, "wins": int((ours & ~theirs).sum()), "losses": int((theirs & ~ours).sum())}
