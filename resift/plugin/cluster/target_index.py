"""An existing index, and the changes that ``resift attach --vectors`` makes to its mapping and its settings.

Resift's record in the ``_meta`` of the mapping describes the vectors in the index. Every change is recorded there
before it is made, so that ``resift detach`` needs nothing but the index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any
from urllib.parse import quote

from resift.contracts.documents import IndexInfo, ModelDescription
from resift.errors import BadInput, EngineError, IndexNotFound
from resift.plugin.cluster.client import Cluster
from resift.plugin.cluster.index_pipelines import ingest_pipeline_owners
from resift.plugin.cluster.index_record import IndexRecord
from resift.plugin.cluster.search_pipelines import pipeline_name
from resift.plugin.opensearch.mappings import COMPACT_MAPPING, TEXT_TYPES, vector_mapping
from resift.query.dsl import COMPACT_FIELD, PIPELINE_PREFIX, VECTOR_FIELD, is_compact_vector_field, is_resift_field

FINAL_PIPELINE_SETTING = "index.final_pipeline"
_FLOOD = "read_only_allow_delete"  # the block that OpenSearch sets if a disk is full
_BLOCKS = ("read_only", _FLOOD, "write", "read", "metadata")
_HASH_DIGITS = 8  # number of digits of a model's hash in the name of its vector field


@dataclass(frozen=True)
class TargetIndex:
    """An existing index that ``resift attach`` or ``resift detach`` changes.

    Attributes:
        cluster: The connection to the cluster.
        name: The name of the index.
        mapping: The mapping of the index.
        settings: The settings of the index, under flat names such as ``index.knn``.
        documents: The number of documents.
    """

    cluster: Cluster
    name: str
    mapping: Mapping[str, Any]
    settings: Mapping[str, str]
    documents: int

    @cached_property
    def record(self) -> IndexRecord:
        """Resift's record of the vectors in the index, which is stored in the ``_meta`` of the mapping."""
        return IndexRecord.read(self.name, self.mapping.get("_meta", {}))

    @cached_property
    def field_types(self) -> dict[str, str]:
        """The types of all fields in the mapping, by field name. The names of inner fields contain dots."""
        return dict(_field_types(self.mapping.get("properties", {})))

    @property
    def text_fields(self) -> list[str]:
        """The names of all text fields of the index that can be searched, without fields that Resift has added."""
        texts = (name for name, kind in self.field_types.items() if kind in TEXT_TYPES and not is_resift_field(name))
        return [name for name in texts if not self.is_stored_only(name)]

    def is_stored_only(self, name: str) -> bool:
        """Return whether OpenSearch stores a text field but cannot search it (``index: false`` in the mapping)."""
        field = _field_mapping(self.mapping, name)
        return field.get("type") in TEXT_TYPES and not field.get("index", True)

    @property
    def has_hnsw(self) -> bool:
        """Whether ``knn_vector`` fields of this index have an HNSW index, which approximate k-NN search needs."""
        return self.settings.get("index.knn") == "true"

    @property
    def path(self) -> str:
        """The path of the index in REST requests, such as ``/products``."""
        return f"/{quote(self.name, safe='')}"

    def describe_vectors(
        self, model: ModelDescription, fields: Sequence[str], own_field: str | None = None, needs_hnsw: bool = False
    ) -> IndexInfo:
        """Return the description of a model's vectors in this index, or a new description if there are no such vectors.

        Args:
            model: The embedding model.
            fields: The names of the text fields to encode. Empty if the index already has vectors of the model.
            own_field: The name of a field that the user created, and that already contains the model's vectors.
            needs_hnsw: Whether the vectors need an HNSW index. If Resift has written vectors without an HNSW index
                although they need one, or the other way round, a new description is returned, because they must be
                replaced.

        Raises:
            BadInput: If the index has vectors of the model in another field than ``own_field``, or for other text
                fields than ``fields``. Also if ``own_field`` cannot contain the model's vectors, or if ``needs_hnsw``
                is True but ``index.knn`` is not set.
        """
        existing = self.find_vectors(model, needs_hnsw)
        if own_field is not None:
            self._check_own_field(own_field, model)
        if needs_hnsw and not self.has_hnsw:
            message = f"index {self.name!r} cannot have an HNSW index: index.knn is not set, and cannot be changed"
            expected = "no --graph, or a new index with index.knn and the same documents (docs/graph.md)"
            raise BadInput(message, value=self.name, expected=expected)
        if existing is None:
            new = IndexInfo.from_model(
                model, fields, self.name, own_field or self._choose_vector_field(model, needs_hnsw)
            )
            return replace(new, has_hnsw=needs_hnsw or (own_field is not None and self.has_hnsw))
        if own_field not in (None, existing.vector_field):
            message = f"index {self.name!r} has vectors of this model in {existing.vector_field!r}"
            raise BadInput(message, value=own_field, expected=f"that field, or resift detach {self.name} first")
        if fields and list(fields) != list(existing.fields):
            text_fields = ",".join(existing.fields)
            message = f"index {self.name!r} has vectors of this model for the fields {text_fields}"
            raise BadInput(message, value=list(fields), expected=f"no --fields, or resift detach {self.name} first")
        return existing

    def find_vectors(self, model: ModelDescription, needs_hnsw: bool) -> IndexInfo | None:
        """Find vectors of a model in the index that can be used instead of writing new vectors.

        Vectors that ``resift attach`` has written are used only if they are stored as requested, with or without an
        HNSW index. Otherwise, they can be replaced. All other vectors are used in any case, because Resift cannot
        replace them.

        Args:
            model: The embedding model.
            needs_hnsw: Whether the vectors need an HNSW index.

        Returns:
            The description of the vectors, or None if there are no suitable vectors.
        """
        for info in self.record.all_vectors:
            if info.model != model.hash:
                continue
            # Only vectors in a field that resift attach has added can be replaced.
            is_replaceable = is_resift_field(info.vector_field) and self.record.was_added_by_attach(info)
            if not is_replaceable or is_compact_vector_field(info.vector_field) != needs_hnsw:
                return info
        return None

    def _check_own_field(self, field: str, model: ModelDescription) -> None:
        mapped = _field_mapping(self.mapping, field)
        if is_resift_field(field) or mapped.get("type") != "knn_vector" or mapped.get("dimension") != model.dim:
            actual = f"{mapped.get('type')} with dimension {mapped.get('dimension')}" if mapped else "not a field"
            expected = f"a knn_vector field of the index's own with {model.dim} dimensions"
            raise BadInput(f"{field!r} is {actual} in index {self.name!r}", value=field, expected=expected)

    def _choose_vector_field(self, model: ModelDescription, needs_hnsw: bool) -> str:
        """Choose a field for the vectors of a model. Fields that are used for the vectors of another model are avoided.

        Args:
            model: The embedding model.
            needs_hnsw: Whether the vectors need an HNSW index.

        Returns:
            The name of the field. This is Resift's usual vector field, such as ``resift_vector``, if it is free.
            Otherwise, digits of the model's hash are appended to this name.
        """
        common_field = VECTOR_FIELD if needs_hnsw else COMPACT_FIELD
        desired = _vector_mapping(common_field, model)
        model_field = f"{common_field}_{model.hash[:_HASH_DIGITS]}"
        properties = self.mapping.get("properties", {})
        used = {info.vector_field for info in self.record.maintained_vectors}
        for name in (common_field, model_field):
            mapped = properties.get(name)
            if name in used or (mapped is not None and not _is_compatible(mapped, desired)):
                continue
            # A field stays in the mapping when its vectors are removed. It can be used again only if it is empty:
            # without a record, nobody knows which model computed its vectors.
            if mapped is None or name == model_field or self.count({"exists": {"field": name}}) == 0:
                return name
        return model_field  # OpenSearch refuses this if somebody has mapped the field differently

    def count(self, query: dict[str, Any]) -> int:
        """Return the number of documents of this index that match a query clause."""
        return self.cluster.count(self.name, query)

    def start_writing(self, info: IndexInfo, model: ModelDescription) -> TargetIndex:
        """Add a vector field to the mapping, and record in the mapping that the field's vectors are being written.

        Args:
            info: The description of the vectors: their model, text fields and vector field.
            model: The embedding model, which determines the mapping of the field.

        Returns:
            The changed index.

        Raises:
            BadInput: If another process has started to write vectors of another model to the same field.
        """
        name = info.vector_field
        field = {name: _vector_mapping(name, model)} if is_resift_field(name) else {}
        return self.change_record(lambda record: _with_incomplete_vectors(record, info), field)

    def use_in_searches(self, info: IndexInfo) -> TargetIndex:
        """Make searches of the index use other vectors, by recording this in the ``_meta`` of the index mapping.

        Args:
            info: The description of the vectors: their model, text fields and vector field.

        Returns:
            The index with the new record.
        """
        return self.change_record(lambda record: record.with_searched_vectors(info))

    def change_record(
        self, change: Callable[[IndexRecord], IndexRecord], properties: Mapping[str, Any] | None = None
    ) -> TargetIndex:
        """Change Resift's record in the ``_meta`` of the index mapping, which describes the vectors in the index.

        Args:
            change: A function that takes the current record, and returns the new record.
            properties: Fields to add to the mapping in the same request.

        Returns:
            The changed index.
        """
        # A write replaces the whole _meta. Read it again, to keep what others have recorded in the meantime.
        mapping = self.cluster.request("GET", f"{self.path}/_mapping")[self.name]["mappings"]
        target = replace(self, mapping=mapping, settings=self.cluster.index_settings(self.name)[self.name])
        record = change(target.record)
        if record == target.record:
            return target
        meta = record.to_meta(mapping.get("_meta", {}))
        body = {**({"properties": properties} if properties else {}), "_meta": meta}
        self.cluster.engine.put_mapping(self.name, body, mapping)
        return replace(target, mapping={**mapping, "_meta": meta})

    @cached_property
    def unrecorded_fields(self) -> list[str]:
        """The names of Resift's vector fields that contain vectors, but are missing from Resift's record of the index.

        Resift records in the ``_meta`` of the index mapping which fields contain vectors, and which model computed
        them. If a client replaces ``_meta``, the record is lost, but the vectors remain in the index. The list is empty
        if the record exists.
        """
        if self.record != IndexRecord.read(self.name, {}):
            return []
        vector_types = ("knn_vector", "binary")
        vector_fields = (
            name for name, kind in self.field_types.items() if kind in vector_types and is_resift_field(name)
        )
        return [name for name in vector_fields if self.count({"exists": {"field": name}})]

    @property
    def is_encoded(self) -> bool:
        """Whether new documents of the index pass through an ingest pipeline of Resift, which adds vectors to them.

        The pipeline may belong to another index, from which this index was cloned.
        """
        pipeline = self.settings.get(FINAL_PIPELINE_SETTING, "")
        if not pipeline.startswith(PIPELINE_PREFIX):
            return False
        # Resift created any missing pipeline with this prefix. For example, a snapshot restored only the index.
        return bool(ingest_pipeline_owners(self.cluster).get(pipeline.removeprefix(PIPELINE_PREFIX), True))

    def final_pipeline_setting(self) -> tuple[dict[str, str], list[str]]:
        """Return the index settings to write so that all new documents pass through Resift's ingest pipeline.

        Returns:
            The settings to write, and hints for the user. The settings are empty if nothing has to change, or if the
            index already has a final pipeline of another application. In the latter case, a hint explains what to do.
        """
        own_pipeline, current = pipeline_name(self.name), self.settings.get(FINAL_PIPELINE_SETTING, "_none")
        if current == own_pipeline:
            return {}, []
        if current == "_none" or self.is_encoded:
            return {FINAL_PIPELINE_SETTING: own_pipeline}, []
        hint = (
            f"{FINAL_PIPELINE_SETTING} of {self.name} is {current}, and stays: new documents get no vectors until that "
            f"pipeline has a pipeline processor for {own_pipeline}"
        )
        return {}, [hint]


