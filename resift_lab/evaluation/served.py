"""The interface of searches in a test collection that give the same hits as Resift's service.

Evaluation protocols describe a search by :class:`SimulatedSearch` and receive :class:`Hits`. The implementation, which
rewrites the search and runs it on an engine, is in :mod:`resift_lab.commands.served_search`.
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
from resift_lab.evaluation.system import System, known_word_share, similarity_weights

RANKED = 1000  # number of hits in a ranking, as in the runs of TREC


@dataclass(frozen=True)
class SimulatedSearch:
    """A search of a simulated user.

    Attributes:
        text: The query text.
        vector: The query vector, of shape (K,) for K dimensions.
        alpha: Weight of the similarity relative to BM25 in a search without feedback, 0 to 1.
        max_alpha: The value that this weight approaches as feedback grows, 0 to 1.
        judged: The judged documents of the session. Document ids are positions in the collection.
        method: Name of the feedback method.
        whole: Whether to score and rank the whole collection instead of only the hits that the service returns.
        known_share: A function that returns the share of a text's words that have a word vector, 0 to 1. The weight
            of the similarity is reduced if words are unknown. None leaves the weight unchanged.
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
    """The hits of a search.

    Attributes:
        positions: Positions of the n hits in the collection, best first, shape (n,).
        scores: Scores of the hits, shape (n,).
        window: The rescore window: the number of top-ranked hits that a trained reranker may reorder.
    """

    positions: NDArray[np.int64]
    scores: NDArray[np.float64]
    window: int

    @property
    def window_positions(self) -> NDArray[np.int64]:
        """The positions of the w hits in the rescore window, which a reranker may reorder, shape (w,)."""
        return self.positions[: self.window]

    def reranked(self, factors: NDArray[np.float64]) -> NDArray[np.int64]:
        """Rerank the hits in the rescore window, by multiplying their scores with factors.

        Args:
            factors: The factor for each of the w hits in the window, shape (w,).

        Returns:
            The positions of all n hits, shape (n,): the reordered window, followed by the other hits.
        """
        order = np.argsort(-self.scores[: self.window] * factors, kind="stable")
        return np.concatenate([self.window_positions[order], self.positions[self.window :]])


class SearchableCollection(Protocol):
    """The interface of an indexed test collection, whose searches return the same hits as the service."""

    def hits(self, search: SimulatedSearch) -> Hits:
        """Run a search in the collection, and return its hits, best first.

        Args:
            search: The query, its vector, the weight of the similarity, and the judged documents of the session.
        """


# A function that indexes documents. Its arguments are the texts of the N documents, their vectors of shape (N, K), the
# name of the similarity, and a function that returns the inverse document frequency of a word.
Serve = Callable[[Sequence[str], Floats, str, Callable[[str], float]], SearchableCollection]


Served = Callable[[str], Hits]  # a function that takes the text of a query and returns its hits, without a session


def search_function(serve: Serve, system: System, documents: Sequence[str]) -> Served:
    """Return a function that searches documents by BM25 and by the vectors of a retrieval system.

    The system is fitted on the documents first.

    Args:
        serve: A function that takes documents and their vectors, and returns a search with the same ranking as the
            Resift service.
        system: A system with dense vectors. It also determines the weight of the vector similarity relative to BM25.
        documents: The texts of the documents.

    Returns:
        A function that takes the text of a query and returns its hits, without a session.
    """
    # all words have the same idf, which only matters for feedback and for very long queries
    search = serve(documents, np.asarray(system.fit(documents)), system.similarity, lambda word: 1.0)
    alpha = similarity_weights(system)[0]
    return lambda query: search.hits(
        SimulatedSearch(
            query, system.encode_queries([query])[0], alpha, alpha, known_share=partial(known_word_share, system)
        )
    )


def ranking_to_scores(ranking: NDArray[np.int64], count: int) -> NDArray[np.float64]:
    """Convert a ranking to scores that sort the documents in the same order.

    Args:
        ranking: Positions of the n hits, best first, shape (n,).
        count: Number of documents in the collection.

    Returns:
        Scores of shape (``count``,): n for the best hit, 1 for the last hit, and -inf for documents that are not hits.
    """
    scores = np.full(count, -np.inf)
    scores[ranking] = np.arange(len(ranking), 0, -1)
    return scores
