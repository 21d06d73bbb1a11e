"""What is served: a collection behind the search that a caller gets, without a session or in one.

Evaluation knows only what it asks (:class:`Asked`) and what it gets (:class:`Search`). How a search is rewritten, and
which engine runs it, the command line hands in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.ranking.feedback import DEFAULT_METHOD
from resift.ranking.judgements import JudgedDocument

RANKED = 1000  # as many as TREC's runs hold


@dataclass(frozen=True)
class Asked:
    """One search: a query's ``text`` and ``vector`` (K,), and what was ``judged`` in its session.

    Documents' ids are their positions. ``alpha``: weight of the similarity without feedback; ``max_alpha``: what it
    comes near to with feedback. ``method``: how the session learns. ``whole``: the whole collection is rescored and
    ranked, and not only as many hits as are served.
    """

    text: str
    vector: Floats
    alpha: float
    max_alpha: float
    judged: Sequence[JudgedDocument] = ()
    method: str = DEFAULT_METHOD
    whole: bool = False


class Search(Protocol):
    """A collection that is searched as a caller's would be."""

    def ranking(self, asked: Asked) -> NDArray[np.int64]:
        """Positions of the documents that are found, best first."""


# Of documents, their vectors (N, K), the similarity that compares these, and how rare a word is.
Serve = Callable[[Sequence[str], Floats, str, Callable[[str], float]], Search]


def scores_of(ranking: NDArray[np.int64], count: int) -> NDArray[np.float64]:
    """Scores (``count``,) that give this ranking, down to 1 for the last; -inf of documents that are not found."""
    scores = np.full(count, -np.inf)
    scores[ranking] = np.arange(len(ranking), 0, -1)
    return scores
