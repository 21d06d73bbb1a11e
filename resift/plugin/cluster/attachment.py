"""An index that exists, and what attaching changes of it: its mapping, its settings, and what it records about itself.

Everything is recorded in the index before it is changed, so that detaching needs nothing but the index.
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
from resift.plugin.cluster.index_pipelines import ingest_pipelines
from resift.plugin.cluster.index_record import IndexRecord
from resift.plugin.cluster.search_pipelines import pipeline_name
from resift.plugin.opensearch.mappings import COMPACT_MAPPING, vector_mapping
from resift.query.dsl import COMPACT_FIELD, PIPELINE_PREFIX, VECTOR_FIELD, is_compact, is_ours

TEXTS = ("text", "match_only_text")
FINAL = "index.final_pipeline"
_FLOOD = "read_only_allow_delete"  # set by OpenSearch where a disk is full
_BLOCKS = ("read_only", _FLOOD, "write", "read", "metadata")
_HASH_DIGITS = 8  # of a model's hash in the name of its field


@dataclass(frozen=True)
class Target:
    """An index as it is: its ``mapping``, its ``settings`` by their flat names, and how many documents it has."""

    cluster: Cluster
    name: str
    mapping: Mapping[str, Any]
    settings: Mapping[str, str]
    documents: int

    @cached_property
    def record(self) -> IndexRecord:
        """What the index records about itself."""
        return IndexRecord.read(self.name, self.mapping.get("_meta", {}))

    @cached_property
    def fields(self) -> dict[str, str]:
        """The type of each field of the mapping by its name, inner ones of objects and nested ones with dots."""
        return dict(_fields(self.mapping.get("properties", {})))

    @property
    def text_fields(self) -> list[str]:
        """The names of the fields that are analysed texts, in which words can be looked for."""
        texts = (name for name, kind in self.fields.items() if kind in TEXTS and not is_ours(name))
        return [name for name in texts if not self.is_only_kept(name)]

    def is_only_kept(self, name: str) -> bool:
        """Whether a text is in the documents and not in the index (``index: false``), so that searching it fails."""
        field = _mapped(self.mapping, name)
        return field.get("type") in TEXTS and not field.get("index", True)

    @property
    def has_graph(self) -> bool:
        """Whether vectors of this index get a graph, which k-NN searches of a whole index need."""
        return self.settings.get("index.knn") == "true"

    @property
    def path(self) -> str:
        """The index's path in requests."""
        return f"/{quote(self.name, safe='')}"

    def entry(
        self, model: ModelDescription, fields: Sequence[str], own: str | None = None, graph: bool = False
    ) -> IndexInfo:
        """The record of the vectors of ``model``: the one that there is, or a new one with these text ``fields``.

        ``own`` names a field of the index's own that has them already. Vectors with a ``graph`` and compact ones
        replace each other. Raises BadInput where the index has those of ``model`` in another field or of other texts,
        where ``own`` is no such field, and for a graph where ``index.knn`` is not set.
        """
        found = self.known(model, graph)
        if own is not None:
            self._check_own(own, model)
        if graph and not self.has_graph:
            message = f"index {self.name!r} can have no graph: index.knn is not set, which is final"
            expected = "no --graph, or a new index with index.knn and the same documents (docs/graph.md)"
            raise BadInput(message, value=self.name, expected=expected)
        if found is None:
            made = IndexInfo.from_model(model, fields, self.name, own or self._free_field(model, graph))
            return replace(made, has_hnsw=graph or (own is not None and self.has_graph))
        if own not in (None, found.vector_field):
            message = f"index {self.name!r} has vectors of this model in {found.vector_field!r}"
            raise BadInput(message, value=own, expected=f"that field, or resift detach {self.name} first")
        if fields and list(fields) != list(found.fields):
            message = f"the vectors of this model in index {self.name!r} are of the fields {','.join(found.fields)}"
            raise BadInput(message, value=list(fields), expected=f"no --fields, or resift detach {self.name} first")
        return found

    def known(self, model: ModelDescription, graph: bool) -> IndexInfo | None:
        """What the index records of the vectors of ``model``, unless attaching is to replace them."""
        for one in self.record.known:
            is_own = not (is_ours(one.vector_field) and self.record.is_attached(one))
            if one.model == model.hash and (is_own or is_compact(one.vector_field) != graph):
                return one
        return None

    def _check_own(self, field: str, model: ModelDescription) -> None:
        mapped = _mapped(self.mapping, field)
        if is_ours(field) or mapped.get("type") != "knn_vector" or mapped.get("dimension") != model.dim:
            found = f"{mapped.get('type')} of {mapped.get('dimension')}" if mapped else "no field"
            expected = f"a knn_vector of {model.dim} dimensions that the index has by itself"
            raise BadInput(f"{field!r} is {found} in index {self.name!r}", value=field, expected=expected)

    def _free_field(self, model: ModelDescription, graph: bool) -> str:
        """The name of a field for the vectors of ``model``, which no others have used."""
        first = VECTOR_FIELD if graph else COMPACT_FIELD
        wanted, own = _vector_mapping(first, model), f"{first}_{model.hash[:_HASH_DIGITS]}"
        properties, taken = self.mapping.get("properties", {}), {one.vector_field for one in self.record.encoded}
        for name in (first, own):
            mapped = properties.get(name)
            if name in taken or (mapped is not None and not _is_like(mapped, wanted)):
                continue
            # A field outlives its vectors, and may be had again; what is in it is of nobody knows which model.
            if mapped is None or name == own or self.count({"exists": {"field": name}}) == 0:
                return name
        return own  # which OpenSearch refuses where somebody has mapped it otherwise

    def count(self, query: dict[str, Any]) -> int:
        """How many documents match a query."""
        return self.cluster.count(self.name, query)

    def begin(self, entry: IndexInfo, model: ModelDescription) -> Target:
        """Add the field of the vectors, and record that they are being written; return the index as it is then.

        Raises BadInput where somebody else has begun to write vectors of another model there meanwhile.
        """
        name = entry.vector_field
        field = {name: _vector_mapping(name, model)} if is_ours(name) else {}
        return self.change_record(lambda record: _begun(record, entry), field)

    def switch(self, entry: IndexInfo) -> Target:
        """Record that the index is searched by the vectors of ``entry``; return the index as it is then."""
        return self.change_record(lambda record: record.switched(entry))

    def change_record(
        self, change: Callable[[IndexRecord], IndexRecord], properties: Mapping[str, Any] | None = None
    ) -> Target:
        """Change what the index records about itself, and with it ``properties`` of the mapping; return the index as it
        is then."""
        # _meta is replaced as a whole, and what others have recorded since the index was read is not to be lost
        mapping = self.cluster.request("GET", f"{self.path}/_mapping")[self.name]["mappings"]
        target = replace(self, mapping=mapping, settings=self.cluster.index_settings(self.name)[self.name])
        record = change(target.record)
        if record == target.record:
            return target
        meta = record.meta(mapping.get("_meta", {}))
        body = {**({"properties": properties} if properties else {}), "_meta": meta}
        self.cluster.request("PUT", f"{self.path}/_mapping", body)
        return replace(target, mapping={**mapping, "_meta": meta})

    @cached_property
    def unrecorded(self) -> list[str]:
        """The fields that hold vectors of ours of which the index records nothing: a client has replaced its _meta."""
        if self.record != IndexRecord.read(self.name, {}):
            return []
        ours = (name for name, kind in self.fields.items() if kind in ("knn_vector", "binary") and is_ours(name))
        return [name for name in ours if self.count({"exists": {"field": name}})]

    @property
    def is_encoded(self) -> bool:
        """Whether all writes go through an ingest pipeline of ours: the index's or, in a clone, its original's."""
        used = self.settings.get(FINAL, "")
        if not used.startswith(PIPELINE_PREFIX):
            return False
        # one that is gone, as when the index was restored without it, was ours
        return bool(ingest_pipelines(self.cluster).get(used.removeprefix(PIPELINE_PREFIX), True))

    def final_pipeline(self) -> tuple[dict[str, str], list[str]]:
        """The setting that has all writes encoded by the index's ingest pipeline, or a sentence where it is taken."""
        ours, value = pipeline_name(self.name), self.settings.get(FINAL, "_none")
        if value == ours:
            return {}, []
        if value == "_none" or self.is_encoded:
            return {FINAL: ours}, []
        told = "documents get no vectors as they are written until a pipeline processor of"
        return {}, [f"{FINAL} of {self.name} is {value}, and stays: {told} {ours} is in it"]


