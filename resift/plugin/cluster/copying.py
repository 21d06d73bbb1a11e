"""A copy of an index under another name, and the aliases that are moved between the two.

The copy records in the ``_meta`` of its mapping what it is a copy of, and which index may not be written to just now
because of it: whoever begins again after a kill takes that block off.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any
from urllib.parse import quote

from resift.contracts.documents import check_name
from resift.contracts.query_dsl import is_ours
from resift.errors import BadInput, EngineError
from resift.plugin.cluster.attachment import FINAL, Target
from resift.plugin.cluster.client import Cluster
from resift.plugin.cluster.search_pipelines import NONE, SEARCH, pipeline_name

PIPELINES = ("index.default_pipeline", FINAL, SEARCH)
_META, _BLOCK = "resift_copy", "index.blocks.write"
# Settings that belong to one index alone, and that OpenSearch does not take for another.
_OWN = (
    "index.uuid",
    "index.creation_date",
    "index.provided_name",
    "index.version.",
    "index.resize.",
    "index.blocks.",
    "index.remote_store.",
    "index.routing.allocation.initial_recovery.",
    "index.history.",
)
_DERIVED = "index.knn.derived_source.enabled"
Points = dict[str, list[Any]]  # of each shard its history, and the last of its writes that is meant


@dataclass(frozen=True)
class CopyRecord:
    """What a copy records about itself.

    ``of`` is the index that it is a copy of, ``uuid`` that index's own, and ``aliases`` are those that are moved.
    ``blocked`` is the index whose writes are refused just now, if one is. When the aliases are moved: how far the
    writes of the copy (``since``) and of the index (``left``) are. On the way back ``returning`` holds the settings of
    the index that are changed meanwhile, with their values before.
    """

    of: str
    uuid: str
    aliases: tuple[str, ...]
    blocked: str | None = None
    since: Points | None = None
    left: Points | None = None
    returning: dict[str, Any] | None = None

    def meta(self) -> dict[str, Any]:
        """The record as it is written."""
        return {**asdict(self), "aliases": list(self.aliases)}


class Copy:
    """The index ``name``, which is or becomes a copy."""

    def __init__(self, cluster: Cluster, name: str, record: CopyRecord) -> None:
        self.cluster, self.name, self.record = cluster, name, record

    @classmethod
    def find(cls, cluster: Cluster, name: str) -> Copy | None:
        """The copy that a name or an alias stands for; None if that is no copy, or several indices."""
        found = cluster.find(f"/{quote(name, safe='')}/_mapping") or {}
        for own, entry in found.items():
            record = entry["mappings"].get("_meta", {}).get(_META)
            if record is not None and len(found) == 1:
                return cls(cluster, own, CopyRecord(**{**record, "aliases": tuple(record["aliases"])}))
        return None

    @classmethod
    def create(cls, target: Target, name: str, aliases: Sequence[str]) -> Copy:
        """Make the copy of an index, without documents and vectors of ours; vectors have graphs in it."""
        record = CopyRecord(target.name, target.settings["index.uuid"], tuple(aliases))
        there = target.mapping.get("properties", {})
        kept = {name: _copied(field, target.has_graph) for name, field in there.items() if not is_ours(name)}
        others = {key: value for key, value in target.mapping.get("_meta", {}).items() if key not in ("resift", _META)}
        mapping = {**target.mapping, "properties": kept, "_meta": {**others, _META: record.meta()}}
        body = {"settings": _settings(target), "mappings": mapping}
        target.cluster.request("PUT", f"/{quote(check_name(name), safe='')}", body)
        return cls(target.cluster, name, record)

    def write(self, **changes: Any) -> None:
        """Change what the copy records about itself."""
        self.record = replace(self.record, **changes)
        path = f"/{quote(self.name, safe='')}/_mapping"
        now = self.cluster.request("GET", path)[self.name]["mappings"].get("_meta", {})
        self.cluster.request("PUT", path, {"_meta": {**now, _META: self.record.meta()}})

    def follow_mapping(self, source: str, to: str) -> None:
        """Map in ``to`` what ``source`` maps, as it does there, and not as OpenSearch would guess from documents."""
        mapping = self.cluster.request("GET", f"/{quote(source, safe='')}/_mapping")[source]["mappings"]
        properties = _without_vectors(mapping.get("properties", {}))
        self.cluster.request("PUT", f"/{quote(to, safe='')}/_mapping", {"properties": properties})

    def settings(self, index: str) -> Mapping[str, Any]:
        """The settings of an index by their flat names."""
        return self.cluster.index_settings(index)[index]

    def change_settings(self, index: str, values: Mapping[str, Any]) -> None:
        """Change those settings of an index that are other ones; None unsets one."""
        now = self.settings(index)
        changed = {name: value for name, value in values.items() if now.get(name) != value}
        if changed:
            self.cluster.set_index(index, changed)

    def block(self, index: str) -> None:
        """Have writes to an index refused; those under way are done when this returns."""
        self.write(blocked=index)
        self.cluster.request("PUT", f"/{quote(index, safe='')}/_block/write")

    def is_blocked(self, index: str) -> bool:
        """Whether writes to an index are refused."""
        return bool(self.settings(index).get(_BLOCK) == "true")

    def unblock(self) -> str | None:
        """Take off the block that the record says there is, if one; return the index that it was on."""
        index = self.record.blocked
        if index is not None:
            if self.cluster.find(f"/{quote(index, safe='')}/_mapping"):
                self.change_settings(index, {_BLOCK: None})
            self.write(blocked=None)
        return index

    @property
    def in_service(self) -> bool:
        """Whether the aliases were moved to the copy."""
        return all(name in self.cluster.aliases(self.name) for name in self.record.aliases)

    def move_aliases(self, source: str, to: str) -> None:
        """Move the aliases from one index to the other at once, each as it is; those that are not there are made."""
        found = self.cluster.aliases(source)
        actions: list[dict[str, Any]] = []
        for name in self.record.aliases:
            if name in found:
                actions.append({"remove": {"index": source, "alias": name, "must_exist": True}})
            actions.append({"add": {"index": to, "alias": name, **found.get(name, {})}})
        self.cluster.request("POST", "/_aliases", {"actions": actions})

    def pipelines(self, wanted: Mapping[str, str]) -> dict[str, Any]:
        """The pipelines that the copy is to have: those of the index, ours under its own name, and the ``wanted``."""
        settings = self.settings(self.record.of)
        values: dict[str, Any] = {name: settings.get(name) for name in PIPELINES}
        for name, value in values.items():
            if value == pipeline_name(self.record.of):
                values[name] = wanted.get(name)
            elif value in (None, NONE) or name == SEARCH:  # ours has what is in that of the index
                values[name] = wanted.get(name, value)
        return values


def check_aliases(target: Target, name: str, aliases: Sequence[str]) -> None:
    """Raise BadInput for aliases that cannot be moved from an index to its copy ``name``."""
    if name == target.name:
        raise BadInput(f"{name!r} is the index itself", value=name, expected="the name of a new index")
    if target.name.startswith(".ds-"):
        message = f"{target.name} is a backing index of a data stream, which no alias can replace"
        raise BadInput(message, value=target.name, expected="an index; resift attach --vectors works in place there")
    for alias in aliases:
        check_name(alias)
        if alias == name:
            raise BadInput(f"the copy itself is named {alias!r}", value=alias, expected="another name for one of them")
        found = target.cluster.find(f"/{quote(alias, safe='')}/_mapping") or {}
        if alias in found:
            message = f"{alias!r} is the name of an index, and cannot be an alias while that is there"
            expected = f"an alias: POST /_aliases adds one to {target.name}; clients that use it can be moved"
            raise BadInput(message, value=alias, expected=expected)
        if found and not {target.name, name} & set(found):
            held = ", ".join(sorted(found))
            message = f"alias {alias!r} stands for {held}, not for {target.name}"
            raise BadInput(message, value=alias, expected=f"an alias of {target.name}, or a new one")


def check_templates(target: Target, name: str) -> None:
    """Raise BadInput where an index template would give the copy what the index has not: fields, settings, or aliases,
    which clients would find it by."""
    path = f"/_index_template/_simulate_index/{quote(check_name(name), safe='')}"
    try:
        found = target.cluster.request("POST", path).get("template", {})
    except EngineError as error:
        if error.status == 400:  # no such name
            raise BadInput(error.message, value=name, expected="a name for a new index") from error
        raise
    given = [*_flat(found.get("aliases", {})), *_flat(found.get("mappings", {}))]
    if given := given or [one for one in _flat(found.get("settings", {})) if one not in target.settings]:
        message = f"an index template gives an index of the name {name!r} {given[0]}"
        raise BadInput(message, value=name, expected="a name that no index template matches")


def _flat(values: Mapping[str, Any], path: str = "") -> list[str]:
    """The names of all values, with dots; of an empty object its own."""
    if not values:
        return [path.removesuffix(".")] if path else []
    inner = [_flat(one, f"{path}{name}.") for name, one in values.items() if isinstance(one, Mapping)]
    plain = [f"{path}{name}" for name, one in values.items() if not isinstance(one, Mapping)]
    return [*plain, *(name for names in inner for name in names)]


def _without_vectors(properties: Mapping[str, Any]) -> dict[str, Any]:
    """What a mapping may get by itself: not our fields, nor those of vectors, which are mapped otherwise in a copy."""
    return {
        name: {**field, "properties": _without_vectors(field["properties"])} if "properties" in field else field
        for name, field in properties.items()
        if field.get("type") != "knn_vector" and not is_ours(name)
    }


def _copied(field: Mapping[str, Any], graph: bool) -> dict[str, Any]:
    """A field of the mapping. One of vectors without a method would get a graph of OpenSearch's choice."""
    if field.get("type") == "knn_vector" and not graph and not {"method", "model_id", "mode"} & set(field):
        method = {"name": "hnsw", "engine": "lucene", "space_type": field.get("space_type", "l2")}
        return {**{name: value for name, value in field.items() if name != "space_type"}, "method": method}
    if "properties" in field:
        inner = {name: _copied(one, graph) for name, one in field["properties"].items()}
        return {**field, "properties": inner}
    return dict(field)


def _settings(target: Target) -> dict[str, Any]:
    """The settings of a copy that is not in service yet: no pipeline sees documents that have been through it."""
    settings = {name: value for name, value in target.settings.items() if not name.startswith(_OWN)}
    # Vectors of its own would come back from a derived _source with other digits than those that were written.
    if "knn_vector" in {kind for name, kind in target.fields.items() if not is_ours(name)}:
        settings = {_DERIVED: "false", **settings}
    return {**settings, "index.knn": "true", **dict.fromkeys(PIPELINES, NONE)}
