"""Evaluation of word2doc: how often it ranks the right document first, compared with its retriever and its parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.encoders.hashed_retriever import HashedRetriever
from resift.encoders.word2doc import Word2Doc
from resift.vectors.weights import beta_from_alpha
from resift_lab.evaluation.significance import paired_randomization
from resift_lab.word2doc.keywords import NOISES, with_typing_error

# Queries that are scored at a time; each needs a score for every document.
BATCH = 250
_DEPTH = 10

# The rank of the correct document of each query, by the name of the system. Documents with equal scores have the mean
# of their ranks, such as 1.5.
Ranks = dict[str, NDArray[np.float64]]


def evaluate(model: Word2Doc, seed: int = 0) -> dict[str, Any]:
    """Evaluate a word2doc model on keywords that its training did not use, without and with typing errors.

    Five systems are compared:

    - ``word2doc``: the model.
    - ``retriever``: the retriever alone.
    - ``read``: the retriever with words that the speller has corrected.
    - ``network``: the model without the retriever's scores.
    - ``index``: the model as searches of an index use it, where each score of the engine is multiplied by
      exp(beta · similarity). The retriever's score of the uncorrected query takes the place of the engine's score.

    Args:
        model: The model. Its ``info["held_out"]`` maps each keyword to the position of its document.
        seed: The seed of the typing errors.

    Returns:
        A dictionary with these entries:

        - ``queries``, ``documents``: the numbers of queries and documents.
        - ``kinds``: for each kind of typing error, the accuracy at 1 and 10 of each system (such as ``word2doc@1``),
          and ``wins`` and ``losses``, the numbers of queries for which only word2doc, or only the retriever, ranks the
          correct document first.
        - ``noisy``: the same values over all kinds of typing errors together, the ``ratio`` of word2doc's accuracy at 1
          to the retriever's (None if the retriever ranks no correct document first), and the p-value ``p`` of their
          difference in a paired randomisation test.
    """
    queries, answers = list(model.info["held_out"]), list(model.info["held_out"].values())
    ranks = {
        kind: _ranks_of_systems(model, queries, answers, kind, np.random.default_rng([seed, number]))
        for number, kind in enumerate(NOISES)
    }
    with_errors = [ranks[kind] for kind in NOISES if kind != "clean"]
    all_errors = {name: np.concatenate([system_ranks[name] for system_ranks in with_errors]) for name in with_errors[0]}
    accuracies = _accuracies(all_errors)
    correct = [(all_errors[name] == 1).astype(np.float64) for name in ("word2doc", "retriever")]
    noisy = {
        **accuracies,
        "ratio": accuracies["word2doc@1"] / accuracies["retriever@1"] if accuracies["retriever@1"] else None,
        "p": paired_randomization(correct[0], correct[1], np.random.default_rng(seed)),
    }
    return {
        "queries": len(queries),
        "documents": len(model.ids),
        "kinds": {kind: _accuracies(system_ranks) for kind, system_ranks in ranks.items()},
        "noisy": noisy,
    }


def _ranks_of_systems(
    model: Word2Doc, queries: Sequence[str], answers: Sequence[int], kind: str, rng: np.random.Generator
) -> Ranks:
    """Add typing errors to queries, and rank the correct document of each query by word2doc and by other systems.

    Args:
        model: The word2doc model.
        queries: The queries without typing errors.
        answers: The position of the correct document of each query.
        kind: The kind of typing error to add, such as ``typo`` (see :func:`with_typing_error`).
        rng: The source of random numbers for the typing errors.

    Returns:
        The rank of the correct document of each query, by the name of the system (see :func:`evaluate`).
    """
    written = [with_typing_error(query, kind, rng) for query in queries]
    corrected = [" ".join(model.speller.correct(query)) for query in written]
    return {
        **_network_ranks(model, written, answers),
        "retriever": _retriever_ranks(model.retriever, written, answers),
        "read": _retriever_ranks(model.retriever, corrected, answers),
    }


def _network_ranks(model: Word2Doc, queries: Sequence[str], answers: Sequence[int]) -> Ranks:
    """Rank the correct document of each query by word2doc, by its network alone, and as a search of an index would.

    Word2doc adds the scores of its network and its retriever.

    Args:
        model: The word2doc model.
        queries: The texts of the queries.
        answers: The position of the correct document of each query.

    Returns:
        The rank of the correct document of each query, for ``word2doc``, ``network`` and ``index``.
    """
    ranks: dict[str, list[NDArray[np.float64]]] = {"word2doc": [], "network": [], "index": []}
    for start in range(0, len(queries), BATCH):
        batch = queries[start : start + BATCH]
        network, retrieved = model.separate_scores(batch)
        words = np.stack([model.retriever.scores(query) for query in batch])
        systems = {
            "word2doc": network + model.retriever_weight * retrieved,
            "network": network,
            "index": index_scores(words, model.similarities(batch), beta_from_alpha(model.alpha)),
        }
        for name, scores in systems.items():
            ranks[name].append(mean_ranks(scores, answers[start : start + BATCH]))
    return {name: np.concatenate(parts) for name, parts in ranks.items()}


def mean_ranks(scores: NDArray[Any], answers: Sequence[int]) -> NDArray[np.float64]:
    """Return the rank of each query's correct document. Documents with equal scores share the mean of their ranks.

    Args:
        scores: The scores of the documents, shape (n, N) for n queries and N documents.
        answers: The position of each query's correct document, of length n.

    Returns:
        Ranks counted from 1, shape (n,).
    """
    own = scores[np.arange(len(scores)), answers][:, None]
    others_equal = (scores == own).sum(axis=1) - 1
    return np.asarray(1 + (scores > own).sum(axis=1) + others_equal / 2)


def index_scores(words: Floats, similarities: Floats, beta: float) -> NDArray[np.float64]:
    """Return scores like those of a search in an index: lexical score · exp(beta · similarity).

    Documents without a word of the query get a very small lexical score instead of 0. They therefore rank behind all
    other documents, in the order of their similarity. A search finds such documents by approximate k-NN (``knn``).

    Args:
        words: Lexical scores, shape (n, N) for n queries and N documents.
        similarities: Similarities of the vectors of queries and documents, shape (n, N).
        beta: The weight of the similarities.

    Returns:
        Scores of shape (n, N), float64.
    """
    floor = 1e-9 * np.maximum(words.max(axis=1, keepdims=True), 1)
    return np.asarray(np.maximum(words, floor).astype(np.float64) * np.exp(beta * similarities.astype(np.float64)))


def _retriever_ranks(retriever: HashedRetriever, queries: Sequence[str], answers: Sequence[int]) -> NDArray[np.float64]:
    """Return the rank of each query's correct document among the retriever's hits.

    Args:
        retriever: The retriever to measure.
        queries: The n queries.
        answers: Position of the correct document of each query.

    Returns:
        Ranks counted from 1, shape (n,). The rank is infinite if the document is not a hit, because it has the score 0.
    """
    ranks = np.empty(len(queries))
    for row, (query, answer) in enumerate(zip(queries, answers, strict=True)):
        scores = retriever.scores(query)
        ranks[row] = mean_ranks(scores[None], [answer])[0] if scores[answer] > 0 else np.inf
    return ranks


def _accuracies(ranks: Ranks) -> dict[str, float]:
    """Compute the share of queries for which each system ranks the correct document first, or among the first ten.

    Args:
        ranks: The ranks of the correct documents, by the name of the system.

    Returns:
        The accuracies, such as ``word2doc@10``, and two counters. ``wins`` is the number of queries for which word2doc
        ranks the correct document first and the retriever alone does not. ``losses`` is the number of queries for which
        only the retriever ranks it first.
    """
    accuracies = {f"{name}@{k}": float((system <= k).mean()) for k in (1, _DEPTH) for name, system in ranks.items()}
    network_first, retriever_first = ranks["word2doc"] == 1, ranks["retriever"] == 1
    wins = int((network_first & ~retriever_first).sum())
    losses = int((retriever_first & ~network_first).sum())
    return {**accuracies, "wins": wins, "losses": losses}
