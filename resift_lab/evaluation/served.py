"""What is served: a collection behind the search that a caller gets, without a session or in one.

Evaluation knows only what it asks (:class:`Asked`) and what it gets (:class:`SearchableCollection`). How a search is
rewritten, and which engine runs it, the command line hands in.
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
class Asked:
    """One search: a query's ``text`` and ``vector`` (K,), and what was ``judged`` in its session.

    Documents' ids are their positions. ``alpha``: weight of the similarity without feedback; ``max_alpha``: what it
    comes near to with feedback. ``known_share``: of a text, how much of it its vector stands for, 0 to 1; None if the
    weights count as they are. ``method``: how the session learns. ``whole``: the whole collection is rescored and
    ranked, and not only as many hits as are served.
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
    """What a search finds: ``positions`` (n,) of documents, best first, and their ``scores`` (n,).

    ``window``: how many of the first ones a trained reranker reads, if it is in service.
    """

    positions: NDArray[np.int64]
    scores: NDArray[np.float64]
    window: int

    @property
    def read(self) -> NDArray[np.int64]:
        """The positions of those that a trained reranker reads, (w,)."""
        return self.positions[: self.window]

    def reranked(self, factors: NDArray[np.float64]) -> NDArray[np.int64]:
        """All positions, the first ones in the order of their scores times ``factors`` (w,)."""
        order = np.argsort(-self.scores[: self.window] * factors, kind="stable")
        return np.concatenate([self.read[order], self.positions[self.window :]])


class SearchableCollection(Protocol):
    """A collection that is searched as a caller's would be."""

    def hits(self, asked: Asked) -> Hits:
        """What is found, best first."""


# Of documents, their vectors (N, K), the similarity that compares these, and how rare a word is.
Serve = Callable[[Sequence[str], Floats, str, Callable[[str], float]], SearchableCollection]


Served = Callable[[str], Hits]  # what a search for a text finds without a session


def served_by(serve: Serve, system: System, documents: Sequence[str]) -> Served:
    """Searches of ``documents`` by BM25 and the dense vectors of a ``system``, with its own weight."""
    # how rare a word is matters only to what sessions learn, and here are none
    search = serve(documents, np.asarray(system.fit(documents)), system.similarity, lambda word: 1.0)
    alpha = weights_of(system)[0]
    return lambda query: search.hits(
        Asked(query, system.queries([query])[0], alpha, alpha, known_share=partial(known_by, system))
    )


def scores_of(ranking: NDArray[np.int64], count: int) -> NDArray[np.float64]:
    """Scores (``count``,) that give this ranking, down to 1 for the last; -inf of documents that are not found."""
    scores = np.full(count, -np.inf)
    scores[ranking] = np.arange(len(ranking), 0, -1)
    return scores
