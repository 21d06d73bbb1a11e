"""Verify and repair: does every vector of an index belong to the text beside it?"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from resift.arrays import batched
from resift.encoders.model import Model
from resift.errors import NotFound
from resift.plugin.engine import Engine
from resift.plugin.query_dsl import document_text

TOLERANCE = 1e-4


@dataclass
class Verification:
    """How many documents were checked and repaired, and the ids of those without a vector or with a stale one."""

    checked: int = 0
    missing: list[str] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)
    repaired: int = 0


def verify(engine: Engine, model: Model, index: str, repair: bool = False) -> Verification:
    """Encode every text again and compare (largest difference 1e-4); with ``repair`` write the vectors that differ.

    Partial updates past the ingest pipeline are what makes vectors stale. Raises ModelMismatch for another model's
    index.
    """
    info = engine.info(index)
    info.require(model)
    found = Verification()
    for batch in batched(engine.scan(index), 500):
        expected = model.encode([document_text(source, info.fields) for _, source, _ in batch])
        for (id, _, vector), wanted in zip(batch, expected, strict=True):
            found.checked += 1
            if vector is None:
                found.missing.append(id)
            elif np.abs(vector - wanted).max() > TOLERANCE:
                found.stale.append(id)
    for id in [*found.missing, *found.stale] if repair else []:
        try:
            engine.update(index, id, {}, model)
            found.repaired += 1
        except NotFound:
            continue
    engine.refresh(index)
    return found
