"""Checks that every vector of an index belongs to the text beside it, and repairs those that do not.

A vector is told to be right by encoding the text again: that is exact, whoever wrote the document and by what way, asks
for no hash beside each vector, which partial updates would leave behind as they do the vector, and takes less time than
reading the document.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field

import numpy as np

from resift.arrays import Floats, batched
from resift.contracts.documents import Document, IndexInfo, Rejection
from resift.contracts.engine import Engine
from resift.contracts.query_dsl import VECTOR_FIELD, document_text, is_compact, is_ours
from resift.encoders.model import Model
from resift.ingest.stopping import Stop
from resift.ingest.writing import vector_writer
from resift.vectors.compact import HALF_UNIT

TOLERANCE = 1e-4
BATCH = 500
NAMED = 1000  # ids that a report has of each kind
_ROUNDS = 10


@dataclass
class Verification:
    """What was found in an index.

    Of ``checked`` documents some are ``missing`` a vector, or have a ``stale`` one, of another text or model; the ids
    are those of the first thousand. ``repaired`` ones got a new vector, ``unrepaired`` ones have a wrong one as far as
    is known now, and for ``refused`` ones the engine takes none.
    """

    index: str
    checked: int = 0
    missing: int = 0
    stale: int = 0
    missing_ids: list[str] = field(default_factory=list)
    stale_ids: list[str] = field(default_factory=list)
    repaired: int = 0
    unrepaired: int = 0
    refused: list[Rejection] = field(default_factory=list)

    @property
    def right(self) -> bool:
        """Whether every vector belongs to the text beside it now."""
        return not self.unrepaired

    def note(self, document: Document) -> None:
        """Count a document whose vector is wrong."""
        if document.vector is None:
            self.missing, ids = self.missing + 1, self.missing_ids
        else:
            self.stale, ids = self.stale + 1, self.stale_ids
        if len(ids) < NAMED:
            ids.append(document.id)


def choose(engine: Engine, model: Model, names: Sequence[str]) -> tuple[list[IndexInfo], dict[str, str]]:
    """The indices whose vectors of a model can be checked, and why those cannot that have other ones, by their names.

    ``names`` are those of indices, aliases, data streams or patterns; without any all indices are looked at. Raises
    IndexNotFound for a name that stands for none.
    """
    own_names = dict.fromkeys(own for name in names for own in engine.resolve(name))
    infos = [engine.info(own) for own in own_names] if names else engine.indices()
    chosen, others = [], {}
    for info in infos:
        entry = info.find(model)
        if entry is None:
            if info.model is not None or names:
                others[info.name] = f"vectors of model {info.model_name} ({info.model})" if info.model else "no vectors"
        elif is_ours(entry.vector_field):
            chosen.append(entry)
        else:
            others[info.name] = f"vectors in its own field {entry.vector_field}, which Resift does not write"
    return chosen, others


Progress = Callable[[Verification], None]


def verify(
    engine: Engine,
    model: Model,
    index: str,
    repair: bool = False,
    stop: Stop | None = None,
    progress: Progress = lambda found: None,
) -> Verification:
    """Encode every text of one index again and compare. With ``repair`` write the right vectors.

    Components may differ by 1e-4 of the largest one, or of 1; compact ones by half a unit more. A repair writes vectors
    alone, and only over the version that was read, so that what others write at the same time stays; what they changed
    is read again. ``progress`` is called after each batch. Where a ``stop`` is requested, the report is of what was
    checked until then. Raises ModelMismatch if the index has no vectors of the model.
    """
    info = engine.info(index).of(model)
    documents = engine.scan(info.name, info.vector_field, info.fields)
    return check(engine, model, info, documents, repair, stop or Stop(), progress)


def check(
    engine: Engine,
    model: Model,
    info: IndexInfo,
    documents: Iterable[Document],
    repair: bool,
    stop: Stop,
    progress: Progress = lambda found: None,
) -> Verification:
    """:func:`verify` for some documents of an index, which were read with the fields and the vectors of ``info``."""
    found = Verification(info.name)
    changed = _check(engine, model, info, documents, found, repair, stop, progress)
    for _ in range(_ROUNDS):
        if not changed or stop.requested:
            break
        engine.refresh(info.name)  # what was changed meanwhile need not be visible yet
        again = Verification(info.name)  # they have been counted
        changed = _check(engine, model, info, _named(engine, info, changed), again, repair, stop)
        found.repaired += again.repaired
        found.refused += again.refused
    found.unrepaired = len(changed) + len(found.refused) if repair else found.missing + found.stale
    if found.repaired:
        engine.refresh(info.name)
    return found


def _check(
    engine: Engine,
    model: Model,
    info: IndexInfo,
    documents: Iterable[Document],
    found: Verification,
    repair: bool,
    stop: Stop,
    progress: Progress = lambda found: None,
) -> list[str]:
    """Check documents; return the ids of those that are wrong, and were changed since they were read."""
    with vector_writer(engine, info, stop) if repair else nullcontext() as writer:
        wrong = []
        for batch in batched(documents, BATCH):
            found.checked += len(batch)
            expected = model.encode([document_text(document.source, info.fields) for document in batch])
            for document, right in zip(batch, expected, strict=True):
                if not is_right(document.vector, right, info.vector_field):
                    found.note(document)
                    wrong.append((document.id, document.version, right))
            # Few are wrong as a rule: one request for each batch that was read would be many small ones.
            if writer is not None and len(wrong) >= BATCH:
                writer.put(wrong)
                found.repaired, wrong = writer.written, []
            elif writer is None:
                wrong = []
            progress(found)
            if stop.requested:
                break
        if writer is not None and wrong:
            writer.put(wrong)
    if writer is None:
        return []
    found.repaired, found.refused = writer.written, writer.refused
    return writer.changed


def _named(engine: Engine, info: IndexInfo, ids: Sequence[str]) -> Iterator[Document]:
    for some in batched(ids, BATCH):
        yield from engine.scan(info.name, info.vector_field, info.fields, ids=some)


def is_right(vector: Floats | None, right: Floats, field: str = VECTOR_FIELD) -> bool:
    """Whether a vector that is stored in a ``field`` is the one that its text has."""
    if vector is None or vector.shape != right.shape:
        return False
    # What is read may be rounded in proportion to its largest number, which is beyond 1 in vectors for fuzzy Jaccard.
    most = float(np.abs(right).max())
    tolerance = TOLERANCE * max(1, most) + (HALF_UNIT * most if is_compact(field) else 0)
    return bool(np.abs(vector - right).max() <= tolerance)
