"""Candidates: the documents that are scored for a search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from resift.arrays import Floats
from resift.plugin.documents import SearchResult
from resift.reranker.search.hits import HitKey, hit_key
from resift.reranker.search.retrieval import EXPANDED, NEAREST, Retrieval
from resift.reranker.search.scoring import TransformedQuery


@dataclass(frozen=True)
class Candidates:
    """The engine's first hits, and after them the documents that joined them, none twice.

    ``hits``; ``vectors`` (n, K); ``window``: how many of them are the engine's own first hits.

    They depend on the query, the filter and the session, and not on the page that is wanted: so every page is cut from
    one ranking. A document that joined is not compared with where it stands in the engine's ranking beyond the window,
    which only a request for a late page would learn.
    """

    hits: list[dict[str, Any]]
    vectors: Floats
    window: int

    @property
    def keys(self) -> list[HitKey]:
        """What tells each hit from all others."""
        return [hit_key(hit) for hit in self.hits]

    @property
    def joined(self) -> list[dict[str, Any]]:
        """The documents that joined the engine's first hits."""
        return self.hits[self.window :]

    @property
    def ranks(self) -> list[int | None]:
        """Where each hit stands in the engine's own ranking, from 1; None for one that joined."""
        return [*range(1, self.window + 1), *[None] * len(self.joined)]


def gather_candidates(retrieval: Retrieval, query: TransformedQuery) -> Candidates:
    """The window's hits; those of the expanded query; and of the nearest documents those that are similar at all."""
    hits, vectors = list(retrieval.window), [retrieval.window_vectors]
    for name, min_similarity in ((EXPANDED, -np.inf), (NEAREST, 0.0)):
        result = retrieval.results.get(name)
        if result is not None:
            matrix = retrieval.vectors_of(result)
            similar = query.similarities(retrieval.model, matrix) > min_similarity
            new = _new_rows(result, hits, similar.tolist())
            hits += [result.hits[row] for row in new]
            vectors.append(matrix[new])
    return Candidates(hits, np.concatenate(vectors), len(retrieval.window))


def _new_rows(result: SearchResult, hits: Sequence[dict[str, Any]], similar: Sequence[bool]) -> list[int]:
    """Positions of the result's hits that are similar enough and not yet among ``hits``."""
    known = {hit_key(hit) for hit in hits}
    return [row for row, hit in enumerate(result.hits) if similar[row] and hit_key(hit) not in known]
