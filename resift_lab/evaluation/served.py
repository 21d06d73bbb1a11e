"""The search that is served, over a test collection.

Protocols describe a search by :class:`SimulatedSearch` and receive :class:`Hits`. The commands provide the
implementation, which rewrites the search and runs it on an engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.feedback.judgements import JudgedDocument
from resift.feedback.methods import DEFAULT_METHOD
from resift_lab.evaluation.system import System, known_by, weights_of

RANKED = 1000  # as many as TREC's runs hold


@dataclass(frozen=True)
class SimulatedSearch:
    """One search of a simulated user.

    Attributes:
        text: The query text.
        vector: The query vector, of shape (K,).
        alpha: Weight of the similarity without feedback, 0 to 1.
        max_alpha: Limit of this weight with much feedback, 0 to 1.
        judged: The judged documents of the session. Document ids are positions in the collection.
        method: Name of the feedback method.
        whole: Whether the whole collection is rescored and ranked, instead of only the hits that the service returns.
        known_share: A function that returns the share of a text's words that its vector represents, 0 to 1. None means
            that the weights do not depend on it.
    """

    text: str
    vector: Floats
    alpha: float
    max_alpha: float
    judged: Sequence[JudgedDocument] = ()
    method: str = DEFAULT_METHOD
    whole: bool = False
    known_share: Callable[[str], float] | None = None


@dataclass(frozen=True)
class Hits:
    """The result of a search.

    Attributes:
        positions: Positions of the documents, best first, of shape (n,).
        scores: Their scores, of shape (n,).
        window: Number of first hits that a trained reranker reads, if one is in service.
    """

    positions: NDArray[np.int64]
    scores: NDArray[np.float64]
    window: int

    @property
    def read(self) -> NDArray[np.int64]:
        """Return the positions of the hits in the window, of shape (w,)."""
        return self.positions[: self.window]

    def reranked(self, factors: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return all positions, with the hits in the window reordered.

        Args:
            factors: Factors of the scores of the hits in the window, of shape (w,).

        Returns:
            Positions of shape (n,).
        """
        order = np.argsort(-self.scores[: self.window] * factors, kind="stable")
        return np.concatenate([self.read[order], self.positions[self.window :]])


class SearchableCollection(Protocol):
    """A collection with the search that the service would run."""

    def hits(self, search: SimulatedSearch) -> Hits:
        """Return the hits of a search, best first."""


# Of documents, their vectors (N, K), the similarity that compares these, and how rare a word is.
Serve = Callable[[Sequence[str], Floats, str, Callable[[str], float]], SearchableCollection]


Served = Callable[[str], Hits]  # what a search for a text finds without a session


def served_by(serve: Serve, system: System, documents: Sequence[str]) -> Served:
    """Return the search of a system's vectors and BM25, with the system's own weight and without a session.

    Args:
        serve: Creates a searchable collection.
        system: A system with dense vectors.
        documents: The texts of the documents.
    """
    # how rare a word is matters only to what sessions learn, and here are none
    search = serve(documents, np.asarray(system.fit(documents)), system.similarity, lambda word: 1.0)
    alpha = weights_of(system)[0]
    return lambda query: search.hits(
        SimulatedSearch(query, system.queries([query])[0], alpha, alpha, known_share=partial(known_by, system))
    )


def scores_of(ranking: NDArray[np.int64], count: int) -> NDArray[np.float64]:
    """Return scores that produce a ranking.

    Args:
        ranking: Positions of the documents that were found, best first, of shape (n,).
        count: Number of all documents.

    Returns:
        Scores of shape (count,): n for the best document, 1 for the last one, and -inf for documents that were not
        found.
    """
    scores = np.full(count, -np.inf)
    scores[ranking] = np.arange(len(ranking), 0, -1)
    return scores
