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
from resift.encoders.model import Model
from resift.ingest.stopping import Stop
from resift.ingest.writing import vector_writer
from resift.query.dsl import VECTOR_FIELD, document_text, is_compact, is_ours
from resift.vectors.compact import MAX_ROUNDING_ERROR

TOLERANCE = 1e-4
BATCH = 500
MAX_REPORTED_IDS = 1000  # ids that a report has of each kind
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
    def is_correct(self) -> bool:
        """Whether every vector belongs to the text beside it now."""
        return not self.unrepaired

    def note(self, document: Document) -> None:
        """Count a document whose vector is wrong."""
        if document.vector is None:
            self.missing, ids = self.missing + 1, self.missing_ids
        else:
            self.stale, ids = self.stale + 1, self.stale_ids
        if len(ids) < MAX_REPORTED_IDS:
            ids.append(document.id)


def select_indices(engine: Engine, model: Model, names: Sequence[str]) -> tuple[list[IndexInfo], dict[str, str]]:
    """The indices whose vectors of a model can be checked, and why those cannot that have other ones, by their names.

    ``names`` are those of indices, aliases, data streams or patterns; without any all indices are looked at. Raises
    IndexNotFound for a name that stands for none.
    """
    own_names = dict.fromkeys(own for name in names for own in engine.resolve(name))
    infos = [engine.info(own) for own in own_names] if names else engine.indices()
    chosen, others = [], {}
    for info in infos:
        entry = info.find_model(model)
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
    info = engine.info(index).require_model(model)
    documents = engine.scan(info.name, info.vector_field, info.fields)
    return VectorCheck(engine, model, info, repair, stop or Stop()).run(documents, progress)


@dataclass(frozen=True)
class VectorCheck:
    """Compares the vectors of an index, as ``info`` has it, with those that a ``model`` gives its texts; with
    ``repair`` the right ones are written, until a ``stop`` is requested."""

    engine: Engine
    model: Model
    info: IndexInfo
    repair: bool
    stop: Stop

    def run(self, documents: Iterable[Document], progress: Progress) -> Verification:
        """:func:`verify` for some ``documents``, which were read with the fields and the vectors of the index."""
        found = Verification(self.info.name)
        changed = self._compare(documents, found, progress)
        for _ in range(_ROUNDS):
            if not changed or self.stop.requested:
                break
            self.engine.refresh(self.info.name)  # what was changed meanwhile need not be visible yet
            again = Verification(self.info.name)  # they have been counted
            changed = self._compare(self._named(changed), again)
            found.repaired += again.repaired
            found.refused += again.refused
        found.unrepaired = len(changed) + len(found.refused) if self.repair else found.missing + found.stale
        if found.repaired:
            self.engine.refresh(self.info.name)
        return found

    def _named(self, ids: Sequence[str]) -> Iterator[Document]:
        for some in batched(ids, BATCH):
            yield from self.engine.scan(self.info.name, self.info.vector_field, self.info.fields, ids=some)

    def _compare(
        self, documents: Iterable[Document], found: Verification, progress: Progress = lambda found: None
    ) -> list[str]:
        """Check documents; return the ids of those that are wrong, and were changed since they were read."""
        info = self.info
        with vector_writer(self.engine, info, self.stop) if self.repair else nullcontext() as writer:
            wrong = []
            for batch in batched(documents, BATCH):
                found.checked += len(batch)
                expected = self.model.encode([document_text(document.source, info.fields) for document in batch])
                for document, right in zip(batch, expected, strict=True):
                    if not is_expected_vector(document.vector, right, info.vector_field):
                        found.note(document)
                        if writer is not None:
                            wrong.append((document.id, document.version, right))
                # Few are wrong as a rule: one request for each batch that was read would be many small ones.
                if writer is not None and len(wrong) >= BATCH:
                    writer.put(wrong)
                    found.repaired, wrong = writer.written, []
                progress(found)
                if self.stop.requested:
                    break
            if writer is not None and wrong:
                writer.put(wrong)
        if writer is None:
            return []
        found.repaired, found.refused = writer.written, writer.refused
        return writer.changed


def is_expected_vector(vector: Floats | None, right: Floats, field: str = VECTOR_FIELD) -> bool:
    """Whether a vector that is stored in a ``field`` is the one that its text has."""
    if vector is None or vector.shape != right.shape:
        return False
    # What is read may be rounded in proportion to its largest number, which is beyond 1 in vectors for fuzzy Jaccard.
    most = float(np.abs(right).max())
    tolerance = TOLERANCE * max(1, most) + (MAX_ROUNDING_ERROR * most if is_compact(field) else 0)
    return bool(np.abs(vector - right).max() <= tolerance)
