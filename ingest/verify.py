"""Checks that every vector of an index belongs to the text beside it, and repairs those that do not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from resift.arrays import Floats, batched
from resift.encoders.model import Model
from resift.plugin.documents import IndexInfo
from resift.plugin.engine import Engine
from resift.plugin.query_dsl import document_text

TOLERANCE = 1e-4
BATCH = 500
_ATTEMPTS = 10


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

    Vectors go stale by partial updates that bypass the ingest pipeline. A repair writes vectors alone, and only over
    the version that was read, so that what others write at the same time stays. Raises ModelMismatch if the index
    belongs to another model.
    """
    info = engine.info(index).of(model)
    found = Verification()
    changed = _check(engine, model, info, found, repair)
    for _ in range(_ATTEMPTS):
        if not changed:
            break
        again = Verification()  # they have been counted
        changed = _check(engine, model, info, again, repair, changed)
        found.repaired += again.repaired
    engine.refresh(index)
    return found


def _check(
    engine: Engine, model: Model, info: IndexInfo, found: Verification, repair: bool, ids: Sequence[str] | None = None
) -> list[str]:
    """Check all documents, or those with these ``ids``; return the ids of those that were changed meanwhile."""
    changed = []
    for batch in batched(engine.scan(info.name, info.vector_field, info.fields, ids=ids), BATCH):
        expected = model.encode([document_text(document.source, info.fields) for document in batch])
        wrong = []
        for document, right in zip(batch, expected, strict=True):
            found.checked += 1
            if not _is_right(document.vector, right):
                (found.missing if document.vector is None else found.stale).append(document.id)
                wrong.append((document.id, document.version, right))
        if repair and wrong:
            late = engine.put_vectors(info.name, wrong, info.vector_field)
            found.repaired += len(wrong) - len(late)
            changed += late
    if repair:
        engine.refresh(info.name)
    return changed


def _is_right(vector: Floats | None, right: Floats) -> bool:
    return vector is not None and vector.shape == right.shape and bool(np.abs(vector - right).max() <= TOLERANCE)
