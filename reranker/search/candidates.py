"""Candidates: the documents that are scored for a search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from resift.arrays import Floats
from resift.plugin.documents import SearchResult
from resift.reranker.search.hits import HitKey, hit_key, vectors_of
from resift.reranker.search.retrieval import EXPANDED, HITS, NEAREST, Retrieval
from resift.reranker.search.scoring import TransformedQuery


@dataclass(frozen=True)
class Candidates:
    """The engine's first hits and the documents that joined them, none twice.

    ``hits``; ``ranks``: where each stands in the engine's own ranking, from 1, None for one that the engine's query
    did not find; ``vectors`` (n, K).
    """

    hits: list[dict[str, Any]]
    ranks: list[int | None]
    vectors: Floats

    @property
    def keys(self) -> list[HitKey]:
        """What tells each hit from all others."""
        return [hit_key(hit) for hit in self.hits]


def gather_candidates(retrieval: Retrieval, query: TransformedQuery) -> Candidates:
    """The window's hits; those of the expanded query; and of the nearest documents those that are similar at all."""
    engine_hits = {hit_key(hit): (rank, hit) for rank, hit in enumerate(retrieval.results[HITS].hits, 1)}
    hits, vectors = list(retrieval.window), [retrieval.window_vectors]
    for name, min_similarity in ((EXPANDED, -np.inf), (NEAREST, 0.0)):
        result = retrieval.results.get(name)
        if result is not None:
            matrix = vectors_of(retrieval.model, result.hits, result.vectors, retrieval.parsed.info.fields)
            similar = query.similarities(retrieval.model, matrix) > min_similarity
            new = _new_rows(result, hits, similar.tolist())
            # a hit from beyond the window joins as the engine's own, with that query's score
            hits += [engine_hits.get(hit_key(hit), (0, hit))[1] for hit in (result.hits[row] for row in new)]
            vectors.append(matrix[new])
    ranks = [engine_hits.get(hit_key(hit), (None, hit))[0] for hit in hits]
    return Candidates(hits, ranks, np.concatenate(vectors))


def _new_rows(result: SearchResult, hits: Sequence[dict[str, Any]], similar: Sequence[bool]) -> list[int]:
    """Positions of the result's hits that are similar enough and not yet among ``hits``."""
    known = {hit_key(hit) for hit in hits}
    return [row for row, hit in enumerate(result.hits) if similar[row] and hit_key(hit) not in known]