def find_targets(cluster: Cluster, name: str) -> list[TargetIndex]:
    """Return the indices that a name refers to, after checking that they are writable. Nothing is changed.

    Args:
        cluster: The connection to the cluster.
        name: The name of an index, alias or data stream, or a pattern. Several names are separated by commas.

    Raises:
        IndexNotFound: If the name refers to no index.
        BadInput: If an index is not writable.
    """
    return [_read_target(cluster, index, settings) for index, settings in settings_of_indices(cluster, name).items()]


def settings_of_indices(cluster: Cluster, name: str) -> dict[str, dict[str, str]]:
    """Return the settings of all indices that a name refers to, by index name. System indices are left out.

    Args:
        cluster: The connection to the cluster.
        name: The name of an index, alias or data stream, or a pattern. Several names are separated by commas.

    Raises:
        IndexNotFound: If the name refers to no index.
        BadInput: If the name is empty, or if it is the name of a system index.
    """
    if _is_system(name):
        raise BadInput(f"{name} is a system index", value=name, expected="an index with your own documents")
    if not all(map(str.strip, name.split(","))):  # OpenSearch takes an empty name for all indices
        raise BadInput(f"index is {name!r}", value=name, expected="a name, or several with commas between; * for all")
    all_settings = cluster.index_settings(name)
    indices = {index: settings for index, settings in sorted(all_settings.items()) if not _is_system(index)}
    if not indices:
        raise IndexNotFound(f"no index {name!r}", value=name, expected="an existing index")
    return indices


