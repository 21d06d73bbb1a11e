"""Verify that the vectors of an index belong to the current texts of its documents, and repair wrong vectors.

Each text is encoded again, and the result is compared with the stored vector. Encoding takes less time than reading the
document. This method finds all differences, no matter how a document was written. Comparing a hash that is stored with
the document would not: a partial update of the text leaves both the hash and the vector unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field

import numpy as np

from resift.arrays import Floats, batched
from resift.contracts.documents import Document, IndexInfo, Rejection
from resift.contracts.encoding import encode_documents, encoded_fields
from resift.contracts.engine import Engine
from resift.encoders.model import Model
from resift.ingest.writing import vector_writer
from resift.query.dsl import VECTOR_FIELD, is_compact_vector_field, is_resift_field
from resift.stopping import Stop
from resift.vectors.compact import MAX_ROUNDING_ERROR

TOLERANCE = 1e-4  # allowed difference of a component, relative to the largest component (or 1, if that is larger)
BATCH = 500  # number of documents that are encoded or written together
MAX_REPORTED_IDS = 1000  # maximum number of ids in each list of a report
_ROUNDS = 10  # how often documents that changed during the repair are read again


@dataclass
class Verification:
    """The result of checking that the vectors of an index belong to the current texts of its documents.

    Attributes:
        index: The name of the index.
        checked: The number of documents that were checked.
        missing: The number of documents without a vector.
        stale: The number of documents whose vector belongs to another text or model.
        missing_ids: The ids of documents without a vector, at most MAX_REPORTED_IDS.
        stale_ids: The ids of documents with a stale vector, at most MAX_REPORTED_IDS.
        repaired: The number of missing or stale vectors that were replaced.
        unrepaired: The number of missing or stale vectors that were not replaced.
        refused: The documents that a repair cannot give a vector, with reasons: the engine refused the vector, or the
            document's bag of vectors is malformed.
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
        """Whether all vectors are correct, possibly after a repair."""
        return not self.unrepaired

    def add_wrong(self, document: Document) -> None:
        """Add a document with a wrong vector to the result: count the document, and record its id.

        Args:
            document: The document. If it has a vector, the vector is stale: it belongs to an earlier text.
        """
        if document.vector is None:
            self.missing, ids = self.missing + 1, self.missing_ids
        else:
            self.stale, ids = self.stale + 1, self.stale_ids
        if len(ids) < MAX_REPORTED_IDS:
            ids.append(document.id)


def select_indices(engine: Engine, model: Model, names: Sequence[str]) -> tuple[list[IndexInfo], dict[str, str]]:
    """Choose the indices whose vectors can be checked.

    Args:
        engine: The search engine that contains the indices.
        model: The model that computed the vectors.
        names: Names of indices, aliases or data streams, or patterns such as ``news-*``. If empty, all indices are
            considered.

    Returns:
        The descriptions of the selected indices, and a dictionary that maps the name of each excluded index to the
        reason.

    Raises:
        IndexNotFound: If a name matches no index.
    """
    own_names = dict.fromkeys(own for name in names for own in engine.resolve(name))
    infos = [engine.info(own) for own in own_names] if names else engine.indices()
    selected, excluded = [], {}
    for info in infos:
        entry = info.find_model(model)
        if entry is None:
            if info.model is not None:
                excluded[info.name] = f"vectors of model {info.model_name} ({info.model})"
            elif names:
                excluded[info.name] = "no vectors"
        elif is_resift_field(entry.vector_field):
            selected.append(entry)
        else:
            excluded[info.name] = f"vectors in its own field {entry.vector_field}, which Resift does not write"
    return selected, excluded


Progress = Callable[[Verification], None]


def verify(
    engine: Engine,
    model: Model,
    index: str,
    repair: bool = False,
    stop: Stop | None = None,
    progress: Progress = lambda verification: None,
) -> Verification:
    """Check whether the vectors of an index belong to the current texts of its documents.

    The text of every document is encoded again, and the result is compared with the stored vector. Rounding differences
    are allowed: 1e-4 times the largest component, or 1e-4 if the largest component is below 1. The components of
    compact vectors are stored as integers from -127 to 127, so another 0.5 / 127 of the largest component is allowed.

    A repair changes only vectors. A vector is not written if a client has changed the document in the meantime. Such a
    document is read and checked again.

    Args:
        engine: The search engine that contains the index.
        model: The embedding model that computed the vectors.
        index: The name of the index.
        repair: Whether to replace missing and stale vectors.
        stop: A flag to stop early. The result then covers only the documents that were checked before.
        progress: A function that is called with the current result after each batch.

    Raises:
        ModelMismatch: If the index has no vectors of the model.
    """
    info = engine.info(index).require_model(model)
    documents = engine.scan(info.name, info.vector_field, encoded_fields(model, info.fields))
    return VectorCheck(engine, model, info, repair, stop or Stop()).run(documents, progress)


