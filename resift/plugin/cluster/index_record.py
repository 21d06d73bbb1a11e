"""Resift's record of an index, which is stored in the ``_meta`` of the index mapping.

The record describes the vectors that Resift has written to the index, or that it uses. If ``resift attach`` added
vectors to an existing index, the record contains an object ``attached`` with everything that ``resift detach`` needs:

* ``fields``: the vector fields that were added to the mapping
* ``filling``: the description of vectors that are still being written
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from resift.contracts.documents import IndexInfo
from resift.contracts.tuning import Tuning
from resift.plugin.cluster.client import Cluster
from resift.plugin.opensearch.mappings import TUNING_KEY
from resift.query.dsl import is_resift_field

# All indices except system indices: closed and hidden indices, and backing indices of data streams (.ds-*). Resift has
# no pipelines for system indices, and OpenSearch logs a warning for each request for them.
ALL_INDICES = "*,-.*,.ds-*"
ALL_STATES = {"expand_wildcards": "all"}


@dataclass(frozen=True)
class IndexRecord:
    """Resift's record of an index, which is stored in the ``_meta`` of the index mapping.

    Each set of vectors is described by an IndexInfo, with its model, text fields and vector field.

    Attributes:
        index: The name of the index.
        searched_vectors: The vectors that searches use, or None.
        other_models: Complete vectors of other models.
        filling: Vectors that are still being written, or None.
        added_fields: The names of the vector fields that ``resift attach`` has added to the mapping.
        attached: Whether ``resift attach`` has changed the index.
    """

    index: str
    searched_vectors: IndexInfo | None = None
    other_models: tuple[IndexInfo, ...] = ()
    filling: IndexInfo | None = None
    added_fields: tuple[str, ...] = ()
    attached: bool = False

    @classmethod
    def read(cls, index: str, meta: Mapping[str, Any]) -> IndexRecord:
        """Read Resift's record of an index from the ``_meta`` of the mapping.

        The record describes the vectors in the index.

        Args:
            index: The name of the index.
            meta: The ``_meta`` object. If it contains no record, the result is an empty record.
        """
        resift_meta: Mapping[str, Any] = meta.get("resift") or {}
        info, attached = IndexInfo.from_meta(index, resift_meta), resift_meta.get("attached")
        details: Mapping[str, Any] = attached or {}
        return cls(
            index=index,
            searched_vectors=None if info.model is None else replace(info, other_models=()),
            other_models=info.other_models,
            filling=IndexInfo.from_meta(index, details["filling"]) if details.get("filling") else None,
            added_fields=tuple(details.get("fields", ())),
            attached=attached is not None,
        )

    @property
    def complete_vectors(self) -> tuple[IndexInfo, ...]:
        """The descriptions of the vectors in the index, without vectors that are still being written.

        There is a description for each embedding model. The vectors that searches use come first.
        """
        return (*([self.searched_vectors] if self.searched_vectors else []), *self.other_models)

    @property
    def all_vectors(self) -> tuple[IndexInfo, ...]:
        """The descriptions of all vectors in the index, including vectors that are still being written.

        There is a description for each embedding model.
        """
        return (*self.complete_vectors, *([self.filling] if self.filling else []))

    @property
    def maintained_vectors(self) -> tuple[IndexInfo, ...]:
        """The descriptions of all vectors that Resift must update when a document is written.

        Vectors in a field that the user created are left out, because the user updates them.
        """
        return tuple(info for info in self.all_vectors if is_resift_field(info.vector_field))

    def find(self, model: str) -> IndexInfo | None:
        """Return the description of the vectors that a model has written to the index, or None if there are none.

        Args:
            model: The hash of the model.
        """
        return next((info for info in self.all_vectors if info.model == model), None)

    def superseded_by(self, info: IndexInfo) -> list[IndexInfo]:
        """Return the descriptions of the old vectors that become superfluous when all documents have a new vector.

        These are the vectors of the same model in other fields, if ``resift attach`` has added these fields. The result
        is empty if the new vectors are in a field that the user created, because such vectors replace nothing.

        Args:
            info: The description of the new vectors: their model, text fields and vector field.
        """
        if not is_resift_field(info.vector_field):
            return []
        same_model = [other for other in self.complete_vectors if other.model == info.model]
        return [
            other
            for other in same_model
            if other.vector_field != info.vector_field and other.vector_field in self.added_fields
        ]

    def was_added_by_attach(self, info: IndexInfo) -> bool:
        """Return whether a set of vectors came to the index by ``resift attach``.

        This includes vectors in a field that the user created. If the result is False, Resift created the index
        together with these vectors, so ``resift detach`` must not remove them.

        Args:
            info: The description of the vectors: their model, text fields and vector field.
        """
        return info.vector_field in self.added_fields or not is_resift_field(info.vector_field)

    def with_filling(self, info: IndexInfo) -> IndexRecord:
        """Return a copy of the record in which the described vectors are marked as incomplete.

        Use this method when you start to write the vectors.

        Args:
            info: The description of the vectors: their model, text fields and vector field.
        """
        fields = dict.fromkeys(
            [*self.added_fields, *([info.vector_field] if is_resift_field(info.vector_field) else [])]
        )
        return replace(self, filling=info, added_fields=tuple(fields), attached=True)

    def with_searched_vectors(self, info: IndexInfo) -> IndexRecord:
        """Return a copy of the record in which searches use the described vectors.

        Args:
            info: The description of the vectors. The vectors must be complete, that is, written for all documents.
        """
        key = (info.model, info.vector_field)
        other_models = tuple(other for other in self.complete_vectors if (other.model, other.vector_field) != key)
        filling = None if self.filling and self.filling.model == info.model else self.filling
        # A client may have replaced _meta while the vectors were written, so the record may lack them.
        record = self if info in self.complete_vectors else self.with_filling(info)
        return replace(record, searched_vectors=info, other_models=other_models, filling=filling, attached=True)

    def without_vectors(self, removed: Collection[IndexInfo]) -> IndexRecord:
        """Return a copy of the record from which some vectors are removed.

        If the copy contains no other vectors in a field that ``resift attach`` added, the field becomes one of the
        :attr:`unused_fields`.

        Args:
            removed: The descriptions of the vectors to remove.
        """
        remaining = tuple(info for info in self.complete_vectors if info not in removed)
        filling = None if self.filling in removed else self.filling
        return replace(self, searched_vectors=next(iter(remaining), None), other_models=remaining[1:], filling=filling)

    @property
    def unused_fields(self) -> tuple[str, ...]:
        """The names of vector fields that ``resift attach`` has added to the index, but that are no longer in use."""
        used = {info.vector_field for info in self.maintained_vectors}
        return tuple(name for name in self.added_fields if name not in used)

    def without_unused_fields(self) -> IndexRecord:
        """Return a copy of Resift's record of the index that no longer lists unused vector fields.

        An unused field was added by ``resift attach``, but its vectors are no longer needed. Call this method when no
        document has a value in these fields any more.
        """
        added_fields = tuple(name for name in self.added_fields if name not in self.unused_fields)
        if added_fields or any(map(self.was_added_by_attach, self.complete_vectors)):
            return replace(self, added_fields=added_fields)
        return replace(self, added_fields=(), attached=False)

    def to_meta(self, existing: Mapping[str, Any]) -> dict[str, Any]:
        """Return the ``_meta`` object of an index mapping, with this record of the index's vectors in it.

        Args:
            existing: The current ``_meta`` object. All keys that do not belong to Resift are preserved.
        """
        resift_meta: dict[str, Any] = self.searched_vectors.to_meta() if self.searched_vectors else {}
        if self.other_models:
            resift_meta["others"] = [info.to_meta() for info in self.other_models]
        if self.attached:
            resift_meta["attached"] = {"fields": list(self.added_fields)}
            if self.filling:
                resift_meta["attached"]["filling"] = self.filling.to_meta()
        if resift_meta:
            return {**existing, "resift": resift_meta}
        return {name: value for name, value in existing.items() if name not in ("resift", TUNING_KEY)}


def describe_tunings(cluster: Cluster) -> dict[str, list[str]]:
    """Describe the search settings of all indices that have their own, such as the weight of vector similarity.

    Args:
        cluster: The connection to the cluster.

    Returns:
        Lines of text, by index name. Indices with default settings are left out.
    """
    path, filter_path = f"/{ALL_INDICES}/_mapping", f"*.mappings._meta.{TUNING_KEY}"
    response = cluster.request("GET", path, filter_path=filter_path, **ALL_STATES)
    return {
        name: Tuning.from_json(response[name]["mappings"]["_meta"][TUNING_KEY]).describe() for name in sorted(response)
    }


def indices_with_model(cluster: Cluster, model: str) -> list[str]:
    """Return the names of all indices whose searches use the vectors of a model.

    Args:
        cluster: The connection to the cluster.
        model: The hash of the model.
    """
    return [
        name
        for name, record in read_records(cluster).items()
        if record.searched_vectors is not None and record.searched_vectors.model == model
    ]


def read_records(cluster: Cluster, names: str = ALL_INDICES) -> dict[str, IndexRecord]:
    """Read Resift's records of indices from the cluster. A record describes the vectors of an index.

    Closed and hidden indices are included.

    Args:
        cluster: The connection to the cluster.
        names: Names of indices or patterns, separated by commas.

    Returns:
        The records by index name, without indices that have no record.
    """
    response = cluster.request("GET", f"/{names}/_mapping", filter_path="*.mappings._meta.resift", **ALL_STATES)
    return {name: IndexRecord.read(name, response[name]["mappings"]["_meta"]) for name in sorted(response)}