def _is_system(index: str) -> bool:
    return index.startswith(".") and not index.startswith(".ds-")


def _read_target(cluster: Cluster, name: str, settings: dict[str, str]) -> TargetIndex:
    _check_blocks(name, settings)
    path = f"/{quote(name, safe='')}"
    # Without a refresh, new documents would be missing from the plan, and would not be encoded.
    try:
        cluster.request("POST", f"{path}/_refresh")
    except EngineError as error:
        if "index_closed" not in error.message:
            raise
        raise BadInput(f"index {name!r} is closed", value=name, expected=f"POST {path}/_open first") from error
    mapping = cluster.request("GET", f"{path}/_mapping")[name]["mappings"]
    return TargetIndex(cluster, name, mapping, settings, cluster.count(name))


def _check_blocks(name: str, settings: Mapping[str, str]) -> None:
    """Check that no block in the settings of an index prevents writes to it.

    Args:
        name: The name of the index, for the error message.
        settings: The settings of the index, under flat names such as ``index.blocks.write``.

    Raises:
        BadInput: If there is such a block.
    """
    for block in _BLOCKS:
        if settings.get(f"index.blocks.{block}") != "true":
            continue
        message = f"index {name!r} cannot be written to: index.blocks.{block} is set"
        expected = f'PUT /{name}/_settings {{"index.blocks.{block}": null}}'
        if block == _FLOOD:  # OpenSearch sets this block again at once while the disk is full
            expected = f"free disk space on its nodes; if OpenSearch does not remove the block then, {expected}"
        raise BadInput(message, value=name, expected=expected)