def targets(cluster: Cluster, name: str) -> list[Target]:
    """The indices that a name, an alias, a pattern or a data stream stands for, each checked by itself.

    Raises IndexNotFound if there is none, and BadInput for one that cannot be attached: nothing was changed then.
    """
    return [_target(cluster, own, settings) for own, settings in settings_of(cluster, name).items()]


def settings_of(cluster: Cluster, name: str) -> dict[str, dict[str, str]]:
    """The flat settings of all indices that a name stands for. Raises IndexNotFound if there is none, and BadInput."""
    if _is_system(name):
        raise BadInput(f"{name} is a system index", value=name, expected="an index of your own documents")
    if not all(map(str.strip, name.split(","))):  # to the cluster no name is all indices
        raise BadInput(f"index is {name!r}", value=name, expected="a name, or several with commas between; * for all")
    found = cluster.index_settings(name)
    indices = {own: settings for own, settings in sorted(found.items()) if not _is_system(own)}
    if not indices:
        raise IndexNotFound(f"no index {name!r}", value=name, expected="an existing index")
    return indices


def _is_system(index: str) -> bool:
    return index.startswith(".") and not index.startswith(".ds-")


def _target(cluster: Cluster, name: str, settings: dict[str, str]) -> Target:
    path = f"/{quote(name, safe='')}"
    for block in _BLOCKS:
        if settings.get(f"index.blocks.{block}") == "true":
            message = f"index {name!r} may not be written to: index.blocks.{block} is set"
            expected = f'PUT /{name}/_settings {{"index.blocks.{block}": null}}'
            if block == _FLOOD:  # which comes back at once where the disk is as full
                expected = f"free disk space on its nodes; where OpenSearch does not lift it then, {expected}"
            raise BadInput(message, value=name, expected=expected)
    # what is not visible yet would be missing from the plan, and not be found to be encoded
    try:
        cluster.request("POST", f"{path}/_refresh")
    except EngineError as error:
        if "index_closed" not in error.message:
            raise
        raise BadInput(f"index {name!r} is closed", value=name, expected=f"POST {path}/_open first") from error
    mapping = cluster.request("GET", f"{path}/_mapping")[name]["mappings"]
    return Target(cluster, name, mapping, settings, cluster.count(name))