@dataclass(frozen=True)
class VectorCheck:
    """Compares the stored vectors of an index with the vectors that a model computes from the current texts.

    Attributes:
        engine: The search engine that contains the index.
        model: The embedding model that computed the vectors.
        info: The description of the index.
        repair: Whether to replace missing and stale vectors.
        stop: A flag to stop early.
    """

    engine: Engine
    model: Model
    info: IndexInfo
    repair: bool
    stop: Stop

    def run(self, documents: Iterable[Document], progress: Progress) -> Verification:
        """Compare the stored vectors of documents with vectors computed from their current text.

        Missing and outdated vectors are counted and, if this object was created with ``repair``, written again.

        Args:
            documents: The documents to check, with their stored vectors.
            progress: A function that is called with the current result after each batch.

        Returns:
            The numbers of missing, outdated and repaired vectors, as described at :class:`Verification`.
        """
        verification = Verification(self.info.name)
        changed = self._check_and_repair(documents, verification, progress)
        for _ in range(_ROUNDS):
            if not changed or self.stop.requested:
                break
            self.engine.refresh(self.info.name)  # concurrent changes may not be visible yet
            again = Verification(self.info.name)  # a separate result, because these documents were already counted
            changed = self._check_and_repair(self._read_again(changed), again)
            verification.repaired += again.repaired
            verification.refused += again.refused
        verification.unrepaired = (
            len(changed) + len(verification.refused) if self.repair else verification.missing + verification.stale
        )
        if verification.repaired:
            self.engine.refresh(self.info.name)
        return verification

    def _read_again(self, ids: Sequence[str]) -> Iterator[Document]:
        """Yield the current versions of documents that a client has changed during the check."""
        for batch in batched(ids, BATCH):
            fields = encoded_fields(self.model, self.info.fields)
            yield from self.engine.scan(self.info.name, self.info.vector_field, fields, ids=batch)

    def _check_and_repair(
        self,
        documents: Iterable[Document],
        verification: Verification,
        progress: Progress = lambda verification: None,
    ) -> list[str]:
        """Check the vectors of documents, and count the wrong vectors. With ``repair``, also replace them.

        Args:
            documents: The documents with their stored vectors.
            verification: The result to update.
            progress: A function that is called with the result after each batch.

        Returns:
            The ids of documents whose vector could not be replaced, because they have changed since they were read.
        """
        info, unencoded = self.info, list[Rejection]()
        with vector_writer(self.engine, info, self.stop) if self.repair else nullcontext() as writer:
            wrong = []
            for batch in batched(documents, BATCH):
                verification.checked += len(batch)
                sources = [document.source for document in batch]
                expected, faults = encode_documents(self.model, sources, info.fields)
                for position, (document, right) in enumerate(zip(batch, expected, strict=True)):
                    if position in faults:
                        verification.add_wrong(document)
                        unencoded.append(Rejection(position, document.id, 400, faults[position]))
                    elif not is_expected_vector(document.vector, right, info.vector_field):
                        verification.add_wrong(document)
                        if writer is not None:
                            wrong.append((document.id, document.version, right))
                # Usually few vectors are wrong. Collect them over batches, to avoid many small requests.
                if writer is not None and len(wrong) >= BATCH:
                    writer.put(wrong)
                    verification.repaired, wrong = writer.written, []
                progress(verification)
                if self.stop.requested:
                    break
            if writer is not None and wrong:
                writer.put(wrong)
        if writer is None:
            return []
        verification.repaired, verification.refused = writer.written, writer.refused + unencoded
        return writer.changed


def is_expected_vector(vector: Floats | None, expected: Floats, field: str = VECTOR_FIELD) -> bool:
    """Return whether a stored vector is equal to the vector that the model computes, apart from rounding.

    Args:
        vector: The stored vector, of shape (n_dimensions,), or None if the document has no vector.
        expected: The vector that the model computes from the text, of shape (n_dimensions,).
        field: The name of the field that contains the stored vector. It determines how much rounding is allowed.
    """
    if vector is None or vector.shape != expected.shape:
        return False
    # Stored vectors may be rounded in proportion to their largest component, which exceeds 1 for fuzzy Jaccard.
    largest = float(np.abs(expected).max())
    tolerance = TOLERANCE * max(1, largest)
    if is_compact_vector_field(field):
        tolerance += MAX_ROUNDING_ERROR * largest
    return bool(np.abs(vector - expected).max() <= tolerance)