def check_attachable(target: TargetIndex) -> None:
    """Raise BadInput if vectors cannot be added to the documents of an index.

    Adding a vector writes the document again from its ``_source``. If the index does not store the whole ``_source``,
    the other fields of the document would be lost.

    Args:
        target: The index, with its mapping and settings.
    """
    source = target.mapping.get("_source", {})
    if source.get("enabled") is False:
        message = f"index {target.name!r} stores no _source, so there is no text to encode"
        raise BadInput(message, value=target.name, expected="an index with _source, filled from the original data")
    if source.get("excludes") or source.get("includes"):
        message = f"index {target.name!r} stores only a part of _source: adding a vector would lose the other fields"
        raise BadInput(message, value=target.name, expected="an index with the whole _source")


def _with_incomplete_vectors(record: IndexRecord, info: IndexInfo) -> IndexRecord:
    """Return a copy of an index's record in which new vectors are marked as incomplete (``filling``).

    The record is Resift's list of the vectors in the index. Vectors are incomplete while they are being written. If the
    new vectors are already complete, the record is returned unchanged. The function does not store the record.

    Args:
        record: The current record. It is not changed.
        info: The description of the new vectors: their model, text fields and vector field.

    Raises:
        BadInput: If the vector field already contains vectors of another model.
    """
    for other in record.maintained_vectors:
        if other.vector_field == info.vector_field and other.model != info.model:
            message = (
                f"another process has written vectors of model {other.model} to {info.vector_field} of {info.name!r}"
            )
            raise BadInput(message, value=info.name, expected="the same command again")
    return record if info in record.complete_vectors else record.with_filling(info)


def _field_types(properties: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the name and the type of each field in a mapping. The names of inner fields contain dots.

    Args:
        properties: The ``properties`` of the mapping.
        path: The prefix of all names, which ends with a dot.
    """
    for name, field in properties.items():
        if "properties" in field:
            yield from _field_types(field["properties"], f"{path}{name}.")
        else:
            yield f"{path}{name}", field.get("type", "object")


def _field_mapping(mapping: Mapping[str, Any], field: str) -> Mapping[str, Any]:
    """Return the mapping of a single field, or an empty mapping if the field does not exist.

    Args:
        mapping: The mapping of the index.
        field: The name of the field. The name of an inner field contains dots.
    """
    mapped: Mapping[str, Any] = mapping
    for part in field.split("."):
        mapped = mapped.get("properties", {}).get(part, {})
    return mapped


def _is_compatible(mapped: Mapping[str, Any], desired: Mapping[str, Any]) -> bool:
    """Return whether Resift can use an existing vector field instead of a field with the mapping that it would create.

    Args:
        mapped: The mapping of the existing field.
        desired: The mapping that Resift would create. The existing field may have additional properties.
    """
    if any(mapped.get(key) != desired.get(key) for key in ("type", "dimension", "doc_values")):
        return False
    method = mapped.get("method", {})
    return all(method.get(key) == value for key, value in desired.get("method", {}).items())


def _vector_mapping(field: str, model: ModelDescription) -> dict[str, Any]:
    return COMPACT_MAPPING if is_compact_vector_field(field) else vector_mapping(model)