def check_attachable(target: Target) -> None:
    """Raise BadInput for an index whose documents could not be given vectors without loss."""
    source = target.mapping.get("_source", {})
    if source.get("enabled") is False:
        message = f"index {target.name!r} keeps no _source: there is no text to encode"
        raise BadInput(message, value=target.name, expected="an index with _source; copy it from where it came")
    if source.get("excludes") or source.get("includes"):
        message = f"index {target.name!r} keeps only a part of _source: what a vector is added to would lose the rest"
        raise BadInput(message, value=target.name, expected="an index with the whole _source")


def _begun(record: IndexRecord, entry: IndexInfo) -> IndexRecord:
    """The record while the vectors of ``entry`` are being written. Raises BadInput where others are in their field."""
    for one in record.encoded:
        if one.vector_field == entry.vector_field and one.model != entry.model:
            message = f"vectors of model {one.model} have got into {one.vector_field} of {entry.name!r} meanwhile"
            raise BadInput(message, value=entry.name, expected="the same command again")
    return record if entry in record.ready else record.begun(entry)


def _fields(properties: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    for name, field in properties.items():
        if "properties" in field:
            yield from _fields(field["properties"], f"{path}{name}.")
        else:
            yield f"{path}{name}", field.get("type", "object")


def _mapped(mapping: Mapping[str, Any], field: str) -> Mapping[str, Any]:
    """The mapping of a field, whose name may have dots; an empty one if there is none."""
    found: Mapping[str, Any] = mapping
    for part in field.split("."):
        found = found.get("properties", {}).get(part, {})
    return found


def _is_like(mapped: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    method, other = mapped.get("method", {}), wanted.get("method", {})
    alike = all(mapped.get(key) == wanted.get(key) for key in ("type", "dimension", "doc_values"))
    return alike and all(method.get(key) == value for key, value in other.items())


def _vector_mapping(field: str, model: ModelDescription) -> dict[str, Any]:
    return COMPACT_MAPPING if is_compact(field) else vector_mapping(model)
