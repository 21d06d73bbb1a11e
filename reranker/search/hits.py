"""Hits: their scores and what is told of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.plugin.documents import SearchResult


def _origins(results: Sequence[SearchResult]) -> dict[str, int]:
    """Where the hits' vectors came from: known from before, the engine, or encoded now since the index has none."""
    kept = sum(result.cached for result in results)
    encoded = sum(vector is None for result in results for vector in result.vectors)
    return {
        "kept": kept,
        "fetched": sum(len(result.vectors) for result in results) - kept - encoded,
        "encoded": encoded,
    }


def _key(hit: Mapping[str, Any]) -> tuple[str, str]:
    return hit["_index"], hit["_id"]


def _scores(
    hits: Sequence[dict[str, Any]],
    keys: Sequence[tuple[str, str]],
    ranks: Sequence[int | None],
    longer: SearchResult | None,
) -> NDArray[np.float64]:
    """The engine's scores (n,), those of the session's longer query if there is one; NaN for hits without."""
    if longer is None:
        scores = [np.nan if rank is None else hit["_score"] for hit, rank in zip(hits, ranks, strict=True)]
    else:
        found = {_key(hit): hit["_score"] for hit in longer.hits}
        scores = [found.get(key, np.nan) for key in keys]
    return np.asarray(scores, np.float64)


def _with_parts(
    hits: Sequence[dict[str, Any]],
    ranks: Sequence[int | None],
    shown: NDArray[np.int64],
    combined: Floats,
    similar: Floats,
) -> list[dict[str, Any]]:
    """The hits that are ``shown``, each with its combined score and its sub-scores."""
    scores, similarities = combined[shown].tolist(), similar[shown].astype(float).round(6).tolist()
    found = []
    for place, score, similarity in zip(shown.tolist(), scores, similarities, strict=True):
        hit, rank = hits[place], ranks[place]
        parts = {
            "engine_score": None if rank is None else hit["_score"],
            "similarity": similarity,
            "engine_rank": rank,
        }
        found.append({**hit, "_score": score, "resift": parts})
    return found


def _beyond(hit: dict[str, Any], rank: int) -> dict[str, Any]:
    """A hit beyond the window: without a score, since nothing of it could be compared."""
    return {
        **hit,
        "_score": None,
        "resift": {"engine_score": hit["_score"], "similarity": None, "engine_rank": rank},
    }
