"""Hits as the engine answers them: what tells them apart, and their vectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from resift.arrays import Floats
from resift.encoders.model import Model

HitKey = tuple[str, str]


def hit_key(hit: Mapping[str, Any]) -> HitKey:
    """A hit's index and id: a search over several indices may find the same id in each."""
    return hit["_index"], hit["_id"]


def vectors_of(model: Model, vectors: Sequence[Floats | None], texts: Callable[[Sequence[int]], list[str]]) -> Floats:
    """The vectors (n, K) of n documents; those that the index lacks are encoded from what ``texts`` gives for their
    positions."""
    matrix = np.zeros((len(vectors), model.dim), np.float32)
    for row, vector in enumerate(vectors):
        if vector is not None:
            matrix[row] = vector
    missing = [row for row, vector in enumerate(vectors) if vector is None]
    if missing:
        matrix[missing] = model.encode(texts(missing))
    return matrix
