"""Checks that every vector of an index belongs to the text beside it, and repairs those that do not."""

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
    """What was found in an index.

    Attributes:
        checked: number of documents.
        missing: ids of documents without a vector.
        stale: ids of documents whose vector belongs to another text.
        repaired: number of documents that got a new vector.
    """

    checked: int = 0
    missing: list[str] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)
    repaired: int = 0


def verify(engine: Engine, model: Model, index: str, repair: bool = False) -> Verification:
    """Encode every text again and compare: components may differ by 1e-4. With ``repair`` write the right vectors.

    Vectors go stale by partial updates that bypass the ingest pipeline. Raises ModelMismatch if the index belongs to
    another model.
    """
    info = engine.info(index)
    info.require(model)
    found = Verification()
    for batch in batched(engine.scan(index), 500):
        expected = model.encode([document_text(source, info.fields) for _, source, _ in batch])
        for (id, _, vector), right in zip(batch, expected, strict=True):
            found.checked += 1
            if vector is None:
                found.missing.append(id)
            elif np.abs(vector - right).max() > TOLERANCE:
                found.stale.append(id)
    for id in [*found.missing, *found.stale] if repair else []:
        try:
            engine.update(index, id, {}, model)
            found.repaired += 1
        except NotFound:  # deleted since it was checked
            continue
    engine.refresh(index)
    return found
