"""Simulate reviews of a collection's first query, with its qrels as the reviewer's judgements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from resift.errors import BadInput
from resift.reviews.ranking import DocumentSet
from resift.reviews.stopping import p_value
from resift_lab.evaluation.data import Collection

FIGURES = ("wss@95", "wss@100", "rrf@10", "atd", "recall@stop", "read@stop", "reached")


@dataclass(frozen=True)
class SimulatedReview:
    """The course of a simulated review.

    Attributes:
        labels: Relevance of the documents in the order in which they were read, without the priors, of shape (n,).
        stop: Number of documents that were read when the stopping rule first held, or n if it never did.
    """

    labels: NDArray[np.bool_]
    stop: int

    def figures(self, target: float) -> dict[str, float]:
        """Return measures of the review, in percent.

        Args:
            target: The recall at which a review may stop, 0 to 1.

        Returns:
            Work saved over sampling (WSS), relevant records found (RRF), average time to discovery (ATD), recall and
            share of documents read at the stop, and ``reached``, which is 100 if the recall at the stop is at least
            ``target``.
        """
        total, relevant_read = len(self.labels), np.cumsum(self.labels)
        places = np.flatnonzero(self.labels) + 1
        recall = 100 * float(relevant_read[self.stop - 1]) / len(places)
        return {
            "wss@95": _saved(places, total, 0.95),
            "wss@100": _saved(places, total, 1.0),
            "rrf@10": 100 * float(relevant_read[max(1, round(total / 10)) - 1]) / len(places),
            "atd": 100 * float(places.mean()) / total,
            "recall@stop": recall,
            "read@stop": 100 * self.stop / total,
            "reached": 100.0 * (recall >= 100 * target),
        }


def _saved(places: NDArray[np.intp], total: int, recall: float) -> float:
    """Return WSS: the share of documents that need not be read for a recall, minus that of a random order."""
    last = places[int(np.ceil(recall * len(places))) - 1]
    return 100 * float((total - last) / total - (1 - recall))


def simulate(collection: Collection, seed: int, batch: int, target: float, documents: DocumentSet) -> SimulatedReview:
    """Simulate a review of the collection's first query.

    The review starts with one random document of each class, the priors.

    Args:
        collection: The collection.
        seed: Seed of the random choice.
        batch: Number of documents that are read before the ranking is updated.
        target: The recall at which the review may stop.
        documents: The documents of the collection.

    Raises:
        BadInput: If there are fewer than two relevant documents, or no irrelevant one.
    """
    relevant = np.zeros(len(collection.document_ids), bool)
    relevant[[row for row, grade in collection.grades[0].items() if grade > 0]] = True
    if relevant.sum() < 2 or relevant.all():
        message = f"{int(relevant.sum())} relevant of {len(relevant)} documents"
        raise BadInput(message, value=int(relevant.sum()), expected="at least two, and one that is not")
    rng = np.random.default_rng(seed)
    priors = [int(rng.choice(np.flatnonzero(relevant == label))) for label in (True, False)]
    ids = collection.document_ids
    truth = dict(zip(ids, relevant.tolist(), strict=True))
    labels, order = {ids[row]: truth[ids[row]] for row in priors}, list[bool]()
    stop: int | None = None
    while len(labels) < len(ids):
        for id in documents.ranked(labels, labels)[:batch]:
            order.append(truth[id])
            labels[id] = truth[id]
        if stop is None and p_value(order, len(ids) - len(priors), target) <= 0.05:
            stop = len(order)
        if sum(order) == relevant.sum() - 1 and stop is not None:
            break
    order += [False] * (len(ids) - len(priors) - len(order))  # nothing is found in what is left
    return SimulatedReview(np.array(order), stop or len(order))


def review_report(collection: Collection, seeds: int, batch: int, target: float = 0.95) -> dict[str, object]:
    """Return the measures of several simulated reviews and their means.

    Args:
        collection: The collection.
        seeds: Number of simulations.
        batch: Number of documents that are read before the ranking is updated.
        target: The recall at which a review may stop.
    """
    documents = DocumentSet(collection.document_ids, collection.documents)
    runs = [simulate(collection, seed, batch, target, documents).figures(target) for seed in range(seeds)]
    means = {name: round(float(np.mean([run[name] for run in runs])), 2) for name in FIGURES}
    return {
        "task": "review",
        "documents": len(collection.documents),
        "relevant": sum(grade > 0 for grade in collection.grades[0].values()),
        "batch": batch,
        "seeds": seeds,
        "target": target,
        **means,
        "runs": _rounded(runs),
    }


def _rounded(runs: Sequence[dict[str, float]]) -> list[dict[str, float]]:
    return [{name: round(value, 2) for name, value in run.items()} for run in runs]
