"""Scores of candidates: the engine's, the similarity of their vectors or the trained reranker's, and both combined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.encoders.model import Model
from resift.plugin.documents import SearchResult
from resift.ranking.feedback import Feedback
from resift.ranking.fusion import combine, z_score
from resift.reranker.search.hits import HitKey, hit_key


@dataclass(frozen=True)
class TransformedQuery:
    """A query's vector (K,) as feedback moved it, and the mask (K,) it is compared under; None weighs all alike."""

    vector: Floats
    mask: Floats | None = None

    @classmethod
    def of(cls, vector: Floats, feedback: Feedback | None) -> TransformedQuery:
        """The query (K,) as ``feedback`` moves it; as it is without any."""
        if feedback is None:
            return cls(vector)
        return cls(feedback.transform_query(vector), feedback.mask if feedback.method.masked else None)

    def similarities(self, model: Model, vectors: Floats) -> Floats:
        """Similarity (n,) with each of ``vectors`` (n, K)."""
        return model.score(self.vector, vectors, self.mask)


@dataclass(frozen=True)
class Scores:
    """Scores of n candidates, each (n,).

    ``similarity``: of their vectors with the transformed query; ``semantic``: what is weighed against the engine's
    score, which is the similarity unless a trained reranker is at work; ``combined``: both, with ``alpha`` the weight
    of the semantic score.
    """

    similarity: Floats
    semantic: Floats
    combined: Floats
    alpha: float

    @property
    def order(self) -> NDArray[np.int64]:
        """The candidates' positions, best first; ties stay in the order in which they came."""
        return np.argsort(-self.combined, kind="stable")


def fuse(engine: NDArray[np.float64], similarity: Floats, semantic: Floats, alpha: float, normalization: str) -> Scores:
    """The engine's scores (n,), NaN for candidates without one, combined with the semantic ones."""
    return Scores(similarity, semantic, combine(engine, semantic, alpha, normalization), alpha)


def mean_of_z_scores(first: Floats, second: Floats) -> Floats:
    """The mean of two systems' scores (n,), each as z-scores, which makes their scales alike."""
    return np.asarray((z_score(first) + z_score(second)) / 2, np.float32)


def engine_scores(
    hits: Sequence[dict[str, Any]],
    ranks: Sequence[int | None],
    expanded: SearchResult | None,
) -> NDArray[np.float64]:
    """The engine's scores (n,), NaN for hits without one.

    They are the expanded query's where there is one: scores of two queries cannot be compared with each other.
    """
    if expanded is None:
        scores = [np.nan if rank is None else hit["_score"] for hit, rank in zip(hits, ranks, strict=True)]
    else:
        by_key: dict[HitKey, Any] = {hit_key(hit): hit["_score"] for hit in expanded.hits}
        scores = [by_key.get(hit_key(hit), np.nan) for hit in hits]
    return np.asarray(scores, np.float64)
