"""Simulate systematic reviews, in which a reviewer looks for all relevant documents of a collection's first query.

The qrels of the query are the reviewer's judgements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from resift.errors import BadInput
from resift.reviews.ranking import DocumentSet
from resift.reviews.stopping import p_value
from resift_lab.evaluation.data import Collection

MEASURES = ("wss@95", "wss@100", "rrf@10", "atd", "recall@stop", "read@stop", "reached")


@dataclass(frozen=True)
class SimulatedReview:
    """The reading order in a simulated systematic review, in which all documents are read.

    Attributes:
        labels: Whether each of the n documents is relevant, in the order of reading, shape (n,). The two documents
            whose labels a review starts with are left out.
        stop: Number of documents that had been read when the stopping rule was first met, or n if it was never met.
    """

    labels: NDArray[np.bool_]
    stop: int

    def measures(self, target: float) -> dict[str, float]:
        """Return measures of how early the relevant documents were read, and of the stopping rule, in percent.

        Args:
            target: The recall at which a review may stop, 0 to 1.

        Returns:
            A dictionary with these measures: work saved over sampling at 95 % and 100 % recall (``wss@95``,
            ``wss@100``), the share of the relevant documents that are among the first tenth of all documents
            (``rrf@10``), the average time to discovery (``atd``), the recall and the share of documents read at the
            stop (``recall@stop``, ``read@stop``), and ``reached``, which is 100 if the recall at the stop is at least
            ``target``, and otherwise 0.
        """
        total, relevant_read = len(self.labels), np.cumsum(self.labels)
        places = np.flatnonzero(self.labels) + 1
        recall = 100 * float(relevant_read[self.stop - 1]) / len(places)
        return {
            "wss@95": _work_saved(places, total, 0.95),
            "wss@100": _work_saved(places, total, 1.0),
            "rrf@10": 100 * float(relevant_read[max(1, round(total / 10)) - 1]) / len(places),
            "atd": 100 * float(places.mean()) / total,
            "recall@stop": recall,
            "read@stop": 100 * self.stop / total,
            "reached": 100.0 * (recall >= 100 * target),
        }


def _work_saved(places: NDArray[np.intp], total: int, recall: float) -> float:
    """Return the work saved over sampling (WSS), in percent.

    This is the share of documents that are still unread when a recall is reached, minus the share that would be unread
    if the documents were read in random order.

    Args:
        places: The 1-based positions of the relevant documents in the reading order, ascending.
        total: Number of documents.
        recall: The recall to reach, 0 to 1.
    """
    last = places[int(np.ceil(recall * len(places))) - 1]
    return 100 * float((total - last) / total - (1 - recall))


def simulate_review(
    collection: Collection, seed: int, batch: int, target: float, documents: DocumentSet
) -> SimulatedReview:
    """Simulate a review of the collection's first query.

    The review starts with a random relevant document and a random irrelevant document, whose labels are known. Then it
    repeatedly ranks the unread documents, reads the best ``batch`` of them and takes their labels from the collection.

    Args:
        collection: The test collection to review.
        seed: Seed of the random choice of the first two documents.
        batch: Number of documents that are read before the ranking is updated.
        target: The recall at which the review may stop, 0 to 1.
        documents: The documents of the collection.

    Raises:
        BadInput: If there are fewer than two relevant documents, or no irrelevant document.
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
    order += [False] * (len(ids) - len(priors) - len(order))  # the remaining documents are irrelevant
    return SimulatedReview(np.array(order), stop or len(order))


def review_report(collection: Collection, seeds: int, batch: int, target: float = 0.95) -> dict[str, object]:
    """Simulate several systematic reviews, in which documents about a topic are read, and report their measures.

    Args:
        collection: The test collection. Its first query is the topic of the reviews.
        seeds: Number of simulations, each with its own seed.
        batch: Number of documents that are read before the ranking is updated.
        target: The recall at which a review may stop, 0 to 1.

    Returns:
        A dictionary for JSON with the settings, the mean of each measure (:meth:`SimulatedReview.measures`), and the
        measures of each simulation in ``runs``.
    """
    documents = DocumentSet(collection.document_ids, collection.documents)
    runs = [simulate_review(collection, seed, batch, target, documents).measures(target) for seed in range(seeds)]
    means = {name: round(float(np.mean([run[name] for run in runs])), 2) for name in MEASURES}
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
