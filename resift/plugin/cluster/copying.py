"""A copy of an index under another name, which takes over its aliases.

Until it has, it records in the ``_meta`` of its mapping what it is a copy of: whoever begins again after a kill takes
the block off that one's writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from resift.contracts.documents import check_name
from resift.contracts.query_dsl import is_ours
from resift.errors import BadInput, EngineError
from resift.plugin.cluster.attachment import FINAL, Target
from resift.plugin.cluster.client import Cluster
from resift.plugin.cluster.search_pipelines import NONE, SEARCH

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


@dataclass
class Copy:
    """The index ``name``, which becomes a copy of the index ``of``, whose writes are refused meanwhile."""

    cluster: Cluster
    name: str
    of: str

    @classmethod
    def find(cls, cluster: Cluster, name: str) -> Copy | None:
        """The copy of this name that has not taken over yet; None if there is none."""
        found = cluster.find(f"/{quote(name, safe='')}/_mapping", name) or {}
        record = found.get("mappings", {}).get("_meta", {}).get(_META)
        return record and cls(cluster, name, record["of"])

    @classmethod
    def create(cls, target: Target, name: str) -> Copy:
        """Make the copy of an index, without documents and vectors of ours; vectors have graphs in it."""
        copy = cls(target.cluster, name, target.name)
        there = target.mapping.get("properties", {})
        kept = {name: _copied(field, target.has_graph) for name, field in there.items() if not is_ours(name)}
        others = {key: value for key, value in target.mapping.get("_meta", {}).items() if key not in ("resift", _META)}
        mapping = {**target.mapping, "properties": kept, "_meta": {**others, _META: {"of": copy.of}}}
        body = {"settings": _settings(target), "mappings": mapping}
        target.cluster.request("PUT", f"/{quote(check_name(name), safe='')}", body)
        return copy

    def block(self) -> None:
        """Have writes to the index refused; those under way are done when this returns."""
        self.cluster.request("PUT", f"/{quote(self.of, safe='')}/_block/write")

    @property
    def is_blocked(self) -> bool:
        """Whether writes to the index are refused."""
        return bool(self.cluster.index_settings(self.of)[self.of].get(_BLOCK) == "true")

    def unblock(self) -> None:
        """Let the index be written to again."""
        self.cluster.set_index(self.of, {_BLOCK: None})

    def is_in_service(self, aliases: Sequence[str]) -> bool:
        """Whether the aliases were moved to the copy."""
        return {*aliases} <= {*self.cluster.aliases(self.name)}

    def take_over(self, aliases: Sequence[str]) -> None:
        """Move the aliases to the copy at once, each as it is; those that are not there are made."""
        found = self.cluster.aliases(self.of)
        actions: list[dict[str, Any]] = []
        for name in aliases:
            if name in found:
                actions.append({"remove": {"index": self.of, "alias": name, "must_exist": True}})
            actions.append({"add": {"index": self.name, "alias": name, **found.get(name, {})}})
        self.cluster.request("POST", "/_aliases", {"actions": actions})

    def finish(self) -> None:
        """Forget that it was a copy: from now on it is an index as any other."""
        path = f"/{quote(self.name, safe='')}/_mapping"
        now = self.cluster.request("GET", path)[self.name]["mappings"].get("_meta", {})
        self.cluster.request("PUT", path, {"_meta": {name: value for name, value in now.items() if name != _META}})


def check_aliases(target: Target, name: str, aliases: Sequence[str]) -> None:
    """Raise BadInput for aliases that cannot be moved from an index to its copy ``name``."""
    if target.name.startswith(".ds-"):
        message = f"{target.name} is a backing index of a data stream, which no alias can replace"
        raise BadInput(message, value=target.name, expected="an index; resift attach --vectors works in place there")
    for alias in aliases:
        check_name(alias)
        found = target.cluster.find(f"/{quote(alias, safe='')}/_mapping") or {}
        if alias == name or alias in found:
            message = f"{alias!r} is the name of an index, and cannot be an alias beside that"
            expected = f"an alias: POST /_aliases adds one to {target.name}; clients that use it can be moved"
            raise BadInput(message, value=alias, expected=expected)
        if found and not {target.name, name} & set(found):
            held = ", ".join(sorted(found))
            message = f"alias {alias!r} stands for {held}, not for {target.name}"
            raise BadInput(message, value=alias, expected=f"an alias of {target.name}, or a new one")


def check_templates(target: Target, name: str) -> None:
    """Raise BadInput where an index template would give the copy other fields, or aliases that clients find it by."""
    path = f"/_index_template/_simulate_index/{quote(check_name(name), safe='')}"
    try:
        found = target.cluster.request("POST", path).get("template", {})
    except EngineError as error:
        if error.status == 400:  # no such name
            raise BadInput(error.message, value=name, expected="a name for a new index") from error
        raise
    if given := {**found.get("aliases", {}), **found.get("mappings", {})}:
        message = f"an index template gives an index of the name {name!r} {', '.join(given)}"
        raise BadInput(message, value=name, expected="a name that no index template matches")


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
